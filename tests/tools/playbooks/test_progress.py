"""The progress shown from Ansible's events: how far it is, what is wrong, without text from any node."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import waiting
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import who_is_slow
from railyard.base.progress import Line, Progress, message_of


def event(name: str, **data: object) -> dict[str, object]:
    return {"event": name, "event_data": data}


def looked_at(progress: Progress, text: str) -> list[str]:
    progress.feed(event("playbook_on_task_start", task="Wait", task_action="railyard.fabric.fabric_watch"))
    return [line.text for line in progress.feed({"event": "verbose", "stdout": text})]


def test_how_far_the_nodes_are_is_what_the_first_of_them_says():
    progress = Progress()
    seen = {"finished_tests": 2, "total_tests": 10, "left_s": 400, "done": False, "current": "m1 ping_rtt"}
    seen |= {"round": 3, "rounds": 7, "met": 2, "meetings": 6}
    told = waiting.progress_line(seen)
    assert looked_at(progress, told) == [
        "measuring: 2 of 10 tests done, 3 of 7 rounds, 2 of 6 pairs, about 7 min left, m1 ping_rtt"
    ]
    assert (progress.tests_done, progress.tests_total, progress.current_test) == (2, 10, "m1 ping_rtt")
    over = {"finished_tests": 10, "left_s": 0, "done": True, "current": None, "meetings": 1}
    last = waiting.progress_line({**seen, **over})
    assert looked_at(progress, last) == ["measuring: 10 of 10 tests done"]
    assert (progress.tests_done, progress.current_test) == (10, "")


def test_a_suspect_so_far_is_shown_and_is_no_trouble_of_ansible_s():
    progress = Progress()
    told = who_is_slow.so_far("gpu003", ["rail0", "rail1"])
    looked_at(progress, "measuring: 2 of 10 tests done")
    assert [(line.style, line.text) for line in progress.feed({"event": "verbose", "stdout": told})] == [
        ("warning", "suspect so far: gpu003 rail0, gpu003 rail1, slow or without numbers with every partner")
    ]
    assert progress.messages == []
    assert progress.tests_total == 10


def test_a_message_is_not_repeated():
    progress = Progress(said="Measuring takes about 3 min: 1 pair in 1 round.")
    texts = progress.said, "3 nodes are busy"
    told = [progress.feed({"event": "verbose", "stdout": text}) for text in texts]
    assert [[line.text for line in lines] for lines in told] == [[], ["3 nodes are busy"]]


def test_a_long_task_is_reported_with_the_time_it_has_taken():
    progress = Progress(clock=lambda: 100.0)
    assert progress.still() == []
    progress.feed(event("playbook_on_task_start", task="Install the tools", task_action="apt"))
    for host in ("gpu001", "gpu002"):
        progress.feed(event("runner_on_start", host=host))
    progress.feed(event("runner_on_ok", host="gpu001", res={}))
    for now_s, text in ((135.4, "35 s"), (189.0, "89 s"), (700.0, "10 min")):
        progress.clock = lambda now_s=now_s: now_s
        assert [line.text for line in progress.still()] == [
            f"still running ({text}): Install the tools, 1 of 2 hosts"
        ]
    progress.feed(event("runner_on_ok", host="gpu002", res={}))
    assert progress.still() == []


def test_each_task_has_its_own_time_and_one_host_is_no_plural():
    progress = Progress(clock=lambda: 0.0)
    progress.feed(event("playbook_on_task_start", task="Install the tools", task_action="apt"))
    progress.clock = lambda: 50.0
    progress.feed(event("playbook_on_task_start", task="Apply the rails", task_action="netplan_apply"))
    progress.feed(event("runner_on_start", host="gpu001"))
    progress.clock = lambda: 70.0
    assert [line.text for line in progress.still()] == ["still running (20 s): Apply the rails, 1 of 1 host"]


def test_nodes_that_measure_are_reported_with_the_age_of_their_last_report_and_the_time_left():
    progress = Progress(clock=lambda: 100.0)

    def still(now_s: float) -> str:
        progress.clock = lambda: now_s
        (line,) = progress.still()
        return line.text

    looked_at(progress, "measuring: 3 of 40 tests done")
    assert still(120.4) == (
        "measuring: 3 of 40 tests done at last report (20 s ago), time left not known yet;"
        " reports are rare, because each one disturbs the test that is running"
    )
    looked_at(progress, "measuring: 7 of 40 tests done, about 3 min left, m1 ping_rtt")
    assert still(140.4) == "measuring: 7 of 40 tests done at last report (20 s ago), about 3 min left"
    assert still(230.4) == "measuring: 7 of 40 tests done at last report (2 min ago), about 70 s left"
    looked_at(progress, "measuring: 30 of 40 tests done, about 40 s left")
    assert still(240.4) == "measuring: 30 of 40 tests done at last report (10 s ago), about 30 s left"
    assert still(280.0).endswith("at last report (50 s ago), the next report is due now")
    looked_at(progress, "measuring: 40 of 40 tests done")
    assert progress.still() == []


@pytest.mark.parametrize("left_s", [None, 0, 4, 5, 89, 90, 4000])
def test_the_time_left_that_is_shown_is_read_back(left_s):
    progress = Progress(clock=lambda: 0.0)
    seen = {"finished_tests": 2, "total_tests": 10, "left_s": left_s, "done": False, "current": "m1 ping_rtt"}
    seen |= {"round": 1, "rounds": 1, "met": 0, "meetings": 1}
    assert looked_at(progress, waiting.progress_line(seen)) == [waiting.progress_line(seen)]
    assert (progress.tests_done, progress.current_test) == (2, "m1 ping_rtt")
    assert progress._left_s is None if left_s is None or left_s < 5 else abs(progress._left_s - left_s) <= 30


def test_failures_while_measuring_are_left_to_the_judge():
    progress = Progress()
    progress.feed(
        event("runner_on_failed", host="gpu1", task="Install", task_action="apt", res={"msg": "no"})
    )
    progress.feed(event("runner_on_ok", host="gpu1", task_action="railyard.fabric.fabric_open", res={}))
    progress.feed(
        event("runner_on_failed", host="gpu2", task="Stage", task_action="fabric_stage", res={"msg": "no"})
    )
    lines = progress.feed(judge_failed({"exit_status": 1, "msg": "2 of 38 asked checks failed"}))
    progress.feed(event("playbook_on_stats", failures={"gpu1": 1, "gpu2": 1, "gpu3": 1}, dark={}))
    assert lines == []
    assert progress.judgement == ""
    progress.feed(judge_failed({"exit_status": 1, "msg": "2 failed", "judgement": "5a" * 32}))
    assert progress.judgement == "5a" * 32
    assert progress.failed_hosts() == ["gpu1"]
    assert [one.host for one in progress.failures_while_measuring()] == ["gpu2"]


def judge_failed(result):
    action = "railyard.fabric.fabric_judge"
    return event("runner_on_failed", host="gpu3", task="Judge", task_action=action, res=result)


def test_a_judge_that_breaks_down_is_no_judgement():
    # Without an exit status it came to no verdict: what it says must be seen, and no silence be a pass.
    lines = Progress().feed(judge_failed({"msg": "No space left on device"}))
    assert len(lines) == 1
    assert "No space left on device" in lines[0].text


@pytest.mark.parametrize("name", ["runner_on_ok", "runner_on_start", "verbose", "playbook_on_stats", ["x"]])
@pytest.mark.parametrize(
    "data",
    ["x", ["x"], {"res": "x"}, {"host": ["x"], "res": {"warnings": 5, "total_tests": "x"}}, {"failures": 5}],
)
def test_an_event_of_another_shape_says_nothing(name, data):
    progress = Progress()
    assert progress.feed({"event": name, "event_data": data, "pid": 1}) == []
    assert (progress.failures, progress.failed_hosts(), progress.unreachable_hosts()) == ([], [], [])


def test_a_node_cannot_write_to_the_terminal():
    message = message_of({"msg": "red \x1b[31malert\x1b[0m\r\nnext\u202e", "stderr": "x\x07y"})
    assert message == "red alert\nnext\nstderr:\nxy"


def test_a_censored_result_stays_censored():
    assert message_of({"censored": "hidden", "msg": "secret"}) == "hidden"


def test_long_output_is_cut_and_says_so():
    shown = message_of({"msg": "failed", "stdout": "\n".join(str(number) for number in range(100))})
    assert "80 lines more above" in shown
    assert shown.endswith("99")


def test_what_a_result_warns_of_is_shown_once():
    progress = Progress()
    feed = {"event": "runner_on_ok", "event_data": {"task": "t", "task_action": "x"}}

    def shown(host, *warnings):
        data = {**feed["event_data"], "host": host, "res": {"warnings": list(warnings)}}
        return progress.feed({**feed, "event_data": data})

    assert shown("gpu1", "gpu1: rail0 has drifted", "old python") == [
        Line("warning", "gpu1: rail0 has drifted"),
        Line("warning", "gpu1: old python"),
    ]
    assert shown("gpu2", "old python") == []
