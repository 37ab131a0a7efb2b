"""Values of the environment and passwords of URLs: used, and in no file of an output folder."""

import json
from pathlib import Path

import polars as pl
import pytest
import yaml

from pyrite.cluster.config import secrets
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.secrets import concealed, concealed_file, concealed_in, resolved_in
from pyrite.cluster.output.manifest import read_config
from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import read_table, write_table
from pyrite.ranking.errors import BadInput
from tests.cluster.command_line import command

SECRET = "s3cr3t-of-the-lab"


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch):
    monkeypatch.setattr(secrets, "_typed", {})
    monkeypatch.setenv("LAB_SECRET", SECRET)
    monkeypatch.setenv("LAB_N", "3")


def test_what_is_composed_has_the_value_and_what_is_written_what_was_typed():
    config = compose(["collection=beir", "collection.path=/data/${oc.env:LAB_SECRET}/x"])
    secrets.remember(["training.max_epochs=${oc.decode:${oc.env:LAB_N}}"])
    assert config["collection"]["path"] == f"/data/{SECRET}/x"
    assert concealed(f"no folder /data/{SECRET}/x") == "no folder /data/${oc.env:LAB_SECRET}/x"
    assert concealed_in({f"/data/{SECRET}": {3: "3"}}) == {"/data/${oc.env:LAB_SECRET}": {3: "${oc.env:LAB_N}"}}
    assert concealed_in(["3", 3, {"a": "13"}, ("3",)]) == ["${oc.env:LAB_N}", 3, {"a": "13"}, ("${oc.env:LAB_N}",)]


def test_another_value_of_the_variable_is_composed_again(monkeypatch):
    overrides = ["collection=beir", "collection.path=/data/${oc.env:LAB_SECRET}"]
    compose(overrides)
    monkeypatch.setenv("LAB_SECRET", "another-one")
    assert compose(overrides)["collection"]["path"] == "/data/another-one"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("postgresql://ada:pw@db:5432/x", "postgresql://db:5432/x"),
        ("see 'http://ada:p%40w@host/a' and s3://key:se+cret@bucket/b", "see 'http://host/a' and s3://bucket/b"),
        ("https://ada:p@w@host", "https://host"),
        ("mail ada@host, http://host:80/a:b@c, sqlite:///a.db", "mail ada@host, http://host:80/a:b@c, sqlite:///a.db"),
        ("https://ada@host", "https://ada@host"),
    ],
)
def test_credentials_of_urls_are_left_out(text, written):
    assert concealed(text) == written


def test_escaped_forms_are_found_and_other_files_are_left_alone():
    secrets._typed['a<"b&c"'] = "${oc.env:X}"
    assert concealed(json.dumps(['a<"b&c"'])) == '["${oc.env:X}"]'
    assert concealed("<p>a&lt;&quot;b&amp;c&quot;</p>") == "<p>${oc.env:X}</p>"
    assert concealed_file("w.safetensors", b'a<"b&c"') == b'a<"b&c"'
    assert concealed_file("a.txt", b"\xff://") == b"\xff://"


def test_a_table_is_concealed_in_texts_lists_and_records(tmp_path):
    secrets.remember(["${oc.env:LAB_SECRET}"])
    frame = pl.DataFrame(
        {"a": [SECRET, None], "b": [["x", SECRET], []], "c": [{"k": SECRET}, {"k": "y"}], "n": [1.5, 2.5]}
    )
    write_table(Storage(str(tmp_path)), "t", frame)
    typed = "${oc.env:LAB_SECRET}"
    assert pl.read_parquet(tmp_path / "t.parquet").to_dict(as_series=False) == {
        "a": [typed, None], "b": [["x", typed], []], "c": [{"k": typed}, {"k": "y"}], "n": [1.5, 2.5],
    }  # fmt: skip


def test_what_a_collection_holds_is_written_as_it_is(tmp_path):
    """A document may name a password, and a query's id may be the value of a variable."""
    secrets._typed.update({"4": "${oc.env:N}", "english": "${oc.env:LANGUAGE}"})
    storage, text = Storage(str(tmp_path)), b"connect to postgresql://scott:tiger@localhost in english"
    results = ResultStore(storage, "shards", None, ".json")
    results.write("a", {"rows": 1}, {"data/a.jsonl": text})
    assert storage.read("data/a.jsonl") == text
    assert results.has("a")
    ids = ["4", "english"]
    names = ("query", "document", "query_id", "document_id")
    frame = pl.DataFrame({**dict.fromkeys(names, ids), "text": ["4", "in english"]})
    write_table(storage, "t", frame)
    expected = frame.with_columns(text=pl.Series(["4", "in ${oc.env:LANGUAGE}"]))
    assert read_table(storage, "t").equals(expected)


def test_a_variable_of_a_folder_is_resolved_and_a_missing_one_refused():
    assert resolved_in({"a": ["${oc.env:LAB_SECRET}/x", 3]}) == {"a": [f"{SECRET}/x", 3]}
    assert resolved_in("${oc.env:LAB_ABSENT,none}") == "none"
    with pytest.raises(BadInput, match=r"^b: the environment variable LAB_ABSENT is not set; set LAB_ABSENT$"):
        resolved_in({"b": "${oc.env:LAB_ABSENT}"})


def texts_of(folder: Path) -> dict[str, str]:
    """Every file of a folder, tables as their rows."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {
        str(file.relative_to(folder)): str(pl.read_parquet(file).rows())
        if file.suffix == ".parquet"
        else file.read_bytes().decode(errors="replace")
        for file in files
    }


@pytest.fixture
def secret_pool(tmp_path, small_pool):
    """Overrides of a pool whose folder has the secret in its path."""
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools" / SECRET).symlink_to(small_pool)
    place = f"{tmp_path}/pools/${{oc.env:LAB_SECRET}}"
    return [f"runs={place}/runs", f"qrels={place}/qrels.txt", "depth=10", "seeds=1", "local=true", "dashboard=false"]


@pytest.fixture
def secret_place(tmp_path, base):
    """Overrides of runs on a collection whose folder has the secret in its path."""
    (path,) = (text.partition("=")[2] for text in base if text.startswith("collection.path="))
    (tmp_path / SECRET).symlink_to(path)
    others = [text for text in base if not text.startswith("collection.path=")]
    return [*others, f"collection.path={tmp_path}/${{oc.env:LAB_SECRET}}"]


@pytest.mark.parametrize("verb", ["study", "train", "mine", "pool", pytest.param("learn", marks=pytest.mark.nightly)])
def test_no_file_of_an_output_folder_has_the_value(verb, secret_place, secret_pool, tmp_path):
    out = tmp_path / "out"
    more = {
        "study": ["seeds=1", "policy=fixed", "function=random,bm25", "selector=uniform", "local=true", "weights=true"],
        "train": ["policy=fixed", "function=random", "selector=uniform", "track=[tensorboard]"],
        "mine": ["function=random", "count=1"],
        "pool": ["method=mtf,mm"],
        "learn": ["copies=2", "workers=0", "episodes=2", "random_baseline=0", "dashboard=false"],
    }[verb]  # fmt: skip
    texts = [text for text in secret_place if text.startswith(("collection", "vectors", "encoding"))]
    overrides = {"mine": texts, "pool": secret_pool}.get(verb, secret_place)
    assert command(verb, *overrides, *more, f"out={out}") == 0
    found = texts_of(out)
    assert len(found) > 3
    assert not [name for name, text in found.items() if SECRET in text]
    assert "${oc.env:LAB_SECRET}" in found["config.yaml"]
    if verb in ("study", "pool"):
        assert "${oc.env:LAB_SECRET}" in yaml.safe_load(found["config.yaml"])["command"]
        assert "${oc.env:LAB_SECRET}" in found["report.html"]
        assert command(verb, "--resume", str(out)) == 0


def test_a_server_that_only_the_folder_names_gets_no_variable(secret_place, tmp_path, refusal, monkeypatch):
    out, store = tmp_path / "out", tmp_path / f"{SECRET}.db"
    more = ["seeds=1", "policy=fixed", "function=random", "selector=uniform", "local=true", "samples=2"]
    search = ["search=optuna", "optimizer.lr=interval(0.01,0.02)"]
    url = f"search_storage='sqlite:///{tmp_path}/${{oc.env:LAB_SECRET}}.db'"
    assert command("study", *secret_place, *more, *search, url, f"out={out}") == 0
    assert store.exists()
    assert not [name for name, text in texts_of(out).items() if SECRET in text]
    assert read_config(Storage(str(out)))["study"]["search_storage"].endswith("/${oc.env:LAB_SECRET}.db")
    line = refusal("study", "--resume", str(out))
    assert "search_storage=" in line
    assert "only the folder names it" in line
    assert SECRET not in line
    assert command("study", "--resume", str(out), url) == 0


def test_a_password_of_a_trackers_address_is_in_no_file_and_on_no_line(base, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    out, url = tmp_path / "out", f"http://ada:{SECRET}@127.0.0.1:9"
    more = ["policy=fixed", "function=random", "selector=uniform", "track=[mlflow]", f"track.mlflow.uri={url}"]
    assert command("train", *base, *more, f"out={out}") == 0
    assert "http://127.0.0.1:9" in (out / "config.yaml").read_text()
    assert not [name for name, text in texts_of(out).items() if SECRET in text]
    printed = "".join(capsys.readouterr())
    assert "tracking by MLflow has stopped" in printed
    assert SECRET not in printed
