"""Orders judging, one class per method. `adjudicator` holds the base class, `bandit` the methods that choose a run,
`fusion` those that choose a document, `static` those that ignore the judgements.
"""
