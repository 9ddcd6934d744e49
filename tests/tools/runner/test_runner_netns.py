"""Two runners on two nodes made of network namespaces: real tools, real counters, real faults."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.measure import base
from ansible_collections.railyard.fabric.plugins.module_utils.runner import confirm
from railyard.lab import node_faults
from support.nodes.rail_namespaces import (
    MARKS,
    NODES,
    RUN,
    Rails,
    Row,
    Runner,
    both,
    classes,
    ended,
    ip,
    measure,
    not_proven,
    order,
    two_nodes,
    write_tool,
)
from support.programs import wait_until

pytestmark = MARKS
CHECKS = ("path_mtu", "path_mtu_one_way", "ping_rtt", "tcp_bandwidth", "tcp_latency")
QUICK = {"iperf3_omit_s": 0}


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    """One run of everything on a healthy fabric; several tests look at it."""
    with two_nodes() as made:
        folder = tmp_path_factory.mktemp("whole")
        return measure(made, folder, order(policy={"iperf3_duration_s": 2}))


@pytest.fixture
def rails() -> Iterator[Rails]:
    with two_nodes() as made:
        yield made


def of_check(rows: list[Row], check: str, node: str = "gpuserver1") -> Row:
    return next(row for row in rows if row["check"] == check and row["node"] == node)


def failed_at(row: Row) -> tuple[str, str, str]:
    return row["status"], row["error"]["class"], row["error"]["host"]


def test_two_rails_are_measured_and_proven_at_both_ends(whole_run: dict[str, list[Row]]) -> None:
    rows = whole_run
    # 2 rails x 2 directions x 5 checks, and 2 directions x 2 rails at once.
    assert {node: len(found) for node, found in rows.items()} == dict.fromkeys(NODES, 24)
    for node, found in rows.items():
        assert not_proven(found) == [], node
    first, second = (sorted(rows[node], key=lambda row: str(row["id"])) for node in NODES)
    assert [row["id"] for row in first] == [f"m{number:05d}" for number in range(24)]
    for mine, theirs in zip(first, second, strict=True):
        assert {mine["end"], theirs["end"]} == {"client", "server"}
        assert mine["other_end"]["host"] == theirs["host"]
        assert mine["other_end"]["counters"] == theirs["counters"]
    bandwidth = of_check(rows["gpuserver1"], "tcp_bandwidth")
    assert bandwidth["metrics"]["bandwidth_gbps"] > 0.1
    # The received rate is the receiver's: both ends must say the same number.
    other = of_check(rows["gpuserver2"], "tcp_bandwidth")
    assert bandwidth["metrics"]["bandwidth_gbps"] == pytest.approx(
        other["metrics"]["bandwidth_gbps"], rel=0.02
    )
    sizes = of_check(rows["gpuserver1"], "path_mtu")["metrics"]
    assert sizes == {"path_mtu_bytes": 9000, "sent": 5, "received": 5}
    assert of_check(rows["gpuserver1"], "tcp_latency")["latency_is"] == "one_way"


def test_rails_at_once_share_a_start_and_overlap(whole_run: dict[str, list[Row]]) -> None:
    rows = whole_run
    for node in NODES:
        groups: dict[str, list[Row]] = {}
        for row in rows[node]:
            if row["group"]:
                groups.setdefault(row["group"], []).append(row)
        assert len(groups) == 2
        for group in groups.values():
            assert len({row["started"] for row in group}) == 1
            begin = max(row["window_s"][0] for row in group)
            end = min(row["window_s"][1] for row in group)
            longest = max(row["window_s"][1] - row["window_s"][0] for row in group)
            assert (end - begin) / longest >= 0.9
            # The receiver reports what the rails carried.
            assert {row["end"] for row in group if "samples" in row} <= {"server"}
            for sampled in [row["samples"] for row in group if row["end"] == "server"]:
                assert sampled["t_s"][0] < begin < end <= sampled["t_s"][-1] + 0.25
                assert sampled["rx_bytes"] == sorted(sampled["rx_bytes"])
    # Alone, the other rail is watched; in a group both are at work.
    assert of_check(rows["gpuserver1"], "tcp_bandwidth")["other_rails"].keys() == {"rail1"}
    assert of_check(rows["gpuserver1"], "tcp_bandwidth_concurrent")["other_rails"] == {}


def test_rails_at_once_begin_together_however_slowly_each_is_started(rails: Rails, tmp_path: Path) -> None:
    """A slow node takes a second to start a tool, and another time for each rail."""
    tools, begun = tmp_path / "tools", tmp_path / "begun"
    begun.mkdir()
    slow = 'case "$*" in *"-c 10.0.0."*) sleep 1;; esac\nexec /usr/bin/setpriv "$@"'
    write_tool(tools, "setpriv", slow)
    # Each client writes down when it was run, by a clock that is not the runner's.
    note = f'case "$*" in *"-c 10."*) date +%s.%N > {begun}/$$;; esac\nexec /usr/bin/iperf3 "$@"'
    path = write_tool(tools, "iperf3", note)
    common = order(policy={**QUICK, "iperf3_duration_s": 3})
    runners = both(rails, tmp_path, common, {"path": path}, {"path": path})
    for runner in runners:
        assert runner.wait() == 0
    rows = {runner.node: [row for row in runner.rows() if row["group"]] for runner in runners}
    assert {row["proof"] for node in NODES for row in rows[node]} == {"proven"}
    assert {row["argv"][0][0] for node in NODES for row in rows[node]} == {"iperf3"}
    # The last four runs of a client are those of the two groups.
    starts = sorted(float(file.read_text()) for file in begun.iterdir())[-4:]
    apart_s = (starts[1] - starts[0], starts[3] - starts[2])
    print(f"the rails' clients began {max(apart_s) * 1000:.0f} ms apart at most")
    assert max(apart_s) < 0.25, apart_s
    for group in {row["group"] for row in rows["gpuserver1"]}:
        of_group = [row for node in NODES for row in rows[node] if row["group"] == group]
        for end in ("client", "server"):
            # Both ends calculate with the group's start, the server by what the client tells it.
            begins = [row["window_s"][0] for row in of_group if row["end"] == end]
            assert max(begins) - min(begins) < 0.25, (end, begins)
            ends = [row["window_s"][1] for row in of_group if row["end"] == end]
            assert (min(ends) - max(begins)) / (max(ends) - min(begins)) > 0.9


def test_a_rail_that_never_begins_holds_the_other_only_for_a_while(rails: Rails, tmp_path: Path) -> None:
    stuck = 'case "$*" in *railyard-hold*10.0.0.*) sleep 60;; esac\nexec /usr/bin/setpriv "$@"'
    path = write_tool(tmp_path / "tools", "setpriv", stuck)
    runners = both(rails, tmp_path, order(policy=QUICK), {"path": path})
    for runner in runners:
        assert runner.wait() == 0
    for runner in runners:
        sent = [row for row in runner.rows() if row["group"] and row["node"] == "gpuserver1"]
        free, held = sorted(sent, key=lambda row: str(row["rail"]))
        assert (free["status"], free["proof"]) == ("measured", "proven")
        assert failed_at(held) == ("failed", "tool_failed", "gpuserver1")
        assert "was not started within 8 s" in held["error"]["message"]
        back = [row for row in runner.rows() if row["group"] and row["node"] == "gpuserver2"]
        assert {row["proof"] for row in back} == {"proven"}
        assert rails.processes(runner.node) == []


def test_rails_of_ipv6_are_measured(tmp_path: Path) -> None:
    with two_nodes(family=6) as rails:
        rows = measure(rails, tmp_path, order(family=6, rails=["rail0"], policy=QUICK))
    for node in NODES:
        # sockperf 3.7, Debian 12's and Ubuntu's, knows no IPv6: not planned then, and reported.
        others = [row for row in rows[node] if row["check"] != "tcp_latency"]
        assert {(row["status"], row["proof"]) for row in others} == {("measured", "proven")}
        assert len(others) == 8
        latency = of_check(rows[node], "tcp_latency")
        if base.parse_version(latency["tool_version"]) < (3, 8):
            assert (latency["status"], latency["error"]["class"]) == ("unmeasured", "tool_too_old")
        else:
            assert (latency["status"], latency["proof"]) == ("measured", "proven")


def test_a_rail_of_small_mtu_is_measured_as_it_is(rails: Rails, tmp_path: Path) -> None:
    ip("-n", rails.namespace("gpuserver2"), "link", "set", "ens6", "mtu", "1500")
    rows = measure(rails, tmp_path, order(rails=["rail0"], policy=QUICK))
    found = of_check(rows["gpuserver2"], "path_mtu", node="gpuserver2")
    assert (found["status"], found["metrics"]["path_mtu_bytes"]) == ("measured", 1500)
    one_way = of_check(rows["gpuserver2"], "path_mtu_one_way", node="gpuserver2")
    assert one_way["metrics"]["path_mtu_bytes"] == 1500
    assert one_way["proof"] == "proven"


def test_the_paths_of_all_rails_are_tested_at_once_and_each_is_found_as_it_is(
    rails: Rails, tmp_path: Path
) -> None:
    ip("-n", rails.namespace("gpuserver2"), "link", "set", "ens6d1", "mtu", "1500")
    rows = measure(rails, tmp_path, order(policy={**QUICK, "questions": "together"}, full_rounds=0))
    for node in NODES:
        # As in every sweep rows are short, so that a digest stands for what the other end reported.
        assert {"digest"} < set().union(*(row["other_end"] for row in rows[node]))
        paths = [row for row in rows[node] if row["check"] == "path_mtu"]
        assert [(row["status"], row["proof"]) for row in paths] == [("measured", "proven")] * 4
        # Both rails of a direction begin at one moment.
        assert len({row["group"] for row in paths}) == len({row["started"] for row in paths}) == 2
        found = {row["rail"]: row["metrics"]["path_mtu_bytes"] for row in paths if row["end"] == "client"}
        # A sender on the larger side passes a few bytes more: a veth has room for a VLAN's tag.
        assert found["rail0"] == 9000
        assert 1500 <= found["rail1"] <= 1504
        assert {row["check"] for row in rows[node]} == {"path_mtu", "tcp_bandwidth_concurrent"}


def test_an_unknown_host_with_the_peers_address_is_named(rails: Rails, tmp_path: Path) -> None:
    rails.make("stranger")
    rails.plug("stranger", "eth0", 0, "10.0.1.2/24")
    links = json.loads(ip("-n", rails.namespace("stranger"), "-j", "link", "show", "eth0"))
    rows = measure(rails, tmp_path, order(rails=["rail0"]))
    for node in NODES:
        assert len(rows[node]) == 10
        assert {row["status"] for row in rows[node]} == {"unmeasured"}
        assert classes(rows[node]) == {"address_in_use"}
        assert links[0]["address"] in rows[node][0]["error"]["message"]
        assert "10.0.1.2" in rows[node][0]["error"]["message"]


def test_a_peer_of_another_run_is_unauthenticated(rails: Rails, tmp_path: Path) -> None:
    other = {"own": {"secret": "f" * 64}}
    for rows in ended(both(rails, tmp_path, order(rails=["rail0"]), second=other), 40).values():
        assert classes(rows) == {"stranger"}
        assert len(rows) == 10


#: Connects to all ports of a run on all addresses, again and again, keeps what is taken, and says nothing.
SCANNER = """
import select, socket, sys, time
kept = []
while True:
    for address in sys.argv[1:]:
        made = []
        for port in range(18600, 18700):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex((address, port))
            made.append(sock)
        time.sleep(0.1)
        _, taken, _ = select.select([], made, [], 0)
        for sock in made:
            good = sock in taken and not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            kept.append(sock) if good else sock.close()
        for sock in kept[:-200]:
            sock.close()
        kept = kept[-200:]
"""


@pytest.mark.parametrize("filtered", [True, False])
def test_somebody_who_connects_to_the_tools_fails_no_rail(
    rails: Rails, tmp_path: Path, filtered: bool
) -> None:
    """Bare connections of a machine in the rail's network failed two of two tests of bandwidth."""
    before = tmp_path / "before"
    before.mkdir()
    # As on a kernel before 5.3: no process's sockets can be borrowed, and so not filtered.
    (before / "sitecustomize.py").write_text("" if filtered else "import os\ndel os.pidfd_open\n")
    rails.make("scanner")
    rails.plug("scanner", "eth0", 0, "10.0.1.77/24")
    with rails.python("scanner", SCANNER, "10.0.1.1", "10.0.1.2") as scanner:
        try:
            each = {"before": before}
            rows = ended(both(rails, tmp_path, order(rails=["rail0"], policy=QUICK), each, each), 240)
        finally:
            scanner.kill()
    found = [row for node in NODES for row in rows[node] if row["check"] in ("tcp_bandwidth", "tcp_latency")]
    assert len(found) == 8
    for row in found:
        if row["status"] != "measured":
            assert failed_at(row)[:2] == ("unmeasured", "unknown_connection"), row
            assert "10.0.1.77" in row["error"]["message"]
    # Nearly all: the scanner has a hundredth of a second before a server hears its partner alone.
    assert not filtered or sum(row["status"] == "measured" for row in found) >= 4


def test_a_rail_that_is_down_costs_its_own_tests_only(rails: Rails, tmp_path: Path) -> None:
    ip("-n", rails.namespace("gpuserver2"), "link", "set", "ens6", "down")
    begun = time.monotonic()
    rows = measure(rails, tmp_path, order(policy={**QUICK, "first_rendezvous_timeout_s": 45}))
    # The partner was met on rail1, so rail0 is not waited for as at a cold start.
    assert time.monotonic() - begun < 40
    for node in NODES:
        down = [row for row in rows[node] if row["rail"] == "rail0"]
        up = [row for row in rows[node] if row["rail"] == "rail1"]
        assert {row["status"] for row in down} == {"unmeasured"}
        assert classes(down) <= {"rendezvous_timeout"}
        assert {(row["status"], row["proof"]) for row in up} == {("measured", "proven")}
    assert (
        "ens6 of gpuserver2 is down"
        in next(row for row in rows["gpuserver2"] if row["rail"] == "rail0")["error"]["message"]
    )


def test_the_labs_firewall_drops_tcp_and_leaves_nothing_when_it_is_healed(
    rails: Rails, tmp_path: Path
) -> None:
    inside = ("-n", rails.namespace("gpuserver2"))

    def run(*command: str, check: bool = True) -> str:
        done = subprocess.run(["ip", *inside, *command[1:]], check=check, capture_output=True, text=True)
        return done.stdout

    place = SimpleNamespace(netdev="ens6", run=run)
    before = ip(*inside, "rule")
    firewall = node_faults.KINDS["firewall"]
    for _again in range(2):
        firewall.make(place)
    rows = measure(rails, tmp_path, order(rails=["rail0"]))
    for node in NODES:
        assert classes(rows[node]) == {"rendezvous_timeout"}
    firewall.undo(place)
    assert ip(*inside, "rule") == before


def test_missing_tool_garbage_and_taken_port_are_named(rails: Rails, tmp_path: Path) -> None:
    # On the second node: an iperf3 that talks nonsense, and no sockperf at all.
    bare = tmp_path / "bare"
    bare.mkdir()
    for tool in ("ip", "ping", "setpriv", "sh", "sleep"):
        found = subprocess.run(["sh", "-c", f"command -v {tool}"], capture_output=True, text=True, check=True)
        (bare / tool).symlink_to(found.stdout.strip())
    nonsense = 'case "$*" in *-c*) echo fine;; *--version) echo iperf 3.12;; *) sleep 5;; esac'
    write_tool(bare, "iperf3", nonsense)
    listener = (
        "import socket,time\n"
        "held = [socket.create_server(('10.0.1.1', port)) for port in range(18616, 18650)]\n"
        "time.sleep(60)\n"
    )
    blocker = subprocess.Popen(rails.inside("gpuserver1", sys.executable, "-c", listener))
    try:
        time.sleep(0.5)
        runners = both(rails, tmp_path, order(rails=["rail0"], policy=QUICK), second={"path": str(bare)})
        rows = ended(runners, 60)
    finally:
        blocker.kill()
        blocker.wait()
    for node in NODES:
        missing = of_check(rows[node], "tcp_latency")["error"]
        assert (missing["class"], missing["host"]) == ("tool_missing", "gpuserver2")
        assert "sockperf" in missing["message"]
        taken = of_check(rows[node], "tcp_bandwidth", node="gpuserver2")["error"]
        assert (taken["class"], taken["host"]) == ("port_taken", "gpuserver1")
        assert "python" in taken["message"]
    # A server that never listens is a failure that says so, not a hang.
    server = of_check(rows["gpuserver1"], "tcp_bandwidth")["error"]
    assert (server["class"], server["host"]) == ("tool_failed", "gpuserver2")


def test_what_failed_once_is_measured_again_by_both_ends(rails: Rails, tmp_path: Path) -> None:
    """The server of one direction dies at the first attempt, and is well at those after it."""
    place, mark = tmp_path / "bin", tmp_path / "died"
    place.mkdir()
    real = shutil.which("sockperf")
    write_tool(
        place, "sockperf",
        f'if [ "$1" = sr ] && ! [ -e {mark} ]; then : > {mark}; echo "ERROR: no room"; exit 1; fi\n'
        f'exec {real} "$@"',
    )  # fmt: skip
    wanted = order(rails=["rail0"], policy={**QUICK, "confirm": 2})
    path = f"{place}:{os.environ['PATH']}"
    rows = ended(both(rails, tmp_path, wanted, second={"path": path}), 90)
    for node in NODES:
        mine = [row for row in rows[node] if row["attempt"] > 1]
        assert {(row["check"], row["node"], row["status"], row["proof"]) for row in mine} == {
            ("tcp_latency", "gpuserver1", "measured", "proven")
        }
        assert sorted(row["attempt"] for row in mine) == [2, 3]
        assert [row["sequence"] for row in rows[node]] == list(range(1, len(rows[node]) + 1))
        first = next(row for row in rows[node] if row["id"] == mine[0]["id"])
        assert failed_at(first) == ("failed", "tool_failed", "gpuserver2")
        assert len({row["raw"]["name"] for row in mine}) == 2
        # Not at once: what disturbed it may still be there.
        last = max(row["started"] for row in rows[node] if row["attempt"] == 1)
        apart = datetime.fromisoformat(mine[0]["started"]) - datetime.fromisoformat(last)
        assert apart.total_seconds() >= confirm.PAUSE_S


def test_traffic_over_another_rail_is_not_proven(rails: Rails, tmp_path: Path) -> None:
    # The rail's address is right, but a more specific route leads through the other rail.
    ip("-n", rails.namespace("gpuserver1"), "route", "add", "10.0.1.2/32", "via", "10.0.0.2", "dev", "ens6d1")
    rows = measure(rails, tmp_path, order(rails=["rail0"], policy=QUICK))
    for node in NODES:
        row = of_check(rows[node], "tcp_bandwidth")
        assert (row["status"], row["proof"]) == ("measured", "unproven")
        assert "another path" in row["proof_reason"]


def test_killed_in_mid_test_nothing_runs_on_and_no_row_is_lost(rails: Rails, tmp_path: Path) -> None:
    common = order(rails=["rail0"], policy={**QUICK, "iperf3_duration_s": 20})
    first, second = both(rails, tmp_path, common)
    assert wait_until(lambda: any("iperf3 -c" in line for line in rails.processes("gpuserver1")), 20)
    before = len(first.rows())
    os.kill(first.process.pid, signal.SIGKILL)
    first.wait(5)
    assert wait_until(lambda: rails.processes("gpuserver1") == [], 3), rails.processes("gpuserver1")
    assert len(first.rows()) == before == 3
    # The other end notices at once, tries again once, and has to stop.
    assert wait_until(lambda: len(second.rows()) >= 4, 20)
    os.kill(second.process.pid, signal.SIGTERM)
    assert second.wait(15) == 1
    rows = second.rows()
    assert len(rows) == 10
    assert of_check(rows, "tcp_bandwidth")["error"]["class"] == "peer_failed"
    assert rows[-1]["error"]["class"] in ("interrupted", "rendezvous_timeout")
    assert rails.processes("gpuserver2") == []


def test_a_lease_that_is_not_renewed_ends_the_run(rails: Rails, tmp_path: Path) -> None:
    folder = tmp_path / "lease"
    folder.mkdir()
    lease = {"run": RUN, "controller": "somebody", "since_s": time.time(), "lease_s": 2}
    (folder / "lease.json").write_text(json.dumps(lease))
    common = order(rails=["rail0"], policy={"first_rendezvous_timeout_s": 60})
    runner = Runner(rails, tmp_path, "gpuserver1", common, arguments=("--lease", str(folder)))
    assert runner.wait(15) == 1
    assert classes(runner.rows()) == {"interrupted"}
    assert len(runner.rows()) == 10
    assert "showed no sign of life" in runner.rows()[0]["error"]["message"]
    assert not (runner.folder / "work_order.json").exists()  # it held the run's secret
    assert runner.status()["done"] is True


def test_an_absent_partner_is_not_waited_for(rails: Rails, tmp_path: Path) -> None:
    runner = Runner(rails, tmp_path, "gpuserver1", order(absent=["gpuserver2"]))
    assert runner.wait(5) == 0
    assert classes(runner.rows()) == {"peer_absent"}
    assert len(runner.rows()) == 24
