from pyrite.cluster.config.relocated import moves, new_path, relocated, with_new_paths, with_old_paths


def test_paths_are_exchanged_within():
    config = {"collection": {"path": "old"}, "seed": 1}
    with relocated({"old": "new"}):
        assert new_path("old") == "new"
        assert with_new_paths(config) == {"collection": {"path": "new"}, "seed": 1}
        assert with_old_paths(with_new_paths(config)) == config
    assert with_new_paths(config) == config
    assert config == {"collection": {"path": "old"}, "seed": 1}


def test_a_move_needs_one_path_that_is_gone_and_one_that_is_typed(tmp_path):
    (tmp_path / "there").touch()
    gone, there = f"{tmp_path}/gone.csv", f"{tmp_path}/there"
    assert moves([f"collection.path={gone}"], ["collection.path=new", "seeds=3"]) == {gone: "new"}
    assert moves([f"collection='{gone}'"], ['collection.path="new"']) == {gone: "new"}
    assert moves(["collection=beir", f"collection.path={there}"], ["collection.path=new"]) == {}
    assert moves([f"collection.path={gone}"], ["seeds=3"]) == {}
