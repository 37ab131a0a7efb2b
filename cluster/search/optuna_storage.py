"""Copies a search to a storage of Optuna, from which Optuna's dashboard shows it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import optuna

from ranking.errors import BadInput

LONGEST_NAME = 512
_log = logging.getLogger(__name__)


class StoredSearch:
    """One study of Optuna per method in a database.

    It only receives results: what is proposed next never depends on it. A resumed search replaces its earlier studies.

    Args:
        url: the storage, such as `sqlite:///search.db`.
        names: a name per method.

    Raises:
        BadInput: if the storage can't be opened.
    """

    def __init__(self, url: str, names: Sequence[str]) -> None:
        try:
            storage = optuna.storages.get_storage(url)
            known = set(optuna.get_all_study_names(storage))
            self._studies = []
            for name in (name[:LONGEST_NAME] for name in names):
                if name in known:
                    optuna.delete_study(study_name=name, storage=storage)
                self._studies.append(optuna.create_study(study_name=name, storage=storage, direction="maximize"))
        except Exception as error:  # of any database and driver
            reason = " ".join(str(error).split())[:200]
            raise BadInput(f"can't be opened ({reason})", url, "give a URL such as sqlite:///search.db") from None

    def add(self, method: int, trial: optuna.trial.FrozenTrial) -> None:
        """Copy a trial with its result. If the storage is lost, the search continues without it."""
        try:
            self._studies[method].add_trial(trial)
        except Exception as error:
            _log.warning("search.storage lacks trial %d: %s", trial.number, error)
