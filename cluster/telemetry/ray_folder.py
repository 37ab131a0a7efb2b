"""The folder of a Ray session on this machine, with what Ray writes there for Prometheus and Grafana."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ranking.errors import BadInput

TARGETS = "prom_metrics_service_discovery.json"
"""Where Ray says which addresses metrics are read from; it writes it anew every five seconds."""
START = "start one with `ray start --head`, or a study; or name its folder with --session"


@dataclass(frozen=True)
class RayFolder:
    """What stands where.

    Args:
        path: of the session.
    """

    path: Path

    @property
    def prometheus(self) -> Path:
        """Prometheus' configuration."""
        return self.path / "metrics" / "prometheus" / "prometheus.yml"

    @property
    def grafana(self) -> Path:
        """Grafana's configuration and provisioning."""
        return self.path / "metrics" / "grafana"

    @property
    def dashboards(self) -> Path:
        """Where Grafana looks for dashboards: as provisioned, since Ray can be told another place.

        Raises:
            BadInput: where nothing is provisioned.
        """
        (provider,) = _read(self.grafana / "provisioning" / "dashboards" / "default.yml")["providers"]
        return Path(provider["options"]["path"])

    @property
    def sources(self) -> Path:
        """What Grafana knows of Prometheus."""
        return self.grafana / "provisioning" / "datasources" / "default.yml"

    @property
    def source(self) -> dict[str, Any]:
        """The one data source that Ray provisions: `name`, `url`, …

        Raises:
            BadInput: where nothing is provisioned.
        """
        source: dict[str, Any] = _read(self.sources)["datasources"][0]
        return source

    def targets(self) -> list[str]:
        """Addresses that metrics are read from, HOST:PORT."""
        try:
            groups = json.loads((self.path / TARGETS).read_bytes())
        except (OSError, ValueError):
            return []
        return [target for group in groups for target in group["targets"]]

    def point_to(self, url: str) -> None:
        """Have Grafana ask another Prometheus than Ray thought of."""
        content = _read(self.sources)
        content["datasources"][0]["url"] = url
        write_whole(self.sources, yaml.safe_dump(content, sort_keys=False).encode())


def find_session(named: str | None = None) -> RayFolder:
    """The folder of a session that runs.

    Args:
        named: the user's; None takes the one that was started last.

    Raises:
        BadInput: where there is none, or it has no dashboard, which is what writes these files.
    """
    latest = Path(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp") / "ray" / "session_latest"
    folder = RayFolder(Path(named or latest).resolve())
    if not folder.path.is_dir():
        raise BadInput("no Ray session runs on this machine", folder.path, START)
    if not any(map(_answers, folder.targets())):
        raise BadInput("this Ray session has ended, or runs without its dashboard", folder.path, START)
    for file in (folder.prometheus, folder.sources):
        if not file.is_file():
            raise BadInput("Ray's dashboard has not written this file", file, "is this the head's machine?")
    return folder


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, then rename it.

    Raises:
        BadInput: where it can't be written.
    """
    from cluster.output.storage import Storage

    Storage(str(path.parent)).write(path.name, content)


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
    except (OSError, ValueError):
        return False
    return True


def _read(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError) as error:
        raise BadInput(f"can't be read ({error})", path, START) from None
