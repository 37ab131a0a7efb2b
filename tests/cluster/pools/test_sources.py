import io

import pytest
from rich.console import Console

from cluster.config.compose import compose
from cluster.pools.sources import NamedPool, changed_files, file_digests, open_pools, shown_progress
from ranking.errors import BadInput


def opened(*overrides: str) -> list[NamedPool]:
    return open_pools(compose(overrides, "pool"), lambda name, done, total: None)


def test_a_pool_is_named_by_its_folder_and_known_by_its_content(small_pool, of_small_pool, tmp_path):
    (named,) = opened(*of_small_pool)
    assert named.name == "small"
    assert len(named.pool.runs) == 6
    assert sorted(set(named.pool.teams)) == ["a", "b", "c"]
    (again,) = opened(*of_small_pool)
    (other,) = opened(*of_small_pool, "depth=9")
    assert named.fingerprint == again.fingerprint != other.fingerprint
    for name in ("one", "other"):
        (tmp_path / name).write_text("text")
    first, second = file_digests([str(tmp_path / "one"), str(tmp_path / "other")]).values()
    assert first == second
    assert len(first) == 12


def test_halves_are_every_second_topic_and_the_first_so_many_are_taken(of_small_pool):
    def names(*given: str) -> list[str]:
        return [topic.name for topic in opened(*of_small_pool, *given)[0].pool.topics]

    assert names("topics=all") == ["1", "2", "3", "4"]
    assert names("topics=odd") == ["2", "4"]
    assert names("most_topics=3") == ["1", "2", "3"]
    assert names("most_topics=1", "topics=odd") == ["2"]
    assert names("most_topics=9", "topics=even") == ["1", "3"]


def test_a_file_names_several_pools(small_pool, tmp_path):
    source = f"{{runs: {small_pool / 'runs'}, qrels: {small_pool / 'qrels.txt'}"
    file = tmp_path / "pools.yaml"
    file.write_text(f"deep: {source}, depth: 12}}\nflat: {source}}}\n")
    deep, flat = opened(f"pools={file}", "depth=3")
    assert (deep.name, deep.pool.depth, flat.name, flat.pool.depth) == ("deep", 12, "flat", 3)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[1, 2]", "is not a mapping of pools"),
        ("{}", "is not a mapping of pools"),
        ("a: {runs: x, depth: deep}", "a: depth is 'deep'"),
        ("a: {run: x}", "a: there is no option run"),
        ("a: {runs: x}", "the pool a has no qrels"),
        ("a: [", "can't be read"),
    ],
)  # fmt: skip
def test_a_broken_file_of_pools_is_refused(tmp_path, content, says):
    file = tmp_path / "pools.yaml"
    file.write_text(content)
    with pytest.raises(BadInput) as refused:
        opened(f"pools={file}")
    assert says in str(refused.value)


def test_judgements_in_another_encoding_unicode_form_and_twice(small_pool, tmp_path):
    qrels = tmp_path / "qrels.txt"
    lines = (small_pool / "qrels.txt").read_text()
    qrels.write_bytes((lines + "1 0 caf\u00e9 1\n1 0 d00 1\n").encode("latin-1"))
    given = [f"runs={small_pool / 'runs'}", f"qrels={qrels}"]
    with pytest.raises(BadInput, match="utf-8"):
        opened(*given)
    (named,) = opened(*given, "encoding=latin-1")
    assert named.pool.notes["judgements given again (the highest grade counts)"] == 1
    with qrels.open("ab") as file:
        file.write(b"1 0 d01\n")
    (named,) = opened(*given, "encoding=latin-1", "strict=false")
    assert named.pool.notes["broken lines of the judgements left out"] == 1
    (tmp_path / "a.run").write_text("1 Q0 e\u0301 1 2 a\n1 Q0 d 2 1 a\n")
    (tmp_path / "qrels").write_text("1 0 \u00e9 1\n1 0 d 1\n")
    with pytest.raises(BadInput, match=r"document 'e\\u0301' of topic 1 is '\\xe9' in the judgements, another Unicode"):
        opened(f"runs={tmp_path / 'a.run'}", f"qrels={tmp_path / 'qrels'}")


def test_nothing_to_pool_is_refused(of_small_pool, small_pool, tmp_path):
    with pytest.raises(BadInput, match="there are no runs"):
        opened("runs=[]", f"qrels={small_pool / 'qrels.txt'}")
    qrels = tmp_path / "one.txt"
    qrels.write_text("1 0 d00 1\n")
    with pytest.raises(BadInput, match="none of the 1 topics is left"):
        opened(f"runs={small_pool / 'runs'}", f"qrels={qrels}", "topics=odd")
    with pytest.raises(BadInput, match="no such file"):
        opened("runs=nowhere", "qrels=nowhere.txt")


def test_reading_and_pooling_show_their_progress(of_small_pool, monkeypatch):
    console = Console(file=io.StringIO())
    monkeypatch.setattr("cluster.pools.sources.LINE_EVERY_S", 0)
    with shown_progress(console) as on_progress:
        open_pools(compose(of_small_pool, "pool"), on_progress)
    lines = console.file.getvalue().splitlines()
    assert lines[:2] == ["reading runs: 0 of 6", "reading runs: 1 of 6"]
    assert lines[6:8] == ["pooling topics: 0 of 4", "pooling topics: 1 of 4"]


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"a": "1", "b": "2"}, None),
        ({"a": "1", "b": "3"}, "b differs"),
        ({"a": "2", "b": "3"}, "a, b differ"),
        ({"a": "1"}, "b is gone"),
        ({"a": "1", "b": "2", "c": "4", "d": "4", "e": "4", "f": "4", "g": "4"}, "c, d, e and 2 more are new"),
        ({"a": "0", "c": "4"}, "a differs, b is gone, c is new"),
    ],
)
def test_files_that_have_changed_are_named(now, said):
    assert changed_files({"a": "1", "b": "2"}, now) == said
