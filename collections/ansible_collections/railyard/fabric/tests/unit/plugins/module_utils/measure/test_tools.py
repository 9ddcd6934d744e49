# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tools: command lines, what is read from their words, what they claim, the search for a path's MTU."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import (
    GROUP_TESTS,
    NODE_TESTS,
    TESTS,
)
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.measure import (
    base,
    path_mtu,
    ping,
    registry,
    udp_probe,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import Finished, ToolSession
from ansible_collections.railyard.fabric.plugins.module_utils.measure.iperf3 import (
    Iperf3,
    moved_bytes,
    moving_streams,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure.proof import Claim
from ansible_collections.railyard.fabric.plugins.module_utils.measure.sockperf import Sockperf, sent_messages
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import policy_keys

POLICY: dict[str, Any] = {
    "iperf3_duration_s": 4,
    "iperf3_streams": 4,
    "iperf3_omit_s": 1,
    "sockperf_duration_s": 2,
    "sockperf_message_bytes": 64,
    "ping_count": 10,
    "ping_interval_s": 0.02,
    "path_mtu_probes": 5,
}
OWN = Place("gpu001", "rail0", "ens6", "10.0.1.1")


class Desk(ToolSession):
    """A play that answers from a table instead of running anything."""

    def __init__(self, answers: dict[int, int] | None = None, text: str = "", family: int = 4) -> None:
        self.own = OWN if family == 4 else OWN._replace(address="fd00::1")
        self.peer_address = "10.0.1.2" if family == 4 else "fd00::2"
        self.port = 18617
        self.mtu_bytes = 9000
        self.policy = POLICY
        self.answers = answers or {}
        self.text = text
        self.ran: list[list[str]] = []

    def run(self, argv: list[str], limit_s: float, connection: bool = False) -> Finished:
        self.ran.append(argv)
        return Finished(0, self.text, 0.0, 0.1 if connection else None, 6.0)


def test_iperf3_is_bound_to_the_rail_on_both_sides() -> None:
    play = Desk()
    server = "iperf3 -s -1 -J -B 10.0.1.1 -p 18617"
    assert Iperf3().server_argv(play) == server.split()
    client = "iperf3 -c 10.0.1.2 -B 10.0.1.1 -p 18617 -J -t 4 -O 1 -P 4 -l 131072"
    assert Iperf3().client_argv(play) == client.split()


def test_sockperf_is_bound_to_the_rail_on_both_sides() -> None:
    play = Desk()
    server = "sockperf sr --tcp -i 10.0.1.1 -p 18617"
    assert Sockperf().server_argv(play) == server.split()
    client = "sockperf pp --tcp -i 10.0.1.2 -p 18617 --client_ip 10.0.1.1 -m 64 -t 2"
    assert Sockperf().client_argv(play) == client.split()


def test_sockperf_before_3_8_is_not_asked_over_ipv6() -> None:
    asked = "-i fd00::2 -p 18617 --client_ip fd00::1"
    assert Sockperf().client_argv(Desk(family=6))[3:9] == asked.split()
    for version, address in (
        ("3.7", "10.0.1.1"),
        ("3.8", "fd00::1"),
        ("3.10", "fd00::1"),
        ("unknown", "fd00::1"),
    ):
        assert Sockperf().refuses(address, version, "gpu001") is None, version
    obstacle = Sockperf().refuses("fd00::1", "3.7", "gpu001")
    assert obstacle is not None
    # Not asked, so nothing failed: the number is missing and the row says why.
    assert (obstacle.error_class, obstacle.status, obstacle.host) == ("tool_too_old", "unmeasured", "gpu001")
    assert "sockperf 3.7" in obstacle.message
    assert "sockperf 3.8 or newer" in obstacle.fix
    assert Iperf3().refuses("fd00::1", "3.7", "gpu001") is None


@pytest.mark.parametrize(("family", "flag", "payload"), [(4, "-4", "8972"), (6, "-6", "8952")])
def test_ping_asks_for_the_whole_mtu_in_one_piece(family: int, flag: str, payload: str) -> None:
    play = Desk(family=family)
    argv = ping.patient_argv(play, 5, 9000, unbroken=True)
    # iputils waits for the last reply as long as its interval; -W counts only while none has come.
    asked = f"ping {flag} -n -I ens6 -M do -s {payload} -l 5 -i 2 -c 5 -W 2 {play.peer_address}"
    assert argv == asked.split()
    assert "-M" not in ping.patient_argv(play, 5, 1428, unbroken=False)
    assert ping.paced_argv(play, 10)[5:9] == ["-i", "0.02", "-c", "10"]


def ping_text(sent: int, received: int) -> str:
    """Return what iputils prints, by hand to its format."""
    reply = "64 bytes from 10.0.1.2: icmp_seq=1 ttl=64 time=0.080 ms\n"
    rtt = "rtt min/avg/max/mdev = 0.080/0.080/0.081/0.000 ms\n"
    loss_percent = 100 * (1 - received / sent)
    loss = f"{sent} packets transmitted, {received} received, {loss_percent:g}% packet loss, time 82ms\n"
    head = "PING 10.0.1.2 (10.0.1.2) from 10.0.1.1 ens6: 56(84) bytes of data.\n"
    return head + reply * received + "\n--- 10.0.1.2 ping statistics ---\n" + loss + (rtt if received else "")


class HeldUp(Desk):
    """A play whose peer is held up: paced pings miss so many replies, patient ones what is really lost."""

    def __init__(self, missed: int, lost_of_batch: int = 0) -> None:
        super().__init__()
        self.missed, self.lost_of_batch = missed, lost_of_batch

    def run(self, argv: list[str], limit_s: float, connection: bool = False) -> Finished:
        count = int(argv[argv.index("-c") + 1])
        self.text = ping_text(count, count - (self.lost_of_batch if "-l" in argv else self.missed))
        return super().run(argv, limit_s, connection)


def test_replies_that_ping_did_not_wait_for_are_not_lost() -> None:
    healthy = HeldUp(missed=0)
    reading = ping.PingRtt().client(healthy)
    assert (len(healthy.ran), reading.metrics["loss_percent"]) == (1, 0.0)
    assert reading.claim == Claim("packets", 10, 10)
    held = HeldUp(missed=7)
    reading = ping.PingRtt().client(held)
    assert {name: reading.metrics[name] for name in ("loss_percent", "sent", "received", "packet_bytes")} == {
        "loss_percent": 0.0,
        "sent": 300,
        "received": 300,
        "packet_bytes": 1428,
    }
    assert reading.claim == Claim("packets", 303, 310)
    # No more at once than a receive buffer of 208 KiB holds, at the 2,304 bytes that a driver may take each.
    assert max(int(argv[argv.index("-l") + 1]) for argv in held.ran[1:]) * 2304 < 208 * 1024
    lossy = ping.PingRtt().client(HeldUp(missed=1, lost_of_batch=1))
    assert lossy.metrics["loss_percent"] > 0
    assert lossy.metrics["received"] < lossy.metrics["sent"] == 300
    with pytest.raises(MeasurementError, match="no reply"):
        ping.PingRtt().client(HeldUp(missed=10))


@pytest.mark.parametrize("true_bytes", [576, 577, 1499, 1500, 1501, 4000, 8999])
def test_the_search_finds_the_largest_size_that_passes(true_bytes: int) -> None:
    asked = []

    def passes(size: int) -> bool:
        asked.append(size)
        return size <= true_bytes

    assert path_mtu.largest_passing(passes, 9000) == true_bytes
    assert max(asked) < 9000
    # 13 halvings of 8,424 sizes, and the three that are tried first.
    assert len(asked) <= 16


def test_an_mtu_of_1500_is_found_at_once_and_nothing_passing_is_none() -> None:
    asked: list[int] = []
    assert path_mtu.largest_passing(lambda size: asked.append(size) or size <= 1500, 9000) == 1500
    assert asked == [576, 1500, 1501]
    assert path_mtu.largest_passing(lambda _size: False, 9000) is None


class Path:
    """A path of a small MTU, or none, that loses the packets whose numbers are named."""

    def __init__(self, mtu_bytes: int = 9000, lost: range | tuple[int, ...] = ()) -> None:
        self.mtu_bytes = mtu_bytes
        self.lost = lost
        self.number = 0
        self.asked: list[tuple[int, int]] = []

    def probe(self, size_bytes: int, count: int) -> int:
        self.asked.append((size_bytes, count))
        numbers = range(self.number, self.number + count)
        self.number += count
        return sum(number not in self.lost and size_bytes <= self.mtu_bytes for number in numbers)


def test_a_path_that_loses_packets_is_not_one_of_a_small_mtu() -> None:
    assert path_mtu.search(Path().probe, 9000, 5) == (9000, 5, 5)
    assert path_mtu.search(Path(lost=(0, 3)).probe, 9000, 5) == (9000, 5, 3)
    # All of the first batch was lost by chance: what the search then found is held against a second one.
    assert path_mtu.search(Path(lost=range(5)).probe, 9000, 5) == (9000, 10, 5)
    # A packet that is lost while a size is tried does not make the size too large.
    assert path_mtu.search(Path(4000, lost=(5, 8, 9)).probe, 9000, 5) == (4000, 5, 5)


def test_of_a_small_path_it_is_told_how_many_packets_pass() -> None:
    path = Path(1500)
    assert path_mtu.search(path.probe, 9000, 5) == (1500, 5, 5)
    assert path.asked == [(9000, 5), (576, 3), (1500, 3), (1501, 3), (9000, 5), (1500, 5)]
    assert path_mtu.search(Path(500).probe, 9000, 5) is None
    # 5 and 3 and 3 and 3 and 5 were sent before the last batch, of which the first two are lost.
    assert path_mtu.search(Path(1500, lost=(19, 20)).probe, 9000, 5) == (1500, 5, 3)


def test_ping_tells_how_many_of_the_whole_size_came_back() -> None:
    text = (
        "PING 10.0.1.2 (10.0.1.2) from 10.0.1.1 ens6: 8972(9000) bytes of data.\n"
        "8980 bytes from 10.0.1.2: icmp_seq=1 ttl=64 time=0.080 ms\n"
        "8980 bytes from 10.0.1.2: icmp_seq=4 ttl=64 time=0.081 ms\n\n"
        "--- 10.0.1.2 ping statistics ---\n"
        "5 packets transmitted, 2 received, 60% packet loss, time 82ms\n"
        "rtt min/avg/max/mdev = 0.080/0.080/0.081/0.000 ms\n"
    )
    play = Desk(text=text)
    reading = ping.PathMtu().client(play)
    assert reading.metrics == {"path_mtu_bytes": 9000, "sent": 5, "received": 2}
    assert len(play.ran) == 1


def test_iperf3_claims_the_omitted_start_too() -> None:
    # Written by hand to the format: one omitted second, two measured ones.
    text = json.dumps(
        {
            "intervals": [
                {"sum": {"bytes": 100, "omitted": True}},
                {"sum": {"bytes": 20}},
                {"sum": {"bytes": 3}},
            ]
        }
    )
    assert moved_bytes("warning: something\n" + text) == 123.0
    assert moved_bytes("garbage") is None
    assert moved_bytes('{"intervals": []}') is None
    assert moved_bytes('{"error": "refused"}') is None


def test_the_receivers_count_is_what_iperf3_claims() -> None:
    sent, received = Claim("bytes", 110, 110), Claim("bytes", 100, 100)
    # What lay in buffers at the end crossed the rail for the most part, and was not read any more.
    assert Iperf3().claim(sent, received) == Claim("bytes", 100, 110)
    assert Iperf3().claim(sent, None) == sent
    # For the others the client's word stands.
    assert Sockperf().claim(sent, received) == sent


def iperf3_text(streams: Any, protocol: str = "TCP") -> str:
    """Return what the client of iperf3 3.12 prints, by hand to its format, with these streams in its end."""
    sums = {"bytes": 475000000, "bits_per_second": 0.95e9, "seconds": 4.0, "packets": 9, "lost_packets": 0}
    end = {"sum": sums, "sum_sent": sums, "sum_received": sums}
    return json.dumps(
        {
            "start": {
                "version": "iperf 3.12",
                "test_start": {"protocol": protocol, "duration": 4, "num_streams": 4, "reverse": 0},
            },
            "intervals": [{"sum": {"bytes": 475000000}}],
            "end": end if streams is None else {**end, "streams": streams},
        }
    )


def streams_of(*moved: int, sender: bool | None = True) -> list[dict[str, Any]]:
    """Return streams that moved so many bytes; older versions do not tell which end was the sender."""
    flag = {} if sender is None else {"sender": sender}
    return [{"sender": {"bytes": one, **flag}, "receiver": {"bytes": one, **flag}} for one in moved]


@pytest.mark.parametrize(("protocol", "said"), [("UDP", "asked was TCP"), ("TCP", None)])
def test_only_tcp_is_taken_for_tcp(protocol: str, said: str | None) -> None:
    # What a wrapper that adds -u would print, but for the losses.
    text = iperf3_text(streams_of(1, 1, 1, 1), protocol)
    if said is None:
        assert Iperf3().client(Desk(text=text)).metrics["bandwidth_gbps"] == pytest.approx(0.95)
        return
    with pytest.raises(MeasurementError, match=said):
        Iperf3().client(Desk(text=text))


@pytest.mark.parametrize(
    ("streams", "said"),
    [
        (streams_of(1, 1, 1, 1), None),
        (streams_of(1, 1, 1, 1, sender=None), None),
        (streams_of(1, 1, 0, 1), "3 of its streams moved something, asked were 4"),
        (streams_of(1, 1, 1, 1, 1), "5 of its streams"),
        (streams_of(0, 0, 0, 0), "0 of its streams"),
        (None, "does not tell how many streams"),
        ("four", "does not tell how many streams"),
        ([1, 2, 3, 4], "does not tell how many streams"),
    ],
)
def test_a_result_of_fewer_streams_than_asked_is_none(streams: Any, said: str | None) -> None:
    if said is None:
        assert Iperf3().client(Desk(text=iperf3_text(streams))).extra == {"streams": 4}
        return
    with pytest.raises(MeasurementError, match=said) as found:
        Iperf3().client(Desk(text=iperf3_text(streams)))
    assert (found.value.error_class, found.value.host) == ("tool_failed", "gpu001")
    assert found.value.fix


class Ended(Desk):
    """A play whose tool printed all that is wanted and ended with a status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text=text)
        self.status = status

    def run(self, argv: list[str], limit_s: float, connection: bool = False) -> Finished:
        return super().run(argv, limit_s, connection)._replace(exit_status=self.status)


@pytest.mark.parametrize("status", [1, 139, -9])
def test_a_result_of_an_iperf3_that_failed_is_none(status: int) -> None:
    with pytest.raises(MeasurementError, match=f"ended with status {status}"):
        Iperf3().client(Ended(iperf3_text(streams_of(1, 1, 1, 1)), status))


def test_both_ways_have_all_their_streams_each() -> None:
    ways = streams_of(1, 1, 1, 1) + streams_of(1, 1, 1, 1, sender=False)
    assert moving_streams(json.dumps({"end": {"streams": ways}}), 2) == 4
    assert moving_streams(json.dumps({"end": {"streams": ways[:-1]}}), 2) == 3
    assert moving_streams(json.dumps({"end": {"streams": ways[:4]}}), 2) == 0
    # A server of one direction has zeros where the client's half would stand.
    half = [{"sender": {"bytes": 0, "sender": False}, "receiver": {"bytes": 7, "sender": False}}] * 4
    assert moving_streams(json.dumps({"end": {"streams": half}}), 1) == 4
    assert moving_streams("garbage", 1) is None


class Receiver(Desk):
    """A play whose other end holds so many datagrams until it is asked for them, as a receive buffer does."""

    def __init__(self, holds: int) -> None:
        super().__init__()
        self.policy = {**POLICY, "path_mtu_probes": 40}
        self.holds = holds
        self.waiting = 0

    def ask(self, question: Any) -> dict[str, Any]:
        came, self.waiting = min(self.waiting, self.holds), 0
        return {"received": came}

    def note(self, text: str) -> None:
        pass


@pytest.mark.parametrize(("holds", "received"), [(12, 40), (0, None)])
def test_many_probes_do_not_overflow_the_receiver(
    monkeypatch: pytest.MonkeyPatch, holds: int, received: int | None
) -> None:
    play = Receiver(holds)

    def send(_play: Any, _sock: Any, _size: int, count: int, _token: bytes) -> int:
        play.waiting += count
        return count

    monkeypatch.setattr(udp_probe, "_socket", lambda _play: contextlib.nullcontext())
    monkeypatch.setattr(udp_probe, "send", send)
    if received is None:
        with pytest.raises(MeasurementError, match="no datagram"):
            udp_probe.UdpProbe().client(play)
        return
    reading = udp_probe.UdpProbe().client(play)
    assert reading.metrics == {"path_mtu_bytes": 9000, "sent": 40, "received": received}


TOKEN = b"t" * 16


class Catcher(Desk):
    """The receiving end on loopback; `catch` sends it datagrams of 1000 bytes and has it answer."""

    def note(self, text: str) -> None:
        pass

    def catch(self, *tokens: bytes, wanted: int, after_s: float = 0.0) -> int:
        tool = udp_probe.UdpProbe()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
            here.bind(("127.0.0.1", 0))

            def send() -> None:
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
                    for token in tokens:
                        there.sendto(token.ljust(972, b"\0"), here.getsockname())

            sender = threading.Timer(after_s, send)
            sender.start()
            if not after_s:
                sender.join()
            tool._server = here
            answer = tool.answer(self, {"token": TOKEN.hex(), "bytes": 1000, "sent": wanted})
            sender.join()
        return int(answer["received"])


class Held:
    """A clock that shows ten seconds more at each look, as to a process that gets no processor."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        self.now_s += 10.0
        return self.now_s


def test_a_receiver_that_was_held_up_still_counts_what_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(udp_probe, "time", Held())
    assert Catcher().catch(*[b"another's"] * 3, *[TOKEN] * 5, wanted=5) == 5
    # What has not come is not waited for any more, and others' datagrams are not read for ever.
    assert Catcher().catch(*[TOKEN] * 4, wanted=5) == 4
    monkeypatch.setattr(udp_probe, "_MOST_STRANGE", 2)
    assert Catcher().catch(*[b"another's"] * 3, *[TOKEN] * 5, wanted=5) == 0


def test_a_datagram_that_comes_late_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_mtu, "LOST_AFTER_S", 60.0)
    assert Catcher().catch(TOKEN, wanted=1, after_s=0.8) == 1


@pytest.mark.parametrize(
    ("text", "error_class"),
    [
        ("ping: socket: Operation not permitted\n", "tool_garbage"),
        ("ping: SO_BINDTODEVICE ens6: Operation not permitted\n", "tool_garbage"),
        (
            "PING 10.0.1.2 (10.0.1.2) from 10.0.1.1 ens6: 56(84) bytes of data.\n\n"
            "--- 10.0.1.2 ping statistics ---\n"
            "10 packets transmitted, 0 received, 100% packet loss, time 9200ms\n\n",
            "tool_failed",
        ),
    ],
)
def test_a_ping_that_could_not_probe_is_no_finding_about_the_path(text: str, error_class: str) -> None:
    # tool_failed of a probe is a failing verdict, any other class an unmeasured one.
    with pytest.raises(MeasurementError) as found:
        ping.PingRtt().client(Desk(text=text))
    assert found.value.error_class == error_class


def test_all_messages_of_sockperf_are_counted() -> None:
    line = "sockperf: [Total Run] RunTime=2.001 sec; SentMessages=30738; ReceivedMessages=30737\n"
    assert sent_messages(line) == 30738
    assert sent_messages("") is None


@pytest.mark.parametrize(
    ("parse", "error_class"),
    [
        (lambda _text: (never for never in ()).throw(ValueError("no ping")), "tool_garbage"),
        (
            lambda _text: {"valid": False, "error": {"class": "x", "message": "refused"}, "outputs": []},
            "tool_failed",
        ),
        (lambda _text: {"valid": False, "error": None, "warnings": ["torn"], "outputs": [{}]}, "tool_failed"),
        (lambda _text: {"valid": True, "error": None, "outputs": []}, "tool_failed"),
        # An old result before the new one: a wrapper that replays.
        (lambda _text: {"valid": True, "error": None, "outputs": [{}, {}]}, "tool_garbage"),
    ],
)
def test_only_a_whole_result_counts(parse: Any, error_class: str) -> None:
    with pytest.raises(MeasurementError) as found:
        base.parsed(Desk(), "ping", "words", parse)
    assert found.value.error_class == error_class
    assert found.value.host == "gpu001"
    assert found.value.fix


def test_ports_of_checks_rails_and_neighbouring_rounds_differ() -> None:
    ports = [
        registry.tool_port(18600, round_number, rail, 8, check)
        for round_number in (6, 7)
        for rail in range(8)
        for check in registry.TOOL_OF_CHECK
    ]
    assert len(set(ports)) == len(ports)
    # The rendezvous has the base port, and nothing reaches the kernel's own ephemeral ports.
    assert min(ports) > 18600
    assert (
        max(registry.tool_port(18600, r, 15, 16, c) for r in range(8) for c in registry.TOOL_OF_CHECK) < 32768
    )


def test_every_test_has_a_tool_of_its_name() -> None:
    for tools, tests in ((registry.TOOL_OF_CHECK, TESTS), (registry.NODE_TOOLS, (*NODE_TESTS, *GROUP_TESTS))):
        assert {check: tool().name for check, tool in tools.items()} == {
            test.name: test.tool for test in tests
        }


def test_a_tool_runs_for_as_long_as_its_test_has_to_last() -> None:
    policy = {name: key.default for name, key in policy_keys.KEYS.items()}
    lasting = [test for test in (*TESTS, *NODE_TESTS) if test.lasts]
    assert lasting
    for test in lasting:
        longer = policy | {test.lasts: policy[test.lasts] + 7}
        assert registry.planned_s(test.name, longer) == registry.planned_s(test.name, policy) + 7
