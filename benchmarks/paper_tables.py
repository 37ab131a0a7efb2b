"""Prints the tables of docs/experiments from archived runs, and the pages papers.md and leaderboard.md.

`--archive NAME OUT` copies what the tables need of a study into docs/experiments/data; `--check` writes nothing and
fails if a page is not as printed. An archive's table is in a page between `<!-- table NAME MEASURE… -->` and
`<!-- end -->`; without a measure it is of the study's first. `<!-- contrasts NAME MARGIN: A − B; C − D -->` prints
differences of two methods, with tests of equivalence within the margin; `<!-- places METHOD: NAME… -->` compares one
method with all others over several places. More markers are in `benchmarks/seed_tables.py` and, of pooling studies, in
`benchmarks/pool_tables.py`.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from benchmarks import archives, pool_tables, seed_tables
from benchmarks.archives import DOCS, Archive, Tests, archive, interval, number, signed, table, write
from benchmarks.place_tables import over_places, places
from benchmarks.pool_tables import PoolArchive, archive_pools
from pyrite.analysis.statistics.comparison import LEAST_SEEDS

SMALLEST = ["--check"]
HALF_WIDTHS = (1.96 + 0.84) / 1.96
"""The least difference that a test shows with 80% power, in half widths of the 95% interval."""
WIDTH = 120
BASELINE = "one of BM25's and the batch"
"""The baseline of the leaderboard."""
KINDS_OF_RANKERS = {
    "Whole encoders": ("encoders_",),
    "Static word vectors, and two layers of an encoder": ("negatives_", "bi_encoder_"),
}
"""The sections of the leaderboard, and how the names of their archives begin."""
OF_SEEDS, OF_POOLS = ("figures", "partial", "profits"), ("pools", "found", "estimates", "ranking", "reuse")
KINDS = "|".join(("table", "contrasts", "places", *OF_SEEDS, *OF_POOLS))
BLOCK = re.compile(rf"(<!-- ({KINDS}) ([^\n]+) -->\n).*?(<!-- end -->)", re.DOTALL)
GENERATED = "<!-- Printed by `make paper-tables`: edit benchmarks/paper_tables.py or data/papers.yaml instead. -->\n"


def comparison(archive: Archive, measures: Sequence[str] = ()) -> str:
    """All methods of an archive: means, differences from the baseline, queries won and lost, cost."""
    measures = list(measures) or [archive.measure]
    origins, tests = archive.origins, archive.tests(measures)
    costs = {"documents": "documents_read"} if "documents_read" in archive.trials.columns else {}
    costs |= {"time": "seconds"} if archive.about["timed"] else {}
    baselines = {archive.baseline(method) for method in archive.methods(origins[0])}
    rows = []
    for measure in measures:
        for method in archive.methods(origins[0], measure):
            row = [measure] * (len(measures) > 1) + [f"**{method}**" if method in baselines else method]
            for origin in origins:
                runs = archive.methods(origin, measure)[method]
                spread = f" ± {number(float(runs.values.std(ddof=1)))}" if len(runs.values) > 1 else ""
                row.append(number(runs.mean) + spread)
                test, p = tests.get((method, origin, measure), (None, 1.0))
                if test is None:
                    row += ["", ""]
                    continue
                cells = archive.cells(method, archive.baseline(method), origin, measure)
                of_query, mark = cells.mean(0), " *" if p < 0.05 and len(cells) >= LEAST_SEEDS else ""
                row.append(f"{signed(test.mean)} ({interval(test.low, test.high)}){mark}")
                row.append(f"{(of_query > 1e-9).sum()}/{(of_query < -1e-9).sum()}")
            against = archive.baseline(method)
            rows.append(row + [f"{_ratio(archive, column, method, against)}×" for column in costs.values()])
    head = ["measure"] * (len(measures) > 1) + ["method"]
    for origin in origins:
        title = origin if len(measures) > 1 else f"{archive.measure}, {origin}"
        head += [title, "difference (95%)", "queries won/lost"]
    note = _note(archive, measures, tests)
    if costs:
        note += f" {' and '.join(costs).capitalize()}: the median of a run's, in times of the baseline's."
    if archive.about.get("measured"):
        note += f" Measured on {archive.about['measured']}."
    command = f"\n```\n{archive.about['command']}\n```\n"
    return "\n" + table([*head, *costs], rows) + "\n" + textwrap.fill(note, WIDTH) + "\n" + command + "\n"


def _note(archive: Archive, measures: Sequence[str], tests: Tests) -> str:
    """Describe the runs and the columns of `comparison`."""
    seeds, agents = archive.trials["seed"].n_unique(), archive.measured["agent"].n_unique()
    several = f" and {agents - ('-' in archive.measured['agent'])} agents" if agents > 1 else ""
    least = {
        origin: max((test.high - test.mean) * HALF_WIDTHS for (_, over, of), (test, _) in tests.items()
                    if over == origin and of == measures[0])
        for origin in archive.origins
    }  # fmt: skip
    against = archive.against or archive.about["baseline"]
    seen = " and ".join(f"{number(value, 3)} over {origin}" for origin, value in least.items())
    return (
        f"{archive.place}, {seeds} seeds{several}; means ± deviation over runs. Differences are from **{against}**"
        f"{', with the same factors' * archive.has_factors}, with the 95% interval for other seeds and other queries; "
        "* p < .05 by Holm's method over all differences of the table. With a "
        f"probability of 80% these runs show a difference of {seen} ({measures[0]}, the least certain row)."
    )


def contrasts(archive: Archive, margin: float, pairs: Sequence[tuple[str, ...]]) -> str:
    """The differences of pairs of methods, by the leading measure, and whether they are within the margin."""
    rows = []
    for first, second in pairs:
        for origin in archive.origins:
            test = archive.difference(first, second, origin)
            if not test.is_known:
                raise ValueError(f"{archive.name}: {first} and {second} can't be compared")
            least = number((test.high - test.mean) * HALF_WIDTHS, 3)
            difference = f"{signed(test.mean)} ({interval(test.low, test.high)})"
            rows.append([f"{first} less {second}", origin, difference, least, number(test.p_equal(margin), 3)])
    head = ["", "over", f"{archive.measure} (95%)", "least difference seen", f"p, equal within {number(margin, 3)}"]
    return "\n" + table(head, rows) + "\n"


def _ratio(archive: Archive, column: str, method: str, against: str) -> str:
    return f"{archive.median(method, column) / archive.median(against, column):.1f}"


def leaderboard(boards: Sequence[Archive]) -> str:
    """The page on all ways of choosing negatives: of each kind of ranker over all places, then place by place."""
    about = (
        "Ways of choosing negatives, each against one of BM25's documents and the positives of the batch. A place is a "
        "collection and a ranker, and the cost of a way the documents that its runs read. Every table is printed from "
        "archived runs (`make paper-tables`)."
    )
    text = f"{GENERATED}# Leaderboard of negatives\n\n{textwrap.fill(about, WIDTH)}\n"
    for kind, prefixes in KINDS_OF_RANKERS.items():
        of_kind = [archive for archive in boards if archive.name.startswith(prefixes)]
        text += f"\n## {kind}\n" * bool(of_kind)
        if len({archive.place for archive in of_kind}) > 1:
            text += over_places(of_kind)
        text += "".join(
            f"\n### {archive.place}, {archive.trials['seed'].n_unique()} seeds\n{comparison(archive)}"
            for archive in of_kind
        )
    return text


def papers(inventory: Mapping[str, Any]) -> str:
    """The page with one row for each item of the papers."""
    counts: Counter[str] = Counter()
    sections = ""
    for paper in inventory["papers"]:
        columns = paper.get("columns", ["here"])
        rows = []
        for item in paper["items"]:
            of_columns, seeds, least, status = _result(item, columns)
            counts[status.partition(":")[0]] += 1
            command = f"`{item['command']}`" if "command" in item else ""
            said = ": ".join(filter(None, [status, item.get("why", "")]))
            rows.append([item["item"], item["paper"], *of_columns, seeds, least, said, command])
        head = ["item", "paper", *columns, "seeds", "least difference seen", "status", "command"]
        sections += f"\n## {paper['title']}\n\n" + table(head, rows)
    total = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    introduction = GENERATED + inventory["introduction"].rstrip()
    return f"{introduction}\n\n{counts.total()} items: {total}.\n{sections}\n{inventory['artifact']}"


def _result(item: Mapping[str, Any], columns: Sequence[str] = ("here",)) -> tuple[list[str], str, str, str]:
    """The figure in each column, the seeds, the least difference that could be seen, and the status of an item."""
    if "tests" not in item:
        here = _found(item["found"]) if "found" in item else item.get("here", "")
        figures = [here, *[""] * (len(columns) - 1)]
        return figures, str(item.get("seeds", "")), str(item.get("least", "")), item["status"]
    results = {column: _tested(of, item.get("status")) for column, of in item["tests"].items()}
    figures = [results[column][0] if column in results else "" for column in columns]
    _, seeds, least, statuses = ([*each] for each in zip(*results.values(), strict=True))
    decided = {status for status in statuses if status != "not tested"} or {"not tested"}
    common = decided.pop() if len(decided) == 1 else "in part"
    others = ", ".join(f"{result[3]} ({column})" for column, result in results.items() if result[3] != common)
    status = ": ".join(filter(None, [common, others]))
    return figures, "; ".join(dict.fromkeys(seeds)), "; ".join(least), status


def _found(of: Mapping[str, Any]) -> str:
    """The relevant documents that a method of a pool finds."""
    here = f"{PoolArchive(of['archive']).found(of['method'], of['budget']):.2f}"
    if "drawn" in of:
        here += f"; {PoolArchive(of['drawn']).found(of['method'], of['budget']):.2f} as R draws"
    return here


def _tested(of: Mapping[str, Any], given: str | None = None) -> tuple[str, str, str, str]:
    """The difference of two methods, their seeds, the least difference that could be seen, and the status.

    Args:
        given: the status, if not only the difference decides it.
    """
    archive = Archive(of["archive"])
    first, second, equal = of["first"], of["second"], None
    if "figure" in of:
        difference = archive.by_seed(first, second, of["figure"])
        mean, low, high, units = difference.mean, difference.low, difference.high, difference.pairs
    else:
        over = (of.get("over", archive.origins[0]), of.get("measure", ""))
        test, units = archive.difference(first, second, *over), len(archive.cells(first, second, *over))
        if not test.is_known:
            raise ValueError(f"{of['archive']}: {first} and {second} can't be compared")
        mean, low, high = test.mean, test.low, test.high
        equal = test.p_equal(of["equal_within"]) if "equal_within" in of else None
    ours = f"{signed(mean)} ({interval(low, high)})"
    least = number((high - mean) * HALF_WIDTHS, 3)
    status = "repeated" if low > 0 else "contradicted" if high < 0 else "not told apart"
    if equal is not None:  # a claim that there is no gain
        status = "repeated" if equal < 0.05 else "contradicted" if low > 0 else "not told apart"
    status = given or status if units >= LEAST_SEEDS else "not tested"
    return ours, f"{units}{' agents' * _by_agent(archive, first, second)}", least, status


def _by_agent(archive: Archive, first: str, second: str) -> bool:
    """Whether the agent is the unit of a comparison."""
    runs = archive.measured.filter(pl.col("method").is_in([first, second]))
    return runs.group_by("method").agg(pl.col("agent").n_unique())["agent"].max() != 1


def pages() -> dict[Path, str]:
    """All generated pages, and the pages with generated tables, by their path."""
    names = sorted(path.name for path in archives.DATA.iterdir() if path.is_dir())
    on_board = tuple(prefix for prefixes in KINDS_OF_RANKERS.values() for prefix in prefixes)
    boards = [Archive(name, BASELINE) for name in names if name.startswith(on_board)]
    made = {DOCS / "papers.md": papers(yaml.safe_load((archives.DATA / "papers.yaml").read_text("utf-8")))}
    if boards:
        made[DOCS / "leaderboard.md"] = leaderboard(boards)
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text("utf-8")
        if path not in made and BLOCK.search(text):
            made[path] = BLOCK.sub(lambda found: found[1] + _printed(found[2], found[3]) + found[4], text)
    return made


def _printed(kind: str, described: str) -> str:
    """The table of a marker in a page."""
    if kind == "contrasts":
        named, _, pairs = described.partition(": ")
        name, margin = named.split()
        return contrasts(Archive(name), float(margin), [tuple(pair.split(" − ")) for pair in pairs.split("; ")])
    if kind == "places":
        first, _, names = described.partition(": ")
        return places(first, [Archive(name) for name in names.split()])
    if kind in OF_SEEDS:
        return seed_tables.printed(kind, described)
    if kind in OF_POOLS:
        return pool_tables.printed(kind, described)
    name, *words = described.split()
    return comparison(Archive(name), words)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if a page is not as printed")
    parser.add_argument("--archive", nargs=2, metavar=("NAME", "OUT"), help="archive a study's folder under a name")
    parser.add_argument("--baseline", default="", help="with --archive: the method that others are compared with")
    parser.add_argument("--command", default="", help="with --archive: the command of the study")
    parser.add_argument("--processor", default="", help="with --archive: what it ran on")
    parser.add_argument(
        "--measured", default="", help="with --archive: the date, and the commit if defaults have changed"
    )
    parser.add_argument("--labels", type=Path, help="with --archive: a YAML file of labels by the names of methods")
    parser.add_argument("--data", default="", help="with --archive: the folder of collections, which is not recorded")
    parser.add_argument("--timed", action="store_true", help="with --archive: the machine was idle but for the study")
    chosen = parser.parse_args(arguments)
    if chosen.archive:
        about = {key: getattr(chosen, key) for key in ("baseline", "command", "processor", "measured", "timed")}
        name, out = chosen.archive[0], Path(chosen.archive[1])
        if (out / "budgets.parquet").exists():
            archive_pools(name, out, about)
            return
        labels = yaml.safe_load(chosen.labels.read_text("utf-8")) if chosen.labels else None
        archive(name, out, about, labels, chosen.data)
        return
    made = pages()
    changed = [path for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text]
    if not chosen.check:
        for path in changed:
            write(path, made[path])
    print(f"{len(made)} pages, {len(changed)} {'differ' if chosen.check else 'written'}")
    if chosen.check and changed:
        sys.exit("run make paper-tables: " + ", ".join(path.name for path in changed))


if __name__ == "__main__":
    main()
