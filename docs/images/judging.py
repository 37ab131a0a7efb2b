"""Takes the pictures of docs/guide/judging.md: the judging page over Cranfield with two made-up assessors.

    python docs/images/judging.py COLLECTION OUT     # a BEIR folder, and where the pictures go

Needs the extra `dev` and Debian's `chromium`. The page listens on loopback, and ends with the script.
"""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import threading
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright

from pooling.adjudicators.posterior_fusion import PosteriorFusion
from pooling.judging.opening import Judging, open_judging
from pooling.judging.options import Options
from pooling.judging.topics import TopicText
from pooling.pool import Pool, make_pool, with_machine
from pooling.runs import read_runs
from ranking.bm25 import Bm25, Bm25Options
from ranking.collections.beir import Beir
from ranking.collections.cache import open_collection
from ranking.collections.collection import Collection

TOPICS, DEPTH, COLOURS = 6, 20, 64
GUIDELINES = ("says nothing that the topic asks for", "answers the topic, or a part of it")


def pool_of(collection: Collection, folder: Path, topics: list[str]) -> Pool:
    """A pool of three runs: BM25's, and two that shuffle it a little."""
    rows = np.array([collection.queries["id"].to_list().index(name) for name in topics])
    lists, _ = Bm25(collection, Bm25Options()).search(rows, DEPTH)
    names, rng = collection.documents["id"].to_list(), np.random.default_rng(3)
    folder.mkdir()
    for run in range(3):
        lines = []
        for topic, documents in zip(topics, lists.documents, strict=True):
            ranked = documents[np.argsort(np.arange(DEPTH) + run * rng.normal(0, 3, DEPTH))]
            lines += [
                f"{topic} Q0 {names[number]} {rank} {-rank} system{run}\n" for rank, number in enumerate(ranked, 1)
            ]
        (folder / f"system{run}").write_text("".join(lines))
    return make_pool(read_runs(str(folder)), None, DEPTH)


def judge(judging: Judging, truth: set[tuple[str, str]]) -> None:
    """Ada and Grace judge the same topic, and err in a sixth of the documents."""
    rng, session = np.random.default_rng(4), judging.session
    for name in ("Ada", "Grace"):
        session.sign_in(name)
        session.turn(name, session.pool.topics[0].name)
    for number in range(16):
        for name in ("Ada", "Grace"):
            place = session.next(name)
            if place is None:
                continue
            topic = session.pool.topics[place[0]]
            document = topic.documents[place[1]]
            grade = int(((topic.name, document) in truth) != (rng.random() < 1 / 6))
            session.judge(name, topic.name, document, grade, f"{name}{number}")
    session.turn("Ada", session.pool.topics[2].name)  # one that nobody has judged


def keep(page: Any, file: Path) -> None:
    """A picture of what is on the screen, of few colours."""
    with Image.open(BytesIO(page.screenshot())) as picture:
        picture.convert("RGB").quantize(COLOURS).save(file, optimize=True)
    print(f"{file}: {file.stat().st_size // 1024} KB")


def photograph(address: str, judging: Judging, out: Path) -> None:
    tokens = {"owner": judging.links[0].token, "ada": judging.links[1].token}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )

        def enter(who: str, width: int, height: int) -> Any:
            page = browser.new_context(viewport={"width": width, "height": height}).new_page()
            page.goto(f"{address}/?token={tokens[who]}")
            page.wait_for_selector("#sign-in:not([hidden])")
            page.fill("#name", who.title())
            page.keyboard.press("Enter")
            page.wait_for_selector("#main[aria-busy=false]")
            return page

        page = enter("ada", 1200, 760)
        page.wait_for_selector("#document")
        keep(page, out / "judging.png")
        page.keyboard.press("?")
        page.wait_for_selector("dialog[open]")
        keep(page, out / "judging-help.png")
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        page.keyboard.type("supersonic flow past a cone")
        page.keyboard.press("Enter")
        page.wait_for_selector("#found-items li")
        keep(page, out / "judging-search.png")
        page.locator("#search").get_by_role("button", name="Close").click()
        page.keyboard.press("l")
        page.wait_for_selector("dialog[open] li, dialog[open] tr")
        keep(page, out / "judging-list.png")
        keep(enter("ada", 390, 760), out / "judging-phone.png")
        page = enter("owner", 1000, 1000)
        page.click("#assessor")
        page.click("#overview-button")
        page.wait_for_selector("#overview[open]")
        keep(page, out / "judging-overview.png")
        browser.close()


def main(path: Path, out: Path) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        collection = open_collection(Beir(str(path)), folder / "collections")
        relevant = collection.judgements.filter(pl.col("grade") > 0)
        topics = relevant["query"].value_counts(sort=True)["query"].head(TOPICS).sort().to_list()
        truth = set(relevant.select("query", "document").iter_rows())
        pool, rng = pool_of(collection, folder / "runs", topics), np.random.default_rng(6)
        graded = [
            (topic.name, name, int(((topic.name, name) in truth) != (rng.random() < 0.25)))
            for topic in pool.topics
            for name in topic.documents
        ]
        pool = with_machine(pool, pl.DataFrame(graded, ["query", "document", "grade"], orient="row"))
        texts = dict(collection.queries.select("id", "text").iter_rows())
        documents = collection.documents.select("id", "text")
        judging = open_judging(
            folder / "judged", pool, PosteriorFusion(), documents, {name: TopicText(texts[name]) for name in topics},
            Options(double=1.0, guidelines=GUIDELINES), of={"pool": "pictures"},
            collection=lambda: [documents], title="Cranfield",
        )  # fmt: skip
        stack.callback(judging.store.close)
        judge(judging, truth)
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(judging.app, log_level="warning", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        stack.callback(thread.join)
        stack.callback(setattr, server, "should_exit", True)
        photograph(f"http://127.0.0.1:{listening.getsockname()[1]}", judging, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
