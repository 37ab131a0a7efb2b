import polars as pl

from pooling.judging.documents import PooledDocuments, pooled, read_texts, write_texts
from pooling.pool import Pool


def test_texts_of_the_pool_are_gathered_and_kept(tmp_path, pool_of):
    pool: Pool = pool_of([[[0, 1], [1, 2]]], [[0, 0, 0]])
    frames = [
        pl.DataFrame({"id": ["d001", "x"], "text": ["one", "other"], "category": [None, None]}),
        pl.DataFrame({"id": ["d001", "d002"], "text": ["one again", ""], "category": [None, None]}),
    ]
    path = tmp_path / "new" / "texts.arrow"
    assert read_texts(path) is None
    texts = PooledDocuments(write_texts(path, pooled(frames, pool)))
    assert [texts.text(name) for name in ("d000", "d001", "d002", "x")] == [None, "one", "", None]
    assert texts.missing(pool) == 1
    again = read_texts(path)
    assert again.select("id", "text").rows() == [("d001", "one"), ("d001", "one again"), ("d002", "")]
    path.write_bytes(b"half")
    assert read_texts(path) is None
    assert [file.name for file in path.parent.iterdir()] == ["texts.arrow"]
