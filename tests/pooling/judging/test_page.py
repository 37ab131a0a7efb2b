"""The judging page in a real browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pyrite.pooling.adjudicators.bandit.bandit import Bandit
from pyrite.pooling.adjudicators.max_mean import MaxMean
from pyrite.pooling.judging import store
from pyrite.pooling.judging.export import qrels
from pyrite.pooling.judging.opening import Judging, open_judging
from pyrite.pooling.judging.options import Options
from pyrite.pooling.judging.topics import TopicText
from pyrite.pooling.pool import Pool, make_pool, with_machine
from tests.pooling.made_up import qrels_of, runs_of

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if CHROMIUM is None:
    pytest.skip("needs chromium, chromium-browser or google-chrome in PATH", allow_module_level=True)
EVIL = (
    "Moles & tunnels <script>document.title = 'broken'; window.broken = 1</script>"
    "<img src=x onerror='window.broken = 1'><svg onload='window.broken = 1'></svg><b>bold</b> &lt;i&gt;\n\nTunnelling."
)
TOPICS = {
    "1": TopicText("tunnels of <i>moles</i>", "Who digs <img src=x onerror='window.broken = 1'>?", "Any mole."),
    "2": TopicText("bats"),
}


def documents() -> pl.DataFrame:
    names = [f"{topic}-{document}" for topic in (1, 2) for document in range(20)]
    subjects = [f"subject {name}" for name in names]
    return pl.DataFrame({"id": names, "text": [f"{EVIL} {name}" for name in names], "category": subjects})


@pytest.fixture(scope="module")
def pool() -> Pool:
    """Four runs of twelve of twenty documents, in two topics."""
    rng = np.random.default_rng(7)
    lists = [{topic: [f"{topic}-{n}" for n in rng.permutation(20)[:12]] for topic in "12"} for _ in range(4)]
    return make_pool(runs_of({f"sys{run}": of_topics for run, of_topics in enumerate(lists)}), None, 12)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@dataclass
class Assessor:
    """Someone before a page: a browser context of their own."""

    page: Any
    faults: list[str]

    @property
    def document(self) -> str | None:
        return self.page.text_content("#document-name") if self.page.is_visible("#document") else None

    def text(self, selector: str) -> str:
        return str(self.page.text_content(selector))

    def ready(self) -> Assessor:
        self.page.wait_for_selector("#main[aria-busy=false]")
        return self

    def press(self, key: str) -> Assessor:
        """Press a key that brings another document, and wait for it."""
        before = self.text("#announcement")
        self.page.keyboard.press(key)
        self.page.wait_for_function(
            "before => document.querySelector('#announcement').textContent !== before", arg=before
        )
        return self.ready()

    def wait_for(self, selector: str, text: str) -> Assessor:
        """Wait until an element holds this text and no other."""
        wanted = "([selector, text]) => document.querySelector(selector).textContent === text"
        self.page.wait_for_function(wanted, arg=[selector, text])
        return self.ready()

    def choose(self, button: str, wait_for: str) -> None:
        """Press a button of the menu."""
        self.page.click("#assessor")
        self.page.click(button)
        self.page.wait_for_selector(wait_for)

    def leave(self) -> None:
        self.choose("#leave", "#sign-in:not([hidden])")


Enter = Callable[..., Assessor]


@pytest.fixture
def enter(browser) -> Iterator[Enter]:
    contexts = []

    def go_in(link: str, name: str, width: int = 1280) -> Assessor:
        context = browser.new_context(viewport={"width": width, "height": 800})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        assessor = Assessor(page, [])
        page.on("pageerror", lambda error: assessor.faults.append(str(error)))
        page.goto(link)
        page.wait_for_selector("#sign-in:not([hidden])")
        page.fill("#name", name)
        page.keyboard.press("Enter")
        return assessor.ready()

    yield go_in
    for context in contexts:
        context.close()


@dataclass
class Served:
    judging: Judging
    address: str

    @property
    def owner(self) -> str:
        return f"{self.address}/?token={self.judging.links[0].token}"

    @property
    def link(self) -> str:
        """The one for assessors, or for the first of them."""
        return f"{self.address}/?token={self.judging.links[1].token}"

    def qrels(self, folder: Path) -> list[str]:
        return qrels(store.read(folder), "highest").splitlines()


@pytest.fixture
def served(pool, tmp_path, listen) -> Iterator[Callable[..., Served]]:
    stores = []

    def serve(
        options: Options | None = None, gold: pl.DataFrame | None = None, pool: Pool = pool,
        texts: pl.DataFrame | None = None,
    ) -> Served:  # fmt: skip
        elsewhere = pl.DataFrame({"id": ["far-1", "far-2"], "text": ["A mole digs afar", "Nothing of the kind"]})
        texts = documents() if texts is None else texts
        judging = open_judging(
            tmp_path, pool, Bandit(MaxMean()), texts, TOPICS, options, of={"pool": "browsed"}, gold=gold,
            collection=lambda: [documents().select("id", "text"), elsewhere],
        )  # fmt: skip
        stores.append(judging.store)
        return Served(judging, f"http://127.0.0.1:{listen(judging.app)}")

    yield serve
    for each in stores:
        each.close()


def test_judge_undo_skip_and_export(served, enter, tmp_path):
    room = served(Options(grades=(0, 1, 2), names=("no", "partly", "fully"), budget=12))
    ada = enter(room.link, "Ada")
    assert "token" not in ada.page.url
    documents = [ada.document]
    for grade in "021":
        documents.append(ada.press(grade).document)
    assert len(set(documents)) == 4
    assert (ada.text("#judged"), ada.text("#limit"), ada.text("#found")) == ("3", "12", "2")
    assert ada.text("#announcement").startswith("Saved: partly. Topic 1, document ")
    assert "2 relevant in 3 judged" in ada.text("#curve-label")
    assert ada.page.get_attribute("#curve .steps", "d").count("H") == 3
    ada.page.context.set_offline(True)
    ada.page.keyboard.press("0")  # nobody hears it
    ada.page.wait_for_selector("#problem:has-text('Not saved yet')")
    assert ada.document == documents[3]
    ada.page.context.set_offline(False)
    ada.page.wait_for_selector("#problem", state="hidden")  # the page asked again by itself
    assert ada.ready().document not in documents
    assert ada.press("u").document == documents[3]
    assert ada.press("u").document == documents[2]
    assert ada.press("u").document == documents[1]
    assert ada.text("#judged") == "1"
    assert ada.press("0").document != documents[1]
    skipped = ada.document
    assert ada.press("s").document != skipped
    ada.page.keyboard.press("9")  # no such grade
    ada.page.click("#grades button:nth-child(3)")
    ada.wait_for("#judged", "3")
    grades = sorted(line.split()[3] for line in room.qrels(tmp_path))
    assert grades == ["0", "0", "2"]
    owner = enter(room.owner, "Olga")
    owner.choose("#overview-button", "#overview[open]")
    assert owner.page.locator("#overview-assessors tr").first.text_content().startswith("Ada3")
    with owner.page.expect_download() as download:
        owner.page.click("text=Download qrels")
    assert Path(download.value.path()).read_text().splitlines() == room.qrels(tmp_path)
    assert not ada.faults + owner.faults


def test_texts_stay_texts(served, enter):
    ada = enter(served().link, "<b>Ada</b><img src=x onerror='window.broken=1'>"[:40])
    assert ada.page.text_content("#text") == f"{EVIL} {ada.document}"
    assert ada.page.locator("#text mark").all_text_contents() == ["Moles", "tunnels", "Tunnelling"]
    assert ada.text("#topic-title") == "tunnels of <i>moles</i>"
    assert ada.text("#description") == TOPICS["1"].description
    assert ada.page.evaluate("() => window.broken") is None
    assert ada.page.locator("#work img, #work script, #work b:not(#judged), #work i, #text > :not(mark)").count() == 0
    assert ada.page.title() == "1 · Relevance judgements"
    # And were markup to get in somewhere, the browser would not run it.
    ada.page.evaluate(
        "() => document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.broken = 1\">')"
    )
    ada.press("1")
    assert ada.page.evaluate("() => window.broken") is None


@pytest.mark.nightly
def test_the_overview_compares_people_with_a_machine(pool, served, enter):
    # The machine finds the odd documents of topic 1 relevant, and so do people, but for the first that they judge.
    odd = {name: int(name.split("-")[1]) % 2 for name in pool.topics[0].documents}
    grades = qrels_of(*(("1", name, grade) for name, grade in odd.items()))
    room = served(Options(budget=6), pool=with_machine(pool, grades))
    ada, pairs = enter(room.link, "Ada"), []
    for number in range(6):
        machine = odd[str(ada.document)]
        pairs.append((1 - machine if number == 0 else machine, machine))
        ada.press(str(pairs[-1][0]))
    owner = enter(room.owner, "Olga")
    owner.choose("#overview-button", "#pairs li >> nth=1")
    people, read = (sum(pair[which] for pair in pairs) / 6 for which in (0, 1))
    chance = people * read + (1 - people) * (1 - read)
    kappa = (5 / 6 - chance) / (1 - chance)
    assert f"People and the machine: κ {kappa:.2f}; 5 of 6 equal, among those judged" in owner.text("#pairs")
    assert "machine" not in ada.text("#work")


@pytest.mark.nightly
def test_correcting_in_the_list(served, enter, tmp_path):
    room = served()
    ada = enter(room.link, "Ada")
    first = ada.document
    for grade in "010":
        ada.press(grade)
    shown = ada.document
    ada.page.keyboard.press("l")
    ada.page.wait_for_selector("#judged-items li")
    items = ada.page.locator("#judged-items li")
    assert items.count() == 3
    item = items.nth(2)  # the latest comes first
    assert first in item.locator(".label").text_content()
    ada.page.keyboard.press("1")  # in the list, no judgement
    item.locator("select").select_option("1")
    item.locator("input").fill("on second thoughts")
    item.locator("button").click()
    item.locator("span:has-text('Saved.')").wait_for()
    item.locator("summary").click()
    item.locator("mark").first.wait_for()
    assert item.locator(".whole").text_content() == f"{EVIL} {first}"
    assert f"1 0 {first} 1" in room.qrels(tmp_path)
    ada.page.keyboard.press("Escape")
    assert (ada.document, ada.text("#found"), ada.text("#judged")) == (shown, "2", "3")
    ada.page.keyboard.press("l")
    ada.page.wait_for_selector("#judged-items li")
    assert ada.page.locator("#judged-items li").nth(2).locator("input").input_value() == "on second thoughts"
    assert not ada.faults


@pytest.mark.nightly
def test_notes_and_documents_that_cannot_be_judged(served, enter, tmp_path):
    room = served()
    ada = enter(room.link, "Ada")
    noted = ada.document
    ada.page.keyboard.press("c")
    assert ada.page.get_attribute("#note-button", "aria-expanded") == "true"
    ada.page.keyboard.type("1 mole, nuts")  # letters and digits here are text
    ada.page.keyboard.press("Escape")
    left = ada.press("1").document
    assert not ada.page.is_visible("#note")
    ada.press("x")
    assert ada.text("#announcement").startswith("Saved: can’t judge.")
    assert ada.text("#judged") == "1"
    rows = store.read(tmp_path).judgements.select("document", "grade", "note").rows()
    assert rows == [(noted, 1, "1 mole, nuts"), (left, None, None)]
    assert ada.press("u").document == left


def mark(assessor: Assessor, start: int, end: int) -> str:
    """Mark characters of the text's first piece, and return them."""
    return str(assessor.page.evaluate(
        "([start, end]) => { const node = document.getElementById('text').firstChild.firstChild"
        " || document.getElementById('text').firstChild; const range = document.createRange();"
        " range.setStart(node, start); range.setEnd(node, end); const marked = getSelection();"
        " marked.removeAllRanges(); marked.addRange(range); return marked.toString(); }", [start, end],
    ))  # fmt: skip


@pytest.mark.nightly
def test_a_marked_passage_is_saved_with_the_grade(served, enter, tmp_path):
    room = served(Options(rationale=True))
    ada = enter(room.link, "Ada")
    assert not ada.page.is_visible("#passage")
    passage = mark(ada, 0, 4)
    ada.page.wait_for_selector("#passage:not([hidden])")
    assert ada.text("#passage") == passage.strip() != ""
    judged = ada.document
    ada.page.click("#grades button.primary")  # the mark goes, and the passage stays
    ada.page.wait_for_function("before => document.querySelector('#document-name').textContent !== before", arg=judged)
    ada.ready()
    assert not ada.page.is_visible("#passage")  # the next document has none
    mark(ada, 0, 4)
    ada.page.wait_for_selector("#passage:not([hidden])")
    ada.page.click("#passage-clear")
    ada.press("0")
    ada.choose("#judged-button", "#judged-items li:nth-child(2)")
    assert ada.text("#judged-items q") == passage.strip()
    made = store.read(tmp_path).judgements
    assert made.select("grade", "rationale").rows() == [(1, passage.strip()), (0, None)]
    ada.page.keyboard.press("Escape")
    assert not ada.faults


@pytest.mark.nightly
def test_without_the_option_no_passage_is_asked_for(served, enter):
    ada = enter(served().link, "Ada")
    mark(ada, 0, 4)
    assert not ada.page.is_visible("#passage-box")


@pytest.mark.nightly
@pytest.mark.parametrize("width", [360, 1280])
def test_eight_views_have_no_fault_that_axe_finds(served, enter, browser, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python").Axe()
    room = served(Options(rationale=True, guidelines=["not about it", "about it"], budget=3))
    found: dict[str, list[str]] = {}

    def look(view: str, page: Any) -> None:
        found[view] = [f"{each['id']}: {each['nodes'][0]['html']}" for each in axe.run(page).response["violations"]]

    context = browser.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    page.goto(room.owner)
    page.wait_for_selector("#sign-in:not([hidden])")
    look("sign in", page)
    context.close()
    ada = enter(room.owner, "Ada", width)
    mark(ada, 0, 4)
    look("a document", ada.page)
    ada.page.keyboard.press("c")
    look("a note", ada.page)
    ada.page.keyboard.press("Escape")
    for view, button, shown in (
        ("keys", "#help-button", "#help[open]"), ("search", "#search-button", "#search[open]"),
        ("overview", "#overview-button", "#overview[open]"),
    ):  # fmt: skip
        ada.choose(button, shown)
        if view == "search":
            ada.page.fill("#query", "mole")
            ada.page.keyboard.press("Enter")
            ada.page.wait_for_selector("#found-items li")
        look(view, ada.page)
        ada.page.evaluate("document.querySelector('dialog[open]').close()")
    for _ in range(3):
        ada.press("1")
    ada.choose("#judged-button", "#judged-items li")
    look("judged", ada.page)
    ada.page.evaluate("document.querySelector('dialog[open]').close()")
    look("nothing left", ada.page)
    assert len(found) == 8
    assert not {view: faults for view, faults in found.items() if faults}


def keydown(assessor: Assessor, key: str, code: str, shift: bool = False) -> None:
    assessor.page.evaluate(
        "([key, code, shiftKey]) => document.activeElement.dispatchEvent("
        "new KeyboardEvent('keydown', {key, code, shiftKey, bubbles: true}))",
        [key, code, shift],
    )


@pytest.mark.nightly
def test_digits_and_letters_of_any_keyboard(served, enter):
    ada, judged = enter(served().link, "Ada"), 0
    for key, code, shift, judges in (
        ("&", "Digit1", False, True),  # French: the digit itself is typed with shift
        ("1", "Digit1", True, True),
        ("\u0661", "Digit1", False, True),  # Arabic
        ("1", "Numpad1", False, True),
        ("End", "Numpad1", False, False),  # without NumLock it scrolls
        ("!", "Digit1", True, False),  # shifted on an English keyboard
        ("é", "Digit2", False, False),  # no such grade
    ):
        judged += judges
        keydown(ada, key, code, shift)
        if judges:
            ada.wait_for("#judged", str(judged))
        else:
            ada.ready().page.wait_for_timeout(300)
            assert ada.text("#judged") == str(judged), key
        assert not ada.faults
    keydown(ada, "г", "KeyU")  # Russian, which has no such letter
    ada.wait_for("#judged", str(judged - 1))


@pytest.mark.nightly
def test_keys_can_be_turned_off(served, enter):
    ada = enter(served().link, "Ada")
    assert ada.page.get_attribute("#undo", "aria-keyshortcuts") == "u"
    ada.page.keyboard.press("?")
    ada.page.uncheck("#keys-on")
    ada.page.keyboard.press("Escape")
    ada.page.keyboard.press("1")
    ada.page.wait_for_timeout(300)
    assert ada.text("#judged") == "0"
    ada.page.reload()  # and stay so
    ada.ready().page.keyboard.press("1")
    ada.page.wait_for_timeout(300)
    assert ada.text("#judged") == "0"
    assert ada.page.locator("[aria-keyshortcuts]").count() == 0
    assert not ada.page.locator("#grades kbd").first.is_visible()
    ada.page.click("#grades button:nth-child(2)")
    ada.wait_for("#judged", "1")


@pytest.mark.nightly
def test_the_page_says_when_to_stop(served, enter):
    room = served(Options(recall=0.5, confidence=0.5))
    ada = enter(room.link, "Ada")
    assert not ada.page.is_visible("#may-stop")
    for grade in "1110000":
        ada.press(grade)
    assert "You may stop: 50% of this topic" in ada.text("#may-stop")
    assert ada.page.is_visible("#may-stop")
    assert re.fullmatch(r"at least \d+%", ada.text("#recall"))
    assert ada.text("#topics option:checked").startswith("◌ 1")


@pytest.mark.nightly
def test_a_page_left_open_in_another_tab_is_told(served, enter):
    ada = enter(served().link, "Ada")
    tab = Assessor(ada.page.context.new_page(), [])
    tab.page.goto(ada.page.url)
    assert tab.ready().document == ada.document
    ada.press("1")
    tab.press("0")
    assert "no longer yours" in tab.text("#problem")
    assert tab.document == ada.document
    assert tab.text("#judged") == "1"
    assert not tab.page.evaluate("() => document.querySelector('#problem').hidden")


@pytest.mark.nightly
def test_a_tab_with_an_open_list_can_sign_in_again(served, enter):
    ada = enter(served().link, "Ada")
    ada.press("1")
    tab = Assessor(ada.page.context.new_page(), [])
    tab.page.goto(ada.page.url)
    tab.ready().page.keyboard.press("l")
    tab.page.wait_for_selector("#judged-items li")
    ada.leave()
    tab.page.fill("#judged-items input", "too late")
    tab.page.click("#judged-items button")
    tab.page.wait_for_selector("#sign-in:not([hidden])")
    tab.page.fill("#name", "Ada")
    tab.page.click("#begin")  # which an open dialog would block
    tab.page.wait_for_selector("#work:not([hidden])")
    assert tab.ready().text("#judged") == "1"


@pytest.mark.nightly
def test_a_message_is_where_the_assessor_looks(served, enter):
    room = served()
    ada = enter(room.link, "Ada")
    ada.page.keyboard.press("/")
    ada.page.keyboard.type("mole")
    ada.page.context.set_offline(True)
    ada.page.keyboard.press("Enter")
    ada.page.wait_for_selector('#search #problem:has-text("can\'t be reached")')
    ada.page.locator("#search").get_by_role("button", name="Close").click()
    ada.page.wait_for_selector('#work > #problem:has-text("can\'t be reached")')
    ada.page.context.set_offline(False)
    ada.page.wait_for_selector("#problem", state="hidden")
    ada.leave()
    ada.page.context.set_offline(True)
    ada.page.fill("#name", "Ada")
    ada.page.keyboard.press("Enter")
    ada.page.wait_for_selector('#problem:has-text("can\'t be reached")')
    assert ada.text("#begin") == "Signing in …"
    ada.page.context.set_offline(False)
    ada.page.wait_for_selector("#work:not([hidden])")
    assert not ada.page.is_visible("#problem")
    assert not ada.faults


@pytest.mark.nightly
def test_the_rest_of_a_text_does_not_follow_another_document(served, enter):
    names = documents()["id"]
    long = pl.DataFrame({"id": names, "text": [f"{name} {'word ' * 21_000}end" for name in names]})
    ada, held = enter(served(texts=long).link, "Ada"), []
    ada.page.route("**/rest", lambda route: held.append(route))
    ada.page.click("#text button")
    ada.press("1")
    with ada.page.expect_response("**/rest"):
        held[0].continue_()
    ada.page.unroute("**/rest")
    ada.page.wait_for_timeout(100)
    assert ada.text("#text").startswith(str(ada.document))
    assert ada.text("#text").count("end") == 0
    ada.page.click("#text button")
    ada.page.wait_for_function("() => document.querySelector('#text').textContent.endsWith('end')")
    assert ada.text("#text").removeprefix(f"{ada.document} ") == "word " * 21_000 + "end"


@pytest.mark.nightly
def test_the_next_topic_by_a_button_and_notes_that_stay(served, enter):
    ada = enter(served(Options(budget=1)).link, "Ada")
    ada.page.keyboard.press("c")
    ada.page.keyboard.type("nuts")
    ada.page.keyboard.press("Escape")
    ada.press("n")
    assert ada.page.input_value("#note") == ""
    ada.press("p")
    assert ada.page.input_value("#note") == "nuts"
    assert ada.page.is_visible("#note")
    ada.press("1")
    ada.press("u")
    assert ada.page.input_value("#note") == "nuts"  # to be saved again, or changed
    ada.press("1")
    assert ada.text("#nothing-title") == "Topic 1 is done"
    ada.page.click("#onward")
    ada.wait_for("#topic-name", "2").press("0")
    assert not ada.page.is_visible("#onward")
    ada.page.keyboard.press("n")
    ada.page.wait_for_selector("#problem:has-text('No other topic has documents left for you.')")
    assert not ada.faults


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("width", "height"), [(320, 256), (740, 360)])
def test_the_document_has_half_of_any_screen(served, enter, width, height):
    options = Options(grades=range(8), names=[f"a long name of grade {grade}" for grade in range(8)])
    ada = enter(served(options).link, "Ada", width=width)
    ada.page.set_viewport_size({"width": width, "height": height})
    assert ada.page.evaluate("() => document.querySelector('footer').getBoundingClientRect().top") >= height / 2 - 1
    ada.page.evaluate("() => window.scrollTo(0, 200)")
    assert ada.page.evaluate("() => document.querySelector('header').getBoundingClientRect().bottom") <= 0
    assert ada.page.evaluate("() => document.documentElement.scrollWidth") <= width


@pytest.mark.nightly
def test_narrow_screens_keys_and_focus(served, enter):
    ada = enter(served().link, "Ada", width=360)
    assert ada.page.evaluate("() => document.documentElement.scrollWidth") <= 360
    assert ada.page.evaluate("() => document.activeElement.id") == "document"
    ada.page.keyboard.press("?")
    assert ada.page.is_visible("#help")
    before = ada.document
    ada.page.keyboard.press("1")  # in the dialog, no judgement
    ada.page.keyboard.press("Escape")
    assert (ada.document, ada.text("#judged")) == (before, "0")
    ada.press("n")
    assert ada.text("#topic-name") == "2"
    assert ada.page.input_value("#topics") == "=2"
    ada.page.evaluate("() => window.scrollTo(0, 0)")
    ada.leave()
    assert not ada.faults


def test_by_keyboard_alone(served, enter):
    ada = enter(served().link, "Ada", width=390)
    ada.page.evaluate("() => document.activeElement.blur()")
    reached = []
    for _ in range(20):
        ada.page.keyboard.press("Tab")
        reached.append(
            ada.page.evaluate("() => document.activeElement.id || document.activeElement.textContent.trim()")
        )
    assert "To the document" in reached
    grades = {"not relevant 0", "relevant 1"}
    assert {"topics", "previous", "following", "assessor", "note-button", "cannot", "skip", *grades} <= set(reached)
    ada.page.focus("#grades button:nth-child(2)")
    before = ada.document
    ada.page.keyboard.press("Enter")  # not a single key: it works where those are off
    assert ada.wait_for("#judged", "1").document != before
    assert ada.page.evaluate("() => document.activeElement.id") == "document"  # which a screen reader then reads
    ada.page.focus("#assessor")
    ada.page.keyboard.press("Enter")
    ada.page.keyboard.press("Tab")
    ada.page.keyboard.press("Enter")
    ada.page.wait_for_selector("#judged-items li")
    assert ada.page.evaluate("() => document.activeElement.id") == "judged-topic"
    for _ in range(2):
        ada.page.keyboard.press("Tab")
    assert ada.page.evaluate("() => document.activeElement.getAttribute('aria-label')") == f"Note to {before}"
    ada.page.keyboard.type("12")
    ada.page.keyboard.press("Tab")
    ada.page.keyboard.press("Enter")
    ada.page.wait_for_selector("#judged-items span:has-text('Saved.')")
    ada.page.keyboard.press("Escape")
    assert ada.page.evaluate("() => document.documentElement.scrollWidth") <= 390
    assert not ada.faults


def test_a_screen_reader_is_told_what_everything_is(served, enter):
    ada = enter(served().link, "Ada")
    tree = ada.page.locator("#work").aria_snapshot()
    for part in (
        'combobox "Topic"', 'button "‹ previous topic"', 'complementary "Topic and progress"', 'region "Progress"',
        'main', f'article "{ada.document}"', 'group "Grades"', 'button "not relevant 0"', 'button "Can’t judge x"',
        'button "Note c"', 'button "Skip s"', "progressbar", 'img "Nothing judged yet"',
    ):  # fmt: skip
        assert part in tree, (part, tree)
    unnamed = ada.page.evaluate(
        "() => [...document.querySelectorAll('button, a, input, select, textarea')].filter((each) => "
        "!(each.textContent.trim() || each.getAttribute('aria-label') || (each.labels && each.labels.length)))"
        ".map((each) => each.outerHTML)"
    )
    assert unnamed == []
    assert ada.page.get_attribute("#announcement", "aria-live") == "polite"


@pytest.mark.nightly
def test_search_gold_and_guidelines_by_keyboard_alone_and_on_a_phone(served, enter, tmp_path):
    gold = qrels_of(("1", "1-7", 1))
    meaning = ("says nothing of moles", "digs them up")
    room = served(Options(burn_in=1, guidelines=meaning), gold)
    ada = enter(room.link, "Ada", width=390)
    assert ada.document == "1-7"
    assert ada.text("#fields") == "categorysubject 1-7"
    ada.press("0")
    assert ada.text("#tried") == "To begin with: 1-7 is relevant; you judged it not relevant."
    ada.press("1")
    assert not ada.page.is_visible("#tried")
    ada.page.keyboard.press("?")
    assert meaning[1] in ada.text("#guideline-list")
    ada.page.keyboard.press("Escape")
    ada.page.keyboard.press("/")
    ada.page.keyboard.type("mole afar")
    ada.page.keyboard.press("Enter")
    ada.page.wait_for_selector("#found-items li")
    tree = ada.page.locator("#search").aria_snapshot()
    assert 'dialog "Search the collection"' in tree
    assert 'searchbox "Words to search for"' in tree
    assert 'button "Judge this too: far-1"' in tree
    assert ada.page.evaluate("() => document.documentElement.scrollWidth") <= 390
    ada.page.keyboard.press("Tab")  # the button beside the field
    ada.page.keyboard.press("Tab")
    ada.page.keyboard.press("Enter")
    ada.page.wait_for_selector("#search:not([open])", state="attached")
    ada.ready()
    assert ada.document == "far-1"
    assert ada.text("#text") == "A mole digs afar"
    ada.press("1")
    assert "1 0 far-1 1" in room.qrels(tmp_path)
    assert not any(" 1-7 " in line for line in room.qrels(tmp_path))
    assert not ada.faults


@pytest.mark.nightly
def test_the_owner_resolves_a_disagreement_on_the_page(served, enter, tmp_path):
    room = served(Options(double=1.0, judges=3, budget=1))
    people = [enter(room.link, name) for name in ("Ada", "Grace", "Joan")]
    for assessor, grade in zip(people, "011", strict=True):
        assessor.page.select_option("#topics", "=1")
        assessor.wait_for("#topic-name", "1").press(grade)
    owner = enter(room.owner, "Olga")
    owner.choose("#overview-button", "#overview[open]")
    assert "α" in owner.text("#alpha")
    assert "Ada: 0, Grace: 1, Joan: 1" in owner.text("#disputed")
    assert "Ada and Grace: κ 0.00; 0 of 1 equal" in owner.text("#pairs")
    owner.page.get_by_role("button", name="not relevant: 1-").click()
    owner.page.wait_for_selector("#disputed button[aria-pressed=true]")
    assert {line.split()[3] for line in room.qrels(tmp_path) if line.startswith("1 ")} == {"0"}
    assert not owner.faults
