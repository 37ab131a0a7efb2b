"""Tests of the walk over nested mappings and lists."""

from pyrite.cluster.config.nested import nodes, parts_within


def test_the_outer_comes_before_the_inner():
    assert list(nodes({"a": [1, {"b": (2,)}], "c": "text"})) == [
        {"a": [1, {"b": (2,)}], "c": "text"}, [1, {"b": (2,)}], 1, {"b": (2,)}, (2,), 2, "text",
    ]  # fmt: skip
    assert list(nodes(None)) == [None]


def test_what_is_added_to_a_node_is_walked_too():
    content = {"_target_": "A"}
    for part in parts_within(content):
        if part["_target_"] == "A":
            part["inner"] = {"_target_": "B"}
    assert [part["_target_"] for part in parts_within(content)] == ["A", "B"]


def test_parts_are_found_in_parts_and_lists():
    content = {"x": {"_target_": "A", "y": {"_target_": "B"}}, "z": [{"_target_": "C"}, {"w": 1}]}
    assert [part["_target_"] for part in parts_within(content)] == ["A", "B", "C"]
