"""Takes the made-up studies of the tests of reports."""

from tests.cluster.reports.conftest import made_up_study, written_trials

__all__ = ["made_up_study", "written_trials"]
