"""Lists the titles and sentences of a study's page and terminal; those of the verdict are in `verdict_words`.

Braces are filled in by the section that shows a text.
"""

from __future__ import annotations

from pyrite.analysis.methods import EMBEDDINGS, ORDER
from pyrite.analysis.reports.report import SectionWords

TITLE = "Negative sampling on {}"
UNTITLED = "Negative sampling"
NO_RUN = "No run has finished."
ORIGINS = {
    "full": "all passages", "bm25": "BM25's top passages", "random": "random passages", EMBEDDINGS: EMBEDDINGS,
}  # fmt: skip
"""The names of origins of candidates, for people; of others see `ORIGIN`."""
ORIGIN = "{} candidates"

# the verdict's table
NOTE = (
    "The intervals hold together in 95% of studies, p is corrected for all of them ({}); both are for other seeds "
    "and {}; * p < .05. Time is the processor time of training a run, documents are those that the ranker read, "
    "memory is the peak of the process."
)
CORRECTIONS = {False: "Holm", True: "over all pairs, Shaffer"}
"""How p is corrected with a baseline or for the best, and otherwise."""
STAR_AND_ZERO = (
    "Where a * stands next to an interval that contains 0, the method differs: p asks this alone, and the "
    "interval also bounds by how much, for all methods at once."
)
BUDGET_NOTE = (
    "Steps and pairs are what a training read, refreshes the versions of its negatives after the first, and scored is "
    "the step whose weights were measured: early stopping may give methods different ones."
)
BOLD = "Bold is the mean of the recommended method, which need not be the highest."
MORE_METHODS = "{}: report.html and summary.csv."
BEST_SETTINGS = "{}: best settings by dev queries, {}"
CHOSEN_BY_DEV = (
    "The settings of each method that validated best. Test values of the runs that chose them tend to be too high."
)
NEW_SEEDS = "With new seeds: {}"
TO_MINE = "To mine such negatives:"
NOT_MINED = "Such negatives can't be mined: {}."
NO_RUN_OF = "{}: no run finished."
SEEDS_OF_BOTH = "Differences are over the seeds that both methods finished."
SEVERAL_STARTS = (
    "Runs start from rankers that differ, so none of them is the baseline here; summary.csv has each method's "
    "difference from its own."
)
ALONE_IS_BETTER = "{} has {}, more than any method here"
DOES_IT_KEEP = ": does a lower optimizer.lr keep it?"
POOLED = "All values of {} are pooled; to compare them: pyrite report {} 'factors=[{}]'."
LONG_ENOUGH = "Is this ranker trained long enough? Validation was best at epoch {best} of {epochs}: {answer}."
ONE_EPOCH = "Each run was one epoch; training.max_epochs=4 shows whether more training helps."
NOT_YET = "no, more may help (training.max_epochs={})"

# what follows the verdict
REPEATED = (
    "{run} was trained twice with its seed: {measure} differs by {difference}, and has a deviation of {deviation} over "
    "the seeds of its method."
)
REPEATED_ALONE = "{run} was trained twice with its seed: {measure} differs by {difference}."
SUSPECTS = "Negatives that may be relevant, scored no lower than the positive when shown: {shares}. {then}"
EMPTY_PLACES = "Places for negatives that stayed empty, since too few candidates were left: {}."
SHARE = "{share:.1%} of {function}'s with {method}"
FEWER = "less with {}"
SAMPLE = "A sample tells how many are: {}."
AUDIT = "pyrite audit {}"
RECORD_FIRST = "sampling.recorded=1 in the study, and then pyrite audit OUT"
DIFFERENCES_FIGURE = (
    "Each method's difference from the reference, with an interval that holds for all at once; a diamond is "
    "the recommended method. The other panel shows the documents that a run reads."
)
QUALITY_FIGURE = "Mean and 95% bootstrap interval of each method against the documents that its runs read."

# results
RESULTS = "Results"
BY_ORIGIN = "{}, by what is ranked"
READING = "* differs from {}, p < .05 (for other seeds and queries, Holm); ‡ by Student's t-test; † by KS"
YOURS = "{} (your baseline)"
BEST_BASELINE = "the best baseline"
MIXED = "ranker + {}"
HOW_TO_READ = SectionWords(
    "How to read this",
    "Each figure is the mean over a method's runs ± their sample standard deviation. A method is a policy, a "
    "retrieval function and a selector, and any other setting swept over names or a few numbers; its runs differ by "
    "their seed and by numbers that were drawn or have many values. Bold is the best mean of a ranker.",
    "*, ‡ and † mark methods that differ from the best baseline with p < .05. The best baseline is the highest mean "
    "among the other methods that are not learned, of the same ranker and over the same candidates; the best baseline "
    "itself is compared with the runner-up. A mark means different, not better: the means show which way, or where "
    "runs failed, the difference in summary.csv, over the seeds that both methods finished.",
    "* is the test that leads. Runs of the same seed are paired, because a seed sets the first weights and the order "
    "of the examples of all methods alike, and so are the values of the same query. Seeds and queries are both taken "
    "as a sample (a model of random effects with Satterthwaite's degrees of freedom), so the test is about other "
    "seeds and other queries. The paired t-test over seeds, in summary.csv, is about other seeds and these very "
    "queries: its p is smaller, and says less. ‡ is Student's two-tailed t-test and † the two-sample "
    "Kolmogorov-Smirnov test, which take all runs as independent. If a method has several learned agents, the agent "
    "is the unit: its runs share its luck, so its mean over seeds counts as one value. Two seeds carry no mark.",
    "p values are adjusted by Holm's method for all comparisons of one ranker, origin and measure. Three runs per "
    "method cannot reach p < .05 by the Kolmogorov-Smirnov test at all, and four only without any overlap and before "
    "the adjustment; a missing mark is then no evidence that methods are alike. The same holds for the sign test, "
    "in summary.csv, up to five runs.",
    "A run that diverged (its loss was no longer a number) is measured with its best weights from before and counted "
    "in the mean; summary.csv also has the mean without such runs, and the mean in which failed runs count as 0.",
    "“ranker + BM25” combines the ranker's score and BM25's, each scaled to [0, 1] by query: the weight, in steps "
    "of a tenth, is the best on dev queries and is listed in trials.parquet.",
    "Intervals are 95% percentile bootstrap intervals of the mean. “BM25 alone” is the ranking that BM25 gives the "
    "same candidates of the same queries; candidates of a run file have the order of the run instead.",
)
BY_QUERY = SectionWords(
    "Query by query",
    "{measure} per query, averaged over runs first; paired t-test over queries. The same queries chose the two "
    "methods, as the highest means: another study would show less of a difference, and p is too small.",
)
FIGURES = "Figures"
CURVES_FIGURE = (
    "Validation and losses by epoch: mean and one standard deviation over a method's runs. A run that "
    "stopped early keeps its last value; lines are thin if fewer than half of the runs were still training."
)
SWEPT_FIGURE = "{} against what was swept. Lines join the means of a method; boxes, for names, span all methods."

# negatives
EXAMPLES = SectionWords(
    "Examples of negatives",
    "Negatives that rankers were shown for three training queries, in the run of the lowest seed: of each function "
    "the three that were shown most often. The lead is the ranker's score of a negative less that of the relevant "
    "document, as a mean over the times that it was shown: above 0 the ranker took it for more relevant.",
)
SHOW_EXAMPLES = "Show the examples"
HARDNESS = SectionWords(
    "How hard the negatives were",
    "Scores are the ranker's when the negative was shown, before the update. Rankers that are trained differently "
    "have scores of different scales: the distance of negatives below positives, and the share misranked, can be "
    "compared. Harder negatives are not better ones; their effect is shown above.",
)
HARDNESS_FIGURE = (
    "The negatives that rankers were shown, by step: means over a method's runs and one standard deviation. A "
    "negative is misranked if it scores no lower than its positive. If rankers are trained one after another, of "
    "the last."
)
AT_THE_END = "in the last tenth of each training"

# analyses
CONTRASTS = SectionWords(
    "The differences that the study was made for",
    "One method against each of those that were named before the study ran. Pairs have a seed in common; if a method "
    "has several agents, a pair is an agent. Only runs with a counterpart are compared, and nothing is tested with "
    "fewer than three pairs. The interval and p are for other seeds (and agents) and other queries, p by Holm's method "
    "over all rows here; “p equal” tests "
    "that the difference is smaller than the margin (equal_within). “p, seeds only” is of a t-test over seeds: it "
    "is about other seeds and these very queries, and too small for a claim about others.",
)
AGAINST_OTHERS = "against others: {}, {}"
NOT_MADE = "contrasts: {}"
DECISIONS = SectionWords(
    "What is decided",
    "{measure} over {origin}, each method against the best baseline, by "
    "differences paired by seed. “Better” and “worse” are methods that differ, “equal” are methods that differ "
    "by less than {margin:g}. One could look after every seed and stop at any time, so a decision "
    "holds. Over all pairs of methods at once, the chance that any pair without a difference is declared "
    "different is below .05, and so is the chance that any pair declared equal is not.",
    "The interval and the decision have the same level, and are about the mean difference with each seed's cut "
    "off at {bounds}: the mean of differences without bounds could not be decided with tens of seeds. If clip= "
    "does not set the bound, the first {first} seeds did, by how far runs spread, and are no evidence. A "
    "comparison that after half of the seeds would take far more than there are stays open without them. “Seeds "
    "to come” is a guess from the seeds so far. Methods that are decided get no more seeds, so the other tables "
    "of this page compare unequal numbers of runs, and their tests, which ask for a number fixed beforehand, do "
    "not apply.",
    "Decisions are about other seeds and these very queries. “95%, other queries” and its p are for other seeds "
    "and other queries. They ask for a number of seeds that was fixed beforehand, so they check a decision and do "
    "not make one: if that interval contains 0, the difference may not hold for other queries.",
)
DECIDED = {
    "open": "{method} and {against} can't be told apart",
    "equal": "{method} and {against} differ by less than {margin:g}",
    "better": "{method} is better than {against}",
    "worse": "{method} is worse than {against}",
}
"""What is decided about two methods."""
EQUAL_WITHIN = "equal within {:g}"
ENDED = "ended after {seeds} of {most}, more would not decide it"
NOT_ESTIMATED = "can't be estimated"
TO_COME = "about {more:.0f} more for {margin:g}"
VARIATION = SectionWords(
    "Beyond the mean",
    "A method whose runs spread less is the safer one to train once, whatever its mean. “Ratio” is its deviation "
    "divided by the other's, below 1 if it is steadier; p is Brown and Forsythe's test that they spread alike. "
    "“Beats it” is how often a run of it is better than one of the other: 50% is a coin. “Best of 5” is the mean "
    "of the best of five runs, for those who can try. “Below the line” is the share of runs that never learned, failed "
    "ones among them: the line is never_below, or half of the best baseline's median. Intervals in brackets are "
    "95% intervals; of few runs they are wide.",
)
ACROSS = SectionWords(
    "Over collections and rankers",
    "{measure} over {origin}, the difference from "
    "{against}. A place is a collection and a ranker. The rankers of a collection share its test queries, so they are "
    "averaged first. The difference is the mean over collections, which are a sample of all collections (a "
    "random-effects model); “between collections” is the standard deviation of the true differences, and “at the next "
    "collection” bounds the difference on a collection that was not seen. With a single collection the interval is for "
    "other seeds and queries of it, and these rankers.",
)
VERSIONS = "{versions} of {name} count as one collection: they share test queries."
ACROSS_TERMINAL = "{measure} over {origin}, against {against}"
POWER = SectionWords(
    "How many seeds it takes",
    "Estimated from the spread of these runs: the seeds with which a difference of this size is found in four "
    "studies of five. Three numbers each: of a paired t-test at .05; of the same if all methods here are compared "
    "(the first of Holm's steps); and of a sequential comparison over all pairs (stop=decided), which needs no "
    "number beforehand. Methods with several agents are left out, as more seeds do not make agents alike; if seeds "
    "have several settings, the numbers are of runs. With five seeds this estimate may be off by a factor of two. "
    "Seeds alone show a difference on these test queries; for other queries as well it may take more queries, as the "
    "verdict says.",
)
POWER_NOTE = (
    "Seeds that a difference takes at 80% power on these queries alone (the verdict's are for other queries too): "
    "one t-test / all methods compared / sequential (stop=decided)."
)
IMPORTANCE = SectionWords(
    "Which settings mattered",
    "Optuna's functional ANOVA: a random forest learns the results of runs from their settings, and its variance "
    "is shared out among them. The shares sum to 100%, also if most of the differences are chance, by seed.",
)
NEEDS_OPTUNA = "This needs Optuna, an extra: pip install 'pyrite-ir[search]', then pyrite report."
ZERO_SHOT = SectionWords(
    "On collections without training",
    "Means over runs and one standard deviation; the number of queries of a collection is in brackets. The mean "
    "weighs all collections alike. Every run is measured with the weights that were best on the collection that "
    "it was trained on. Single values are in zero_shot.parquet.",
)
CONVERGENCE = SectionWords(
    "How reliably it is learned",
    "The convergence rate is the share of agents whose rankers reach a higher mean than those of the random "
    "policy (Cohen et al. 2019, table 2). All agents meet the same seeds, so with few of them they are above that "
    "mean or below it together, whether or not they learned anything. The agent is the unit of the tests: the "
    "paired one asks whether agents differ from the random policy's runs of the same seeds by more than from one "
    "another. “Converged” are agents that ended learning by the criterion of until=, whether or not they are "
    "better than random; the 95% interval is "
    "a bootstrap over agents and seeds, and no narrower than the exact interval of a share.",
)
EVERY_AGENT = "Every agent"
STEADINESS = SectionWords(
    "How steadily rankers learned",
    "In Saeidi et al. (2017, figure 5) the dev loss oscillates from epoch to epoch with refined negatives, and is "
    "stable with random ones. The variance of the differences between successive epochs measures that (from second "
    "differences, so that a trend does not count): it is 0 if the loss changes evenly, and grows with every turn "
    "(which the figure, of means over runs, smooths away).",
    "Each figure is a mean over runs. p is of Student's t-test, adjusted by Holm's method for the methods of a "
    "ranker, that a method is as steady as the steadiest, which is bold. Runs of fewer than three epochs have no "
    "variance, and losses of different rankers or objectives have different scales.",
)
DEV_LOSS = "dev loss by epoch"

# runs
STOPPED_BY_SEARCH = f"stopped by the search, which no figure includes ({ORDER})"
TO_FINISH = "to come, the study is still running"
COMPARED = "{ways} of choosing negatives, ranker {rankers}, {each}"
TRAINING = "{time} over all runs, {steps:,} steps"
FAILED = "Failed runs"
NO_ERROR = "no error was recorded"
DIVERGED = SectionWords(
    "Runs that diverged",
    "The loss or the scores of these runs were no longer numbers; their best earlier weights were measured, or the "
    "ranker before training if there were none.",
)
DIVERGED_IN = {
    True: " in epoch {}; its best weights were measured",
    False: " in epoch {}; the ranker before training was measured",
}
"""By whether there were weights before that were better."""
BEFORE_BEGINNING = "before {} began; to run them: --resume with another time_budget="
BEHIND = f"{{}} behind in the search; no figure includes them, and {ORDER}"
COMMANDS = SectionWords("Every run and its command", "Each command repeats its run alone{exactly}")
EXACTLY = {True: " and, on a CPU, to the last bit.", False: "."}
"""The end of `COMMANDS`: whether Pyrite trained, rather than a training of the user's."""
CONFIGURATION = "Configuration"
