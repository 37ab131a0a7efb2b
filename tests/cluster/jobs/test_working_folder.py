"""The files that travel with a job, and the paths of its overrides."""

import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from pyrite.cluster.commands.verbs import parse
from pyrite.cluster.config.grammar import values_of
from pyrite.cluster.jobs import submission
from pyrite.cluster.jobs.submission import is_this_machine, job_arguments, send
from pyrite.cluster.jobs.working_folder import ClusterPaths, WorkingFolder, split_output
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.errors import BadInput
from tests.cluster.command_line import command
from tests.made_up import write_files

SENT = ["docs/a.md", "linked/table.csv", "mine/run.py", "nested/code.py", "plugin/own.py"]


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path) -> Path:
    """A repository with a submodule, a nested clone, a linked folder, an environment, and ignored files."""
    plugin, outside, project = tmp_path / "plugin", tmp_path / "outside", tmp_path / "project"
    for folder, name in ((plugin, "own.py"), (outside, "table.csv"), (project / "nested", "code.py")):
        folder.mkdir(parents=True)
        (folder / name).write_text(name)
    for folder in (plugin, project / "nested"):
        git(folder, "init", "-q")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "first")
    for name in ("docs/a.md", "mine/run.py", "data/corpus.jsonl", "outputs/s/summary.csv", "env/pyvenv.cfg",
                 "env/lib/site.py", "notes/big.bin", ".venv/bin/python", ".env"):  # fmt: skip
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(name)
    git(project, "init", "-q")
    git(project, "submodule", "add", "-q", str(plugin), "plugin")
    (project / "linked").symlink_to(outside)
    (project / "docs" / "again").symlink_to(project)  # a loop
    (project / ".gitignore").write_text("/data\n/env\n")
    (project / ".rayignore").write_text("*.bin\n")
    return project


def names(folder: WorkingFolder) -> list[str]:
    """Return the names of what travels, without those that git and ignore files need."""
    return sorted(name for name in folder.sizes if not name.rpartition("/")[2].startswith(".git") and name[0] != ".")


def test_submodules_links_and_nested_clones_travel_ignored_files_stay_and_ray_packs_the_same(project, tmp_path):
    folder = WorkingFolder.of(project)
    assert names(folder) == SENT
    assert ".env" not in folder.sizes
    assert folder.summary() == f"sending {len(folder.sizes)} files (0.0 MiB) of {project}"
    assert folder.excludes[-1] == "/docs/again"
    assert names(WorkingFolder.of(project, ["docs", "*.csv"])) == ["mine/run.py", "nested/code.py", "plugin/own.py"]
    from ray._private.ray_constants import get_runtime_env_default_excludes
    from ray._private.runtime_env.packaging import create_package

    archive = tmp_path / "package.zip"
    excludes = [*get_runtime_env_default_excludes(), *folder.excludes]
    create_package(str(project), archive, include_gitignore=True, excludes=excludes)
    with zipfile.ZipFile(archive) as packed:
        assert sorted(name for name in packed.namelist() if not name.endswith("/")) == sorted(folder.sizes)


def test_too_much_is_refused_with_the_largest_files_and_nothing_too(project, tmp_path, monkeypatch):
    monkeypatch.setattr("pyrite.cluster.jobs.working_folder.MAX_PACKAGE_BYTES", 5 * 2**20)
    for size, name in enumerate(["one", "two", "three", "four"], 1):
        (project / "docs" / name).write_bytes(bytes(size * 2**20))
    with pytest.raises(BadInput, match=r"holds more than 5 MiB; .*docs/.* \(\d\.0 MiB\).*\.rayignore or --exclude"):
        WorkingFolder.of(project)
    assert WorkingFolder.of(project, ["/docs"])
    with pytest.raises(BadInput, match=r"there is no such folder; .*--working-dir"):
        WorkingFolder.of(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert WorkingFolder.of(tmp_path / "empty").sizes == {}  # where a command that needs no file is submitted
    Storage(str(tmp_path / "empty" / "outputs")).write("config.yaml", b"")
    assert WorkingFolder.of(tmp_path / "empty").sizes == {}
    (tmp_path / "empty" / ".gitignore").write_text("*\n")
    with pytest.raises(BadInput, match=r"has no files to send; does \.gitignore exclude all of them\?"):
        WorkingFolder.of(tmp_path / "empty")


@pytest.fixture
def here(project) -> ClusterPaths:
    """Paths for a cluster that is this machine."""
    return ClusterPaths(WorkingFolder.of(project), True, (), project)


@pytest.fixture
def remote(project) -> ClusterPaths:
    """Paths for a cluster of other machines."""
    return ClusterPaths(WorkingFolder.of(project), False, ("/mnt/lab",), project)


def test_outputs_are_relative_to_the_current_folder_or_seen_by_every_node(here, remote, project):
    for given, out in (("outputs/s", "outputs/s"), ("'my study'", "my study"), ("null", None)):
        assert split_output([f"out={given}", "seeds=2"]) == (out, ["seeds=2"])
    assert split_output(["seeds=2"]) == (None, ["seeds=2"])
    assert here.output("outputs/s") == f"{project}/outputs/s"
    for paths, out in ((here, "/somewhere/s"), (here, "s3://lab/s"), (remote, "gs://lab/s"), (remote, "/mnt/lab/s")):
        assert paths.output(out) == out
    assert remote.output("file:///mnt/lab/s") == "/mnt/lab/s"
    for out in ("outputs/s", "/home/me/s", "/mnt/laboratory/s", "/mnt/lab/../s", "file:///home/me/s"):
        with pytest.raises(BadInput, match=r"^out: .* is a path of this machine, .* --shared FOLDER"):
            remote.output(out)


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("collection.path=linked", "linked"),
        ("run_file.path=./docs/a.md", "docs/a.md"),
        ("relabel=linked/table.csv", "linked/table.csv"),
        ("guard.ranker=nested", "nested"),
        ("runs=[docs/a.md,mine/run.py]", "[docs/a.md,mine/run.py]"),
        ("collection.folders={a:plugin/own.py,b:linked}", "{a:plugin/own.py,b:linked}"),
        ("policy.checkpoint=choice(linked, 'docs')", "choice(linked, docs)"),
        (
            "trainer.run='python plugin/own.py --data {data} --out {out}'",
            "'python plugin/own.py --data {data} --out {out}'",
        ),
        ("trainer=mine/run.py:train,plugin/own.py:train", "mine/run.py:train,plugin/own.py:train"),
    ],
)
def test_inputs_in_the_working_folder_travel(given, sent, remote, project):
    key = given.partition("=")[0]
    whole = given.replace("./", "")
    for name in SENT:
        whole = whole.replace(name, str(project / name))
    for written in (given, whole):
        assert remote.inputs([written]) == [f"{key}={sent}"]


def test_inputs_on_this_machine_or_in_a_shared_folder_become_absolute(here, project):
    assert here.inputs(["collection.path=data/corpus.jsonl", "pools=docs", "relabel=mine/run.py"]) == [
        f"collection.path={project}/data/corpus.jsonl", f"pools={project}/docs", f"relabel={project}/mine/run.py"
    ]  # fmt: skip
    swept = here.inputs(["policy.checkpoint=docs,nested"])[0]
    assert values_of(swept) == [f"{project}/docs", f"{project}/nested"]
    (project / "with space").mkdir()
    for given in ("'with space'", "with space"):  # quoted if Hydra needs it
        assert here.inputs([f"collection.path={given}"]) == [f"collection.path='{project}/with space'"]
    shared = ClusterPaths(WorkingFolder.of(project), False, (str(project.parent),), project)
    assert shared.inputs(["relabel=../outside/table.csv"]) == [f"relabel={project.parent}/outside/table.csv"]


def test_inputs_that_no_other_node_sees_are_refused(remote, project):
    outside = project.parent / "outside" / "table.csv"
    for override in (f"evaluate={outside}", "collection.path=../outside", f"collection.folders={{a:{outside}}}",
                     f"trainer={outside}:train"):  # fmt: skip
        with pytest.raises(BadInput, match=r"is on this machine only: it is outside the working folder"):
            remote.inputs([override])
    with pytest.raises(BadInput, match=r"^collection.path: data/corpus.jsonl does not travel .*\.gitignore"):
        remote.inputs(["collection.path=data/corpus.jsonl"])
    with pytest.raises(BadInput, match=r"^track.mlflow.uri: .* results that a node writes there would be lost"):
        remote.inputs(["track.mlflow.uri=sqlite:///mlflow.db"])


def test_values_that_are_no_paths_of_this_machine_stay(here, remote):
    given = ["ranker.checkpoint=sentence-transformers/all-MiniLM-L6-v2", "collection.path=/corpora/x", "limits.test=9",
             "function=docs", "~recipe", "optimizer.lr=tag(log,interval(1e-4,1e-2))", "cache=null", "runs=s3://l/r",
             "baseline='policy=fixed function=bm25'", "track.mlflow.uri=http://lab:5000"]  # fmt: skip
    assert here.inputs(given) == remote.inputs(given) == given


def test_variables_that_the_job_gets(here, remote, project, monkeypatch):
    for name in ("PYRITE_CACHE", "PYRITE_DATA"):
        monkeypatch.delenv(name, raising=False)
    assert here.variables() == {"PYRITE_DATA": f"{project}/data"}
    monkeypatch.setenv("PYRITE_CACHE", "c")
    monkeypatch.setenv("PYRITE_DATA", "/mnt/lab/d")
    assert here.variables() == {"PYRITE_CACHE": f"{project}/c", "PYRITE_DATA": "/mnt/lab/d"}
    assert remote.variables() == {"PYRITE_DATA": "/mnt/lab/d"}
    monkeypatch.setenv("PYRITE_CACHE", "s3://lab/c")
    assert remote.variables()["PYRITE_CACHE"] == "s3://lab/c"


@pytest.fixture
def of_two_machines(monkeypatch) -> None:
    monkeypatch.setattr(submission, "is_this_machine", lambda url, access: False)


def sent(console: Console, *line: str) -> dict[str, Any]:
    """Return what a job server is given for a command line of `pyrite submit`."""
    given: dict[str, Any] = {}
    client: Any = SimpleNamespace(get_address=lambda: "http://head:8265", submit_job=lambda **job: given.update(job))
    send(parse(["submit", *line]), client, console)
    return given


def test_overrides_come_through_intact_and_options_may_stand_among_them(tmp_path, monkeypatch, console):
    monkeypatch.setattr(submission, "is_this_machine", lambda url, access: True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("")
    overrides = ["optimizer.lr=tag(log,interval(1e-4,1e-2))", "baseline='policy=fixed function=bm25'", "~recipe"]
    given = sent(console, "--cpus", "1", "study", *overrides, "--note", "it's late", "out=outputs/s")
    assert shlex.split(given["entrypoint"]) == [
        sys.executable, "-m", "pyrite", "study", *overrides, f"out={tmp_path}/outputs/s"
    ]  # fmt: skip
    line = shlex.join([*overrides, f"out={tmp_path}/outputs/s"])
    assert given["metadata"] == {"name": "study", "verb": "study", "overrides": line, "note": "it's late"}
    assert given["submission_id"].startswith("study-20")
    assert (given["entrypoint_num_cpus"], given["entrypoint_resources"]) == (1, {})


@pytest.mark.usefixtures("of_two_machines")
def test_what_a_cluster_is_told(tmp_path, console):
    write_files(tmp_path, {"requirements.txt": "einops\n"})
    write_files(tmp_path / "code", {"mine.py": ""})
    options = ["--name", "night", "--working-dir", str(tmp_path / "code"), "--uv", str(tmp_path / "requirements.txt")]
    options += ["--resources", '{"big": 1}', "--shared", str(tmp_path)]
    given = sent(console, "learn", f"out={tmp_path}/agent", *options)
    environment = given["runtime_env"]
    assert environment["working_dir"] == str(tmp_path / "code")
    assert "/outputs" in environment["excludes"]
    assert Path(environment["py_modules"][0], "__main__.py").is_file()  # this checkout's code
    assert f"sending 1 file (0.0 MiB) of {tmp_path / 'code'}\n" in console.file.getvalue()
    assert given["entrypoint"] == f"python -m pyrite learn out={tmp_path}/agent"
    assert environment["uv"] == str(tmp_path / "requirements.txt")
    assert environment["env_vars"]["RAY_JOB_STOP_SIGNAL"] == "SIGINT"
    assert (given["entrypoint_num_cpus"], given["entrypoint_resources"]) == (0, {"big": 1.0})
    assert given["submission_id"].startswith("night-20")


@pytest.mark.usefixtures("of_two_machines")
def test_what_rays_own_submit_takes_too(tmp_path, console, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    json = '{"env_vars": {"A": "1", "B": "1"}, "config": {"setup_timeout_seconds": 9}}'
    line = ["--runtime-env-json", json, "--env", "HF_TOKEN", "--env", "A=2=3", "--env", "EMPTY="]
    environment = sent(console, *line, "study", "out=s3://ada:pw@lab/s")["runtime_env"]
    wanted = {"A": "2=3", "B": "1", "HF_TOKEN": "hf_x", "EMPTY": "", "RAY_JOB_STOP_SIGNAL": "SIGINT"}
    assert wanted.items() <= environment["env_vars"].items()
    assert environment["config"] == {"setup_timeout_seconds": 9}
    assert sent(console, "study", "out=s3://ada:pw@lab/s")["metadata"]["overrides"] == "out=s3://lab/s"
    Path("requirements.txt").write_text("einops")
    for wrong, says in (
        (["--env", "NOT_SET_HERE"], "NOT_SET_HERE is not set in this environment"),
        (["--env", "2x=3"], "is no name of a variable"),
        (["--runtime-env-json", "{"], "is no JSON object"),
        (["--runtime-env-json", '{"working_dir": "."}'], "use --working-dir and --exclude"),
        (["--runtime-env-json", '{"env_vars": 3}'], "env_vars is no mapping"),
        (["--runtime-env-json", '{"pip": ["x"]}', "--uv", "requirements.txt"], "leave out --uv"),
    ):
        with pytest.raises(BadInput, match=says):
            sent(console, *wrong, "study", "out=s3://lab/s")


@pytest.mark.usefixtures("of_two_machines")
@pytest.mark.parametrize(
    "line",
    [
        ["study", "out=outputs/s"],
        ["study", "out=/mnt/lab/s"],
        ["study"],
        ["pool", "--resume", "outputs/p"],
        ["study", "out=s3://lab/s", "--pip", "nowhere.txt"],
        ["study", "out=s3://lab/s", "address=auto"],
        ["study", "out=s3://lab/s", f"collection.path={Path(__file__).parent}"],
        ["study", "out=s3://lab/s", "--working-dir", "nowhere"],
    ],
)
def test_refused_before_anything_is_sent(line, console, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("")
    client: Any = SimpleNamespace(get_address=lambda: "", submit_job=lambda **job: pytest.fail("sent"))
    with pytest.raises(BadInput):
        send(parse(["submit", *line]), client, console)


def test_a_job_that_was_not_told_where_to_write():
    folder, start = WorkingFolder(Path("/home/me"), {}), Path("/home/me")
    here, shared = ClusterPaths(folder, True, (), start), ClusterPaths(folder, False, ("/mnt/lab",), start)
    elsewhere = ClusterPaths(folder, False, (), start)
    for paths, line, arguments in (
        (here, ["study", "seeds=2"], ["study", "seeds=2", "out=/home/me/outputs/job-1"]),
        (shared, ["study"], ["study", "out=/mnt/lab/outputs/job-1"]),
        (elsewhere, ["train", "seed=2"], ["train", "seed=2"]),
        (here, ["study", "resume=auto", "out=s"], ["study", "resume=auto", "out=/home/me/s"]),
        (elsewhere, ["study", "retries=2", "--resume", "s3://l/s"], ["study", "--resume", "s3://l/s", "retries=2"]),
    ):
        assert job_arguments(parse(["submit", *line]), "job-1", paths) == arguments
    with pytest.raises(
        BadInput, match="resume=auto goes on in a folder; name it with out=FOLDER"
    ):  # no new one each time
        job_arguments(parse(["submit", "study", "resume=auto"]), "job-1", here)


def test_a_file_of_a_study_is_sent_as_overrides(tmp_path, monkeypatch, console):
    monkeypatch.setattr(submission, "is_this_machine", lambda url, access: False)
    monkeypatch.chdir(tmp_path)
    experiment = "title: Mine\nseeds: 2\noverrides: [collection.path=pairs.csv]\nmethods:\n  - [function=bm25]\n"
    write_files(
        tmp_path, {"list.yaml": "- collection.path=pairs.csv\n- seeds=2\n", "own.yaml": experiment, "pairs.csv": ""}
    )
    for name in ("list.yaml", "own.yaml"):
        entrypoint = shlex.split(sent(console, "study", name, "scale=tiny", "out=s3://lab/s")["entrypoint"])
        assert entrypoint[3:] == ["study", *parse(["study", name, "scale=tiny"]).overrides, "out=s3://lab/s"]
    with pytest.raises(BadInput, match=r"'list\.yaml' is not an override"):
        parse(["submit", "train", "list.yaml"])


def test_unknown_options_and_verbs_are_refused(capsys):
    assert command("submit", "judge") == 2
    for verb in (["study", "seeds=2"], ["report", "outputs/s"]):
        assert command(*verb, "--fast") == 2
        assert "there is no option --fast" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["study", "seeds"], "'seeds' is not an override; write key=value"),
        (["study", "--name", "a b"], "--name: 'a b' can't start an id"),
        (["study", "--pip", "a", "--uv", "b"], "--pip and --uv exclude each other"),
        (["study", "--cpus", "-1"], "--cpus: -1.0 cores can't be reserved"),
        (["study", "--resources", "[1]"], "--resources: '[1]' does not map resources to numbers"),
        (["study", "--resources", '{"big": true}'], "--resources: '{\"big\": true}' does not map resources to numbers"),
    ],
)
def test_options_that_make_no_sense(arguments, says, refusal):
    assert refusal("submit", *arguments).startswith(says)


def test_a_cluster_that_is_just_starting_is_waited_for(console, monkeypatch):
    monkeypatch.setattr(submission, "POLL_S", 0.0)
    starting = RuntimeError(f"Request failed with status code 500: {submission.NO_AGENT}, please try again later.")
    answers: list[RuntimeError] = []

    def send_it() -> None:
        if answers:
            raise answers.pop()

    for refusals in (0, 2):
        answers.extend([starting] * refusals)
        with console.capture() as said:
            submission.submit_when_ready(send_it, "http://head:8265", console)
        assert not answers
        assert said.get().count("waiting up to 60 s until it takes jobs") == bool(refusals)
    answers.append(starting)
    says = r"^http://head:8265: no node of the cluster took the job .*agent-listen-port=0"
    with pytest.raises(BadInput, match=says):  # in the end
        submission.submit_when_ready(send_it, "http://head:8265", console, timeout_s=-1)
    answers.append(RuntimeError("status code 500: something else"))
    with pytest.raises(RuntimeError, match="something else"):  # at once
        submission.submit_when_ready(send_it, "http://head:8265", console)


def test_which_clusters_are_this_machine(monkeypatch):
    nodes = [{"node_ip": "127.0.0.1"}]
    monkeypatch.setattr("ray.util.state.StateApiClient.__init__", lambda self, url, headers: None)
    monkeypatch.setattr("ray.util.state.StateApiClient.list", lambda self, *asked, **options: nodes)
    assert is_this_machine("http://127.0.0.1:8265")
    nodes.append({"node_ip": "203.0.113.7"})
    assert not is_this_machine("http://127.0.0.1:8265")
