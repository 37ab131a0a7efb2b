"""Every function, selector and policy works in another trainer, or is refused in one line; the guide says which."""

import re
import zlib
from pathlib import Path

import numpy as np
import pytest

from pyrite.cluster.config.groups import group_options
from pyrite.cluster.config.parts import PARTS
from pyrite.ranking.errors import BadInput
from pyrite.torch import Negatives
from pyrite.torch.batch_versions import LoaderCounts

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "your_trainer.md"
NEEDED = {"given", "run_file", "judged", "category", "subcategory", "outside", "embedding", "tfidf"}
"""Functions that need what the small collection lacks: a column, a file, labels, vectors or a model."""
REFUSED = {
    "function": {"memory"},
    "selector": {"adversarial", "from_margin", "tri_sampler", "margin_balanced", "learned", "shared"},
    "policy": {"curriculum", "aligned", "recommended", "learned"},
}


def encode(texts: list[str], kind: str) -> np.ndarray:
    """A vector per text, by its words."""
    vectors = np.zeros((len(texts), 16), np.float32)
    for row, text in zip(vectors, texts, strict=True):
        for word in text.split():
            row[zlib.crc32(word.encode()) % 16] += 1
    return vectors


def options_of(group: str, name: str) -> list[str]:
    if group == "function":
        return [f"function={name}", "policy=fixed", "selector=uniform"]
    several = ["function=bm25"] if name == "fixed" else ["function=[random,bm25]"]
    chosen = ["policy=mixture", "policy.per=negative", f"selector={name}"]
    several += ["policy.weights=[1,1]"] if name == "refined" else []
    return several + (chosen if group == "selector" else [f"policy={name}", "selector=uniform"])


CASES = [
    *(("function", name) for name in PARTS["function"] if name not in NEEDED),
    *(("selector", name) for name in group_options()["selector"]),
    *(("policy", name) for name in group_options()["policy"]),
]


def negatives_of(base: list[str], folder: Path, group: str, name: str) -> list[list[str]]:
    """The negatives of six pairs in one batch."""
    of_texts = [text for text in base if not text.startswith("ranker.")]
    negatives = Negatives([*of_texts, *options_of(group, name), "sampling.negatives=2"], encode=encode)
    moving = negatives._batch_negatives(folder, LoaderCounts(10))
    if negatives._index is not None:
        assert moving.service is not None
        negatives._index.start(moving.service)
    rows = negatives.dataset.select(range(6))
    return moving.texts(list(zip(rows["query"], rows["positive"], strict=True)), 3)


@pytest.mark.parametrize(("group", "name"), CASES, ids=map("=".join, CASES))
def test_each_part_serves_or_is_refused(base, tmp_path, group, name):
    if name in REFUSED[group]:
        with pytest.raises(BadInput) as refused:
            negatives_of(base, tmp_path, group, name)
        assert "\n" not in str(refused.value)
    else:
        texts = negatives_of(base, tmp_path, group, name)
        assert {len(row) for row in texts} == {0 if name == "in_batch" else 2}


def test_the_guide_names_each_part():
    table = GUIDE.read_text("utf-8").partition("## Functions, selectors and policies")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| `")]
    refused = set(re.findall(r"`(\w+)`", " ".join(line.split("|")[1] for line in lines if "refused:" in line)))
    works = set(re.findall(r"`(\w+)`", " ".join(line.split("|")[1] for line in lines if "refused:" not in line)))
    for group, names in REFUSED.items():
        known = set(PARTS[group] if group == "function" else group_options()[group]) - {"learned"}
        assert known & names - {"learned"} <= refused
        assert {name for name in known - names if name not in NEEDED} <= works
