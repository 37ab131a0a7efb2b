"""Every form of reranker scores as sentence-transformers' `CrossEncoder` does, and so does its export."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from pyrite.ranking.errors import BadInput
from pyrite.ranking.frames import TextFrame
from pyrite.ranking.part import options_of
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.pair_form import Chat, PairForm, template_of
from pyrite.ranking.texts import Texts
from tests.ranking.trained import (
    assert_in_layers,
    from_checkpoint,
    generator,
    gradients,
    in_training,
    losses,
    texts_for,
)

library = pytest.importorskip("sentence_transformers")

QUERIES = ["where does the otter sleep?", "what\n", " badger ", "Is it so? Yes!", "otter " * 30, "(a) dune é 中"]
DOCUMENTS = [
    "The otter sleeps beside the reeds.",
    "close to the bank\n",
    "",
    "x y " * 40 + "bank.",
    " no",
    "\n\nheron?",
]
TRAINED = [*QUERIES, *DOCUMENTS, "Judge whether the note answers: system user assistant yes no true false"]
SMALL: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40,
}  # fmt: skip
CHAT = (
    "{%- set q = messages | selectattr('role', 'eq', 'query') | map(attribute='content') | first -%}"
    "{%- set d = messages | selectattr('role', 'eq', 'document') | map(attribute='content') | first -%}"
    "{%- set s = messages | selectattr('role', 'eq', 'system') | map(attribute='content') "
    "| first | default('Judge.') -%}"
)
QWEN = CHAT + "<|im_start|>system\n{{s}}<|im_end|>\n<|im_start|>user\n<Query>: {{q}}\n<Document>: {{d}}<|im_end|>\n"
SPACED = CHAT + "{{s}} query {{q}} document {{d}} answer:"
TRIMMED = CHAT + "A: {{q | trim}}\nB: {{d | trim}}\n"
TURNED = CHAT + "Document {{d}}\n\nQuery {{q}}?"
PARTS = (
    "{%- for message in messages -%}<|im_start|>{{ message.role }}\n"
    "{{ message.content[0].text }}<|im_end|>{%- endfor -%}"
)


@functools.cache
def words_tokenizer(pair: str = "[CLS] $A [SEP] $B:1 [SEP]:1") -> Any:
    inner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer, inner.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    inner.train_from_iterator(TRAINED, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special))
    marks = [("[CLS]", 2), ("[SEP]", 3)]
    inner.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair=pair, special_tokens=marks)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_max_length=64,
    )  # fmt: skip


def bytes_tokenizer(pad: str | None = "<|end|>", chat: str | None = None, length: int = 1000, bos: bool = False) -> Any:
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = ["<|end|>", "<|im_start|>", "<|im_end|>", " yes", " no", "yes", "no", "<s>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet)
    inner.train_from_iterator(TRAINED, trainer)
    if bos:
        inner.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 7)]
        )
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|end|>", model_max_length=length, **({"pad_token": pad} if pad else {})
    )
    made.chat_template = chat
    return made


def large(model: Any) -> Any:
    """Give a model weights with which scores differ."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.15, generator=generator(1))
    return model.eval()


def saved(folder: Path, model: Any, tokenizer: Any) -> str:
    large(model).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def encoder(folder: Path, kind: str = "Bert", **more: Any) -> str:
    tokenizer = words_tokenizer()
    ids = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
    config = getattr(transformers, f"{kind}Config")(
        **SMALL, vocab_size=len(tokenizer), num_labels=1, max_position_embeddings=64, **ids, **more
    )
    return saved(folder, getattr(transformers, f"{kind}ForSequenceClassification")(config), tokenizer)


def decoder(folder: Path, tokenizer: Any, task: str = "CausalLM", kind: str = "Qwen3", **more: Any) -> str:
    sizes: dict[str, Any] = SMALL | {"num_key_value_heads": 2, "head_dim": 8}
    given = {"vocab_size": len(tokenizer), "num_labels": 1, "pad_token_id": tokenizer.pad_token_id} | more
    config = getattr(transformers, f"{kind}Config")(**sizes, **given)
    return saved(folder, getattr(transformers, f"{kind}For{task}")(config), tokenizer)


def with_prompts(folder: Path, inner: str, **options: Any) -> str:
    model = library.CrossEncoder(inner, device="cpu", local_files_only=True, **options)
    model.save(str(folder), create_model_card=False)
    return str(folder)


def with_dense(folder: Path) -> str:
    """A transformer, a pooling and a dense layer with the score."""
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    body = transformers.BertModel(transformers.BertConfig(**SMALL, vocab_size=len(words_tokenizer())))
    inner = saved(folder / "body", body, words_tokenizer())
    layer = Dense(32, 1, module_input_name="sentence_embedding", module_output_name="scores")
    model = library.CrossEncoder(modules=[Transformer(inner), Pooling(32, "mean"), large(layer)], device="cpu")
    model.save(str(folder / "saved"), create_model_card=False)
    return str(folder / "saved")


PROMPT = {"prompts": {"note": "Judge whether the note answers: "}, "default_prompt_name": "note"}
FORMS: dict[str, Callable[[Path], str]] = {
    "bert": encoder,
    "modernbert": functools.partial(encoder, kind="ModernBert"),
    "saved by the library": lambda folder: with_prompts(folder / "ce", encoder(folder / "raw")),
    "default prompt": lambda folder: with_prompts(folder / "ce", encoder(folder / "raw"), **PROMPT),
    "dense head": with_dense,
    "half precision": lambda folder: half(folder, torch.float16),
    "bfloat16": lambda folder: half(folder, torch.bfloat16),
    "chat": lambda folder: decoder(folder, bytes_tokenizer(chat=QWEN)),
    "chat, saved": lambda folder: with_prompts(folder / "ce", decoder(folder / "raw", bytes_tokenizer(chat=QWEN))),
    "chat, prompt": lambda folder: with_prompts(
        folder / "ce", decoder(folder / "raw", bytes_tokenizer(chat=QWEN)), **PROMPT
    ),
    "chat, cut": lambda folder: decoder(folder, bytes_tokenizer(chat=SPACED, length=70)),
    "chat with blanks": lambda folder: decoder(folder, bytes_tokenizer(chat=SPACED)),
    "chat that trims": lambda folder: decoder(folder, bytes_tokenizer(chat=TRIMMED)),
    "chat, document first": lambda folder: decoder(folder, bytes_tokenizer(chat=TURNED)),
    "chat of parts": lambda folder: decoder(folder, bytes_tokenizer(chat=PARTS)),
    "tied": lambda folder: decoder(folder, bytes_tokenizer(chat=QWEN), tie_word_embeddings=True),
    "softcapped": lambda folder: decoder(
        folder, bytes_tokenizer(chat=QWEN), kind="Gemma2", final_logit_softcapping=0.5, query_pre_attn_scalar=8
    ),
    "no template": lambda folder: decoder(folder, bytes_tokenizer(bos=True), kind="Llama"),
    "learned positions": lambda folder: decoder(
        folder, bytes_tokenizer(chat=QWEN), kind="OPT", word_embed_proj_dim=32, ffn_dim=40
    ),
    "head on a decoder": lambda folder: decoder(folder, bytes_tokenizer(bos=True), "SequenceClassification", "Llama"),
    "head and chat": lambda folder: decoder(folder, bytes_tokenizer(chat=QWEN), "SequenceClassification"),
    "head, no padding": lambda folder: decoder(folder, bytes_tokenizer(None, bos=True), "SequenceClassification"),
    "no padding": lambda folder: decoder(folder, bytes_tokenizer(None, chat=QWEN)),
}


def half(folder: Path, dtype: torch.dtype) -> str:
    encoder(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).to(dtype)
    model.save_pretrained(folder)
    return str(folder)


def theirs(folder: str) -> np.ndarray:
    model = library.CrossEncoder(folder, device="cpu", local_files_only=True, model_kwargs={"dtype": torch.float32})
    model.tokenizer.pad_token = model.tokenizer.pad_token or model.tokenizer.eos_token  # nothing is padded
    pairs = [(query, document) for query in QUERIES for document in DOCUMENTS]
    scores = model.predict(pairs, batch_size=1, activation_fn=torch.nn.Identity())
    return np.asarray(scores).reshape(len(QUERIES), len(DOCUMENTS))


def ours(folder: str, **options: Any) -> tuple[Any, np.ndarray]:
    made = CrossEncoder(folder, **options)
    ranker = made.start(RankerInputs(generator())).eval()
    reads = CrossEncoder.tokenization(**options_of(made))
    assert reads is not None

    class Collection:
        queries, documents = pl.DataFrame({"text": QUERIES}), pl.DataFrame({"text": DOCUMENTS})

    tokens = reads.encode(Collection)  # type: ignore[arg-type]
    documents: Texts = tokens.documents.take(np.tile(np.arange(len(DOCUMENTS)), len(QUERIES)))
    with torch.no_grad():
        return ranker, ranker(tokens.queries, documents).numpy()


@pytest.mark.by_day(2)
@pytest.mark.parametrize("form", FORMS)
def test_scores_are_those_of_predict_and_so_are_the_exports(form, tmp_path):
    folder = FORMS[form](tmp_path / "made")
    ranker, found = ours(folder)
    assert ranker.drawn == []
    expected = theirs(folder)
    assert expected.std() > 1e-3
    np.testing.assert_allclose(found, expected, atol=1e-5)
    ranker.save_pretrained(str(tmp_path / "exported"))
    np.testing.assert_allclose(theirs(str(tmp_path / "exported")), expected, atol=1e-5)
    np.testing.assert_array_equal(ours(str(tmp_path / "exported"))[1], found)


def test_words_and_a_template_are_options_and_are_exported(tmp_path):
    folder = decoder(tmp_path / "raw", bytes_tokenizer())
    options = {"words": [" yes"], "template": "Q: {query}\nD: {document}\nA:"}
    ranker, found = ours(folder, **options)
    ranker.save_pretrained(str(tmp_path / "exported"))
    np.testing.assert_allclose(theirs(str(tmp_path / "exported")), found, atol=1e-5)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    text = options["template"].format(query=QUERIES[0], document=DOCUMENTS[3])
    with torch.no_grad():
        logits = model(**tokenizer(text, return_tensors="pt")).logits[0, -1]
    assert found[0, 3] == pytest.approx(float(logits[tokenizer.get_vocab()[" yes"]]), abs=1e-5)
    _, prompted = ours(folder, words=["yes", "no"])
    assert np.abs(prompted - found).max() > 0.01


def test_a_prompt_of_a_name_or_a_text_is_read_and_exported(tmp_path):
    folder = with_prompts(tmp_path / "ce", encoder(tmp_path / "raw"), prompts={"retrieval.query": "Judge: "})
    plain = ours(folder)[1]
    named, found = ours(folder, query_prompt="retrieval.query")
    assert np.abs(found - plain).max() > 1e-3
    np.testing.assert_array_equal(ours(folder, query_prompt="Judge: ")[1], found)
    named.save_pretrained(str(tmp_path / "exported"))
    np.testing.assert_allclose(theirs(str(tmp_path / "exported")), found, atol=1e-5)


def test_an_export_reads_no_more_than_its_encoder_read(tmp_path):
    """The library forgets an encoder's own length, below its positions, when it makes a cross-encoder of it."""
    folder = encoder(tmp_path / "encoder")
    Path(folder, "sentence_bert_config.json").write_text('{"max_seq_length": 24, "do_lower_case": false}')
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    Path(folder, "modules.json").write_text(json.dumps(modules))
    ranker, found = ours(folder)
    assert ranker.reach == 24
    assert np.abs(theirs(folder) - found).max() > 1e-3
    ranker.save_pretrained(str(tmp_path / "exported"))
    np.testing.assert_allclose(theirs(str(tmp_path / "exported")), found, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"words": ["no such word"]}, "no single token.*choose a word"),
        ({"words": ["yes", "no", "yes"]}, "one or two"),
        ({"template": "{query}"}, "write {query} and {document} once each"),
        ({"template": "{query} {query} {document}"}, "once each"),
        ({"template": "{query} {document}", "query_prompt": "ask"}, "write it into ranker.template"),
        ({"max_document": 2000}, "max_document"),
        ({"layers": 9}, "layers"),
        ({"label": 1}, "leave ranker.label=null"),
    ],
)
def test_bad_options_are_refused(options, says, tmp_path):
    folder = decoder(tmp_path, bytes_tokenizer(), max_position_embeddings=1000)
    with pytest.raises(BadInput, match=says):
        ours(folder, **options)


@pytest.mark.parametrize(
    ("chat", "says"),
    [
        (CHAT + "{{q}}", "does not show query and document once each"),
        (CHAT + "{{q}} {{q}} {{d}}", "once each"),
        ("{{ raise_exception('only user messages') }}", "only user messages"),
    ],
)
def test_a_template_without_the_pair_is_refused_with_a_remedy_that_works(chat, says, tmp_path):
    folder = decoder(tmp_path, bytes_tokenizer(chat=chat))
    with pytest.raises(BadInput, match=says) as caught:
        ours(folder)
    assert "ranker.template='Query: {query} Document: {document}'" in str(caught.value)
    ours(folder, template="Query: {query} Document: {document}")


@pytest.mark.parametrize("options", [{"label": "new"}, {}, {"words": ["yes"]}])
@pytest.mark.parametrize("tied", [False, True])
def test_a_language_model_learns_and_no_weight_is_left_untrained(options, tied, read_as, tiny_sources, tmp_path):
    folder = decoder(tmp_path, bytes_tokenizer(chat=QWEN), tie_word_embeddings=tied)
    texts = texts_for(CrossEncoder, read_as, folder)
    made = from_checkpoint(CrossEncoder, folder, **options)
    assert made.drawn == (["score.weight"] if options.get("label") else [])
    training = in_training(made, texts, tiny_sources, lr=0.01)
    assert gradients(training).keys() == {name for name, _ in made.named_parameters()}
    assert_in_layers(made)
    training.position = 0
    first, *_, last = losses(training, 6)
    assert last < first


def test_a_tokenizer_that_pads_and_cuts_finds_the_same_template():
    plain, padded, forms = copy.deepcopy(words_tokenizer()), copy.deepcopy(words_tokenizer()), []
    for tokenizer in (plain, padded):
        tokenizer.chat_template = template_of(tokenizer, "Judge: {query} Note: {document} Answer:")
        if tokenizer is padded:
            tokenizer.backend_tokenizer.enable_padding(length=32)
            tokenizer.backend_tokenizer.enable_truncation(3)
        forms.append(PairForm.of_chat(tokenizer, Chat(), "", False, "x"))
    assert forms[1] == forms[0]


def test_a_frame_does_not_count_padding():
    parts, padded = ("Judge: ", "", "", " Note:"), copy.deepcopy(words_tokenizer())
    padded.backend_tokenizer.enable_padding(length=32)
    assert TextFrame.between(padded, parts, False) == TextFrame.between(words_tokenizer(), parts, False)
