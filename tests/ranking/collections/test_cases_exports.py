"""Files as other tools export them: read as they are meant, or refused in one line. All texts are made up."""

import gzip
import json
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.candidate_files import read_candidates
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.msmarco import MsMarco
from pyrite.ranking.collections.pairs import Pairs
from pyrite.ranking.collections.trec import Trec
from pyrite.ranking.errors import BadInput
from tests.ranking.collections import animals
from tests.ranking.collections.animals import answers, write_beir, write_lines

ROWS = animals.ROWS[:8]
QUESTIONS, ANSWERS = [row["query"] for row in ROWS], [row["answer"] for row in ROWS]
EXPECTED = {row["query"]: {row["answer"]} for row in ROWS}
WHOLE = {
    "columns of pandas": {name: {str(n): row[name] for n, row in enumerate(ROWS)} for name in ("query", "answer")},
    "index of pandas": {str(n): row for n, row in enumerate(ROWS)},
    "split of pandas": {"columns": ["query", "answer"], "index": [0], "data": [list(row.values()) for row in ROWS]},
    "lists": {"query": QUESTIONS, "positive": ANSWERS},
}
LINES = {
    "texts and a label": [{"texts": [row["query"], row["answer"]], "label": 1} for row in ROWS],
    "set": [{"set": list(row.values())} for row in ROWS],
    "triplet": [{"triplet": [*row.values(), "Nobody"]} for row in ROWS],
    "MS MARCO at the hub": [
        {"query": row["query"], "passages": {"is_selected": [1, 0], "passage_text": [row["answer"], "Nobody"]}}
        for row in ROWS
    ],
    "objects turned by datasets": [
        {"query": row["query"], "positive_passages": {"docid": [str(n)], "title": [""], "text": [row["answer"]]}}
        for n, row in enumerate(ROWS)
    ],
    "labels in a text": [{**row, "answer": [row["answer"], "Nobody"], "labels": "[1, 0]"} for row in ROWS],
}  # fmt: skip
LINES |= {
    query: [{query: row["query"], answer: row["answer"], "id": str(n)} for n, row in enumerate(ROWS)]
    for query, answer in (("question1", "question2"), ("sentence_0", "sentence_1"), ("prompt", "completion"),
                          ("query", "text"))
}  # fmt: skip


@pytest.mark.parametrize("form", [*WHOLE, *LINES])
def test_forms_of_other_tools_are_read(tmp_path, read, form):
    collection = read(Pairs(write_lines(tmp_path / "rows.json", LINES.get(form) or [WHOLE[form]])))
    assert answers(collection) == EXPECTED
    assert set(collection.documents["text"]) <= {*ANSWERS, "Nobody", "An owl's"}


def test_rows_by_split_in_one_object(tmp_path, read):
    train = [*ROWS[:5], list(ROWS[5].values())]
    collection = read(Pairs(write_lines(tmp_path / "rows.json", [{"train": train, "test": ROWS[6:]}])))
    assert answers(collection) == EXPECTED
    assert (collection.queries["split"] == "test").sum() == 2


@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl"])
@pytest.mark.parametrize("indent", [None, 1])
def test_arrays_after_each_other_are_all_read(tmp_path, read, name, indent):
    (tmp_path / name).write_text("\n".join(json.dumps(rows, indent=indent) for rows in (ROWS[:5], ROWS[5:7], ROWS[7:])))
    assert answers(read(Pairs(tmp_path / name))) == EXPECTED


@pytest.mark.parametrize(
    "cell",
    [
        "['Nobody', \"An owl's\"]",
        "['Nobody', None]",
        "['Nobody',  'Nobody']",
        "[\"Nobody\", 'Nobody']",
        '["Nobody", null]',
        "[]",
        "[None]",
    ],
)
def test_lists_in_a_cell_are_read_however_they_are_written(tmp_path, read, cell):
    rows = [row | {"answer": json.dumps([row["answer"]]), "negatives": cell} for row in ROWS]
    pl.DataFrame(rows).write_csv(tmp_path / "rows.csv")
    collection = read(Pairs(tmp_path / "rows.csv"))
    assert answers(collection) == EXPECTED
    assert set(collection.documents["text"]) - {*ANSWERS} == {text for text in ("Nobody", "An owl's") if text in cell}
    said = "columns with texts that are written as lists, taken apart"
    assert collection.facts[said] == f"{2 * len(ROWS)} (such as {rows[0]['answer']})"


LIKE_LISTS = ['["anna", "bob"]', "[None, 1, 2]", "[]", '["x", "y", 5]', "['a b' 'c d']", "array(['a'])"]


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "arrow"])
def test_a_text_of_a_format_with_lists_is_a_text(tmp_path, read, ending):
    """A corpus of code or JSON has such texts."""
    rows = [
        {"query": f"{text} {number}", "positive": text, "negatives": [f"{text} or not", *LIKE_LISTS[:number]]}
        for number, text in enumerate(LIKE_LISTS)
    ]
    write = {"parquet": "write_parquet", "jsonl": "write_ndjson", "arrow": "write_ipc"}[ending]
    getattr(pl.DataFrame(rows), write)(tmp_path / f"rows.{ending}")
    collection = read(Pairs(tmp_path / f"rows.{ending}"))
    assert answers(collection) == {row["query"]: {row["positive"]} for row in rows}
    assert set(collection.documents["text"]) == {*LIKE_LISTS, *(f"{text} or not" for text in LIKE_LISTS)}
    said = "columns with texts that are written as lists, read as they are"
    assert collection.facts[said] == f"4 (such as {LIKE_LISTS[0]})"


@pytest.mark.parametrize(
    "text",
    [
        '[os.path.join("c:", f) for f in names]',
        '["item %d" % i for i in range(5)]',
        "['a' is a letter]",
        "array([1, 2]) is a NumPy array(x)",
        "array(['a', 'b'])[0]",
        "['a' " + 60 * "'b' " + "is no list]",  # a pattern with two ways to match a gap would try 2^60 of them
    ],
)
def test_a_text_that_only_begins_like_a_list_is_a_text(tmp_path, read, text):
    """Code, for example."""
    pl.DataFrame([row | {"negative": text} for row in ROWS]).write_csv(tmp_path / "rows.csv")
    assert text in set(read(Pairs(tmp_path / "rows.csv")).documents["text"])


HALF = r'{"query": "half", "positive": "\uD83D"}'


@pytest.mark.parametrize("text", ["{row}\n{half}\n", "[{row},\n{half}]", "[{row}]\n[{half}]"])
def test_half_a_character_is_named_or_skipped(tmp_path, faulty, text):
    (tmp_path / "rows.json").write_text(text.replace("{row}", json.dumps(ROWS[0])).replace("{half}", HALF))
    collection = faulty(Pairs(tmp_path / "rows.json"), "rows.json:2", "broken line", "half of a surrogate pair")
    assert answers(collection) == {ROWS[0]["query"]: {ROWS[0]["answer"]}}


PAIR = "query,answer,negatives,score\n"
REFUSED = {
    "numpy.csv": (f"{PAIR}who,owls,\"['a b' 'c d']\",1\n", r":2: .*a list as NumPy prints it, .*write lists as JSON"),
    "numpy2.csv": (f"{PAIR}who,owls,\"[np.str_('a b'), np.str_('c d')]\",1\n", r":2: .*a list as NumPy prints it"),
    "array.csv": (f"{PAIR}who,owls,\"array(['a b'], dtype=object)\",1\n", r":2: .*a list as NumPy prints it"),
    "nan.csv": (f"{PAIR}who,owls,\"['a b', nan]\",1\n", r":2: .*a list as NumPy prints it"),
    "lines.csv": (f"{PAIR}who,owls,\"['a b'\n 'c d']\",1\n", r":2: .*a list as NumPy prints it"),
    "half.csv": (f'{PAIR}who,owls,"[""\\uD83D""]",1\n', r":2: .*a list as NumPy prints it"),
    "comma.csv": ("query;answer;label\nwho;owls;0,5\n", r":2: .*'0,5' is not a number; write a point"),
    "words.csv": ("query,answer,label\nwho,owls,perhaps\n", r":2: .*write 1 for relevant and 0 for not"),
    "bare.csv": ("who is it,an owl\nwho,owls\n", r"no column of the query .*write one above: query,positive,negative"),
    "top1000.tsv": ("7\t12\twho is it\tan owl\n", r":1: cell 1 of the first row is a number, .*write a header above"),
    "labels.tsv": ("who is it\tan owl\t1\n", r":1: cell 3 of the first row is a number"),
    "names.tsv": ("query_txt\tpassage_txt\nwho is it\tan owl\n", "it has query_txt, passage_txt; name it by"),
    "ids.jsonl": ('{"query_id": "1", "positive_document_ids": ["2"]}\n', r"ids, not texts .*collection\.given=FILE"),
    "hard.jsonl": (
        '{"qid": 1, "pos": [1], "neg": {"bm25": [2, 3]}}\n',
        r"ids, not texts \(qid, pos, neg\); .*collection\.given=",
    ),
    "qidpidtriples.tsv": ("1\t10\t20\n2\t11\t21\n", ":1: every cell of the first row is a number.*collection.given"),
    "object.jsonl": ('{"query": "who", "positive": [{"url": "x"}]}\n', ":1: .*an object without a text: it has url"),
    "lists.jsonl": (
        '{"query": "a", "positive": {"text": ["c", "d"], "title": ["T"]}}\n',
        ":1: .*an object of lists that differ in length",
    ),
    "pairs.jsonl": ('{"query": ["a", "b"], "pos": ["c", "d"]}\n' * 2, ":1: .*a list of 2 texts; write one text per q"),
    "twice.csv": ("query,positive,positive\na,b,c\n", ":1: two columns are called 'positive'"),
    "nul.csv": ("q\0u\0e\0r\0y\0,\0a\0\n\0", r":1: a NUL character, .*collection\.encoding=utf-16-le"),
    "page.jsonl": ("<!DOCTYPE html><html></html>", ":1: .*HTML: was a page downloaded"),
    "pointer.parquet": ("version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS, .*git lfs pull"),
    "tokens.jsonl": ('{"query": [101, 7, 102], "positives": [[101, 8]]}\n', ":1: the query is a list of 3 numbers"),
    "tasks.json": ('[{"id": 1, "data": {"query": "who"}, "annotations": []}]', "Label Studio.*export it as JSON-MIN"),
    "corpus.jsonl": ('{"_id": "1", "title": "", "text": "an owl"}\n', ":1: holds texts by their ids.*collection=beir"),
    "german.csv": ("Frage;Antwort\nwer;Eulen\n", "collection.query=COLUMN collection.positive=COLUMN"),
    "packed.jsonl": ("\x04\x22M\x18", "packed with LZ4; unpack it"),
    "archive.jsonl": ("PK\x03\x04", "is a zip archive; unpack it"),
    "sheet.xlsx": ("PK\x03\x04", "is no table by its name; save it as CSV"),
    "array.json": ('[{"query": "a", "positive": "b"}]\n{"query": "c"}', ":2: text follows the end of the array; write"),
    "junk.json": ('[{"query": "a", "positive": "b"}],', ":1: text follows the end of the array; write"),
    "splits.json": ('{"train": [{"query": "a", "positive": "b"}, "c"], "test": []}', ":1: neither a JSON object nor"),
    "split.json": ('{"columns": ["query", "positive"], "data": [["a", "b", "c"]]}', ":1: a row of `data` has not one"),
    "torn.json": ('[{"query": "a", "positive": "b"}]\n[', ":2: the array is broken, or cut short"),
    "half.json": ("{\n" + HALF[1:], "half of a surrogate pair, .*; fix it, or write one object per line"),
    "nested.jsonl": ('{"query": ' + "[" * 3000 + "]" * 3000 + "}\n", ":1: broken line: nested too deeply"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_not_be_meant_is_refused_with_a_remedy(tmp_path, read, name):
    (tmp_path / name).write_text(REFUSED[name][0])
    with pytest.raises(BadInput, match=rf"{name}.*{REFUSED[name][1]}"):
        read(Pairs(tmp_path / name))


def test_headers_of_tsv_are_seen_by_any_of_their_names(tmp_path, read):
    rows = "".join(f"{n:03}\t{row['query']}\t{row['answer']}\n" for n, row in enumerate(ROWS))
    (tmp_path / "rows.tsv").write_text(f"qid\tquery\tpassage\n{rows}")
    assert read(Pairs(tmp_path / "rows.tsv")).queries["id"][0] == "000"


@pytest.mark.parametrize(
    ("split", "id", "ids"), [("split", "qid", "document_ids"), ("Split", "Query_ID", "Document_IDs")]
)
def test_columns_of_splits_and_ids_are_followed(tmp_path, read, split, id, ids):
    rows = [
        row | {id: f"q{n}", ids: [f"d{n}"], split: "validation" if n == 6 else "test" if n == 7 else "train"}
        for n, row in enumerate(ROWS)
    ]
    collection = read(Pairs(write_lines(tmp_path / "train.jsonl", rows)))
    assert collection.queries["split"].to_list() == ["train"] * 6 + ["dev", "test"]
    assert collection.facts["files with a column of splits"] == "8 rows name theirs"
    names = [f"{kind}{n}" for kind in "qd" for n in range(len(rows))]
    assert [*collection.queries["id"], *collection.documents["id"]] == names


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_two_columns_of_one_name_are_refused(tmp_path, read, kind):
    table = pa.table([["who digs?"], ["Moles dig"], ["Bats hang"]], ["query", "positive", "positive"])
    if kind == "parquet":
        pq.write_table(table, tmp_path / "rows.parquet")
    else:
        feather.write_feather(table, tmp_path / "rows.arrow")
    with pytest.raises(BadInput, match=rf"rows.{kind}: two columns are called 'positive'; rename one of them"):
        read(Pairs(tmp_path / f"rows.{kind}"))


@pytest.mark.parametrize("broken", ["text", {"qas": "text"}, {"context": "c", "qas": ["text"]}])
def test_a_broken_paragraph_of_squad_is_named_or_skipped(tmp_path, faulty, broken):
    questions = [{"context": row["answer"], "qas": [{"question": row["query"]}]} for row in ROWS]
    paragraphs = [*questions[:4], {"context": "none", "qas": None}, broken, *questions[4:]]
    write_lines(tmp_path / "rows.json", [{"data": [{"paragraphs": paragraphs}]}])
    assert answers(faulty(Pairs(tmp_path / "rows.json"), "rows.json:1", "broken line")) == EXPECTED


def test_a_document_id_may_be_a_number(tmp_path, read):
    pl.DataFrame([row | {"document_ids": n} for n, row in enumerate(ROWS)]).write_parquet(tmp_path / "rows.parquet")
    assert read(Pairs(tmp_path / "rows.parquet")).documents["id"].to_list() == [str(n) for n in range(len(ROWS))]


def test_files_that_are_not_read_are_counted(tmp_path, read):
    write_lines(tmp_path / "train.jsonl", ROWS)
    for name in ("README.md", "dataset_infos.json", ".gitattributes", "LICENSE"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "more.xlsx").write_text("x")
    assert read(Pairs(tmp_path)).facts["files that are not read"] == "1 (more.xlsx)"
    (tmp_path / "folder" / "pair").mkdir(parents=True)
    pl.DataFrame(ROWS).write_parquet(tmp_path / "folder" / "pair" / "train.parquet")
    with pytest.raises(BadInput, match=r"holds no table, but its folders do \(pair\); .*collection\.path=.*/pair"):
        read(Pairs(tmp_path / "folder"))


@pytest.mark.parametrize("kind", ["query", "document"])
def test_one_id_for_two_texts_is_named_or_replaced(pairs, kind):
    name = "query_id" if kind == "query" else "document_ids"
    rows = [row | {name: "7" if kind == "query" else ["7"]} for row in ROWS]
    with pytest.raises(BadInput, match=rf"rows\.jsonl:2: duplicate id: another {kind} is called '7'; .*by its text"):
        pairs(rows)
    collection = pairs(rows, strict=False)
    assert answers(collection) == EXPECTED
    assert collection.skipped == {"duplicate id": len(ROWS) - 1}


def test_several_ids_for_one_text_are_counted(pairs):
    rows = [{"query_id": n, "query": "Who", "positive": row["answer"]} for n, row in enumerate(ROWS)]
    assert pairs(rows).facts["queries with several ids for one text"].startswith("7 rows")


def test_relevant_documents_among_the_negatives_are_counted(pairs):
    collection = pairs([row | {"negatives": [row["answer"], "Nobody"]} for row in ROWS])
    assert answers(collection) == EXPECTED
    assert collection.facts["candidates given as negatives that are relevant"].startswith("8 ")


def test_composed_and_decomposed_texts_are_one(pairs):
    rows = [{"query": f"caf\u00e9 {n}", "answer": f"{text} noir"} for n, text in enumerate(("caf\u00e9", "cafe\u0301"))]
    assert pairs(rows).size == 1


@pytest.mark.parametrize("kind", [".feather", ".parquet"])
def test_tables_of_arrow_and_bytes(tmp_path, read, kind):
    rows = pl.DataFrame(ROWS).with_columns(pl.col("query").cast(pl.Binary))
    (rows.write_ipc if kind == ".feather" else rows.write_parquet)(tmp_path / f"rows{kind}")
    assert answers(read(Pairs(tmp_path / f"rows{kind}"))) == EXPECTED


# BEIR, MS MARCO and TREC

DOCUMENTS, QUERIES = animals.DOCUMENTS[:8], animals.QUERIES[:8]
QRELS = "".join(f"q{n}\td{n}\t1\n" for n in range(len(ROWS)))


@pytest.mark.parametrize("form", ["Pyserini", "Tevatron", "paragraphs", "array"])
def test_documents_under_other_names(tmp_path, read, form):
    documents: list[Any] = DOCUMENTS
    queries: list[Any] = QUERIES
    if form == "Pyserini":
        documents = [{"id": row["_id"], "contents": row["text"]} for row in DOCUMENTS]
    elif form == "Tevatron":
        documents = [{"docid": row["_id"], "title": "", "text": row["text"]} for row in DOCUMENTS]
        queries = [{"query_id": row["_id"], "query": row["text"]} for row in QUERIES]
    elif form == "paragraphs":
        documents = [row | {"text": row["text"].split()} for row in DOCUMENTS]
    folder = write_beir(tmp_path / "beir", {"test.tsv": QRELS}, documents, queries)
    if form == "array":
        (folder / "corpus.jsonl").unlink()
        (folder / "corpus.json").write_text(json.dumps(documents, indent=1))
    assert answers(read(Beir(folder))) == EXPECTED


def test_judgements_in_parts_and_twice(tmp_path, read):
    folder = write_beir(tmp_path / "beir", {"test.tsv": QRELS}, DOCUMENTS, QUERIES)
    (folder / "qrels" / "test.tsv.gz").write_bytes(gzip.compress(QRELS.encode()))
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress(b"{}"))
    (folder / "triples.train.ids.tsv").write_text("1\ta\tb\n")
    assert read(Beir(folder)).facts["files that are not read"] == (
        "3 (test.tsv.gz, corpus.jsonl.gz, triples.train.ids.tsv)"
    )
    (folder / "qrels" / "testing.tsv").write_text(QRELS)
    with pytest.raises(BadInput, match=r"two files of the split test \(test\w*\.tsv and test\w*\.tsv\); move one"):
        read(Beir(folder))
    for file in (folder / "qrels").iterdir():
        file.unlink()
    with pytest.raises(BadInput, match=r"no train\.tsv, .* in it; .*name the file by its split"):
        read(Beir(folder))
    for part in range(2):
        numbers = range(4 * part, 4 * part + 4)
        rows = {"query-id": [f"q{n}" for n in numbers], "corpus-id": [f"d{n}" for n in numbers], "score": [1] * 4}
        pl.DataFrame(rows).write_parquet(folder / "qrels" / f"test-0000{part}-of-00002.parquet")
    assert answers(read(Beir(folder))) == EXPECTED
    (folder / "qrels").rename(folder / "default")
    assert answers(read(Beir(folder))) == EXPECTED


def test_the_folder_around_a_beir_folder_names_it(tmp_path, read):
    write_beir(tmp_path / "animals", {"test.tsv": QRELS})
    with pytest.raises(BadInput, match=r"the folder holds animals; name the folder in it: collection\.path=.*/animals"):
        read(Beir(tmp_path))


@pytest.mark.parametrize(
    ("documents", "form", "reason"),
    [("00{n}", "{n}", "leading zeros"), ("{n}.0", "{n}", "a point and zeros"), ("d{n} ", "d{n}", "blanks around"),
     ("D{n}", "d{n}", "case"), ("e\u0301{n}", "\u00e9{n}", "its Unicode form")],
)  # fmt: skip
def test_ids_that_differ_in_their_form_are_named(tmp_path, read, documents, form, reason):
    rows = [row | {"_id": documents.format(n=n)} for n, row in enumerate(DOCUMENTS)]
    qrels = "".join(f"q{n}\t{form.format(n=n)}\t1\n" for n in range(1, len(ROWS)))
    with pytest.raises(BadInput, match=rf"test\.tsv:1: unknown document: .*\(but '.*', which differs in {reason}"):
        read(Beir(write_beir(tmp_path / "beir", {"test.tsv": qrels}, rows, QUERIES)))


def test_an_empty_file_of_judgements_is_counted(tmp_path, read):
    folder = write_beir(tmp_path / "beir", {"test.tsv": QRELS, "train.tsv": "query-id\tcorpus-id\tscore\n"})
    assert read(Beir(folder)).facts["files without judgements (train.tsv)"] == "1"


def test_columns_of_ms_marco_by_their_header(tmp_path, read):
    """As DPR's psgs_w100.tsv."""
    documents = "".join(f"{n}\t{text}\tAnimals\n" for n, text in enumerate(ANSWERS))
    (tmp_path / "collection.tsv").write_text(f"id\ttext\ttitle\n{documents}")
    (tmp_path / "queries.dev.tsv").write_text(
        "qid\ttype\tquery\n" + "".join(f"{n}\tx\t{text}\n" for n, text in enumerate(QUESTIONS))
    )
    (tmp_path / "qrels.dev.tsv").write_text("".join(f"{n}\t0\t{n}\t1\n" for n in range(len(ROWS))))
    assert answers(read(MsMarco(tmp_path))) == {
        asked: {f"Animals {text}"} for asked, text in zip(QUESTIONS, ANSWERS, strict=True)
    }


TREC = {
    "docs.jsonl": '{{"id": "d{n}", "contents": "{text}"}}\n',
    "docs.xml": "<doc><id>d{n}</id><text>{text}</text></doc>\n",
    "docs.newswire": '<DOC id="d{n}" type="story">\n<TEXT>{text}</TEXT>\n</DOC>\n',
    "docs.attribute": "<doc docid=d{n}><text>{text}</TEXT>\n</DOC>\n",
    "docs.docid": "<DOC><DOCID>d{n}</DOCID><TEXT>{text}</TEXT>\n</DOC>\n",
}


@pytest.mark.parametrize("name", TREC)
def test_documents_of_trec_in_other_forms(tmp_path, read, name):
    documents = "".join(TREC[name].format(n=n, text=text) for n, text in enumerate(ANSWERS))
    (tmp_path / name).write_text(f"<docs>{documents}</docs>" if name == "docs.xml" else documents)
    (tmp_path / "topics.tsv").write_text("".join(f"{n}\t{text}\r\n" for n, text in enumerate(QUESTIONS)))
    (tmp_path / "qrels.txt").write_text("".join(f"{n} 0 d{n} True\n" for n in range(len(ROWS))))
    assert answers(read(Trec(tmp_path))) == EXPECTED


def test_line_breaks_of_an_old_mac(tmp_path, read):
    folder = write_beir(tmp_path / "beir", {"test.tsv": QRELS}, DOCUMENTS, QUERIES)
    for file in ("corpus.jsonl", "qrels/test.tsv"):
        (folder / file).write_bytes((folder / file).read_bytes().replace(b"\n", b"\r"))
    assert answers(read(Beir(folder))) == EXPECTED


TEVATRON = {"query_id": "7", "query_text": "x", "positive_document_ids": ["1"], "negative_document_ids": ["2", "3"]}
NEGATIVES = {"bm25": [{"pid": 2, "ce-score": 3}], "ann": [{"pid": 3, "ce-score": 0}]}
SCORED = [("1", 9.5), ("2", 3), ("3", 0.5)]
CANDIDATES = {
    "triples.jsonl": "[7, 1, 2]\n[7, 1, 3]\n",
    "ways.jsonl": "[7, 1, 2, 3]\n",
    "scored.json": json.dumps([7, *SCORED]),
    "blanks.txt": "7 1 2\n7 1 3\n",
    "commas.csv": "7,1,2\n7,1,3\n",
    "triples.csv": "query_id,positive_id,negative_id\n7,1,2\n7,1,3\n",
    "top1000.tsv": "".join(f"7\t{document}\task\ttext\n" for document, _ in SCORED),
    "run.json": json.dumps({"7": dict(SCORED)}),
    "lists.json": '{"7": ["1", "2", "3"]}',
    "ranking.tsv": "".join(f"7\t{document}\t1\t{score}\n" for document, score in SCORED),
    "tevatron.jsonl": json.dumps(TEVATRON),
    "rows.jsonl": "".join(f'{{"qid": "7", "docid": "{document}", "score": {score}}}\n' for document, score in SCORED),
    "negatives.jsonl": json.dumps({"qid": 7, "pos": [{"pid": 1, "ce-score": 9.5}], "neg": NEGATIVES}),
}


@pytest.mark.parametrize("name", CANDIDATES)
def test_candidates_by_id(tmp_path, name):
    (tmp_path / name).write_text(CANDIDATES[name])
    rows = read_candidates(tmp_path / name, Faults())
    assert rows["query"].to_list() == ["7"] * 3
    assert rows["document"].to_list() == ["1", "2", "3"]
    scored = name in ("scored.json", "run.json", "lists.json", "ranking.tsv", "rows.jsonl", "negatives.jsonl")
    assert rows["score"].is_not_null().all() == scored
    if scored and name != "lists.json":
        assert rows["score"].to_list()[:2] == [9.5, 3.0]


def test_a_file_without_candidates_is_named(tmp_path):
    (tmp_path / "run").write_text("\n")
    with pytest.raises(BadInput, match=r"run: empty file: has no candidates"):
        read_candidates(tmp_path / "run", Faults())
    (tmp_path / "deep").write_text("[" * 3000 + "]" * 3000)
    with pytest.raises(BadInput, match=r"deep:1: nested too deeply"):
        read_candidates(tmp_path / "deep", Faults())
    pl.DataFrame({"query_id": ["7"], "positive_id": ["1"], "negative_id": ["2"]}).write_parquet(tmp_path / "t.parquet")
    assert read_candidates(tmp_path / "t.parquet", Faults())["document"].to_list() == ["1", "2"]


def test_a_score_that_is_not_a_number_is_counted(tmp_path):
    rows = [{"qid": 1, "neg": [{"pid": 2, "score": "high"}]}, {"qid": 1, "neg": [3]}]
    file = write_lines(tmp_path / "scored.jsonl", rows)
    with pytest.raises(BadInput, match=r"scored.jsonl:1: broken line: the score 'high' is not a number"):
        read_candidates(file, Faults())
    faults = Faults(strict=False)
    assert read_candidates(file, faults)["document"].to_list() == ["3"]
    assert faults.skipped == {"broken line": 1}
