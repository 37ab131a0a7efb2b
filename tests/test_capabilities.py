"""Every source file belongs to a capability that somebody asked for."""

from benchmarks.capabilities import PAGE, counted, owners, patterns, rows


def test_every_file_belongs_to_a_row_and_every_row_to_a_file():
    found = owners(PAGE.read_text("utf-8"))
    assert found.pop("") == [], "add a row to docs/reference/capabilities.md: what, asked by whom, where"
    assert [name for name, files in found.items() if not files] == []


def test_every_row_says_who_asked():
    table = list(rows(PAGE.read_text("utf-8")))
    assert len(table) > 50
    assert all(name and asked and patterns(where) for name, asked, where, _ in table)
    assert len({name for name, *_ in table}) == len(table)


def test_statements_are_counted_into_the_page():
    text = "| a | users | `pyrite/public` | 0 |\n| b | Cohen | `pyrite/*`, `cluster/limits` | 0 |\nOther text.\n"
    (one, other) = rows(counted(text))
    assert int(one[3]) > 0
    assert int(other[3].replace(",", "")) > int(one[3])
    assert counted(counted(text)) == counted(text)
    assert "pyrite/public" not in owners(text)["b"]
