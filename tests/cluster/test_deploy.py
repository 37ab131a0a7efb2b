"""The files in `deploy/`: shapes, and what must agree between them and the rest of the project.

The launcher's file is held against the schema in the installed Ray, the manifests against the names and types of those
fields of KubeRay's v1 API that they use. Helm's values are held against the manifest
that they stand for, the script for Slurm is run with a Slurm that only notes what it is asked.
"""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import time
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest
import yaml

from pyrite.cluster.commands.resuming import read
from pyrite.cluster.commands.study import STUDY
from pyrite.cluster.commands.verbs import parser
from pyrite.cluster.config.compose import compose
from pyrite.cluster.jobs.submission import STOP_AS_CTRL_C
from pyrite.cluster.jobs.working_folder import ClusterPaths, WorkingFolder, split_output
from pyrite.cluster.plan.sweep import plan

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
FILES = ("Dockerfile", "cluster.yaml", "raycluster.yaml", "rayjob.yaml", "study.sbatch", "values.yaml")
MANIFESTS = ("raycluster.yaml", "rayjob.yaml")
GPU = "nvidia.com/gpu"
KINDS: dict[type, str] = {
    str: "apiVersion kind name rayVersion mode secretName version serviceType image imagePullPolicy value key operator "
    "effect groupName entrypoint runtimeEnvYAML submissionMode verb note num-cpus num-gpus dashboard-host cpu memory "
    f"{GPU}",
    bool: "enableInTreeAutoscaling optional shutdownAfterJobFinishes",
    int: "idleTimeoutSeconds containerPort replicas minReplicas maxReplicas backoffLimit ttlSecondsAfterFinished "
    "preRunningDeadlineSeconds",
    dict: "metadata spec authOptions autoscalerOptions resources requests limits headGroupSpec rayStartParams template "
    "valueFrom secretKeyRef secretRef rayClusterSpec",
    list: "containers env envFrom ports workerGroupSpecs tolerations",
}
KIND_OF = {name: kind for kind, names in KINDS.items() for name in names.split()}
"""The type of each field of KubeRay's that the manifests use."""


def faults(node: dict[str, Any]) -> list[str]:
    """Fields that KubeRay does not have, or that are of another type there."""
    found = []
    for key, value in node.items():
        found += [key] if type(value) is not KIND_OF.get(key) else []
        inner = value if isinstance(value, list) else [value]
        found += [fault for each in inner if isinstance(each, dict) for fault in faults(each)]
    return found


def text_of(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def content_of(name: str) -> Any:
    return yaml.safe_load(text_of(name))


def head_of(name: str) -> list[str]:
    """The comment with which a file begins, line by line."""
    lines = []
    for line in text_of(name).splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith(("#!", "#SBATCH")):
            lines.append(line.removeprefix("#").strip())
    return lines


def job() -> dict[str, Any]:
    return content_of("rayjob.yaml")["spec"]


def cluster_of(manifest: str) -> dict[str, Any]:
    spec = content_of(manifest)["spec"]
    return spec.get("rayClusterSpec", spec)


def groups_of(cluster: dict[str, Any]) -> list[dict[str, Any]]:
    """The head and the groups of workers."""
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


def containers_of(cluster: dict[str, Any]) -> list[dict[str, Any]]:
    return [container for group in groups_of(cluster) for container in group["template"]["spec"]["containers"]]


def parsed(command: str) -> list[str]:
    """The overrides of a command of ours, or an error where it is none."""
    program, *arguments = shlex.split(command)
    assert program == "pyrite"
    chosen, more = parser().parse_known_args(arguments)
    assert not any(text.startswith("-") for text in more)
    return [*getattr(chosen, "overrides", []), *more]


def ray_version() -> str:
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line.removeprefix("ray==") for line in pinned if line.startswith("ray=="))


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FILES)
def test_each_file_says_how_it_is_used(name):
    said = head_of(name)
    assert any(line.startswith("make install" if name == "study.sbatch" else "docker build") for line in said)
    assert name == "Dockerfile" or any(f"deploy/{name}" in line for line in said)
    assert any(line.startswith(("Yours to change", "FAISS")) for line in said)
    for line in said:
        if line.startswith("pyrite "):
            assert parsed(re.split(r"\s{3,}", line)[0])
    # Results go where every node can write.
    uris = re.findall(r"(?:out=|--resume |pyrite report )([a-z0-9]+:[^\s`]+)", text_of(name))
    assert uris or name in ("Dockerfile", "study.sbatch")
    for uri in uris:
        assert uri.startswith("s3://example-bucket/")
        assert ClusterPaths(WorkingFolder(Path(), {}), False).output(uri) == uri


def test_what_ray_up_takes():
    import ray.autoscaler

    schema = json.loads((Path(ray.autoscaler.__file__).parent / "ray-schema.json").read_text(encoding="utf-8"))
    content = content_of("cluster.yaml")
    jsonschema.validate(content, schema)
    workers = [kind for name, kind in content["available_node_types"].items() if name != content["head_node_type"]]
    assert content["head_node_type"] in content["available_node_types"]
    assert content["max_workers"] == sum(kind["max_workers"] for kind in workers)
    assert {"GPU" in kind["resources"] for kind in workers} == {True, False}
    # The dashboard is served on loopback alone, and nodes get the token.
    assert "--dashboard-host=127.0.0.1" in " ".join(content["head_start_ray_commands"])
    assert "0.0.0.0" not in text_of("cluster.yaml")
    assert "security_group" not in content["provider"]
    assert "--env RAY_AUTH_MODE=token" in content["docker"]["run_options"]
    assert content["file_mounts"] == {"/home/ray/.ray/auth_token": "~/.ray/auth_token"}
    assert any(line.startswith("ray get-auth-token --generate") for line in head_of("cluster.yaml"))


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_what_kuberay_takes(manifest):
    content = content_of(manifest)
    assert (content["apiVersion"], content["kind"]) == ("ray.io/v1", "RayJob" if "job" in manifest else "RayCluster")
    assert not faults(content)
    assert all(len(group["template"]["spec"]["containers"]) == 1 for group in groups_of(cluster_of(manifest)))
    assert cluster_of("raycluster.yaml") == cluster_of("rayjob.yaml")
    # Pods have the token from a secret.
    cluster = cluster_of(manifest)
    assert cluster["authOptions"]["mode"] == "token"
    secret = cluster["authOptions"]["secretName"]
    for container in containers_of(cluster):
        variables = {variable["name"]: variable for variable in container["env"]}
        assert variables["RAY_AUTH_MODE"]["value"] == "token"
        token = {"valueFrom": {"secretKeyRef": {"name": secret, "key": "auth_token"}}}
        assert variables["RAY_AUTH_TOKEN"] == {"name": "RAY_AUTH_TOKEN", **token}
    assert f"create secret generic {secret} --from-literal=auth_token=" in " ".join(head_of(manifest))


def test_helm_makes_the_cluster_of_the_manifest():
    values = content_of("values.yaml")
    cluster = cluster_of("raycluster.yaml")
    assert values["fullnameOverride"] == content_of("raycluster.yaml")["metadata"]["name"]
    assert values["service"]["type"] == cluster["headGroupSpec"]["serviceType"]
    given = {key: values["head"][key] for key in ("rayVersion", "enableInTreeAutoscaling", "autoscalerOptions")}
    token = given["autoscalerOptions"].pop("env")  # the chart has no authOptions, which brings it elsewhere
    assert given == {key: cluster[key] for key in given}
    groups = [values["worker"], {"groupName": "gpu", **values["additionalWorkerGroups"]["gpu"]}]
    assert values["additionalWorkerGroups"]["smallGroup"] == {"disabled": True}
    assert groups[1].pop("disabled") is False
    for chart, group in zip([values["head"], *groups], groups_of(cluster), strict=True):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        expected = {
            "tolerations": pod.get("tolerations", []),
            "ports": container.get("ports", []),
            **{key: container[key] for key in ("envFrom", "resources")},
            **{key: value for key, value in group.items() if key not in ("template", "serviceType")},
        }
        assert {"ports": [], "tolerations": [], **{key: chart[key] for key in chart if key not in given}} == expected
        assert container["env"] == values["common"]["containerEnv"] == token


def test_one_image_and_one_version_of_ray_everywhere():
    named = {container["image"] for manifest in MANIFESTS for container in containers_of(cluster_of(manifest))}
    helm = content_of("values.yaml")["image"]
    image = content_of("cluster.yaml")["docker"]["image"]
    assert named | {f"{helm['repository']}:{helm['tag']}"} == {image}
    build, push = (shlex.split(line) for line in head_of("Dockerfile") if line.startswith("docker "))
    assert build[build.index("-t") + 1] == push[-1] == image
    assert build[build.index("-f") + 1] == "deploy/Dockerfile"
    assert image.endswith(f":{project()['project']['version']}-ray{ray_version()}")
    assert f"\nARG RAY_VERSION={ray_version()}\n" in text_of("Dockerfile")
    assert {cluster_of(manifest)["rayVersion"] for manifest in MANIFESTS} == {ray_version()}
    for name in FILES:
        assert set(re.findall(r"(?<![\d.])2\.\d+\.\d+", text_of(name))) <= {ray_version()}


def test_the_image_has_what_the_project_has():
    copied = re.findall(r"^COPY --chown=\S+ (.+) \S+$", text_of("Dockerfile"), re.MULTILINE)
    sources = {name for line in copied for name in line.split()}
    assert all((ROOT / name).exists() for name in sources)
    settings = project()
    packages = {"pyrite", *(link.name for link in (ROOT / "pyrite").iterdir() if link.is_symlink())}
    assert packages | {"pyproject.toml", "constraints.txt", "README.md", "LICENSE"} == sources
    extras = re.findall(r"EXTRAS=([a-z,]+)", text_of("Dockerfile"))
    assert {extra for line in extras for extra in line.split(",")} <= set(settings["project"]["optional-dependencies"])


def test_the_entrypoint_is_a_study_of_ours(tmp_path):
    out, overrides = split_output(parsed(job()["entrypoint"]))
    assert shlex.split(job()["entrypoint"])[1] == "study"
    study = read(STUDY, [*overrides, f"out={tmp_path / 'out'}"]).plan
    runs = [planned for point in study.points() for planned in plan(point, [], study.seeds)]
    assert len(study.points()) == 4
    assert len(runs) == 4 * 20
    assert {planned.config["resources"]["gpu"] for planned in runs} == {0.25}
    assert out is not None
    assert compose([f"out={out}"], "study")["out"] == out
    # A second attempt goes on, and it is interrupted as ours are.
    assert "resume=auto" in overrides
    assert f"`pyrite report {out}`" in " ".join(head_of("rayjob.yaml"))
    assert yaml.safe_load(job()["runtimeEnvYAML"]) == {"env_vars": STOP_AS_CTRL_C}
    assert job()["backoffLimit"] > 0
    assert job()["shutdownAfterJobFinishes"]


SLURM = """#!/bin/bash
echo "$(basename "$0") $*" >> {log}
case "$(basename "$0") $*" in
    "scontrol show"*) echo n1; sleep 0.2; echo n2 ;;
    *"hostname --ip-address") echo "10.0.0.1 fe80::1" ;;
    srun*--head*) {head} ;;
    srun*) exec sleep 60 ;;
    "ray status"*) {answers} ;;
    "pyrite"*) until [ "$(grep -c 'ray start' {log})" = 2 ]; do sleep 0.1; done; {study} ;;
esac
"""


def submitted(
    folder: Path, study: str, interrupt: bool = False, head: str = "exec sleep 60", answers: str = "true", **more: str
) -> tuple[int, list[str]]:
    """The exit code of the script for Slurm on two nodes, and what it asked of Slurm, Ray and Pyrite."""
    log = folder / "log"
    log.unlink(missing_ok=True)
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for name in ("scontrol", "srun", "ray", "pyrite"):
        (programs / name).write_text(SLURM.format(log=log, study=study, head=head, answers=answers))
        (programs / name).chmod(0o755)
    job = {"JOB_ID": "7", "JOB_NODELIST": "n[1-2]", "JOB_NUM_NODES": "2", "CPUS_PER_TASK": "16"}
    job["SUBMIT_DIR"] = str(folder)
    environment = {"PATH": os.environ["PATH"], **{f"SLURM_{key}": value for key, value in job.items()}, **more}
    command = ["bash", str(DEPLOY / "study.sbatch"), "seeds=2"]
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        if interrupt:
            while not (log.exists() and (folder / "ready").exists()):
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
        return process.wait(30), log.read_text().splitlines()
    finally:
        for pid in psutil.pids():  # the steps that a Slurm would end with the job, each in a group of its own
            with contextlib.suppress(psutil.Error, OSError):
                if os.getsid(pid) == process.pid:
                    psutil.Process(pid).kill()


def test_slurm_starts_ray_on_every_node_and_hands_on_how_the_study_ended(tmp_path):
    code, asked = submitted(tmp_path, "exit 2")
    assert code == 2
    steps = [line for line in asked if line.startswith("srun") and "ray start" in line]
    assert sum("--head" in line and "--nodelist=n1" in line and "--num-cpus=16" in line for line in steps) == 1
    assert sum("--exclude=n1" in line and "--address=10.0.0.1:20007" in line for line in steps) == 1
    assert f"pyrite study seeds=2 out={tmp_path}/outputs/slurm-7 resume=auto" in asked


def test_slurm_ends_with_rays_exit_code_if_the_head_can_not_start_and_does_not_wait_for_ever(tmp_path):
    code, asked = submitted(tmp_path, "exit 0", head="exit 3", answers="false")
    assert code == 3
    assert not any(line.startswith("pyrite") for line in asked)
    code, asked = submitted(tmp_path, "exit 0", head="exit 0", answers="false")
    assert code == 1  # a head that ends is none
    code, asked = submitted(tmp_path, "exit 0", answers="false", PYRITE_START_SECONDS="1")
    assert code == 1
    assert not any(line.startswith("pyrite") for line in asked)


def test_a_ray_job_whose_head_can_not_start_fails_in_minutes():
    assert 300 <= job()["preRunningDeadlineSeconds"] <= 1800


def test_slurm_continues_a_study_and_queues_it_again_if_it_ran_out_of_time(tmp_path):
    wait = (
        f"trap 'sleep 0.5; touch {tmp_path}/written; exit 130' INT; touch {tmp_path}/ready; "
        "for i in $(seq 300); do sleep 0.1; done"
    )
    code, asked = submitted(tmp_path, wait, interrupt=True)
    assert code == 130
    assert (tmp_path / "written").exists()
    assert f"pyrite study seeds=2 out={tmp_path}/outputs/slurm-7 resume=auto" in asked
    assert "scontrol requeue 7" in asked


def test_pods_get_what_they_may_use_which_ray_counts_and_serve_nothing_beyond_the_cluster():
    cluster = cluster_of("raycluster.yaml")
    assert cluster["headGroupSpec"]["serviceType"] == "ClusterIP"
    head, *workers = containers_of(cluster)
    assert {port["containerPort"] for port in head["ports"]} == {6379, 8265, 8080}  # and not Ray Client's 10001
    assert not any("ports" in container for container in workers)
    for given in [cluster["autoscalerOptions"], *containers_of(cluster)]:
        assert given["resources"]["requests"] == given["resources"]["limits"]
        assert {"cpu", "memory"} <= set(given["resources"]["limits"])
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    with_gpu = set()
    for group in cluster["workerGroupSpecs"]:
        pod = group["template"]["spec"]
        limits = pod["containers"][0]["resources"]["limits"]
        assert group["rayStartParams"] == {"num-cpus": limits["cpu"], "num-gpus": limits.get(GPU, "0")}
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
        assert any(toleration["key"] == GPU for toleration in pod.get("tolerations", ())) == (GPU in limits)
        with_gpu.add(GPU in limits)
    assert with_gpu == {True, False}
