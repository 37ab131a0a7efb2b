"""`pyrite dashboard`: our Grafana dashboard and a Prometheus for the Ray session that runs on this machine."""

from __future__ import annotations

import contextlib
import shlex
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cluster.telemetry.panels import DASHBOARD, Query, queries
from cluster.telemetry.prometheus import LOG, Prometheus, installed, started
from cluster.telemetry.ray_folder import RayFolder, find_session, write_whole
from ranking.errors import BadInput

SINCE = 3600.0
"""Seconds that a check looks back."""
PATIENCE = 60.0
"""Seconds that a check waits for data: rates take two readings, of which there is one in ten seconds."""
ADDRESS = "prometheus.url"
"""Where a running `pyrite dashboard` says how its Prometheus is reached, beside the configuration."""


def dashboard(console: Console, check: bool = False, port: int | None = None, session: str | None = None) -> int:
    """Provision the dashboard and start Prometheus until Ctrl-C; or check that its queries return data.

    Args:
        console: told where everything is.
        check: only that; a Prometheus that runs is asked, or one is started for as long as it takes.
        port: of Prometheus.
        session: folder of the Ray session; None takes the latest.

    Returns:
        0; of a check 1 where a query returned nothing that should have returned something.

    Raises:
        BadInput: where no session runs, or Prometheus does not start.
    """
    folder = find_session(session)
    if check:
        with _asked(folder, port, console) as server:
            return _check(server, console)
    provisioned = folder.dashboards / DASHBOARD.name
    write_whole(provisioned, DASHBOARD.read_bytes())
    console.print(f"dashboard: {provisioned}", soft_wrap=True, markup=False)
    if installed() is None:
        console.print("there is no prometheus on this machine: apt-get install prometheus, and once more", markup=False)
        _say_grafana(folder, console)
        return 0
    running = _running(folder)
    if running is not None:
        console.print(f"Prometheus runs already: {running.url}", markup=False)
        return 0
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with started(folder.prometheus, folder.prometheus.parent, port) as server, _noted(folder, server):
            assert server.process is not None
            folder.point_to(server.url)
            console.print(f"Prometheus: {server.url} (process {server.process.pid}; Ctrl-C ends it)", markup=False)
            _say_grafana(folder, console)
            server.process.wait()
            raise BadInput("Prometheus has ended by itself", folder.prometheus.with_name(LOG), "its log says why")
    except KeyboardInterrupt:
        console.print("Prometheus has ended", markup=False)
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _say_grafana(folder: RayFolder, console: Console) -> None:
    """How Grafana is started, which Debian does not have."""
    config = shlex.quote(str(folder.grafana / "grafana.ini"))
    start = f"GF_SERVER_HTTP_ADDR=127.0.0.1 grafana-server --homepath /usr/share/grafana --config {config} web"
    console.print(f"Grafana: {start}", soft_wrap=True, markup=False)
    where = "http://localhost:3000/d/pyrite (install Grafana from https://grafana.com/grafana/download)"
    console.print(f"  then {where}", soft_wrap=True, markup=False)


@contextmanager
def _noted(folder: RayFolder, server: Prometheus) -> Iterator[None]:
    """Leave word of where it is while it runs."""
    place = folder.prometheus.with_name(ADDRESS)
    write_whole(place, server.url.encode())
    try:
        yield
    finally:
        place.unlink(missing_ok=True)


def _running(folder: RayFolder) -> Prometheus | None:
    """The Prometheus that another `pyrite dashboard` has started for this session."""
    with contextlib.suppress(OSError):
        server = Prometheus(folder.prometheus.with_name(ADDRESS).read_text())
        if server.answers():
            return server
    return None


@contextmanager
def _asked(folder: RayFolder, port: int | None, console: Console) -> Iterator[Prometheus]:
    """The Prometheus that a check asks: at the port that was given, ours, or one for the occasion."""
    running = _running(folder) if port is None else Prometheus(f"http://127.0.0.1:{port}")
    if running is not None:
        console.print(f"asking the Prometheus at {running.url}", markup=False)
        yield running
        return
    console.print("starting Prometheus for as long as it takes; it knows what is told from now on", markup=False)
    # In a folder of its own: what another one had read before would be no sign that metrics arrive now.
    with tempfile.TemporaryDirectory(prefix="pyrite-") as own, started(folder.prometheus, Path(own)) as server:
        yield server


def _check(server: Prometheus, console: Console) -> int:
    """Ask every query, until each that reads what was told returns something, or patience ends."""
    since, given_up = time.time() - SINCE, time.monotonic() + PATIENCE
    with console.status("waiting for data"):
        while True:
            told = server.names(since)
            found = {query: server.count(query.of_all, since) for query in queries()}
            silent = [query for query in found if not found[query] and query.series <= told]
            if (any(found.values()) and not silent) or time.monotonic() > given_up:
                break
            time.sleep(2)
    console.print(_table(found, silent))
    if silent:
        console.print(f"[red]{len(silent)} queries returned nothing although their metrics were told[/]")
        return 1
    if not any(found.values()):
        console.print("nothing of Pyrite's was told in the last hour: start a study, and check again")
        return 1
    return 0


def _table(found: dict[Query, int], silent: list[Query]) -> Table:
    table = Table(title=f"queries of {DASHBOARD.name}, over the last hour", title_justify="left")
    for column in ("row", "panel", "series", ""):
        table.add_column(column, justify="right" if column == "series" else "left")
    for query, count in found.items():
        verdict = "nothing, though it was told" if query in silent else "data" if count else "not told yet"
        table.add_row(query.row, query.panel, str(count), verdict)
    return table
