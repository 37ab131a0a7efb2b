"""Cards of trained rankers, and a hub that they are pushed to."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import pyrite
from ranking.errors import BadInput


class Hub:
    """Stands in for the Hugging Face hub."""

    sent: dict[str, Any] = {}

    def __init__(self, token: str) -> None:
        self.sent.clear()
        self.sent["token"] = token

    def create_repo(self, repository: str, exist_ok: bool) -> str:
        assert exist_ok
        if repository == "ada/taken":
            raise OSError("403: you have no right to write")
        return f"https://hub/{repository}"

    def upload_folder(self, repo_id: str, folder_path: str, commit_message: str) -> None:
        files = [path for path in Path(folder_path).rglob("*") if path.is_file()]
        contents = {str(path.relative_to(folder_path)): path.read_bytes() for path in files}
        self.sent.update(repository=repo_id, files=contents)


@pytest.fixture
def hub(monkeypatch) -> dict[str, Any]:
    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    monkeypatch.setenv("HF_TOKEN", "my own")
    return Hub.sent


def test_weights_have_a_card_and_are_pushed(base, hub, tmp_path):
    run = pyrite.train(
        [*base, "ranker=dssm", "function=random", "training.max_epochs=1", f"out={tmp_path / 'r'}", "push=ada/gold"]
    )
    text = Path(run.weights).with_suffix(".md").read_text()
    head, body = text.removeprefix("---\n").split("---\n", 1)
    assert "pyrite" in yaml.safe_load(head)["tags"]
    assert f"{run.measures['bm25:AP@10']:.4f}" in body
    rows = ("| policy | fixed |", "| retrieval functions | random |", "| seed | 0 |", "| negatives a pair | 4 |")
    assert all(said in body for said in (*rows, "fingerprint ", "pyrite train "))
    assert hub["token"] == "my own"
    assert hub["repository"] == "ada/gold"
    assert set(hub["files"]) == {"README.md", "model.json", "model.safetensors"}
    assert hub["files"]["README.md"].decode() == text
    assert hub["files"]["model.safetensors"] == Path(run.weights).read_bytes()


def test_a_checkpoint_is_pushed_as_its_folder(base, small_bert, hub, tmp_path):
    options = ["ranker=bi_encoder", f"ranker.checkpoint={small_bert}", "training.max_epochs=1", "teacher=bm25"]
    mined = ["function=[in_batch,bm25]", "negatives.bm25=2", "selector.bm25=top"]
    pyrite.train([*base, *options, *mined, f"out={tmp_path / 'r'}", "push=ada/bert"])
    assert {"README.md", "modules.json", "model.safetensors", "1_Pooling/config.json"} <= set(hub["files"])
    card = hub["files"]["README.md"].decode()
    rows = ("| negatives a pair | 7 of in_batch, 2 of bm25 |", "| selector | uniform, of bm25 Top |")
    assert all(said in card for said in (*rows, "| teacher | bm25 |", "sentence-transformers"))


@pytest.mark.parametrize(
    ("token", "overrides", "said"),
    [
        ("", ["push=ada/gold"], "there is no token of the hub; set HF_TOKEN"),
        ("x", ["push=gold"], "'gold' is no repository"),
        ("x", ["push=ada/taken", "training.max_epochs=1"], r"could not be pushed \(403.*is kept in"),
    ],
)
def test_what_can_not_be_pushed_is_said(base, hub, tmp_path, monkeypatch, token, overrides, said):
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(BadInput, match=said):
        pyrite.train([*base, "ranker=static", "function=random", *overrides, f"out={tmp_path / 'r'}"])
    assert (tmp_path / "r" / "trials.parquet").exists() == ("ada/taken" in overrides[0])  # before anything is trained
