import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from pyrite.ranking.errors import BadInput
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.pretrained import trim_last_layer
from pyrite.ranking.scoring import score_candidates
from tests.ranking.checkpoints import KINDS, SIZES, config_of, tokenizer_of
from tests.ranking.trained import (
    LISTS,
    QUERIES,
    assert_in_layers,
    equal,
    from_checkpoint,
    gradients,
    in_training,
    steps,
    texts_for,
    weights,
)

ranker, encoded = partial(from_checkpoint, CrossEncoder), partial(texts_for, CrossEncoder)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_transformers_run_plainly(kind, made_up, read_as, tiny):
    checkpoint = made_up(kind)
    made = ranker(checkpoint)
    assert made.drawn == []
    scores = score_candidates(made, encoded(read_as, checkpoint), QUERIES, LISTS)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(checkpoint).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    pairs = [(tiny.queries["text"][int(q)], tiny.documents["text"][int(d)]) for q, row in enumerate(LISTS) for d in row]
    with torch.no_grad():
        packed = [tokenizer(*pair, return_tensors="pt") for pair in pairs]
        expected = np.array([float(model(**one).logits) for one in packed]).reshape(LISTS.shape)
    assert expected.std() > 0.01
    np.testing.assert_allclose(scores, expected, atol=1e-6)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind", KINDS)
def test_neither_buckets_nor_other_pairs_matter(kind, made_up, read_as):
    texts = encoded(read_as, made_up(kind))
    together = score_candidates(ranker(made_up(kind)), texts, QUERIES, LISTS)
    for budget in (1, 40, 100_000):
        scores = score_candidates(ranker(made_up(kind), budget=budget), texts, QUERIES, LISTS)
        np.testing.assert_allclose(scores, together, atol=1e-6)
    alone = [[score_candidates(ranker(made_up(kind)), texts, QUERIES[[q]], LISTS[[q], [d]][None])[0, 0] for d in (0, 3)]
             for q in range(2)]  # fmt: skip
    np.testing.assert_allclose(alone, together[:2, [0, 3]], atol=1e-6)


def test_texts_are_cut(made_up, read_as):
    texts = encoded(read_as, made_up())
    short = ranker(made_up(), max_query=2, max_document=3)
    of_cut = read_as(CrossEncoder.tokenization(checkpoint=made_up(), max_query=2, max_document=3))
    assert of_cut.documents.lengths.max() == 4  # one more than is read: it was cut
    np.testing.assert_array_equal(
        score_candidates(short, texts, QUERIES, LISTS), score_candidates(short, of_cut, QUERIES, LISTS)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_passage_counts(kind, made_up, read_as):
    checkpoint, width = made_up(kind), 3
    texts = encoded(read_as, checkpoint)
    assert sorted({-(-length // width) for length in texts.documents.lengths.tolist()}) == [2, 3]
    found = score_candidates(ranker(checkpoint, max_document=width, passages=2, pooling="max"), texts, QUERIES, LISTS)
    first = ranker(checkpoint, max_document=width)
    for row, documents in enumerate(LISTS):
        for column, document in enumerate(documents):
            tokens = texts.documents.take(np.array([document])).tokens
            parts = [tokens[start : start + width] for start in range(0, len(tokens), width)][:2]
            with torch.no_grad():
                of_parts = first(texts.queries.take(np.array([row])), type(texts.documents).of_arrays(parts))
            assert found[row, column] == pytest.approx(float(of_parts.max()), abs=1e-6)


def test_one_passage_is_the_first(made_up, read_as):
    texts = encoded(read_as, made_up())
    first = score_candidates(ranker(made_up(), max_document=4, pooling="first"), texts, QUERIES, LISTS)
    one = score_candidates(ranker(made_up(), max_document=4, pooling="max", passages=1), texts, QUERIES, LISTS)
    np.testing.assert_array_equal(first, one)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_layers(kind, made_up, read_as, tmp_path):
    whole, cut = ranker(made_up(kind)), ranker(made_up(kind), layers=2)
    assert set(weights(cut)) < set(weights(whole))
    for name, tensor in weights(cut).items():
        assert torch.equal(tensor, weights(whole)[name]), name
    assert (len(whole.layers()), len(cut.layers())) == (5, 4)  # embeddings, the layers, what is above them
    assert_in_layers(cut)
    texts = encoded(read_as, made_up(kind))
    scores = score_candidates(cut, texts, QUERIES, LISTS)
    assert np.abs(scores - score_candidates(whole, texts, QUERIES, LISTS)).max() > 1e-3
    cut.save_pretrained(str(tmp_path))
    again = ranker(str(tmp_path))
    assert len(again.layers()) == 4
    np.testing.assert_array_equal(score_candidates(again, texts, QUERIES, LISTS), scores)
    with pytest.raises(BadInput, match=r"ranker\.layers.*has 3"):
        ranker(made_up(kind), layers=4)


def test_a_head_that_is_not_there_is_drawn_from_the_generator(small_bert):
    before = torch.get_rng_state()
    one, same, other = (ranker(small_bert, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert {"classifier.weight", "classifier.bias"} <= set(one.drawn)
    torch.manual_seed(99)
    assert equal(weights(one), weights(ranker(small_bert, 1)))
    assert equal(weights(one), weights(same))
    changed = {name for name, tensor in weights(one).items() if not torch.equal(tensor, weights(other)[name])}
    assert changed == {f"pretrained.model.{name}" for name in one.drawn if not name.endswith("bias")}
    head = weights(one)["pretrained.model.classifier.weight"]
    assert 0.01 < head.std() < 0.04  # the model's own deviation is 0.02


def test_a_head_for_labels_is_drawn_anew(made_up, tmp_path):
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        made_up(), num_labels=3, ignore_mismatched_sizes=True
    )
    model.save_pretrained(tmp_path)
    shutil.copy(f"{made_up()}/tokenizer.json", tmp_path)
    shutil.copy(f"{made_up()}/tokenizer_config.json", tmp_path)
    made = ranker(str(tmp_path), label="new")
    assert made.drawn == ["classifier.bias", "classifier.weight"]
    kept = "pretrained.model.bert.pooler.dense.weight"
    assert torch.equal(weights(made)[kept], weights(ranker(made_up()))[kept])


def pickled(folder: Path) -> None:
    """Whoever reads it runs it; it is not to be touched."""
    torch.save({"anything": torch.zeros(3)}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def first_layer(folder: Path, kept: bool) -> None:
    """Leave the weights of the first layer out, or keep them, as no numbers."""
    weights = load_file(folder / "model.safetensors")
    layer = {name: weight for name, weight in weights.items() if "layer.0." in name}
    changed = {name: weight * torch.nan for name, weight in layer.items()} if kept else {}
    save_file({name: weights[name] for name in weights.keys() - layer.keys()} | changed, folder / "model.safetensors")


def other_sizes(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"intermediate_size": 20}))


NOT_WHOLE = r"has no weights \S+layer\S*\.0\.\S+ and \d+ more; choose a checkpoint that is whole"
POINTER = "version https://git-lfs.github.com/spec/v1\n"


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (pickled, "pickles, which are not read; save it again"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"nothing like that"), "can be read"),
        (lambda folder: (folder / "config.json").write_text("{"), "can be read"),
        (other_sizes, "is not as its config.json says"),
        (lambda folder: [file.unlink() for file in folder.iterdir()], "a folder needs config.json"),
        (lambda folder: first_layer(folder, kept=False), NOT_WHOLE),
        (lambda folder: first_layer(folder, kept=True), "weights that are no numbers"),
        (lambda folder: (folder / "model.safetensors").write_text(POINTER), "a pointer of Git LFS, .*git lfs pull"),
        (lambda folder: (folder / "config.json").rename(folder / "adapter_config.json"), "."),
    ],
)
def test_what_cannot_be_read_is_one_line(harm, says, made_up, tmp_path):
    folder = Path(shutil.copytree(made_up(), tmp_path / "broken"))
    harm(folder)
    with pytest.raises(BadInput, match=says) as caught:
        ranker(str(folder))
    assert str(caught.value).startswith(str(folder))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_it_reads_as_far_as_it_has_positions(kind, made_up, read_as):
    reach = int(ranker(made_up(kind)).pretrained.reach)
    assert reach == {"bert": 40, "roberta": 38, "modernbert": 40}[kind]
    specials = ranker(made_up(kind)).form.specials
    made = ranker(made_up(kind), max_query=8, max_document=reach - 8 - specials)
    texts = encoded(read_as, made_up(kind)).documents
    longest = type(texts).of([[1 + token % 20 for token in range(40)]])
    with torch.no_grad():
        assert torch.isfinite(made(longest, longest)).all()
    with pytest.raises(BadInput, match="positions"):
        ranker(made_up(kind), max_query=8, max_document=reach - 7 - specials)


@pytest.mark.parametrize("kind", ["bert", "modernbert"])
def test_dropout_is_drawn_anew_at_each_step_and_the_same_in_each_run(kind, made_up, read_as, tiny_sources):
    checkpoint = made_up(kind, 0.3)
    texts = encoded(read_as, checkpoint)

    def training(seed: int = 3, lr: float = 0.01) -> Any:
        return in_training(ranker(checkpoint), texts, tiny_sources, lr, seed)

    one, other = training(), training()
    torch.manual_seed(4)
    reached = steps(one)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    steps(other, 1)
    other.validate()
    before = score_candidates(other.ranker, texts, QUERIES, LISTS)
    np.testing.assert_array_equal(before, score_candidates(other.ranker, texts, QUERIES, LISTS))
    other.epoch, other.position = 0, 0
    other.order = one.order
    again = steps(other, 1)
    assert torch.equal(torch.get_rng_state(), state), "torch's own generator was drawn from"
    assert equal(reached, again)
    # With a rate of learning of nothing the weights stay: what differs between steps is the noise.
    still = training(lr=0.0)
    first = gradients(still)
    still.position = 0
    assert not equal(first, gradients(still))
    assert not equal(first, gradients(training(seed=4)))


def test_without_dropout_parts_of_a_batch_add_up(made_up, read_as, tiny_sources):
    texts = encoded(read_as, made_up())
    whole = gradients(in_training(ranker(made_up()), texts, tiny_sources))
    for parts in (2, 3):  # three are of two, one and one
        added = gradients(in_training(ranker(made_up()), texts, tiny_sources, accumulate=parts))
        assert added.keys() == whole.keys()
        for name in whole:
            torch.testing.assert_close(added[name], whole[name], atol=1e-6, rtol=1e-5)
    assert max(float(gradient.abs().max()) for gradient in whole.values()) > 1e-3


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_checkpointing_changes_nothing(kind, made_up, read_as, tiny_sources):
    checkpoint = made_up(kind, 0.2)
    texts = encoded(read_as, checkpoint)
    plain = gradients(in_training(ranker(checkpoint), texts, tiny_sources))
    assert equal(plain, gradients(in_training(ranker(checkpoint, gradient_checkpointing=True), texts, tiny_sources)))


def test_bfloat16_is_close_and_its_weights_are_float32(made_up, read_as, tiny_sources):
    texts = encoded(read_as, made_up())
    exact = score_candidates(ranker(made_up()), texts, QUERIES, LISTS)
    rough = ranker(made_up(), precision="bfloat16")
    assert 0 < np.abs(score_candidates(rough, texts, QUERIES, LISTS) - exact).max() < 0.1
    training = in_training(rough, texts, tiny_sources)
    assert {tensor.dtype for tensor in steps(training).values()} == {torch.float32}
    assert not training.diverged


def test_float16_skips_a_step_that_overflows_and_goes_on(made_up, read_as, tiny_sources):
    training = in_training(ranker(made_up(), precision="float16"), encoded(read_as, made_up()), tiny_sources)
    assert training.optimization.scaler.is_enabled()
    training.optimization.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120)
    before = weights(training.ranker)
    steps(training, 1)
    assert equal(before, weights(training.ranker))
    assert training.optimization.scaler.get_scale() == 2.0**119
    assert not training.diverged
    training.optimization.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**4)
    steps(training, 1)
    assert not equal(before, weights(training.ranker))
    assert training.optimization.scaler.state_dict() == training.state_dict()["optimization"]["scaler"]


IDS = torch.tensor([[2, 4, 5, 6, 3, 7, 3], [2, 4, 3, 8, 3, 0, 0]])
MASK = (IDS > 0).long()


def model_of(kind: str) -> Any:
    """A model in float64 with weights by chance."""
    torch.manual_seed(0)
    if kind == "electra":
        config: Any = transformers.ElectraConfig(**SIZES, vocab_size=20, embedding_size=16, num_labels=1)
    else:
        config = config_of(kind, tokenizer_of(kind, [f"word{number}" for number in range(12)]), 0.0)
    return transformers.AutoModelForSequenceClassification.from_config(config).double().eval()


def scored(model: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """Scores, and the gradients of a loss that weighs them."""
    model.zero_grad()
    scores = model(input_ids=IDS, attention_mask=MASK).logits[:, 0]
    (scores * torch.tensor([1.0, -3.0])).sum().backward()
    return scores.detach(), {name: each.grad for name, each in model.named_parameters() if each.grad is not None}


@pytest.mark.parametrize("kind", ["bert", "electra", "roberta", "modernbert"])
def test_a_trimmed_last_layer_gives_the_same_scores_and_gradients(kind):
    model = model_of(kind)
    before, gradients = scored(model)
    states = []
    model.base_model.register_forward_hook(lambda module, given, out: states.append(out.last_hidden_state))
    trim_last_layer(model)
    after, same = scored(model)
    assert states[0].shape[1] == (IDS.shape[1] if kind == "modernbert" else 1)
    torch.testing.assert_close(after, before, rtol=1e-12, atol=1e-12)
    assert gradients.keys() == same.keys()
    assert any(gradient.abs().max() > 0 for gradient in gradients.values())
    for name, gradient in gradients.items():
        torch.testing.assert_close(same[name], gradient, rtol=1e-10, atol=1e-12, msg=name)
