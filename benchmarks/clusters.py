"""Measures what the nodes of a cluster send each other, and how evenly its shards answer, on clusters simulated here.

    python -m benchmarks.clusters [--nodes N …] [--documents N] [--only PART …]

Each cluster is Ray's own simulation: nodes of one core, each with a raylet and an object store, all on this machine
and its disk. `study` is a command of one run a node from an empty cache; `index` builds a version of static vectors
with an encoder and a shard a node, and asks it. Bytes are those of TCP between processes of different nodes, Ray's own
messages among them. The driver is a process of the first node, the head.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.growth import asked_in_batches, config_of, dense, write_collection
from benchmarks.process_memory import Watched
from benchmarks.traffic import Traffic
from pyrite import cluster  # noqa: F401  before ray, which it tells how to authenticate

SMALLEST = ["--nodes 2 --documents 9000 --words 300 --queries 60"]
STORE = 200 << 20
"""Bytes of each node's object store."""
TURNS = 40
"""How often each shard is asked."""
MB = 1e6


@contextmanager
def simulated(count: int) -> Iterator[tuple[str, dict[int, int]]]:
    """Start a cluster of `count` nodes with one core each.

    Yields:
        The cluster's address, and the node of each of its first processes.
    """
    from ray._private.services import node_ip_address_from_perspective
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="clusters-", dir="/tmp")  # sockets have short names
    made = Cluster()
    try:
        for number in range(count):
            asked: dict[str, Any] = {
                "num_cpus": 1, "num_gpus": 0, "object_store_memory": STORE, "include_dashboard": False,
                "include_log_monitor": False, "node_ip_address": node_ip_address_from_perspective(),
            }  # fmt: skip
            made.add_node(**asked, **({} if number else {"temp_dir": folder}))
        nodes = [made.head_node, *made.worker_nodes]
        yield (
            str(made.address),
            {
                info.process.pid: number
                for number, node in enumerate(nodes)
                for kind in node.all_processes.values()
                for info in kind
            },
        )
    finally:
        made.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def study(folder: Path, nodes: int) -> list[str]:
    """A command of one run a node."""
    return [
        sys.executable, "-m", "pyrite", "study", "collection=beir", f"collection.path={folder / 'collection'}",
        f"cache={folder / 'cache'}", f"out={folder / 'out'}", "vectors=random", "ranker=static", "ranker.preset=tiny",
        "scale=full", "policy=fixed", "function=bm25", "selector=uniform", "origin=[random]",
        "validation.origin=random", "limits.dev=200", "limits.test=200", "limits.examples=640",
        "training.max_epochs=1", f"seeds={nodes}",
    ]  # fmt: skip


def ask_index(folder: Path, nodes: int) -> None:
    """Run the driver of `index`: build, search, and ask each shard; print a line after each for the observer."""
    import ray

    from pyrite.cluster.executors.session import session
    from pyrite.cluster.index.attach import attach_indexes
    from pyrite.cluster.index.client import RemoteIndex
    from pyrite.cluster.runs.artifacts import Artifacts
    from pyrite.cluster.runs.assemble import assemble

    config = config_of(
        folder, *dense(nodes, "async", 1_000_000), f"index.encoders={nodes}", "resources.placement=spread"
    )
    parts = Artifacts().parts(config)
    with session(os.environ["RAY_ADDRESS"], dashboard=False):
        training, sampler = assemble(config, parts, 0)
        with attach_indexes(sampler.functions, training, config, "clusters") as attached:
            (found,) = attached.values()
            assert isinstance(found, RemoteIndex)
            tell("ready")
            weights = training.ranker.state_dict()
            found.publish(weights, 0)
            found.search(np.arange(1), 1, 0)
            tell("built", weights=sum(each.nbytes for each in weights.values()))
            rate = asked_in_batches(lambda queries, depth: found.search(queries, depth, 0), training)
            tell("searched", queries=rate, steps=-(-min(320, len(training.encoded.queries)) // 32))
            named = [each for each in ray.util.list_named_actors(all_namespaces=True) if ":shard-" in each["name"]]
            shards = [ray.get_actor(each["name"], each["namespace"]) for each in named]
            tell("asked", **times(shards, weights, training.ranker.dimension))


def times(shards: Sequence[Any], weights: dict[str, Any], dimension: int) -> dict[str, float]:
    """Measure how evenly shards answer the top 100 of 32 queries, each shard and the slowest against the mean.

    The CPU time is that of a shard on a separate machine; here several share a core, so the last answer also waits
    for them.
    """
    import ray

    from pyrite.ranking.index_versions import weights_digest

    queries = np.random.default_rng(0).standard_normal((32, dimension)).astype(np.float32)
    asked = (0, weights_digest(weights), ray.put(queries), 100)
    before, last = processor(shards), []
    for _ in range(TURNS):
        started, spent = time.perf_counter(), list[float]()
        waiting = [shard.topk.remote(*asked) for shard in shards]
        while waiting:
            (done,), waiting = ray.wait(waiting)
            assert ray.get(done) is not None
            spent.append(time.perf_counter() - started)
        last.append(max(spent) / float(np.mean(spent)))
    each = (processor(shards) - before) / TURNS
    mean = float(each.mean())
    return {"shards": len(shards), "mean": mean, "busiest": float(each.max()) / mean, "last": float(np.median(last))}


def processor(shards: Sequence[Any]) -> NDArray[np.float64]:
    """Seconds of processor time that each shard's process has taken."""
    import ray

    return np.array(ray.get([shard.__ray_call__.remote(lambda _: time.process_time()) for shard in shards]))


def tell(what: str, **figures: float) -> None:
    """Say that something is done, and wait until it has been counted."""
    print(json.dumps({"done": what, **figures}), flush=True)
    sys.stdin.readline()


def environment(address: str) -> dict[str, str]:
    return os.environ | {"RAY_ADDRESS": address}


def watch_study(folder: Path, nodes: int) -> None:
    with simulated(nodes) as (address, processes):
        log = folder / "study.log"
        with log.open("wb") as output:
            driver = subprocess.Popen(
                study(folder, nodes), env=environment(address), stdout=output, stderr=subprocess.STDOUT
            )
        started = time.perf_counter()
        try:
            with Watched(os.getpid()) as memory, Traffic(processes | {driver.pid: 0}, driver.pid) as traffic:
                code = driver.wait()
        finally:
            driver.terminate()
        if code:
            raise SystemExit(log.read_text())
        print(f"  a study of {nodes} runs, {time.perf_counter() - started:.0f} s: {sent(traffic)}; "
              f"all processes {memory.together:,.0f} MiB", flush=True)  # fmt: skip


def watch_index(folder: Path, nodes: int) -> None:
    with simulated(nodes) as (address, processes):
        command = [sys.executable, "-m", "benchmarks.clusters", "--part", str(folder), "--nodes", str(nodes)]
        driver = subprocess.Popen(
            command, env=environment(address), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert driver.stdin is not None
        assert driver.stdout is not None
        try:
            with Watched(os.getpid()) as memory, Traffic(processes | {driver.pid: 0}, driver.pid) as traffic:
                for line in driver.stdout:
                    traffic.look()
                    print(described(json.loads(line), traffic), end="", flush=True)
                    traffic.clear()
                    print("\n", file=driver.stdin, end="", flush=True)
                code = driver.wait()
        finally:
            driver.terminate()
        if code:
            raise SystemExit(f"the driver ended with {code}")
        print(f"  all processes {memory.together:,.0f} MiB", flush=True)


def described(said: dict[str, Any], traffic: Traffic) -> str:
    """A line for people."""
    match said["done"]:
        case "built":
            return f"  a version built from {said['weights'] / MB:,.1f} MB of weights: {sent(traffic)}\n"
        case "searched":
            return (
                f"  {said['steps']} steps of 32 queries, {said['queries']:,.0f} queries a second: "
                f"{sent(traffic, said['steps'])} a step\n"
            )
        case "asked":
            return (
                f"  {said['shards']} shards, {1000 * said['mean']:.1f} ms of processors each for 32 queries, the "
                f"busiest {said['busiest']:.2f} times the mean; the last answer {said['last']:.2f} times the mean; "
                f"{sent(traffic, TURNS)}\n"
            )
    return ""


def sent(traffic: Traffic, by: int = 1) -> str:
    """Return the traffic in MB."""
    of = traffic.by_node()
    fullest = max(of, key=of.__getitem__, default=0)
    return (
        f"{sum(of.values()) / by / MB:,.3f} MB between nodes; by the driver {traffic.of_driver / by / MB:,.3f}, by its "
        f"node {of[0] / by / MB:,.3f}, by the fullest node {of[fullest] / by / MB:,.3f}"
        f"{' (the same)' if fullest == 0 else ''}"
    )


PARTS = {"study": watch_study, "index": watch_index}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--documents", type=int, default=65_536, help="of 60 words; 16 blocks of an index")
    parser.add_argument("--words", type=int, default=50_000, help="of the language")
    parser.add_argument("--queries", type=int, default=4_000)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--part", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.part:
        ask_index(chosen.part, *chosen.nodes)
        return
    if shutil.which("ss") is None:
        parser.error("connections are counted by `ss`, which is not here: install iproute2")
    with tempfile.TemporaryDirectory(prefix="clusters-") as place:
        folder = Path(place)
        write_collection(folder / "collection", chosen.documents, chosen.words, chosen.queries)
        for nodes in chosen.nodes:
            print(f"{nodes} nodes", flush=True)
            for part in chosen.only:
                PARTS[part](folder, nodes)
                for made in ("out", "cache"):
                    shutil.rmtree(folder / made, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that its folder is deleted, and its cluster ended
    main()
