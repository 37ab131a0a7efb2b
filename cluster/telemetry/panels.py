"""The Grafana dashboard, as a list of queries."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

DASHBOARD = Path(__file__).parent / "dashboards" / "pyrite.json"
"""Made by hand; Grafana reads it as it is."""
WINDOW = "1m"
"""What rates are taken over where nobody has chosen: Ray's metrics are read every ten seconds."""
_METRIC = re.compile(r"\bray_pyrite_\w+")


@dataclass(frozen=True)
class Query:
    """A query of a panel.

    Args:
        row: of the dashboard that the panel stands in.
        panel: its title.
        expression: in PromQL, with the dashboard's variables.
    """

    row: str
    panel: str
    expression: str

    @property
    def series(self) -> set[str]:
        """Names of the series that it reads, as Prometheus has them."""
        return set(_METRIC.findall(self.expression))

    @property
    def of_all(self) -> str:
        """The expression for all studies, over the usual window."""
        return self.expression.replace("$window", WINDOW).replace("$study", ".*")


def queries(dashboard: Path = DASHBOARD) -> list[Query]:
    """Every query of the dashboard, in its order."""
    row, found = "", []
    for panel in json.loads(dashboard.read_bytes())["panels"]:
        if panel["type"] == "row":
            row = panel["title"]
        found += [Query(row, panel["title"], target["expr"]) for target in panel.get("targets", [])]
    return found
