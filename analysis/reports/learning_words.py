"""Lists the sentences of `pyrite learn` in the terminal; braces are filled in by the command."""

LAST_EPISODES = "the last episodes ({}: the best epoch's, on validation queries)"
MORE_EPISODES = "episodes={wanted}: {trained:,} were trained, because an update takes decisions of all copies"
AGAINST_RANDOM = (
    "{measure} of the last episodes against the random agent's: {difference:+.4f}, t-test p = {t_p:.3g}, "
    "Kolmogorov-Smirnov p = {ks_p:.3g}"
)
CONVERGED = "converged after {} episodes"
NOT_CONVERGED = "not converged within {} episodes"
CRITERION = "{} (criterion: {} stops improving and the shares settle)"
WRITTEN = "agent, episodes and figures: {}"
IMITATION = (
    "imitation of BM25, share of picks that are BM25's documents: {held_out}{learned:.0%} on the training queries"
)
HELD_OUT = "{before:.0%} before and {after:.0%} after on held-out queries, "
COMPARE = "compare it over fresh seeds: {}"
