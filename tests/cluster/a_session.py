"""A Ray session with a dashboard that reports every second, runs one study and tells one number of every metric.

Prints the session's folder; then does its work when told to, a line each time; ends with its input.
"""

import json
import sys

from pyrite.cluster.commands.cli import main
from pyrite.cluster.telemetry.catalogue import CATALOGUE
from pyrite.cluster.telemetry.metrics import record


def everything(value: float) -> None:
    """Tell a number of each metric."""
    for metric in CATALOGUE.values():
        tags = dict.fromkeys(metric.tags, "made up")
        record(metric.name, value, {**tags, "agent": "learned"} if "agent" in tags else tags)


if __name__ == "__main__":
    import ray

    ray.init(
        address="local", num_cpus=1, include_dashboard=True, dashboard_host="127.0.0.1", dashboard_port=0,
        _temp_dir=sys.argv[1], _system_config={"metrics_report_interval_ms": 1000}, log_to_driver=False,
    )  # fmt: skip
    print("SESSION", ray._private.worker._global_node.get_session_dir_path(), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if order["command"]:
            try:
                main(order["command"])
            except SystemExit as ended:
                print("ENDED", ended.code, flush=True)
        else:
            everything(order["value"])
            print("TOLD", flush=True)
    ray.shutdown()
