"""What reports say of losses."""

from cluster.output.failure_summary import MAX_RUNS, failure_summary


def test_nothing_is_said_where_nothing_was_lost_and_only_what_had_not_finished_was_interrupted():
    assert failure_summary([]) == []
    straight = [{"event": "began", "verb": "study"}, {"event": "run started", "run": "a"},
                {"event": "run reached", "run": "a", "step": 1}, {"event": "run ended", "run": "a"},
                {"event": "run went on", "run": "a", "after": 3, "repeats": 0}, {"event": "finished"}]  # fmt: skip
    assert failure_summary(straight) == []
    ended = [{"event": "began"}, {"event": "finished"}, {"event": "resumed"}, {"event": "finished"}]
    assert failure_summary(ended) == []
    again = [*ended, {"event": "resumed"}, {"event": "interrupted"}, {"event": "resumed"}, {"event": "failed"},
             {"event": "resumed"}, {"event": "resumed"}, {"event": "finished"}]  # fmt: skip
    assert failure_summary(again) == ["It was interrupted and resumed 3 times."]


def test_losses_and_what_was_repeated():
    events = [
        {"event": "run lost", "run": "a", "unit": "epoch", "reached": 7, "reason": "the worker died"},
        {"event": "run went on", "run": "a", "unit": "epoch", "after": 5, "repeats": 2},
        {"event": "run lost", "run": "a", "unit": "epoch", "reached": 9, "reason": "the node died"},
        {"event": "run went on", "run": "a", "unit": "epoch", "after": 9, "repeats": 0},
        {"event": "resumed", "verb": "study"},
        {"event": "run went on", "run": "b", "unit": "epoch", "after": 0, "repeats": 1},
        {"event": "run says", "run": "b", "line": "index#1 is lost; waiting"},
        {"event": "run says", "run": "b", "line": "index#1 is back"},
    ]
    assert failure_summary(events) == [
        "It was interrupted and resumed once.",
        "1 run was stopped by an error or a lost process, twice in all.",
        "3 epochs had to be repeated; nothing is counted twice.",
        "b: index#1 is lost; waiting.",
        "a: lost at epoch 7 (the worker died); at epoch 9 (the node died), 2 epochs again.",
        "b: interrupted, 1 epoch again.",
    ]
    learning = [{"event": "lost", "says": "RankerHost was lost at episode 8; continuing from the last state"}]
    assert failure_summary(learning) == ["RankerHost was lost at episode 8; continuing from the last state."]
    many = failure_summary([{"event": "run lost", "run": f"r{n}", "reached": 0} for n in range(MAX_RUNS + 5)])
    assert len(many) == 1 + MAX_RUNS + 1
    assert many[-1].startswith("… and 5 more runs")


def test_who_left_a_machine_in_order_is_not_said_to_have_lost_anything():
    events = [
        {"event": "run moved", "run": "a", "unit": "epoch", "reached": 7, "reason": "its machine is to be taken away"},
        {"event": "run went on", "run": "a", "unit": "epoch", "after": 7, "repeats": 0},
        {"event": "run moved", "run": "a", "unit": "epoch", "reached": 9, "reason": "its machine is to be taken away"},
        {"event": "run says", "run": "b", "line": "a worker's machine is to be taken away; the state is kept"},
    ]
    assert failure_summary(events) == [
        "1 run continued on another machine, twice in all, before a machine was taken away; nothing was lost.",
        "b: a worker's machine is to be taken away; the state is kept.",
        "a: moved twice.",
    ]
    lost = {"event": "run lost", "run": "a", "unit": "epoch", "reached": 9, "reason": "the node died"}
    assert failure_summary([*events, lost])[-1] == "a: lost at epoch 9 (the node died), moved twice."
