"""What trackers wrote, read as other programs would."""

import json
import shutil
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyrite.cluster.telemetry.tracking.mlflow import STORE


@dataclass
class ReadBack:
    """A run, with the steps and values of each number and the last one, and its status in the tracker's words."""

    told: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    final: dict[str, float] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    status: str = ""

    def add(self, key: str, step: int, value: float) -> None:
        self.told.setdefault(key, []).append((step, value))
        self.final[key] = value


def of_tensorboard(out: Path) -> dict[str, list[ReadBack]]:
    """The runs of the event files, by name."""
    from tensorboardX.proto.event_pb2 import Event

    found: dict[str, list[ReadBack]] = {}
    for file in sorted((out / "tensorboard").rglob("events.*")):
        run = ReadBack()
        for record in _tf_records(file.read_bytes()):
            event = Event.FromString(record)
            for value in event.summary.value:
                text = [content.decode() for content in value.tensor.string_val]
                if value.tag.startswith("status"):
                    run.status = text[0]
                elif value.tag.startswith("run"):
                    run.parameters = dict(line.strip().split(": ", 1) for line in text[0].splitlines())
                else:
                    run.add(value.tag, event.step, value.simple_value)
        found.setdefault(file.parent.name, []).append(run)
    return found


def of_mlflow(out: Path) -> dict[str, list[ReadBack]]:
    """The runs of the experiment that is named like the folder, by name."""
    from mlflow import MlflowClient

    # A copy: MLflow keeps a store open that it has opened once, also when another file takes its place.
    copy = Path(tempfile.mkdtemp(dir=out.parent)) / STORE
    shutil.copy(out / "mlflow" / STORE, copy)
    client = MlflowClient(tracking_uri=f"sqlite:///{copy}")
    experiment = client.get_experiment_by_name(out.name)
    found: dict[str, list[ReadBack]] = {}
    for run in client.search_runs([experiment.experiment_id]):
        read = ReadBack(parameters=run.data.params, status=run.info.status)
        for key in run.data.metrics:
            for metric in client.get_metric_history(run.info.run_id, key):
                read.add(key, metric.step, metric.value)
        found.setdefault(str(run.info.run_name), []).append(read)
    return found


def of_wandb(out: Path) -> dict[str, list[ReadBack]]:
    """The runs that were written offline, by name."""
    from wandb.proto.wandb_internal_pb2 import Record

    found: dict[str, list[ReadBack]] = {}
    for file in sorted((out / "wandb").glob("offline-run-*/*.wandb")):
        run, name = ReadBack(), ""
        for content in _log_records(file.read_bytes()):
            record = Record.FromString(content)
            if record.HasField("run"):
                name = record.run.display_name
                parameters = {item.key: json.loads(item.value_json) for item in record.run.config.update}
                run.parameters = {key: value for key, value in parameters.items() if key != "_wandb"}
            if record.HasField("history"):
                item = {each.nested_key[0]: json.loads(each.value_json) for each in record.history.item}
                for key, value in item.items():
                    if not key.startswith("_"):
                        run.add(key, record.history.step.num, value)
            for each in record.summary.update:
                key = each.key or "/".join(each.nested_key)
                if key == "status":
                    run.status = json.loads(each.value_json)
                elif not key.startswith("_"):
                    run.final[key] = json.loads(each.value_json)
        found.setdefault(name, []).append(run)
    return found


def _tf_records(content: bytes) -> Iterator[bytes]:
    """TensorFlow's format: length, its checksum, content, its checksum."""
    place = 0
    while place < len(content):
        (length,) = struct.unpack_from("<Q", content, place)
        yield content[place + 12 : place + 12 + length]
        place += 16 + length


def _log_records(content: bytes) -> Iterator[bytes]:
    """LevelDB's log of less than one block, behind a header of seven bytes."""
    place = 7
    while place + 7 <= len(content):
        _, length, kind = struct.unpack_from("<IHB", content, place)
        assert kind == 1, "a record that goes over several blocks"
        yield content[place + 7 : place + 7 + length]
        place += 7 + length
