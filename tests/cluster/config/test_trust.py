import pytest

from pyrite.cluster.commands.study_plan import _options
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.trust import VARIABLE, check_classes, from_folder
from pyrite.cluster.output.manifest import write_config
from pyrite.cluster.output.storage import Storage
from pyrite.pooling.priors import Prior
from pyrite.pooling.rewards import GradeReward
from pyrite.ranking.errors import BadInput

FOREIGN = ["selector._target_=subprocess.Popen", "+selector.args=[touch,here]"]


def test_the_user_may_name_any_class_and_trust_a_package(monkeypatch):
    assert compose(FOREIGN)["selector"]["_target_"] == "subprocess.Popen"
    monkeypatch.setenv(VARIABLE, "mine,subprocess")
    with from_folder():
        assert compose(FOREIGN)["selector"]["_target_"] == "subprocess.Popen"


@pytest.mark.parametrize(
    "overrides", [FOREIGN, ["+training.hook={_target_: subprocess.Popen}"], ["selector._target_=samplings.Evil"],
                  ["policy._target_=${selector.name}", "+selector.name=os.system"]]
)  # fmt: skip
def test_a_folder_may_name_our_classes_alone(overrides):
    with from_folder():
        compose(["selector=top", "optimizer=adamw"])
        with pytest.raises(BadInput, match=r"the folder names a class that is not Pyrite's; if you know and trust it"):
            compose(overrides)
    with from_folder(False):
        compose(FOREIGN)


@pytest.mark.parametrize("kind", [Prior, GradeReward])
def test_a_folder_may_name_each_prior_and_reward(kind):
    of_ours = [each for each in kind.__subclasses__() if each.__module__ == kind.__module__]
    assert len(of_ours) > 1
    for each in of_ours:
        check_classes({"_target_": f"{each.__module__}.{each.__name__}"}, "file")


def test_a_study_from_elsewhere_runs_nothing_of_its_own(base, tmp_path, refusal, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options, design = _options(["out=out", "seeds=1"])
    content = {"study": options, "overrides": [*base, *FOREIGN], "design": design, "collections": {}}
    write_config(Storage("out"), content)
    assert "names a class that is not Pyrite's" in refusal("study", "--resume", "out")
    assert not (tmp_path / "here").exists()


def test_a_foreign_class_is_not_imported_before_it_is_refused(tmp_path, monkeypatch):
    (tmp_path / "intruder.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with from_folder(), pytest.raises(BadInput, match="not Pyrite's"):
        compose(["policy=mixture", "policy.each=1", "policy._target_=intruder.Policy"])
