"""Tests of the verbs that begin or survey: none, list, compare, options and doctor, and those that are gone."""

import itertools
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console

import pyrite
from pyrite.cluster.commands import doctor, study_plan
from pyrite.cluster.commands.cli import main
from pyrite.cluster.commands.compare import compare, differing_options, paired_table, queries_once, read_studies
from pyrite.cluster.commands.list_studies import read_folder
from pyrite.cluster.commands.verbs import REMOVED, VERBS, parse
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.manifest import write_config
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import required_table, write_table
from pyrite.cluster.plan.sweep import points
from pyrite.cluster.reports.publish import publish
from pyrite.ranking.errors import BadInput
from tests.cluster.command_line import command
from tests.cluster.trial_rows import trials_of


def study(
    folder: Path, values: dict[str, Sequence[float]], overrides: str = "", first_seed: int = 0,
    fingerprint: str = "f", collection: str = "made_up",
    swept: Callable[[str, int], tuple[str, str]] | None = None,
) -> Storage:  # fmt: skip
    """Write a finished study: a run per function and seed, which may say what of it was swept."""
    storage = Storage(str(folder))
    rows = []
    for function, numbers in values.items():
        for seed, number in enumerate(numbers, first_seed):
            text = f"ranker=static policy=fixed function={function} selector=uniform {overrides} seed={seed}"
            rows.append({
                "run": f"{folder.name}-{function}-{seed}", "overrides": text, "function": function, "seed": seed,
                "error": None, "collection": collection, "fingerprint": fingerprint, "diverged": False,
                "bm25:AP@100": number, "bm25:AP@100:bm25": 0.3,
                "swept": [dict(zip(("key", "value"), swept(function, seed), strict=True))] if swept else [],
            })  # fmt: skip
    write_table(storage, "trials", trials_of(rows))
    known = {"command": f"pyrite study out={folder}", "study": {}, "collections": {fingerprint: collection}}
    write_config(storage, known)
    write_table(storage, "queries", pl.DataFrame(schema=dict.fromkeys(("run", "query", "origin"), pl.String)))
    return storage


def terminal(folders: Sequence[Storage]) -> str:
    """Return what a comparison prints."""
    console = Console(width=200, no_color=True)
    with console.capture() as shown:
        compare(folders).to_terminal(console)
    return shown.get()


def line_with(shown: str, text: str) -> str:
    return next(line for line in shown.splitlines() if text in line)


def test_no_verb_prints_examples_options_are_listed_and_removed_verbs_have_a_successor(capsys, refusal):
    assert command() == 0
    shown = capsys.readouterr().out
    assert len([line for line in shown.splitlines() if line.startswith("  pyrite ")]) == 3
    assert command("options", "--for", "pool", "method=mm") == 0
    shown = capsys.readouterr().out
    for text in ("pyrite.pooling.adjudicators.max_mean.MaxMean", "judgements per topic", "method=posterior_fusion"):
        assert text in shown
    assert refusal("pool", "colour=red") == "there is no option colour; see `pyrite options --for pool`"
    assert not set(REMOVED) & set(VERBS)
    for verb, instead in REMOVED.items():
        assert refusal(verb, "outputs/m") == f"there is no verb {verb} any more; {instead}"


def test_equal_runs_are_counted_once_and_seeds_are_pooled(tmp_path):
    one = study(tmp_path / "one", {"bm25": [0.4, 0.5], "random": [0.1, 0.2]})
    two = study(tmp_path / "two", {"bm25": [0.5, 0.6]}, first_seed=1)
    shown = terminal([one, two])
    assert "Runs that several studies have, each counted once: 1." in shown
    row = line_with(shown, "bm25 · uniform")
    assert ".5000" in row  # of seeds 0, 1 and 2
    assert row.split()[-1] == "3"


def test_methods_are_tested_over_seeds_and_queries(tmp_path):
    """A difference that three seeds share and the queries do not is not marked."""
    values = {"bm25": [0.40, 0.41, 0.42], "random": [0.30, 0.31, 0.32]}
    folders = [study(tmp_path / "one", values), study(tmp_path / "two", values)]  # the same runs
    for folder in folders:
        of_query = np.random.default_rng(0).normal(0, 0.5, 8)
        rows = [
            {"run": run, "query": f"q{query}", "origin": "bm25", "AP@100": mean + ("bm25" in run) * effect}
            for run, mean in required_table(folder, "trials").select("run", "bm25:AP@100").iter_rows()
            for query, effect in enumerate(of_query - of_query.mean())
        ]
        write_table(folder, "queries", pl.DataFrame(rows))
    assert len(queries_once(read_studies(folders)).collect()) == 6 * 8
    out = Storage(str(tmp_path / "out"))
    publish(compare(folders), out, Console(quiet=True))
    summary = pl.read_csv(out.read("summary.csv"))
    (row,) = summary.filter(pl.col("function") == "random").iter_rows(named=True)
    assert row["paired_p_holm"] is None or row["paired_p_holm"] < 0.05
    assert row["p_both"] > 0.3
    assert row["low_both"] < 0 < row["high_both"]


def test_options_that_differ_are_listed_and_compared_by_seed(tmp_path):
    one = study(tmp_path / "one", {"bm25": [0.4, 0.5, 0.3]})
    two = study(tmp_path / "two", {"bm25": [0.5, 0.7, 0.6]}, "training.max_epochs=3")
    assert differing_options(read_studies([one, two])) == {"training.max_epochs": ["5", "3"]}
    shown = terminal([one, two])
    assert line_with(shown, "training.max_epochs ").split() == ["training.max_epochs", "5", "3"]
    row = line_with(shown, "+.2000")  # .1, .2 and .3: a deviation of .1
    assert "-.0484 to +.4484" in row
    assert row.split()[-3:] == [".074", "3", "seeds"]
    assert "No method can be told from the others with 3 seeds: the best is at most .0484 ahead of " in shown
    assert compare([one, two]).sections[0].last  # the verdict, on top of the page and at the end of the terminal


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("origin.bm25.depth=3", "origin.bm25.depth=100", "origin.bm25.depth=3"),
        ("scale=tiny", "scale=small", "limits.test="),
        ("", "encoding.relevant_from=2", "encoding.relevant_from=2"),
        ("collection.path=p.csv origin.bm25.depth=3", "collection.path=q.csv", "origin.bm25.depth=3"),
    ],
)
def test_studies_that_are_measured_differently_are_not_compared(tmp_path, first, second, said):
    """A ranker is better among three candidates than among a hundred, whatever it was trained on."""
    one = study(tmp_path / "one", {"bm25": [0.4, 0.5, 0.3]}, first)
    two = study(tmp_path / "two", {"bm25": [0.5, 0.7, 0.6]}, second)
    with pytest.raises(BadInput, match=r"^compare: two methods have .*; compare studies that are measured alike") as no:
        compare([one, two])
    assert said in str(no.value)


def test_runs_that_this_version_does_not_read_are_counted_in_a_comparison(tmp_path):
    one = study(tmp_path / "one", {"bm25": [0.4, 0.5, 0.3]})
    two = study(tmp_path / "two", {"bm25": [0.5, 0.7, 0.6]}, "training.of_another_version=3")
    shown = terminal([one, two])
    assert "Runs whose options this version does not read; whether they are measured" in shown
    assert "was not checked: 3." in shown


def test_agents_are_the_sample_of_a_method_under_both_options():
    """The differences of three agents are .1, .2 and .3 at each seed. A row per agent would test each over seeds."""
    rows = [
        {
            "run": f"{option}-{agent}-{seed}", "policy": "learned", "function": "bm25+random", "seed": seed,
            "bm25:AP@100": 0.4 + 0.1 * seed + (0.1 * (agent + 1) if option == "3" else 0.0),
            "swept": [{"key": "policy.agent", "value": str(agent)}, {"key": "training.max_epochs", "value": option}],
        }
        for option, agent, seed in itertools.product("53", range(3), range(3))
    ]  # fmt: skip
    (row,) = paired_table(trials_of(rows), ["training.max_epochs"]).lines
    assert [getattr(cell, "text", cell) for cell in row[3:]] == ["+.2000", "-.0484 to +.4484", ".074", "3 agents"]


def test_studies_of_other_collections_are_compared_over_places(tmp_path):
    values = {"one": {"bm25": [0.4, 0.5, 0.6], "random": [0.3, 0.45, 0.5]}}
    values["two"] = {"bm25": [0.2, 0.3, 0.1], "random": [0.1, 0.15, 0.1]}
    folders = [study(tmp_path / name, each, fingerprint=name, collection=name) for name, each in values.items()]
    (section, *_) = compare(folders, "function=bm25").sections
    across = section.frames["across.parquet"]
    for place in ("static on one", "static on two", "all"):
        assert across.filter(place=place)["difference"].item() == pytest.approx(-0.25 / 3)
    assert "against bm25" in terminal(folders)


def test_versions_of_a_collection_count_as_one_against_the_baseline_that_all_studies_name(tmp_path):
    values, folders = {"bm25": [0.4, 0.5, 0.6], "random": [0.3, 0.45, 0.5]}, []
    for name in ("one", "two"):
        folder = study(tmp_path / name, values, f"relabel={name}", fingerprint=name)
        config = {"verb": "study", "study": {"baseline": "function=random"}}
        write_config(folder, config)
        runs = required_table(folder, "trials").select("run", value="bm25:AP@100")
        of_runs = runs.join(pl.DataFrame({"query": list("abcd"), "more": [0.0, 0.01, 0.03, -0.04]}), how="cross")
        rows = of_runs.select("run", "query", pl.lit("bm25").alias("origin"), (pl.col("value") + pl.col("more")))
        write_table(folder, "queries", rows.rename({"value": "AP@100"}))
        folders.append(folder)
    (section, *_) = compare(folders).sections
    row = section.frames["across.parquet"].filter(place="all").row(0, named=True)
    assert (row["against"], row["collections"], row["places"]) == ("random · uniform", 1, 2)
    said = " ".join(terminal(folders).split())
    assert "2 versions of made_up count as one collection: they share test queries." in said
    assert "relabel one two" in said


def test_methods_of_a_study_without_labels_keep_their_names_beside_labels(tmp_path):
    names = {"bm25": "hard", "random": "easy"}
    values, more = {"bm25": [0.4, 0.5], "random": [0.1, 0.2]}, {"tfidf": [0.4, 0.5, 0.3, 0.2]}
    labelled = study(tmp_path / "labelled", values, swept=lambda function, seed: ("label", names[function]))
    plain = study(tmp_path / "plain", more, swept=lambda function, seed: ("negatives.tfidf", str(seed % 2)))
    shown = terminal([labelled, plain])
    for name in ("hard", "easy", "tfidf · uniform · negatives.tfidf=0", "tfidf · uniform · negatives.tfidf=1"):
        row = next(line for line in shown.splitlines() if line.strip(" │┃").startswith(f"{name} "))
        assert row.split()[-1] == "2", row


def test_measures_are_no_part_of_a_method(tmp_path):
    one = study(tmp_path / "one", {"bm25": [0.4, 0.5]})
    two = study(tmp_path / "two", {"bm25": [0.4, 0.5]}, "'measures=[AP@100]' origin=[bm25]")
    shown = terminal([one, two])
    assert "Runs that several studies have, each counted once: 2." in shown
    rows = {line.split()[0]: line for line in shown.splitlines() if line.strip().startswith(("measures", "origin"))}
    assert "[AP@100,RR@10,nDCG@20,R@1]" in rows["measures"]
    assert "[bm25,random]" in rows["origin"]
    assert "· measures" not in shown


def test_other_results_of_the_same_run_are_reported_and_studies_with_nothing_in_common_refused(tmp_path):
    one = study(tmp_path / "one", {"bm25": [0.4]}, fingerprint="one")
    two = study(tmp_path / "two", {"random": [0.4]}, fingerprint="two")
    again = study(tmp_path / "again", {"bm25": [0.5]}, fingerprint="one")
    assert "Runs with other results in another study, of which the first counts: 1." in terminal([one, again])
    with pytest.raises(BadInput, match=r"two methods in common \(one: made_up one; two: made_up two\)"):
        compare([one, two])


def test_studies_with_one_seed_each_are_told_that_they_need_more(tmp_path):
    def both(seeds: int) -> list[Storage]:
        values = {"bm25": [0.4, 0.5, 0.45][:seeds], "random": [0.3, 0.42, 0.36][:seeds]}
        return [study(tmp_path / f"{name}{seeds}", values, fingerprint=name) for name in ("one", "two")]

    with pytest.raises(BadInput, match=r"fewer than two seeds in common .*--resume FOLDER seeds=3"):
        compare(both(1))
    assert "+.0" in terminal(both(3)) or "-.0" in terminal(both(3))


def test_a_comparison_leads_with_a_measure_that_all_studies_have(tmp_path):
    one = study(tmp_path / "one", {"bm25": [0.4, 0.5]})
    two = study(tmp_path / "two", {"random": [0.1, 0.2]})
    other = study(tmp_path / "other", {"random": [0.1, 0.2]}, fingerprint="other")
    first = required_table(one, "trials")
    write_table(one, "trials", first.select(pl.lit(0.9).alias("bm25:RR@10"), pl.all()))
    assert "AP@100" in str(compare([one, two]).sections[0])
    assert "RR@10" not in str(compare([one, two]).sections[0])
    with pytest.raises(BadInput, match="neither a collection nor two methods"):
        compare([one, other])
    write_table(one, "trials", first.rename({"bm25:AP@100": "bm25:RR@10", "bm25:AP@100:bm25": "bm25:RR@10:bm25"}))
    with pytest.raises(BadInput, match=r"no measure .* in common \(one: bm25:RR@10; two: bm25:AP@100\)"):
        compare([one, two])


def test_compare_writes_a_page_and_needs_two_folders(tmp_path, refusal):
    both = [str(tmp_path / "one"), str(tmp_path / "two")]
    study(tmp_path / "one", {"bm25": [0.4, 0.5]})
    study(tmp_path / "two", {"random": [0.5, 0.6]})
    for _ in range(2):  # the second replaces the first
        assert command("compare", *both, f"out={tmp_path / 'out'}") == 0
    assert "holds results of `pyrite study`" in refusal("compare", *both, f"out={tmp_path / 'one'}")
    assert "holds other files (one, out, two)" in refusal("compare", *both, f"out={tmp_path}")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Comparison of one, two" in page
    assert "random · uniform" in page
    assert "two folders are needed" in refusal("compare", str(tmp_path / "one"))
    study(tmp_path / "lr=0.1", {"bm25": [0.5]}, first_seed=1)
    assert command("compare", str(tmp_path / "lr=0.1"), str(tmp_path / "one"), f"out={tmp_path / 'again'}") == 0
    assert "is one folder that is named twice" in refusal("compare", str(tmp_path / "one"), f"{tmp_path / 'one'}/")


def test_list_shows_the_state_of_each_folder(tmp_path, capsys, monkeypatch):
    storage = study(tmp_path / "studies" / "one", {"bm25": [0.4]})
    with EventLog(storage).session("study", False, runs=2, done=0):
        EventLog(storage).emit("run failed", run="a")
    with EventLog(storage).session("study", True, runs=2, done=0):
        EventLog(storage).emit("run ended", run="a", best=0.4)
    failed = study(tmp_path / "studies" / "three", {"bm25": [0.4]})
    with EventLog(failed).session("study", False, runs=3, done=1):
        EventLog(failed).emit("run failed", run="b")
    write_config(Storage(str(tmp_path / "trained")), {"run": "a", "overrides": []})
    EventLog(Storage(str(tmp_path / "trained"))).emit("began", verb="train", run="a")
    for folder, state in (
        ("studies/one", ("study", "finished", 1, 2, 0)),
        ("studies/three", ("study", "finished", 1, 3, 1)),
        ("trained", ("train", "stopped", 0, 1, 0)),
    ):
        listed = read_folder(tmp_path / folder)
        assert (listed.verb, listed.state, listed.done, listed.runs, listed.failed) == state
    Storage(str(tmp_path / "studies" / "two")).write("config.yaml", b"- broken")
    study(tmp_path / "[dim]", {"bm25": [0.4]})
    (tmp_path / "lost+found").mkdir()

    def is_file(path: Path) -> bool:
        if path.parent.name == "lost+found":
            raise PermissionError(13, "Permission denied")
        return os.path.isfile(path)

    monkeypatch.setattr(Path, "is_file", is_file)
    assert command("list", str(tmp_path)) == 0
    shown = capsys.readouterr().out
    for text in (r"lost\+found +no permission", "studies/one", "damaged", r"\[dim\]"):
        assert re.search(text, shown)
    assert command("list", str(tmp_path / "nowhere")) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["list", "one", "two"], "'two' has no effect on a list"),
        (["list", "seeds=3"], "is no folder"),
        (["list", "one", "seeds=3"], "'seeds=3' has no effect on a list"),
        (["judge", "--export", "", "out=one"], "--export: is empty"),
        (["rank", "one", "out=."], ".: is a folder, and a run is a file; give out=./NAME.run"),
        (["judge", "--resume", "one", "--export", "qrels.txt"], "exclude each other"),
        (["study", "--resume", "b\udcff"], r"b\xff: is not UTF-8; rename that file or folder"),
        (["rank", "one", "out=b\udcff/a.run"], r"out=b\xff/a.run: is not UTF-8"),
    ],
)
def test_nothing_on_a_command_line_is_dropped(arguments, says, refusal):
    assert says in refusal(*arguments)


def test_a_report_reads_its_options_and_refuses_others(tmp_path, refusal, monkeypatch):
    of_study, of_pool, baselines = tmp_path / "study", tmp_path / "pool", []
    write_config(Storage(str(of_study)), {"study": {}})
    write_config(Storage(str(of_pool)), {"pools": {}})
    assert "seeds=3 can't change a report" in refusal("report", str(of_study), "seeds=3")
    assert "factors=[a] can't change a report" in refusal("report", str(of_pool), "factors=[a]")
    monkeypatch.setattr("pyrite.cluster.commands.report.report_pools", lambda *given: baselines.append(given[-1]))
    assert command("report", str(of_pool), "baseline=mm[rate=0.5]") == 0
    assert baselines == ["mm[rate=0.5]"]


def test_a_file_of_overrides_is_a_study(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text("- ranker=static\n- 'function=[in_batch,bm25]'\n- negatives.bm25=0,1,4\n")
    overrides = parse(["study", str(path), "seeds=2"]).overrides
    assert overrides == ["ranker=static", "function=[in_batch,bm25]", "negatives.bm25=0,1,4", "seeds=2"]
    assert len(points([], [], overrides[:-1])) == 3
    with pytest.raises(BadInput, match="there is no such file; name a file of overrides"):
        parse(["study", str(tmp_path / "other.yaml")])


OWN = """
title: "Mine: a 'guard'?"
seeds: 2
overrides: [scale=tiny, collection=beir, "collection.path='${data}/quest'"]
methods:
  - {function: "bm25,random", guard.relative: .05}
  - {label: both, function: [in_batch, bm25], selector.bm25: top}
  - [function=random]
scales: {tiny: {overrides: [training.patience=1]}}
"""


def test_a_file_with_a_title_and_methods_is_an_experiment(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(OWN)
    planned = study_plan.plan(parse(["study", str(path), "data=/here", "seeds=1", f"out={tmp_path}/out"]).overrides)
    runs, _ = planned.runs()
    assert planned.options["experiment"] == "Mine: a 'guard'?"
    common = ("scale=tiny", "collection=beir", "collection.path='/here/quest'", "training.patience=1")
    assert [run.overrides for run in runs] == [
        (*common, "function=bm25", "guard.relative=0.05", "seed=0"),
        (*common, "function=random", "guard.relative=0.05", "seed=0"),
        (*common, "function=[in_batch,bm25]", "selector.bm25=top", "seed=0"),
        (*common, "function=random", "seed=0"),
    ]
    assert [dict(run.swept).get("label") for run in runs] == [None, None, "both", None]
    for own, says in (
        (OWN.replace("tiny: {", "tini: {"), "there is no scale 'tini'.*did you mean tiny"),
        (OWN.replace(".05", "'${oc.env:NOT_SET_HERE}'"), "NOT_SET_HERE.*set the variable"),
        (OWN.replace(".05", "'${no_such}'"), "no_such"),
    ):
        path.write_text(own)
        with pytest.raises(BadInput, match=says):
            study_plan.plan(parse(["study", str(path), "data=/here", f"out={tmp_path}/out"]).overrides)
    path.write_text("title: Mine\nmethods: [{function: bm25}]\nseed: 3\n")
    with pytest.raises(BadInput, match="is no experiment: there is no option seed") as refusal:
        parse(["study", str(path)])
    assert str(path) in str(refusal.value)


def test_doctor_finds_what_keeps_a_study_or_a_verb_from_running(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYRITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(doctor, "gpus", lambda: ["a card"])
    assert command("doctor") == 0
    shown = capsys.readouterr().out
    for name in ("python", "ray", "memory", "cores", "a card", str(tmp_path / "cache")):
        assert name in shown

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 64 << 20, "total": 1}))
    assert command("doctor") == 1
    shown = capsys.readouterr().out
    assert "can't be written (Permission denied): set PYRITE_CACHE" in shown
    assert "--shm-size=2g" in shown
    monkeypatch.setitem(doctor.OPTIONAL, "no_such_module", ("pyrite judge", "judge"))
    (finding,) = [each for each in doctor.missing() if each.name == "no_such_module"]
    assert "needed by pyrite judge" in finding.text
    assert "pyrite-ir[judge]" in finding.remedy


def test_the_version_is_shown_with_the_commit_of_a_clone(capsys):
    with pytest.raises(SystemExit) as ended:
        parse(["--version"])
    assert ended.value.code == 0
    assert re.fullmatch(rf"pyrite {re.escape(pyrite.__version__)}(, commit [0-9a-f]{{40}})?\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("studdy seeds=2", "there is no verb 'studdy'; did you mean pyrite study?"),
        ("colour", "there is no verb 'colour'; choose one of study, "),
        ("study --seeds 5", "there is no option --seeds; options are written without dashes: seeds=5"),
        (
            "train --batch-size=8",
            "there is no option --batch-size; options are written without dashes: training.batch_size=8",
        ),
        ("study --cfg job", "there is no option --cfg; `pyrite options` prints the configuration"),
        ("study --config-dir conf", "there is no option --config-dir; a file of overrides is a word: `pyrite study"),
        ("study -m seeds=2", "there is no option -m; a study runs all values of a sweep by itself: leave it out"),
    ],
)
def test_habits_of_other_command_lines_get_one_line(given, line, capsys):
    with pytest.raises(SystemExit) as ended:
        main(given.split())
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"pyrite: {line}")


def test_a_flag_without_its_value_is_one_line():
    with pytest.raises(BadInput, match=r"^argument --resume: expected one argument; see `pyrite study --help`$"):
        parse(["study", "--resume"])


@pytest.mark.parametrize(("word", "meant"), [("help", "--help"), ("ls", "list"), ("studdy", "study")])
def test_a_word_that_is_no_verb_leads_to_one(word, meant):
    with pytest.raises(BadInput, match=rf"there is no verb '{word}'; did you mean pyrite {meant}\?$"):
        parse([word])


@pytest.mark.parametrize(("verb", "option"), [("study", "seeds"), ("train", "training"), ("mine", "count")])
def test_options_are_shown_for_each_verb(verb, option, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["options", "--for", verb])
    assert ended.value.code == 0
    assert re.search(rf"^{option}:", capsys.readouterr().out, re.MULTILINE)
