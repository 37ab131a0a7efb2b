"""Which keys tell methods apart (names: `tests/cluster/reports/test_summary.py`), and what a folder may hold."""

import polars as pl
import pytest

from pyrite.analysis.methods import factors, measurements, with_factors, with_methods
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.manifest import read_config, refuse_taken
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.errors import BadInput
from tests.cluster.trial_rows import trials_of


def study(swept: dict[str, list[str]], drawn: tuple[str, ...] = ()) -> pl.DataFrame:
    """As many runs as the longest list has values."""
    return trials_of(
        {
            "run": str(number), "ranker": "ff", "selector": "top", "bm25:RR": 0.1 * number, "drawn": list(drawn),
            "swept": [{"key": key, "value": values[number % len(values)]} for key, values in swept.items()],
        }
        for number in range(max(map(len, swept.values()), default=1))
    )  # fmt: skip


def test_names_and_few_numbers_are_factors_but_no_draws_agents_collections_and_checkpoints():
    eight, nine = list("12345678"), list("123456789")
    few = study({"training.patience": eight, "width": nine, "pooling": ["max", "mean"]})
    assert factors(few) == ["pooling", "training.patience"]
    assert factors(study({"pooling": [f"kind{number}" for number in nine]})) == ["pooling"]
    kept = {"policy.agent": ["0", "1"], "selector.agent": ["0", "1"], "collection.fold": ["1", "2"]}
    assert factors(study({**kept, "ranker.checkpoint": ["1", "2"]})) == []
    assert factors(study({"rate": ["0.1", "0.2"]}, drawn=("rate",))) == []


def test_an_option_of_a_part_follows_it_and_a_method_without_either_has_a_plain_name():
    options = [("selector.bm25", "dynamic"), ("selector.bm25.candidates", "16"), ("selector.bm25.lam", "0")]
    rows = [
        {"run": str(n), "selector": "top", "swept": [{"key": key, "value": value} for key, value in options[:n]]}
        for n in (0, 1, 3)
    ]
    assert with_methods(trials_of(rows))["method"].to_list() == [
        "bm25 · top",
        "bm25 · top · selector.bm25=dynamic",
        "bm25 · top · selector.bm25=dynamic candidates=16 lam=0",
    ]


def test_the_user_names_the_factors():
    trials = study({"rate": list("123456789"), "width": ["1", "2"]}, drawn=("rate",))
    assert factors(with_factors(trials, ["rate"])) == ["rate"]
    assert factors(with_factors(trials, [])) == []
    assert factors(with_factors(with_factors(trials, []), None)) == ["width"]
    assert measurements(with_factors(trials, ["rate"]))["method"].n_unique() == 9
    with pytest.raises(BadInput, match=r"'depth' is not swept.*rate, width"):
        with_factors(trials, ["depth"])
    with pytest.raises(BadInput, match="sweeps methods and seeds alone"):
        with_factors(study({}), ["depth"])


def test_what_repeats_a_method_or_belongs_to_its_label_is_said_of_its_runs():
    trials = study({"policy.agent": ["3", "4"], "rate": ["0.1", "0.2"], "width": ["1", "2"]}, drawn=("rate",))
    found = measurements(trials).select("method", "agent", "settings").rows()
    assert found == [
        ("bm25 · top · width=1", "3", [{"key": "rate", "value": "0.1"}]),
        ("bm25 · top · width=2", "4", [{"key": "rate", "value": "0.2"}]),
    ]
    assert measurements(study({})).select("agent", "settings", "diverged").rows() == [("-", [], False)]
    trials = study({"label": ["a", "b"], "selector.bm25": ["simans", "top"], "rate": ["1", "1", "2", "2"]})
    kept = measurements(trials)["settings"].to_list()
    assert [[pair["key"] for pair in pairs] for pairs in kept] in ([[]] * 4, [["rate"]] * 4)


def test_files_of_others_are_left_alone_and_a_folder_without_its_configuration_is_our_own(tmp_path):
    storage = Storage(str(tmp_path))
    refuse_taken(Storage(str(tmp_path / "new")))
    (tmp_path / ".gitkeep").touch()
    refuse_taken(storage)
    (tmp_path / "data").mkdir()
    for name in ("README.md", "log.jsonl", "summary.csv"):
        (tmp_path / name).write_text('{"event": "of another program"}\n')
    with pytest.raises(BadInput, match=r"holds other files \(README.md, data, log.jsonl, …\); choose another out="):
        refuse_taken(storage)
    own = Storage(str(tmp_path / "own"))
    with EventLog(own).session("study", resumed=False):
        pass
    own.write("trials.parquet", b"")
    refuse_taken(own)


@pytest.mark.parametrize("content", ["defaults: [db]\n", "- a\n", "a: ["])
def test_a_configuration_of_another_program_is_said_to_be_one(content, tmp_path):
    (tmp_path / "config.yaml").write_text(content)
    with pytest.raises(BadInput, match="is not a file of Pyrite's; name another folder"):
        read_config(Storage(str(tmp_path)))
    with pytest.raises(BadInput, match="name the folder of a mining"):
        read_config(Storage(str(tmp_path / "nowhere")), "mining")
