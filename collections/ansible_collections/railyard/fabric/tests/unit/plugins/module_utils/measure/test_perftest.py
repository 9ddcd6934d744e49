# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest: command lines, whose table is used, what is claimed, how long a test lasts."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.measure import (
    perftest,
    perftest_bw,
    perftest_lat,
    registry,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import (
    Finished,
    Reading,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure.perftest_bw import Bandwidth
from ansible_collections.railyard.fabric.plugins.module_utils.measure.perftest_lat import Latency
from ansible_collections.railyard.fabric.plugins.module_utils.measure.proof import Claim
from ansible_collections.railyard.fabric.plugins.module_utils.runner.barrier import StartBarrier
from support.nodes.tool_session import PORT, RDMA_POLICY, PerftestSession, refusal

LINE = "-" * 87
HEAD = f"""{LINE}
                    %s Test
 Dual-port       : OFF\t\tDevice         : rxe0
 Number of qps   : 1\t\tTransport type : IB
 TX depth        : 128
 Mtu             : 4096[B]
 Link type       : Ethernet
 GID index       : %d
{LINE}
 local address: LID 0000 QPN 0x0015
 remote address: LID 0000 QPN 0x0016
{LINE}
"""
BW = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
LAT = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    "   99%% percentile[usec]   99.9%% percentile[usec]\n"
).replace("%%", "%")


def bandwidth(iterations: int, mib: float, rate: float, title: str = "RDMA_Write BW", gid: int = 1) -> str:
    row = f" 65536      {iterations}              0.00               {mib}\t\t   {rate}\n"
    return HEAD % (title, gid) + BW + row + LINE + "\n"


def latency(iterations: int, average: float, title: str = "RDMA_Write Latency") -> str:
    shortest, longest = min(10.0, average), max(90.0, average)
    row = f" 64      {iterations}          {shortest:.2f}         {longest:.2f}      20.00   "
    row += f"\t       {average}      \t1.15 \t\t80.00 \t\t90.00\n"
    return HEAD % (title, 1) + LAT + row + LINE + "\n"


def test_command_lines_of_both_ends_agree_and_name_the_rails_port() -> None:
    play = PerftestSession()
    tool = Bandwidth("ib_write_bw")
    same = ["-p", "18640", "-s", "65536", "-q", "1", "-D", "4", "-f", "1", "-F", "--source_ip", "10.0.1.1"]
    whole = ["ib_write_bw", "-d", "rxe0", "-i", "1", "-x", "1", *same]
    assert tool.command(play, tool.options(RDMA_POLICY), server=True) == whole
    assert tool.command(play, tool.options(RDMA_POLICY), server=False) == [*whole, "10.0.1.2"]
    assert "-b" in Bandwidth("ib_write_bw", bi=True).options(RDMA_POLICY)
    assert Latency("ib_read_lat").options(RDMA_POLICY, 700) == ["-s", "64", "-n", "700"]


@pytest.mark.parametrize(
    ("declared", "options", "fields"),
    [
        ({}, [], (None, None)),
        ({"rdma_traffic_class": 106}, ["--tclass=106"], (106, None)),
        # 0 is a class of its own, and not the lack of one.
        ({"rdma_traffic_class": 0}, ["--tclass=0"], (0, None)),
        ({"rdma_service_level": 5}, ["--sl=5"], (None, 5)),
        ({"rdma_service_level": 0}, [], (None, None)),
    ],
)
def test_the_class_is_passed_to_both_ends_and_is_in_the_row(declared, options, fields) -> None:
    for tool in (Bandwidth("ib_write_bw"), Bandwidth("ib_write_bw", bi=True), Latency("ib_send_lat")):
        play = PerftestSession()
        play.policy |= declared
        argv = tool.command(play, [], server=True)
        assert [word for word in argv if word.startswith(("--tclass", "--sl"))] == options
        assert tool.command(play, [], server=False) == [*argv, "10.0.1.2"]
        row = tool.port_fields(play, {}, argv)
        assert (row["traffic_class"], row["service_level"]) == fields


def test_the_test_of_the_default_class_has_none() -> None:
    play = PerftestSession()
    play.policy |= {"rdma_traffic_class": 106, "rdma_service_level": 5}
    tool = registry.TOOL_OF_CHECK["rdma_bandwidth_default_class"]()
    assert isinstance(tool, Bandwidth)
    argv = tool.command(play, [], server=True)
    assert not [word for word in argv if word.startswith(("--tclass", "--sl"))]
    assert tool.port_fields(play, {}, argv)["traffic_class"] is None


@pytest.mark.parametrize(
    ("version", "option"),
    [
        ("5.96", []),
        ("6.3", ["--source_ip"]),
        ("6.16", ["--source_ip"]),
        ("6.17", ["--bind_source_ip"]),
        ("unknown", []),
    ],
)
def test_the_source_option_is_the_versions_own(version: str, option: list[str]) -> None:
    argv = Bandwidth("ib_write_bw").command(PerftestSession(version=version), [], server=True)
    assert argv[argv.index("-F") + 1 :] == [*option, *(["10.0.1.1"] if option else [])]


def test_infiniband_has_no_gid_to_name() -> None:
    play = PerftestSession(port=PORT._replace(gid_index=None, gid_type=None))
    assert "-x" not in Bandwidth("ib_write_bw").command(play, [], server=True)


@pytest.mark.parametrize(
    ("node", "pinning", "may", "there", "pinned"),
    [
        (1, True, True, True, True),
        (None, True, True, True, False),
        (-1, True, True, True, False),
        (1, False, True, True, False),
        (1, True, False, True, False),
        (1, True, True, False, False),
    ],
)
def test_pinned_only_where_the_node_is_known_and_the_policy_and_the_tool_allow_it(
    monkeypatch: pytest.MonkeyPatch, node: int | None, pinning: bool, may: bool, there: bool, pinned: bool
) -> None:
    monkeypatch.setattr(perftest.shutil, "which", lambda _name: "/usr/bin/numactl" if there else None)
    play = PerftestSession(bandwidth(1000, 31.25, 0.0005), port=PORT._replace(numa_node=node))
    play.policy["numa_pinning"] = pinning
    reading = Bandwidth("ib_write_bw", pinned=may).client(play)
    head = ["numactl", "--cpunodebind=1", "--membind=1", "ib_write_bw"] if pinned else ["ib_write_bw"]
    assert play.ran[0][: len(head)] == head
    assert (reading.extra["pinned"], reading.extra["numa_node"]) == (pinned, node)


def test_a_bandwidth_is_read_with_its_units_and_claims_its_iterations() -> None:
    play = PerftestSession(bandwidth(1000, 31.25, 0.0005))
    tool = Bandwidth("ib_write_bw")
    reading = tool.client(play)
    # 31.25 MiB/s are 31.25 x 2^20 x 8 bit/s.
    assert reading.metrics["bandwidth_gbps"] == pytest.approx(0.262144)
    assert reading.metrics["message_rate_mpps"] == 0.0005
    wanted = {"hca": "rxe0:1", "gid_index": 1, "gid_type": "RoCE v2", "active_mtu_bytes": 4096, "qps": 1}
    assert wanted.items() <= reading.extra.items()
    assert reading.extra["iterations"] == 1000
    # Twice as long as counted, and 128 messages on their way at the end; 16 packets each with their headers.
    assert reading.claim.at_least == 65_536_000
    assert reading.claim.at_most == (2000 + 128) * (65536 + 16 * 110)
    assert reading.claim.packet_bytes == 4096
    # Connected at 0.5 s, ended at 5.5 s, 4 s of it sending: half a second before, then the margin.
    assert reading.window_s == [2.0, 4.0]
    assert tool.doubt(reading, reading.claim, RDMA_POLICY) is None


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (bandwidth(1000, 62.5, 0.001), "iterations"),
        # Less apart than the parser asks of any table.
        (bandwidth(1000, 31.25, 0.00052), "messages a second"),
        (bandwidth(6000, 31.25, 0.0005), "iterations"),
    ],
)
def test_a_table_that_does_not_follow_from_itself_is_doubted(text: str, word: str) -> None:
    tool = Bandwidth("ib_write_bw")
    reading = tool.client(PerftestSession(text))
    assert word in str(tool.doubt(reading, reading.claim, RDMA_POLICY))


def test_both_directions_are_a_sum_that_rests_on_both_ends_iterations() -> None:
    tool = Bandwidth("ib_write_bw", bi=True)
    title = "RDMA_Write Bidirectional BW"
    reading = tool.client(PerftestSession(bandwidth(600, 31.25, 0.0005, title)))
    server = Claim("bytes", 400 * 65536, 1e9, packet_bytes=4096)
    joint = tool.claim(reading.claim, server)
    assert (joint.at_least, joint.back_at_least) == (600 * 65536, 400 * 65536)
    assert tool.doubt(reading, joint, RDMA_POLICY) is None
    idle = tool.claim(reading.claim, server._replace(at_least=65536.0))
    assert tool.doubt(reading, idle, RDMA_POLICY) is not None
    assert reading.extra["bandwidth_is"] == "sum_of_both"
    with pytest.raises(MeasurementError, match="bidirectional"):
        Bandwidth("ib_write_bw").client(PerftestSession(bandwidth(600, 31.25, 0.0005, title)))


def test_a_read_is_claimed_the_other_way_and_its_server_says_nothing() -> None:
    tool = Bandwidth("ib_read_bw")
    reading = tool.client(PerftestSession(bandwidth(1000, 31.25, 0.0005, "RDMA_Read BW")))
    assert (reading.claim.at_least, reading.claim.back_at_least) == (0.0, 65_536_000)
    banner = f"{'*' * 36}\n* Waiting for client to connect... *\n{'*' * 36}\n"
    head = banner + (HEAD % ("RDMA_Read BW", 1)).replace(" TX depth        : 128\n", "")
    play = PerftestSession(head)
    tool.open(play)
    silent = tool.close(play)
    assert silent.metrics == {}
    assert silent.extra["active_mtu_bytes"] == 4096


@pytest.mark.parametrize(
    ("text", "status", "error_class", "word"),
    [
        (bandwidth(1000, 31.25, 0.0005, gid=3), 0, "tool_failed", "gid_index"),
        (bandwidth(1000, 31.25, 0.0005, "RDMA_Read BW"), 0, "tool_failed", "test"),
        (bandwidth(1000, 31.25, 0.0005).replace("rxe0", "rxe1"), 0, "tool_failed", "device"),
        (bandwidth(1000, 31.25, 0.001).replace("65536 ", "32768 "), 0, "tool_failed", "message_bytes"),
        (bandwidth(1000, 31.25, 0.0005), 1, "tool_failed", "status 1"),
        (bandwidth(1000, 31.25, 0.0005)[:-120], 0, "tool_failed", "result"),
        ("Couldn't connect to 10.0.1.2:18640\n", 1, "tool_failed", "Couldn't connect"),
        ("all is well\n", 0, "tool_garbage", "not its output"),
        (bandwidth(1000, 31.25, 0.0005) * 2, 0, "tool_garbage", "2 results"),
    ],
)
def test_another_tests_table_or_a_torn_one_is_no_result(
    text: str, status: int, error_class: str, word: str
) -> None:
    play = PerftestSession(text, status=status)
    assert refusal(Bandwidth("ib_write_bw").client, play, match=word).error_class == error_class


def test_a_table_whose_clock_was_lost_is_distinguished_from_a_failure() -> None:
    """perftest gave up its calibration: the table is complete and has no time."""
    lost = bandwidth(2000, 0.0, 0.0)
    tool, words = Bandwidth("ib_write_bw"), "Correlation coefficient r^2: 0.752786 < 0.9\n"
    error = refusal(tool.client, PerftestSession(words + lost))
    assert (error.error_class, error.status) == ("clock_lost", "failed")
    # Without the tool's own word for it zeros are a failure like any other.
    assert refusal(tool.client, PerftestSession(lost)).error_class == "tool_failed"


def test_a_port_that_went_is_the_reason_for_whatever_the_tool_says() -> None:
    play = PerftestSession("Failed to modify QP to RTS\n", status=1)
    tool = Bandwidth("ib_write_bw")
    tool.open(play)
    play.here = None
    error = refusal(tool.close, play)
    assert (error.error_class, error.status) == ("hca_missing", "unmeasured")


def test_a_probe_sets_the_iterations_and_the_server_is_queried_again() -> None:
    # 1000 us one way are 2 ms for an iteration: 1000 in 2 s.
    play = PerftestSession(latency(20, 1000.0), latency(1000, 25.0))
    reading = Latency("ib_write_lat").client(play)
    assert play.asked == [{"iterations": 1000}]
    assert play.ran[0][play.ran[0].index("-n") + 1] == "20"
    assert play.ran[1][play.ran[1].index("-p") + 1] == "18641"
    wanted = {
        "latency_average_us": 25.0,
        "latency_p50_us": 20.0,
        "latency_max_us": 90.0,
        "observations": 1000,
    }
    assert wanted.items() <= reading.metrics.items()
    assert reading.claim == Claim("packets", 1000.0, 1020.0, packet_bytes=4096)
    assert reading.extra["latency_is"] == "one_way"


def test_a_round_trip_is_not_doubled() -> None:
    play = PerftestSession(latency(20, 1000.0, "RDMA_Read Latency"), latency(2000, 25.0, "RDMA_Read Latency"))
    reading = Latency("ib_read_lat").client(play)
    assert play.asked == [{"iterations": 2000}]
    assert reading.extra["latency_is"] == "round_trip"


@pytest.mark.parametrize(
    ("iteration_us", "wanted_s", "iterations"),
    [
        (4.0, 2, 100000),
        (2000.0, 2, 1000),
        (48000.0, 2, 41),
        (1e6, 2, 20),
        (48000.0, 99, 208),
        (0.0, 2, 100000),
    ],
)
def test_no_latency_test_lasts_long(iteration_us: float, wanted_s: float, iterations: int) -> None:
    assert perftest_lat.choose_iterations(iteration_us, {"rdma_latency_s": wanted_s}) == iterations


@pytest.mark.parametrize("iterations", [0, 19, 100001, "50", None])
def test_the_server_is_not_talked_into_an_endless_test(iterations: object) -> None:
    with pytest.raises(MeasurementError):
        Latency("ib_write_lat").answer(PerftestSession(latency(20, 9.0)), {"iterations": iterations})


def test_the_window_lies_within_the_sending() -> None:
    done = Finished(0, "", 0.0, 1.0, 5.0)
    assert perftest_bw.window_s(done, RDMA_POLICY) == [2.0, 4.0]
    # A clock that saw less than the duration moves nothing.
    assert perftest_bw.window_s(done._replace(ended_s=4.5), RDMA_POLICY) == [2.0, 4.0]
    assert perftest_bw.window_s(done._replace(connected_s=0.0), RDMA_POLICY) == [1.5, 3.5]


def test_rails_at_once_are_added_up_while_all_of_them_send() -> None:
    # Connected at 1 s and ended at 6 s, 4 s of it sending: from 2 s at the latest to 5 s at the earliest.
    first = perftest_bw.sending_s(Finished(0, "", 0.0, 1.0, 6.0), RDMA_POLICY)
    assert first == [2.0, 5.0]
    gate = StartBarrier(2)
    shared: list[object] = []
    other = threading.Thread(target=lambda: shared.append(gate.await_overlap("rail1", [2.5, 5.5], 1.0, 60.0)))
    other.start()
    shared.append(gate.await_overlap("rail0", first, 1.0, 60.0))
    other.join()
    assert shared == [[2.5, 5.0]] * 2
    alone = StartBarrier(2)
    alone.leave("rail1")
    assert alone.await_overlap("rail0", first, 1.0, 5.0) is None
    # An end that took longer than the sending leaves nothing, or too little, that is sure.
    never = perftest_bw.sending_s(Finished(0, "", 0.0, 1.0, 9.5), RDMA_POLICY)
    assert never == [5.5, 5.0]
    assert StartBarrier(1).await_overlap("rail0", never, 1.0, 5.0) is None
    assert StartBarrier(1).await_overlap("rail0", [4.0, 4.9], 1.0, 5.0) is None


# A healthy lab, seen: connected at 1.1 s, ended at 8.2 s, since perftest took 3.1 s for its farewell.
SAMPLES = {
    "t_s": [0.2063, 1.0864, 1.8826, 2.0773, 2.3013, 2.4773, 4.0782, 6.0886, 6.9747, 7.1677, 8.1013],
    "tx_bytes": [0, 284, 350, 416, 2332000, 6919000, 24042000, 40379000, 48585000, 48664000, 48665000],
}


def test_counters_that_count_at_once_show_when_it_sent() -> None:
    bounds_s = perftest_bw.sending_s(Finished(0, "", 0.0, 1.0964, 8.2265), RDMA_POLICY)
    assert bounds_s == [4.2265, 5.0964]
    claim = Claim("bytes", 18022400.0, 45626688.0)
    # It rose by 10 MB/s first at 2.3013 s, so it had not begun at 1.8826 s: that and 4 s is its earliest end.
    assert perftest_bw.sending_seen_s(bounds_s, claim, SAMPLES, RDMA_POLICY) == [2.3013, 5.8826]
    # What the times say for certain is never given up.
    assert perftest_bw.sending_seen_s([2.2, 6.0], claim, SAMPLES, RDMA_POLICY) == [2.2, 6.0]


@pytest.mark.parametrize(
    ("claim", "samples"),
    [
        (None, SAMPLES),
        (Claim("bytes", 0.0, 0.0, 18022400.0, 45626688.0), SAMPLES),  # it fetched, and sent nothing
        (Claim("bytes", 18022400.0, 45626688.0), {"t_s": [], "tx_bytes": []}),
        # Keys that are exchanged, and others' traffic, are no sending.
        (Claim("bytes", 18022400.0, 45626688.0), {"t_s": [1.0, 1.2, 1.4], "tx_bytes": [0, 9000, 400000]}),
    ],
)
def test_without_data_in_the_counters_the_times_count(
    claim: Claim | None, samples: Mapping[str, list[float]]
) -> None:
    assert perftest_bw.sending_seen_s([4.0, 5.0], claim, samples, RDMA_POLICY) == [4.0, 5.0]


def test_a_reading_without_numbers_is_not_doubted() -> None:
    assert Bandwidth("ib_read_bw").doubt(Reading({}), Claim("bytes", 0, 0), RDMA_POLICY) is None
