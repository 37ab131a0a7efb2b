"""What a run asks of the cluster for its negative indexes, and what it goes on with when it has lost one."""

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.config.compose import compose
from cluster.index.attach import attach_indexes, check_room, demand, live_functions, reserved
from cluster.index.encoder import PreparedCorpus
from cluster.runs.artifacts import Artifacts
from ranking.errors import BadInput
from ranking.index import IndexOptions
from sampling.retrieval.dense import Dense, Refresh
from tests.cluster.index.toy_corpus import WordSums


def config_of(mode: str = "lagged", workers: int = 1, **index: Any) -> dict[str, Any]:
    return {
        "function": {"bm25": {"_target_": "any"}, "dense": {"_target_": "any", "refresh": {"mode": mode}}},
        "resources": {"cpu": 2, "gpu": 0.5, "workers": workers, "placement": "pack"},
        "index": {"encoders": 1, "cpu": 1, "gpu": 0.0} | index,
        "cache": None,
    }


def test_a_trial_sets_aside_what_encoders_take_whose_index_is_built_beside_the_training():
    for mode, live in (("lagged", True), ("async", True), ("sync", False), ("never", False)):
        assert live_functions(config_of(mode)) == (["dense"] if live else [])
        assert len(reserved(config_of(mode))) == live
    config = config_of(encoders=3, cpu=0.5, gpu=0.25)
    assert reserved(config) == [{"CPU": 0.5, "GPU": 0.25}] * 3
    assert demand(config) == {"CPU": 1.5, "GPU": 0.75}
    assert reserved(config_of(encoders=2)) == [{"CPU": 1.0}] * 2
    assert reserved(config_of(workers=2)) == []  # what is free must do


def test_encoders_that_would_never_come_are_refused():
    check_room(config_of(encoders=2), {"CPU": 4, "GPU": 1})
    check_room(config_of("sync", encoders=9), {"CPU": 2, "GPU": 1})
    with pytest.raises(BadInput, match=r"index.cpu: a run and the encoders of its index ask for 5 CPUs .* has 4"):
        check_room(config_of(encoders=3), {"CPU": 4, "GPU": 1})
    with pytest.raises(BadInput, match=r"index.gpu.* 1.5 GPUs .* has 1;"):
        check_room(config_of(gpu=1), {"CPU": 4, "GPU": 1})
    with pytest.raises(BadInput, match=r"ask for 5 CPUs"):
        check_room(config_of(workers=2), {"CPU": 4, "GPU": 1})
    for wrong in ("encoders=0", "cpu=0", "gpu=-1"):
        with pytest.raises(BadInput, match=f"index.{wrong.split('=')[0]}"):
            compose([f"index.{wrong}"])


def training_of(ranker: Any, documents: int = 60) -> Any:
    encoded = SimpleNamespace(documents=range(documents), queries=range(12))
    return SimpleNamespace(ranker=ranker, encoded=encoded)


def test_an_index_is_stated_before_it_starts_and_given_to_its_function(tmp_path):
    dense, bm25 = Dense(refresh=Refresh("lagged")), SimpleNamespace()
    said: list[str] = []
    config = config_of() | {"cache": str(tmp_path)}
    functions: Any = {"bm25": bm25, "dense": dense}
    with attach_indexes(functions, training_of(WordSums()), config, "a run/of mine", said.append) as attached:
        (index,) = attached.values()
        assert dense._served is index
        assert index.name.startswith("negative-index:a run/of mine:dense#")
        assert index.folder.parent == tmp_path / "indexes" / "a_run_of_mine-dense"
    assert said == [
        "the negative index takes 0.00 MB of memory, 0.00 MB while a new version takes over, 0.00 MB on disk"
    ]
    with attach_indexes(functions, training_of(object()), config_of("sync"), "run") as attached:
        assert attached == {}


def test_what_can_not_be_searched_or_does_not_fit_is_refused(tmp_path):
    functions: Any = {"dense": Dense(refresh=Refresh("lagged"))}
    config = config_of() | {"cache": str(tmp_path)}
    with pytest.raises(BadInput, match="object has no vectors that an index could search; choose ranker=bi_encoder"):
        attach_indexes(functions, training_of(object()), config, "run").__enter__()
    with pytest.raises(BadInput, match=r"the negative index takes .* GB of memory and .* GB are free"):
        attach_indexes(functions, training_of(WordSums(), 10**12), config, "run").__enter__()
    functions["dense"].index = IndexOptions("Nonsense7")
    with pytest.raises(BadInput, match="faiss makes no index 'Nonsense7'"):
        attach_indexes(functions, training_of(WordSums()), config, "run").__enter__()


def test_actors_read_what_a_run_reads(base):
    config = compose([*base, "function=bm25", "function.bm25.k1=1.2"])
    corpus = PreparedCorpus(config)
    encoded = Artifacts().part(config, "base").encoded
    documents, queries = corpus.texts()
    assert (documents.tokens == encoded.documents.tokens).all()
    assert (queries.offsets == encoded.queries.offsets).all()
    with pytest.raises(TypeError, match="FeedForward has no vectors to search"):
        corpus.ranker()
