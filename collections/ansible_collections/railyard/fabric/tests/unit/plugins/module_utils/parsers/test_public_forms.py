# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Captures in the forms that people publish: other versions, cards and options, noise, other languages."""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from support.captures import failed, parse_failed, parse_valid, read

LIBRARY_IS_MISSING = (
    "libibverbs: Warning: couldn't load driver 'libmana-rdmav34.so': libmana-rdmav34.so: cannot open shared "
    "object file: No such file or directory\n"
)


# sockperf


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("interrupted by timer", "reached packet number"),
        ("interrupted by timer", "finished observation count"),
        (r"<(MAX|MIN)>", r"\1"),
    ],
)
def test_sockperf_in_other_words(old, new):
    text = read("sockperf", "pp_tcp.txt")
    other = re.sub(old, new, text)
    assert (other != text, parse_valid("sockperf", other)) == (True, parse_valid("sockperf", text))


def test_sockperf_dropped_packets_of_old():
    text = read("sockperf", "pp_tcp.txt").replace("dropped messages = 0", "dropped messages = 3")
    old = text.replace(" messages = ", " packets = ")
    assert parse_valid("sockperf", old) == parse_valid("sockperf", text)
    assert parse_valid("sockperf", old)[0]["dropped"] == 3


def test_sockperf_giga_is_a_thousand_mebibytes():
    """220000 messages of 1400 bytes a second: 293.731 x 2^20 bytes, 2.464 Gbit/s."""
    text = read("sockperf", "tp.txt").partition("sockperf: Summary")[0]
    rate = "sockperf: Summary: Message Rate is 220000 [msg/sec]\n"
    for bandwidth in (
        "0.294 GBps (2.350 Gbps)",
        "293.731689453 MBps (2349.853515625 Mbps)",
        # 3.7 prints the numbers of M with the letter of G.
        "293.731689453 GBps (2349.853515625 Gbps)",
    ):
        (output,) = parse_valid("sockperf", f"{text}{rate}sockperf: Summary: BandWidth is {bandwidth}\n")
        assert output["bandwidth_gbps"] == pytest.approx(2.464, rel=1e-3), bandwidth
    wrong = f"{text}{rate}sockperf: Summary: BandWidth is 293.732 GBps (2349.854 Gbps)\n"
    assert failed("sockperf", wrong) == "inconsistent"
    # 2.x counts 28 bytes of headers for each fragment as well: 299.606 x 2^20 bytes.
    old = f"{text}{rate}sockperf: Summary: BandWidth is 299.606 MBps (2396.851 Mbps)\n"
    assert parse_valid("sockperf", old)[0]["bandwidth_gbps"] == pytest.approx(2.513, rel=1e-3)


def test_sockperf_full_log_has_no_course_of_the_test():
    """It has been written after the test; that it ran for its whole time is in the numbers."""
    tail = read("sockperf", "pp_tcp.txt").partition("sockperf: [Total Run]")
    log = "test was performed using the following parameters: --mps=max --msg-size=14 --time={}\n"
    text = "".join(tail[1:]) + "packet, txTime(sec), rxTime(sec), rtt(usec)\n0, 2.441, 2.442, 81.361\n"
    (output,) = parse_valid("sockperf", log.format(1) + text)
    assert (output["average_us"], output["p99_us"], output["version"]) == (43.577, 66.494, None)
    assert failed("sockperf", log.format(2) + text) == "truncated"
    assert failed("sockperf", text) == "truncated"


def test_sockperf_playback_is_no_ping_pong():
    text = "$ sockperf playback --data-file trace.csv -i 10.0.1.2\n" + read("sockperf", "pp_tcp.txt")
    assert parse_valid("sockperf", text)[0]["mode"] == "playback"


# ping

FLOOD = (
    "PING 10.0.1.2 (10.0.1.2) 56(84) bytes of data.\n" + ".\b \b" * 300 + "\n"
    "--- 10.0.1.2 ping statistics ---\n300 packets transmitted, 300 received, 0% packet loss, time 31ms\n"
    "rtt min/avg/max/mdev = 0.021/0.033/0.140/0.011 ms, ipg/ewma 0.104/0.031 ms\n"
)


def test_flood_of_pings_is_no_binary_data():
    (output,) = parse_valid("ping", FLOOD)
    assert (output["transmitted"], output["received"]) == (300, 300)
    assert output["rtt_average_us"] == 33.0
    lossy = FLOOD.replace("of data.\n", "of data.\n...").replace("300 received, 0%", "297 received, 1%")
    assert parse_valid("ping", lossy)[0]["received"] == 297


@pytest.mark.parametrize(
    ("ruler", "counts"),
    [
        ("--- 10.0.1.2 ping-Statistiken ---", "3 Pakete übertragen, 3 empfangen, 0% Paketverlust"),
        ("--- statistiques ping 10.0.1.2 ---", "3 paquets transmis, 3 reçus, 0% paquets perdus"),
        ("--- 10.0.1.2 ping 统计 ---", "已发送 3 个包\uff0c 已接收 3 个包, 0% 包丢失"),
    ],
)
def test_ping_in_another_language_is_refused_by_name(ruler, counts):
    text = f"PING 10.0.1.2 (10.0.1.2) 56(84) bytes of data.\n\n{ruler}\n{counts}, time 2003ms\n"
    found = parse_failed("ping", text, "language")
    assert "LC_ALL=C" in found["error"]["message"]


# iperf3

LATE = "iperf3: OUT OF ORDER - incoming packet = 27 and received packet = 63 AND SP = 5\n"


def test_late_datagrams_are_no_failure():
    text = read("iperf3", "text_udp_client.txt")
    found = registry.parse("iperf3", LATE + text.replace("[  5]   1.00", LATE + "[  5]   1.00"))
    assert found["outputs"] == parse_valid("iperf3", text)
    assert (found["valid"], found["error"]) == (True, None)
    assert "datagrams arrived out of order" in found["warnings"]


def test_late_datagrams_in_json():
    """3.0 and 3.1 write them under "error", each one, into a complete object."""
    plain = json.loads(read("iperf3", "udp_client.json"))
    late = LATE.removeprefix("iperf3: ").strip()
    text = json.dumps(plain, indent=1).rstrip().removesuffix("}")
    text += f', "error": "{late}", "error": "{late}"'
    assert parse_valid("iperf3", text + "}") == parse_valid("iperf3", read("iperf3", "udp_client.json"))
    assert failed("iperf3", text + ', "error": "control socket has closed unexpectedly"}') == "peer_lost"


def test_losses_that_an_older_server_cannot_tell():
    text = read("iperf3", "text_udp_client.txt").replace(
        "0.969 ms  0/140 (0%)  receiver", "0.969 ms  Unknown/140  receiver"
    )
    (row,) = parse_valid("iperf3", text)[0]["directions"]
    assert (row["packets"], row["lost_packets"], row["jitter_ms"]) == (140, None, 0.969)


# ibstat, ibv_devinfo, rdma link


def test_ibstat_of_iwarp():
    text = (
        "iWARP RNIC 'cxgb4_0'\n\tiWARP RNIC type: \n\tNumber of ports: 1\n\tFirmware version: 1.27.4.0\n"
        "\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 100\n\t\tBase lid: 0\n"
        "\t\tSM lid: 0\n\t\tLink layer: Ethernet\n"
    )
    (output,) = parse_valid("ibstat", text)
    (device,) = output["devices"]
    assert (device["name"], device["ca_type"], device["firmware"]) == ("cxgb4_0", None, "1.27.4.0")
    assert (device["ports"][0]["rate_gbps"], device["ports"][0]["link_layer"]) == (100.0, "Ethernet")
    both = parse_valid("ibstat", read("ibstat", "dual_port.txt").rstrip("\n") + "\n" + text)
    assert [one["name"] for one in both[0]["devices"]] == ["mlx4_0", "rxe0", "cxgb4_0"]
    assert failed("ibstat", read("ibstat", "dual_port.txt").rstrip("\n") + "\niWARP RN") == "truncated"


def iwarp_verbose() -> str:
    text = read("ibv_devinfo", "rxe_verbose.txt").replace("InfiniBand (0)", "iWARP (1)")
    return "".join(line + "\n" for line in text.splitlines() if "phys_state" not in line)


@pytest.mark.parametrize("transport", ["iWARP (1)", "unspecified (4)"])
def test_verbose_ports_that_have_no_physical_state(transport):
    (output,) = parse_valid("ibv_devinfo", iwarp_verbose().replace("iWARP (1)", transport))
    (port,) = output["devices"][0]["ports"]
    assert (port["physical_state"], port["rate_gbps"], port["state"]) == (None, 2.5, "PORT_ACTIVE")
    unknown = iwarp_verbose().replace("2.5 Gbps (1)", "invalid speed (0)")
    assert parse_valid("ibv_devinfo", unknown)[0]["devices"][0]["ports"][0]["rate_gbps"] is None


def test_verbose_port_of_iwarp_that_was_cut():
    text = iwarp_verbose()
    start, end = text.index("\t\t\tlink_layer"), text.index("Gbps (1)") + len("Gbps (1")
    for length in range(start, end + 1):
        assert registry.parse("ibv_devinfo", text[:length])["valid"] is False, text[:length][-40:]


def test_missing_libraries_of_other_cards_are_warnings():
    text = read("ibv_devinfo", "rxe_verbose.txt")
    found = registry.parse("ibv_devinfo", LIBRARY_IS_MISSING * 2 + text)
    assert (found["valid"], found["error"]) == (True, None)
    assert found["warnings"] == [LIBRARY_IS_MISSING.strip()]
    gone = "libibverbs: Warning: couldn't open /dev/infiniband/uverbs1: No such device\n"
    assert parse_valid("ibv_devinfo", gone + text) == parse_valid("ibv_devinfo", text)
    assert failed("ibv_devinfo", LIBRARY_IS_MISSING + "No IB devices found\n") == "no_device"


@pytest.mark.parametrize(
    ("tool", "name"), [("ibstat", "dual_port.txt"), ("ibstatus", "two.txt"), ("rdma-link", "text.txt")]
)
def test_what_a_shell_says_of_other_programs_spoils_no_list(tool, name):
    text = read(tool, name)
    noise = "bash: ibdev2netdev: command not found\nls: cannot access '/x': No such file or directory\n"
    assert parse_valid(tool, noise + text) == parse_valid(tool, text)
    assert failed(tool, "bash: the-tool: command not found\n") == "not_installed"
    if tool == "ibstat":
        panic = "ibpanic: [1] main: stat of IB device 'mlx5_8' failed: No such file or directory\n"
        assert failed(tool, noise + text + panic) == "tool_error"


def test_links_beside_statistics_and_resources():
    link = "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens6 \n"
    others = (
        "link mlx5_0/1 rx_write_requests 12 rx_read_requests 0 out_of_sequence 3\n"
        "link mlx5_0/1 lqpn 1 type GSI state RTS sq-psn 23 comm [ib_core]\n"
    )
    assert parse_valid("rdma-link", others + link) == parse_valid("rdma-link", link)
    with pytest.raises(registry.NotThisTool):
        registry.parse("rdma-link", others)
    with pytest.raises(registry.NotThisTool, match="physical_state"):
        registry.parse("rdma-link", '[{"ifindex":0,"ifname":"mlx5_0","port":1,"lqpn":1,"state":"RTS"}]')
    assert failed("rdma-link", "link mlx5_0/1 sta") == "truncated"


def test_roce_whose_netdev_is_in_another_namespace():
    head = "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n"
    link_local = "1\t0\tfe80:0000:0000:0000:0202:c9ff:fe00:0001\t\t\tv1\t\n"
    address = "1\t1\t0000:0000:0000:0000:0000:ffff:0a00:0102\t10.0.1.2  \t"
    text = f"{head}mlx5_0\t{link_local}mlx5_0\t{address}v1\t\nmlx5_1\t{link_local}mlx5_1\t{address}v2\t\n"
    (output,) = parse_valid("show_gids", f"{text}mlx5_2\t{link_local}n_gids_found=5\n")
    kinds = [(row["device"], row["type"], row["netdev"]) for row in output["gids"]]
    assert kinds == [
        ("mlx5_0", "RoCE v1", None),
        ("mlx5_0", "RoCE v1", None),
        ("mlx5_1", "RoCE v1", None),
        ("mlx5_1", "RoCE v2", None),
        ("mlx5_2", "IB", None),
    ]
