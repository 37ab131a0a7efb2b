"""Tests that options which are wrong, gone, or called otherwise in other tools are refused with what to use."""

import re
from pathlib import Path

import pytest

from pyrite.cluster.config.aliases import read_overrides
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import group_options
from pyrite.cluster.config.other_names import suggestion
from pyrite.cluster.config.other_tools import ADVICE, CONVERTED, NEEDS, OF_VALUE, SAME_VALUE
from pyrite.cluster.config.removed import REMOVED, REMOVED_PARTS
from pyrite.cluster.config.validate import check_pooling, check_run, check_shares
from pyrite.ranking.errors import BadInput

GLOSSARY = Path(__file__).parents[3] / "docs" / "reference" / "glossary.md"

METHODS = "give 'methods=[{function:bm25},{label:NAME,function:bm25,selector:top},…]'"
NO_POPULATION = "any more: runs that continue from each other's weights are no independent sample"
DENSE = "ranker=bi_encoder function=dense"
OWN_DENSE = "+function.own={_target_:pyrite.sampling.retrieval.dense.Dense}"
OF_RUNS = [
    ("selector=[top,uniform]", "selector takes one value here, not [top,uniform]; see `pyrite options`"),
    ("ranker=static,match_pyramid", "ranker takes one value here, not static,match_pyramid; see `pyrite options`"),
    ("measures=AP@3,AP@5", "measures takes a list; write measures=[AP@3,AP@5]; see `pyrite options`"),
    ("training.patience=range(1,3)", "training.patience takes one value here, not range(1,3); see"),
    ("function=[bm25,nope]", "there is no function 'nope'; there is bm25, category, "),
    ("selector=mine.Bottom", "to use a class of yours, add selector._target_=mine.Bottom to one; see"),
    ("selector._target_=Bottom", "Bottom: names no module; name the class by its module"),
    ("origin=[everything]", "there is no origin 'everything'; there is bm25, category, full, random, run_file; see"),
    ("collection=[nope]", "there is no collection 'nope'; there is "),
    ("function=[run_file@x,bm25@x]", "two functions one name"),
    ("function=[run_file@a-b]", "can't read 'run_file@a-b'"),
    ("function=nothing@x", "no function 'nothing'"),
    ("function=run_file@x", "function.x.path has no default"),
    ("a=[b", "[b"),
    ("~guard", "guard"),
    ("~seed", "seed"),
    ("+seeds=3", "there is no option seeds"),
    ("limits={trian:3}", "no option limits.trian; limits has examples, train, dev, test; did you mean limits.train"),
    ("trianing.batch_size=4", "did you mean training.batch_size=4?"),
    ("bm25.k1=2", "did you mean function.bm25.k1=2?"),
    ("max_document=9", "did you mean encoding.max_document=9?"),
    ("ranker@elsewhere=static", "there is no option ranker@elsewhere here; see"),
    (
        "experiment=encoder",
        "there is no option experiment here; see `pyrite options`; study has it, see `pyrite options --for study`",
    ),
    ("experimnt=encoder", "no option experimnt; did you mean `pyrite study experiment=encoder`?"),
    ("cache=${nothing}", "cache: Interpolation key 'nothing' not found; see"),
    ("selector=3", "there is no selector 3; there is adversarial, "),
    ("training=5", "training is 5; give a mapping"),
    ("measures=AP@10", "measures is 'AP@10'; give a list, as [A,B]"),
    ("seed=true", "seed is True"),
    ("resources.custom={CPU:2}", "resources.custom: CPU is no custom resource; leave it out; cores, GPUs and memory"),
    ("resources.custom={rack_a:1,memory:8}", "are options next to it, as resources.cpu=2"),
    ("cache=[5]", "cache"),
    ("origin=[]", "origin"),
    ("+function.mine=3", "function.mine"),
    ("selector._target_=5", "selector._target_"),
    ("~selector._target_", "selector._target_"),
    ("selector=window selector.from=3", "no option selector.from; selector has first, last, ceiling, pick"),
    ("selector.from=3", "no option selector.from; selector has no options"),
    ("limits.trian=3", "limits has examples, train, dev, test"),
    ("seed.of=3", "seed is a value and has no options"),
    ("guard.relativ=.05", "did you mean guard.relative=.05?"),
    ("selector.bm25.lam=0", "no option selector.bm25.lam; is selector.bm25=NAME missing?"),
    (
        "selector.bm25=dynamic selector.bm25.lamm=0",
        "selector.bm25.lamm; selector.bm25 has lam, candidates; did you mean selector.bm25.lam=0?",
    ),
    (f"{OWN_DENSE} function.own.refresh.evry=3", "did you mean function.own.refresh.every=3?"),
    (f"{OWN_DENSE} function.own.refrsh.every=3", "no option function.own.refrsh.every; function.own has depth, "),
    (
        "+function.own={_target_:pyrite.sampling.retrieval.dense.Dense,refresh:{evry:3}}",
        "no option function.own.refresh.evry; Refresh has mode, every, ",
    ),
    (
        f"trainer={__file__}:test_values_on_another_scale_are_converted ranker=bi_encoder ranker.checkpoint=null",
        "ranker.checkpoint: is null, and the trainer's model starts from a checkpoint; name its folder or its name",
    ),
    ("teacher.checkpoint=x", "is teacher=bm25|embedding|given|ranker|run_file missing?"),
    ("validation.origin=[]", "validation.origin is []; list should have at least 1 value"),
    ("sede=3", "there is no option sede; did you mean seed=3?"),
    ("colection.mix=[a,b]", "there is no option colection.mix; did you mean collection.mix=[a,b]?"),
    ("quux.path=a.csv", "there is no option quux.path; see `pyrite options`"),
    ("+function._target_=mine.F", "begin the file with `bm25:`, `_target_` beneath"),
    ("~selector._target_ +selector.mine={_target_:mine.S}", "`_target_: package.module.Class`"),
    ("policy=random function=bm25", "function"),
    ("policy=mixture policy.weights=[1,2,3]", "weights"),
    ("policy=mixture policy.weights=[inf,1]", "give one number ≥ 0 per function"),
    (
        "collection=[a,b]",
        "and a collection is one; train on all of them by collection.mix=[a,b]",
    ),
    ("collection.mix=[a,b] collection.path=c", "collection.path and collection.mix exclude each other; write the path"),
    ("policy=mixture policy.window=3", "policy.window is 3; give a list"),
    ("function=bm25 function.bm25.k1=-1", "function.bm25.k1 is -1; choose"),
    ("guard.ceiling=nan", "guard.ceiling is nan; choose a number"),
    (
        "selector._target_=pyrite.sampling.policies.fixed.Fixed",
        "selector._target_: Fixed is no selector; name a subclass",
    ),
    ("selector.bm25=top selectors.bm25._target_=pyrite.ranking.objectives.pairwise.Hinge", "Hinge is no"),
    ("function=dense function.dense.refresh=never", "refresh is 'never'; leave this out and set its options, as"),
    ("+function.own._target_=pyrite.sampling.guard.Guard", "function.own._target_: Guard is no function"),
    ("ranker._target_=pyrite.sampling.guard.Guard", "ranker._target_: Guard is no ranker"),
    ("function=dense function.dense.refresh.mode=sync function.dense.refresh.lag=1", "dense.refresh.lag: mode sync"),
    ("function=dense function.dense.index.factory=IVF4,Flat", "write \"function.dense.index.factory='IVF4,Flat'\""),
    ("function=[in_batch,random] teacher=bm25 objective=margin_mse", "teacher: a teacher scores documents in lists"),
    ("ranker=match_pyramid function=dense", "function=dense: it compares vectors, and MatchPyramid has none"),
    ("ranker=feed_forward function=[in_batch,memory]", "function=memory: it compares vectors, and FeedForward has"),
    ("ranker=bi_encoder", "ranker.checkpoint has no default; give it with ranker.checkpoint=…"),
    ("ranker=cascade ranker.checkpoint=x", "there is no ranker=cascade any more: it was a one-off"),
    ("measures=[MEAN@100]", "MEAN"),
    ("validation.measure=AP@0", "AP@0"),
    ("training.batch_size=x", "batch_size"),
    ("folds=1", "folds"),
    ("measures=[]", "measure"),
    # Options of torch's optimizers.
    ("optimizer.lr=abc", "optimizer.lr is 'abc'; choose a number above 0"),
    ("optimizer.lr=-1", "optimizer.lr is -1; choose a number above 0"),
    ("optimizer.lr=.nan", "; choose a number above 0"),
    ("optimizer.lr=null", "optimizer.lr is None; choose a number above 0"),
    ("optimizer.weight_decay=much", "optimizer.weight_decay is 'much'; choose a number from 0 up, as 0"),
    ("optimizer.betas=[0.9,2]", "optimizer.betas is [0.9, 2]; give 2 numbers, as [0.9, 0.999]"),
    ("optimizer.betas=0.9", "optimizer.betas is 0.9; give 2 numbers"),
    ("optimizer.fused=often", "optimizer.fused is 'often'; choose true or false"),
    ("+optimizer.amsgrad=often", "optimizer.amsgrad is 'often'; choose true or false"),
    # What several workers can't do.
    ("resources.workers=3 resources.least=4", "resources.least: least is 4, but the run starts with 3 workers"),
    # What was removed.
    ("resources.shard=true", "there is no option resources.shard any more: a ranker was never split over GPUs"),
    (f"{DENSE} function.dense.replicas=2", "replicas any more: each run has one reader"),
    ("keep_at=[94]", "keep_at any more: it kept states for `pyrite fork`, which was removed: leave it out"),
    ("run_time=2h", "run_time any more: Slurm ends a job that takes too long"),
    ("+run_memory=8", "run_memory any more: Ray ends the process that takes the most"),
    ("policy=by_query policy.feature=margin", "no policy=by_query any more: no decision per query was better"),
    (
        "policy=from_forks policy.forks=outputs/f",
        "no policy=from_forks any more: forks left feedback nothing to choose",
    ),
    ("changes=[{after:3,optimizer.lr:0.1}]", "no option changes any more: options stay the same"),
    ("scheduler=pb2", NO_POPULATION),
    ("scheduler=hyperband", "use trial_scheduler=asha trial_scheduler.brackets=3"),
    ("scheduler=asha", "trial_scheduler=asha"),
    ("scheduler=none", "trial_scheduler=null"),
    # What is empty or has no effect.
    ("scale=null", "scale has no value; choose one of full, medium"),
    ("ranker=", "ranker has no value; choose one of bi_encoder"),
    ("selector=null", "selector has no value; choose one of adversarial"),
    ("function=[]", "function has no value; choose one of"),
    ("collection.path=", "collection.path: is empty; name a file or folder"),
    ("seed=-1", "seed is -1; choose a number from 0 up"),
    ("strict=3", "strict is 3; choose true or false"),
    ("sampling.recorded=2", "sampling.recorded is 2; choose a number of at most 1"),
    ("negatives=4", "for all functions give sampling.negatives=4"),
    ("hydra.run.dir=x", "hydra.run.dir=x: Hydra's own options have no effect here"),
    ("hydra/launcher=x", "no effect here"),
    # Names from other tools, and misspelt ones.
    ("epochs=3", "did you mean training.max_epochs=3?"),
    ("model=static", "did you mean ranker=static?"),
    ("model=models/minilm", "did you mean ranker=bi_encoder ranker.checkpoint=models/minilm?"),
    ("data=pairs.csv", "did you mean collection.path=pairs.csv?"),
    ("training.epochs=3", "did you mean training.max_epochs=3?"),
    ("function.bm25.k=1", "did you mean function.bm25.k1=1?"),
    ("training.batchsize=8", "did you mean training.batch_size=8?"),
    ("guard.relativ=0.1", "did you mean guard.relative=0.1?"),
    ("range_min=10", "did you mean selector=window selector.first=10?"),
    ("collection=pairs collection.pth=x", "did you mean collection.path=x?"),
]
OF_VERBS = [
    ("pool", "runs=r qrels=q custom={GPU:1}", "custom: GPU is no custom resource; leave it out; cores"),
    ("mine", "custom={object_store_memory:1}", "are options next to it, as cpu=2"),
    ("mine", "checkpoint=x ranker=bi_encoder ranker.max_documents=9", "did you mean ranker.max_document=9?"),
    (
        "rank",
        "checkpoint=x ranker=bi_encoder ranker.preset=small",
        "no option ranker.preset any more: a checkpoint is read",
    ),
    ("learn", "episodes=0", "episodes is 0; choose a number from 1 up"),
    ("learn", "episodes=many", "episodes is 'many'; choose a whole number"),
    ("pool", "scale=tiny", "is called pool_scale now; write pool_scale=tiny"),
    ("pool", "qrels=''", "qrels: is empty; name a file or folder"),
    ("pool", "pools=some.yaml runs=some", "pools= excludes runs= and qrels="),
    ("pool", "pools=some.yaml qrels=some.txt", "pools= excludes runs= and qrels="),
    ("pool", "qrels=some.txt", "qrels= is given without runs="),
    ("study", "trial_scheduler=pb2", NO_POPULATION),
    ("study", "trial_scheduler=hyperband", "use trial_scheduler=asha trial_scheduler.brackets=3"),
    (
        "config",
        "function=bm25 selector=shared guard.relative=.05",
        "which no guard has compared with its positive; choose",
    ),
    ("config", "function=[in_batch,bm25] negatives.bm25=1 selector.bm25=shared guard.absolute=1", "selector=shared"),
    ("config", "judging.order=mm", "no option judging.order any more: what fewer judgements change is answered"),
    ("config", "+judging.budget=5", "no option judging any more: what fewer judgements change is answered"),
    ("study", "experiment=partial_judgements", "no experiment=partial_judgements any more: its question is answered"),
    ("study", "experiment=mixture_policies", "any more: its question is answered (docs/experiments/mixtures.md)"),
    ("learn", "actions.every=2", "no option actions.every; actions has documents, imitate; see"),
    ("study", "experiment=mine", "a file of yours is a word: `pyrite study mine.yaml`"),
    ("study", "experiment=null", "experiment has no value; choose one of"),
    ("study", "methods=[{label:a,overrides:[selector=top,uniform]}]", "can't read the override 'methods="),
    ("study", "methods=[{label:a,overrides:[function=bm25]}]", METHODS),
    ("study", "methods=[bm25]", METHODS),
    ("study", "function=shuffle(bm25,random)", "shuffles its values by chance"),
    ("study", "local=maybe", "local is 'maybe'; choose true or false or 'auto'"),
]


def check(overrides: str, verb: str = "config") -> None:
    """Compose options of a verb, and check them as its command does."""
    config = compose(overrides.split(), verb)
    if verb == "config":
        check_run(config, None)
    elif verb == "pool":
        check_pooling(config)


@pytest.mark.by_day(70)
@pytest.mark.parametrize(("verb", "overrides", "says"), [*OF_VERBS, *(("config", *row) for row in OF_RUNS)])
def test_what_does_not_exist_or_fit_is_refused_in_one_line_with_what_to_use(verb, overrides, says):
    with pytest.raises(BadInput) as refusal:
        check(overrides, verb)
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).endswith(says) or not says.endswith("?")


@pytest.mark.parametrize(
    ("file", "name"), [("mine.yaml", "mine"), ("experiment/mine.yaml", "mine"), ("mine.yaml", "./mine.yaml")]
)
def test_a_users_file_in_the_place_of_an_experiment_is_named_with_the_command_that_runs_it(
    file, name, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text("- function=bm25,random\n- seeds=2\n")
    with pytest.raises(BadInput, match=rf"is a word: `pyrite study {file}`") as refused:
        compose([f"experiment={name}"], "study")
    assert read_overrides(re.search(r"`pyrite study (\S+)`", str(refused.value))[1]) == [
        "function=bm25,random",
        "seeds=2",
    ]


@pytest.mark.parametrize("verb", ["config", "mine"])
def test_a_misspelt_group_is_named_with_an_option_of_what_would_be_chosen(verb, tmp_path):
    (tmp_path / "rows.csv").write_text("query,positive\na,b\n")
    with pytest.raises(
        BadInput, match=rf"no option colection\.path; did you mean collection\.path={tmp_path}/rows\.csv\?"
    ):
        compose([f"colection.path={tmp_path}/rows.csv", "function=bm25"], verb)


def test_what_fits_is_not_refused():
    check("ranker=bi_encoder ranker.checkpoint=none resources.workers=2 resources.least=2")
    check("resources.custom={rack_a:0.1} resources.cpu=2")
    for adam in ("adam", "adamw optimizer.lr=1", "lazy_adam optimizer.betas=[0.8,0.9]"):
        check(f"optimizer={adam}")
    check("optimizer._target_=torch.optim.SGD +optimizer.momentum=0.9 +optimizer.nesterov=true")
    check("runs=some qrels=some.txt", "pool")
    check("pools=some.yaml", "pool")


def test_no_name_that_is_removed_or_of_another_tool_is_an_option():
    assert suggestion("colour=red") is None
    assert not set(REMOVED) & set(compose([]))
    assert not set(REMOVED_PARTS) & {f"{group}={name}" for group, names in group_options().items() for name in names}
    assert not {*SAME_VALUE, *ADVICE} & (set(compose([])) | set(group_options()) - {"data"}) - {"scheduler"}


OTHER_WORDS = {
    "study": [
        "relative_margin=0.05", "absolute_margin=0.1", "ratio=0.95", "max_score=0.9", "num_negatives=5", "loss=mnrl",
        "tokenizer=characters", "learning_rate=2e-5", "num_train_epochs=3", "per_device_train_batch_size=16",
        "max_grad_norm=1.0", "warmup_ratio=0.1", "guard=0.05", "metric_for_best_model=nDCG@10",
        "sampling.guard.relative=0.05",
    ],
    "mine": [
        "relative_margin=0.05", "absolute_margin=0.1", "ratio=0.95", "max_score=0.9", "num_negatives=5",
        "tokenizer=characters", "model=/a/folder", "ranker.checkpoint=/a/folder", "collection.document=answer",
        "guard=0.05", "sampling.guard.relative=0.05",
    ],
}  # fmt: skip
"""Words of sentence-transformers, Tevatron, PyLate and FlagEmbedding that users give to a verb."""


@pytest.mark.parametrize(("verb", "word"), [(verb, word) for verb, words in OTHER_WORDS.items() for word in words])
def test_a_remedy_for_another_tools_word_is_accepted(verb, word):
    config = "config" if verb == "study" else verb
    pairs = ["collection=pairs", "collection.path=pairs.csv"]
    with pytest.raises(BadInput) as refused:
        compose([*pairs, word], config)
    remedy = re.search(r"(?:did you mean|write|give) ([^?;]+=[^?;]+?)\??$", str(refused.value))
    assert remedy, str(refused.value)
    compose([*pairs, *remedy[1].split()], config)


def test_values_on_another_scale_are_converted():
    assert suggestion("ratio=0.95", "mine") == "guard.relative=0.05"
    assert suggestion("hn_filter_ratio=0.8") == "guard.relative=0.2"
    assert suggestion("ratio=high") == "guard.relative=…"
    assert suggestion("relative_margin=.1", "mine") == "guard.relative=.1"
    assert suggestion("model=/a/b", "rank") == "checkpoint=/a/b"


def test_a_suggestion_that_would_be_refused_is_not_made():
    with pytest.raises(BadInput) as refused:
        compose(["loss=mnrl"], "mine")
    assert "did you mean" not in str(refused.value)


def test_an_added_part_takes_the_options_of_its_class():
    added = compose([*OWN_DENSE.split(), "function.own.refresh.every=3"])["function"]["own"]
    assert added["refresh"] == compose(["ranker=bi_encoder", "ranker.checkpoint=x", "function=dense"])["function"][
        "dense"
    ]["refresh"] | {"every": 3}


def test_every_suggested_option_exists():
    added = {option for option in SAME_VALUE.values() if option.startswith("+")}
    for option in set(SAME_VALUE.values()) - {"out", "samples", "seeds", "track"} - added:  # of a study
        group = option.partition(".")[0]
        encoder = ["ranker=bi_encoder", "ranker.checkpoint=x"]
        brings = {"selector": ["selector=window"], "objective": ["objective=contrastive"],
                  "ranker": [*NEEDS.get(option, "ranker=bi_encoder").split(), "ranker.checkpoint=x"],
                  "function": [*encoder, "function=dense"],
                  "collection": ["collection=pairs", "collection.path=x"]}.get(group, [])  # fmt: skip
        node = compose(brings)
        for key in option.split("."):
            assert key in node, option
            node = node[key]


def test_every_option_name_of_the_glossary_is_known():
    table = GLOSSARY.read_text(encoding="utf-8").split("## Names in other tools")[1]
    rows = re.findall(r"^\| (.+?) \| .+ \|$", table, re.MULTILINE)
    words = {word for row in rows for word in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", row)}
    assert {"num_negatives", "num_train_epochs"} <= words
    assert words <= {*SAME_VALUE, *ADVICE, *CONVERTED, *OF_VALUE}


def test_copies_that_are_not_shared_out_evenly_are_refused():
    for workers in (2, 8, 0, None):
        check_shares(8, workers)
    with pytest.raises(BadInput, match="8 copies do not divide evenly over 3 workers"):
        check_shares(8, 3)
