from __future__ import annotations

from pathlib import Path

import pytest

from cluster.jobs.path_rewriting import NodeFileView, place_inputs, place_output, split_output, variables, written
from cluster.plan.sweep import values_of
from ranking.errors import BadInput


@pytest.fixture
def stand(tmp_path: Path) -> Path:
    """Where the user stands, with a collection, two agents and runs."""
    for folder in ("corpora/medquad", "agents/a", "agents/b", "runs", "data", "with space"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "qrels.txt").write_text("1 0 d 1\n")
    return tmp_path


@pytest.fixture
def here(stand: Path) -> NodeFileView:
    return NodeFileView(True, (), str(stand))


@pytest.fixture
def elsewhere(stand: Path) -> NodeFileView:
    return NodeFileView(False, ("/mnt/lab",), str(stand))


def test_outputs_on_this_machine_go_where_the_user_stands(here: NodeFileView, stand: Path) -> None:
    assert place_output("outputs/s", here) == f"{stand}/outputs/s"
    assert place_output("/somewhere/s", here) == "/somewhere/s"
    assert place_output("s3://lab/s", here) == "s3://lab/s"


@pytest.mark.parametrize("out", ["outputs/s", "/home/me/s", "/mnt/laboratory/s", "/mnt/lab/../s", "file:///home/me/s"])
def test_outputs_that_no_other_node_sees_are_refused(elsewhere: NodeFileView, out: str) -> None:
    with pytest.raises(BadInput, match=r"^out: .* may not be there on other nodes .* --shared FOLDER"):
        place_output(out, elsewhere)


def test_outputs_that_other_nodes_see(elsewhere: NodeFileView) -> None:
    assert place_output("gs://lab/s", elsewhere) == "gs://lab/s"
    assert place_output("/mnt/lab/s", elsewhere) == "/mnt/lab/s"
    assert place_output("file:///mnt/lab/s", elsewhere) == "/mnt/lab/s"


def test_relative_inputs_become_whole(here: NodeFileView, stand: Path) -> None:
    given = ["collection.path=corpora/medquad", "data=data", "cache=null", "ranker=dssm", "policy.checkpoint=s3://l/a"]
    assert place_inputs("study", given, here) == [
        f"collection.path={stand}/corpora/medquad", f"data={stand}/data", *given[2:]
    ]  # fmt: skip
    assert place_inputs("pool", ["runs=runs", "qrels=qrels.txt", "method=all", "order=score"], here) == [
        f"runs={stand}/runs", f"qrels={stand}/qrels.txt", "method=all", "order=score"
    ]  # fmt: skip


def test_each_path_of_a_sweep_or_list(here: NodeFileView, stand: Path) -> None:
    swept = place_inputs("study", ["policy.checkpoint=agents/a,agents/b"], here)[0]
    assert values_of(swept) == [f"{stand}/agents/a", f"{stand}/agents/b"]
    chosen = place_inputs("study", ["policy.checkpoint=choice(agents/a, 'agents/b')"], here)[0]
    assert values_of(chosen) == [f"{stand}/agents/a", f"{stand}/agents/b"]
    assert place_inputs("pool", ["runs=[runs,qrels.txt]"], here) == [f"runs=[{stand}/runs,{stand}/qrels.txt]"]


def test_what_is_not_here_is_left_to_the_nodes(here: NodeFileView, elsewhere: NodeFileView) -> None:
    given = ["ranker.checkpoint=sentence-transformers/all-MiniLM-L6-v2", "collection.path=/corpora/x", "limits.test=9"]
    assert place_inputs("learn", given, here) == given
    assert place_inputs("learn", given, elsewhere) == given


def test_inputs_that_lie_on_this_machine_alone_are_refused(elsewhere: NodeFileView) -> None:
    with pytest.raises(BadInput, match=r"^collection.path: corpora/medquad lies on this machine"):
        place_inputs("train", ["collection.path=corpora/medquad"], elsewhere)


def test_inputs_in_a_shared_folder(stand: Path) -> None:
    view = NodeFileView(False, (str(stand / "corpora"),), str(stand))
    assert place_inputs("study", ["collection.path=corpora/medquad"], view) == [
        f"collection.path={stand}/corpora/medquad"
    ]


def test_quotes_where_hydra_needs_them(here: NodeFileView, stand: Path) -> None:
    assert place_inputs("study", ["collection.path='with space'"], here) == [f"collection.path='{stand}/with space'"]
    assert place_inputs("study", ["collection.path=with space"], here) == [f"collection.path='{stand}/with space'"]
    assert written("out", "/o'clock/ä") == r"out='/o\'clock/ä'"


def test_the_output_is_told_from_the_rest() -> None:
    assert split_output(["seeds=2", "out=outputs/s"]) == ("outputs/s", ["seeds=2"])
    assert split_output(["out='my study'", "seeds=2"]) == ("my study", ["seeds=2"])
    assert split_output(["out=null"]) == (None, [])
    assert split_output(["seeds=2"]) == (None, ["seeds=2"])


def test_variables_that_the_job_is_to_have(here: NodeFileView, elsewhere: NodeFileView, stand: Path) -> None:
    assert variables({}, here) == {"PYRITE_DATA": f"{stand}/data"}
    assert variables({"PYRITE_CACHE": "c", "PYRITE_DATA": "/d"}, here) == {
        "PYRITE_CACHE": f"{stand}/c",
        "PYRITE_DATA": "/d",
    }
    assert variables({"PYRITE_CACHE": "/home/me/c", "PYRITE_DATA": "/mnt/lab/d"}, elsewhere) == {
        "PYRITE_DATA": "/mnt/lab/d"
    }
