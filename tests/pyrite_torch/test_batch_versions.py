"""`pyrite.torch.batch_versions`: the version of a batch by its number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.ranking.errors import BadInput
from pyrite.sampling.retrieval.dense import Refresh
from pyrite.torch.batch_versions import BatchVersions, LoaderCounts


def of(refresh: Refresh, loader: LoaderCounts, batches: int) -> list[int | None]:
    return [BatchVersions(refresh, loader).of(batch) for batch in range(batches)]


def test_lagged_counts_steps_from_publication_to_service():
    assert of(Refresh(every=2), LoaderCounts(100), 8) == [0, 0, 0, 0, 2, 2, 4, 4]
    assert of(Refresh(every=2, lag=1), LoaderCounts(100), 8) == [0, 0, 0, 2, 2, 4, 4, 6]
    assert of(Refresh(every=1), LoaderCounts(100, accumulation=2), 8) == [0, 0, 0, 0, 1, 1, 2, 2]
    assert of(Refresh("never"), LoaderCounts(100), 3) == [0, 0, 0]
    assert of(Refresh("async", every=1), LoaderCounts(100), 2) == [None, None]


def test_sync_counts_from_the_second_batch_after_a_step():
    assert of(Refresh("sync", every=1), LoaderCounts(100), 6) == [0, 0, 1, 2, 3, 4]
    assert of(Refresh("sync", every=1), LoaderCounts(100, accumulation=2), 7) == [0, 0, 0, 1, 1, 2, 2]
    assert of(Refresh("sync", every=3), LoaderCounts(100), 8) == [0, 0, 0, 0, 3, 3, 3, 6]
    assert of(Refresh("sync", every=1), LoaderCounts(100, ahead=0), 4) == [0, 1, 2, 3]  # a loop of one's own


def test_the_last_step_of_an_epoch_may_have_fewer_batches():
    loader = LoaderCounts(3, accumulation=2)
    assert [loader.step_of(batch) for batch in range(7)] == [0, 0, 1, 2, 2, 3, 4]
    assert [loader.first_of(step) for step in range(5)] == [0, 2, 3, 5, 6]
    assert [loader.epoch_of(batch) for batch in range(7)] == [0, 0, 0, 1, 1, 1, 2]


def test_a_schedule_refreshes_often_first():
    refresh = Refresh(every="0-4:2,4-:5", lag=0)
    assert [step for step in range(1, 21) if refresh.due(step)] == [2, 4, 5, 10, 15, 20]
    assert (refresh.newest(9), refresh.newest(3), refresh.newest(1)) == (5, 2, 0)
    for wrong in ("0-4:2,5-:5", "1-:2", "0-4", "often"):
        with pytest.raises(BadInput, match="is no schedule of refreshes"):
            Refresh(every=wrong)


@given(st.integers(1, 5), st.integers(0, 9), st.integers(1, 4), st.integers(0, 3), st.integers(1, 3))
def test_no_batch_is_fetched_before_its_version_is_sent(every, lag, accumulation, workers, prefetch):
    loader = LoaderCounts(40, accumulation, workers, prefetch)
    versions = BatchVersions(Refresh(every=every, lag=lag), loader)
    if lag * accumulation < loader.lead:
        with pytest.raises(BadInput, match="batches ahead; choose"):
            versions.check()
        return
    versions.check()
    for batch in range(40):
        # When a batch is fetched, the one `lead` before it has not been trained on yet.
        trained = loader.step_of(max(0, batch - loader.lead))
        assert versions.of(batch) <= trained


def test_workers_are_refused_with_sync():
    with pytest.raises(BadInput, match=r"choose mode=lagged, or dataloader_num_workers=0"):
        BatchVersions(Refresh("sync"), LoaderCounts(10, workers=1)).check()


def test_an_age_that_no_loader_can_keep_is_refused():
    with pytest.raises(BadInput, match="max_staleness and on_lost_shard=skip are for an index of Pyrite's rankers"):
        BatchVersions(Refresh("async", every=2, max_staleness=4), LoaderCounts(10)).check()
