"""Orders judging, a class a method. `adjudicator` is the base of all, `bandit` of those that choose a run, `fusion`
of those that choose a document, `static` of those that ignore the answers."""
