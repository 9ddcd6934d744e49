# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest on EFA: run with SRD by builds that have it, refused in a sentence by the others.

What the stand-ins print was printed by Debian's packages 4.5+0.17-1 (12) and 25.01.0+0.80-1 (13), run with
`-c SRD --help`; the refusals at the device are linux-rdma/perftest's own (src/perftest_communication.c).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.measure import perftest_srd
from ansible_collections.railyard.fabric.plugins.module_utils.measure.perftest_bw import Bandwidth
from ansible_collections.railyard.fabric.plugins.module_utils.measure.perftest_lat import Latency
from ansible_collections.railyard.fabric.plugins.module_utils.measure.rdma_port import RdmaPort
from support.nodes.files import write
from support.nodes.tool_session import PerftestSession, refusal

EFA = RdmaPort("rdmap79s0", 1, 0, None, None, "0200:00ff:fe01:0101", "SRD")
DEBIAN_12 = " SRD connection only possible in SEND/READ verbs"
# Its list leaves SRD out, and the program takes it.
DEBIAN_13 = """Usage:
  ib_write_bw            start a server and wait for connection
  ib_write_bw <host>     connect to server at <host>

Options:
  -c, --connection=<RC/XRC/UC/DC>  Connection type RC/XRC/UC/DC (default RC) (SYMMETRIC)
"""
#: Of zhang1980s/ec2-efa-lab, efa-performance-testing-guide.md (ib_send_bw between two m6i.metal).
SEND_BW = """---------------------------------------------------------------------------------------
                    Send BW Test
 Dual-port       : OFF\t\tDevice         : rdmap47s0
 Number of qps   : 1\t\tTransport type : Unknown
 Connection type : SRD\t\tUsing SRQ      : OFF
 PCIe relax order: ON\t\tLock-free      : OFF
 ibv_wr* API     : ON\t\tUsing DDP      : OFF
 TX depth        : 128
 CQ Moderation   : 1
 CQE Poll Batch  : 16
 Mtu             : 4096[B]
 Link type       : IB
 GID index       : 0
 Max inline data : 0[B]
 rdma_cm QPs\t : OFF
 Data ex. method : Ethernet
---------------------------------------------------------------------------------------
 local address: LID 0000 QPN 000000 PSN 0xcd1e3c
 GID: 254:128:00:00:00:00:00:00:16:76:116:255:254:70:225:171
 remote address: LID 0000 QPN 000000 PSN 0xec3763
 GID: 254:128:00:00:00:00:00:00:16:171:141:255:254:144:127:217
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
 8192       1000             10987.64            8909.75\t\t     1.140448
---------------------------------------------------------------------------------------
"""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is first on PATH, for programs of a made-up node."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    perftest_srd.why_not.cache_clear()
    return tmp_path


def install(folder: Path, text: str, status: int = 1, name: str = "ib_write_bw") -> None:
    """Write a program that prints a text when it is run with -c SRD --help, and fails otherwise."""
    write(folder, f"{name}.txt", text)
    script = f'#!/bin/sh\n[ "$*" = "-c SRD --help" ] || exit 9\ncat "{folder}/{name}.txt"\nexit {status}\n'
    write(folder, name, script, 0o755)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (DEBIAN_13, ""),
        (f"\n{DEBIAN_13}", ""),
        (DEBIAN_12, "SRD connection only possible in SEND/READ verbs"),
        (" SRD not detected in libibverbs", "SRD not detected in libibverbs"),
        (" Invalid Connection type. Please choose from {RC,UC,UD}", "Invalid Connection type. Please choose"),
        ("", "status 1"),
    ],
)
def test_what_a_build_answers_shows_whether_it_has_srd(node: Path, text: str, reason: str) -> None:
    install(node, text)
    found = perftest_srd.why_not("ib_write_bw", "SRD")
    assert reason in found
    assert bool(found) is bool(reason)


def test_a_build_that_is_not_there_has_no_srd(node: Path) -> None:
    assert "not found" in perftest_srd.why_not("ib_no_such_bw", "SRD")


def test_both_ends_use_srd_and_the_devices_only_gid(node: Path) -> None:
    for tool, inline in ((Bandwidth("ib_write_bw"), []), (Latency("ib_write_lat"), ["-I", "0"])):
        install(node, DEBIAN_13, name=tool.name)
        play = PerftestSession(port=EFA)
        argv = tool.command(play, ["-s", "65536"], server=True)
        assert argv[:5] == [tool.name, "-d", "rdmap79s0", "-i", "1"]
        assert argv[5 : 7 + len(inline)] == ["-c", "SRD", *inline]
        assert argv[7 + len(inline) : 9 + len(inline)] == ["-x", "0"]
        assert tool.command(play, ["-s", "65536"], server=False) == [*argv, "10.0.1.2"]
        row = tool.port_fields(play, {}, argv)
        assert (row["hca"], row["gid_index"], row["gid_type"]) == ("rdmap79s0:1", 0, None)


def test_srd_is_not_requested_of_other_devices(node: Path) -> None:
    argv = Bandwidth("ib_write_bw").command(PerftestSession(), [], server=True)
    assert "-c" not in argv


@pytest.mark.parametrize("server", [True, False])
def test_a_build_without_srd_is_refused_before_the_test(node: Path, server: bool) -> None:
    install(node, DEBIAN_12)
    play = PerftestSession(port=EFA)
    error = refusal(Bandwidth("ib_write_bw").command, play, [], server, match="SEND/READ")
    assert (error.error_class, error.status, error.host) == ("rdma_unsupported", "unmeasured", "gpu001")
    assert error.message.count(". ") == 0, "one sentence"
    assert "23.07" in error.fix
    assert play.ran == []


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("Write verb is not supported with this EFA device\n", "rdma_tests"),
        ("SRD connection not possible in WRITE verb\n", "23.07"),
        (" Max message size in SRD cannot be greater than 8928 \n", "rdma_message_bytes"),
    ],
)
def test_what_the_device_cannot_do_is_named(node: Path, text: str, fix: str) -> None:
    install(node, DEBIAN_13)
    error = refusal(Bandwidth("ib_write_bw").client, PerftestSession(text, port=EFA, status=1))
    assert (error.error_class, error.status) == ("rdma_unsupported", "unmeasured")
    assert text.strip() in error.message
    assert fix in error.fix


def test_a_table_of_srd_is_read(node: Path) -> None:
    play = PerftestSession(SEND_BW, port=EFA._replace(device="rdmap47s0"))
    install(node, DEBIAN_13, name="ib_send_bw")
    play.policy |= {"rdma_message_bytes": 8192}
    reading = Bandwidth("ib_send_bw").client(play)
    # 8909.75 MiB/s are 8909.75 x 2^20 x 8 bit/s.
    assert reading.metrics["bandwidth_gbps"] == pytest.approx(74.7404, abs=1e-3)
    assert (reading.extra["gid_index"], reading.extra["active_mtu_bytes"]) == (0, 4096)
