# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest in the forms that people publish: other versions, cards, options, and what goes wrong."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from support import captures

_read, _whole, only, failed = captures.for_tool("perftest")
RULER = "-" * 87 + "\n"
BANNER = "*" * 36 + "\n* Waiting for client to connect... *\n" + "*" * 36 + "\n"
TITLE = "                    RDMA_Write BW Test\n"
HEADER = (
    " Dual-port       : OFF\t\tDevice         : mlx5_1\n"
    " Number of qps   : 2\t\tTransport type : IB\n"
    " Connection type : RC\t\tUsing SRQ      : ON\n"
    " TX depth        : 128\n"
    " CQ Moderation   : 100\n"
    " Mtu             : 1024[B]\n"
    " Link type       : Ethernet\n"
    " GID index       : 3\n"
    " Max inline data : 0[B]\n"
    " rdma_cm QPs\t : OFF\n"
    " Data ex. method : Ethernet\n"
)
ADDRESSES = (
    " local address: LID 0000 QPN 0x0108 PSN 0x63ad7d RKey 0x17eedf VAddr 0x007f760c947000\n"
    " remote address: LID 0000 QPN 0x0076 PSN 0xf3810c RKey 0x201600 VAddr 0x007fbb4c981000\n"
)
COLUMNS = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
# 0.1 million messages of 65536 bytes a second are 52.43 Gbit/s.
ROW = " 65536      5000             52.50              52.43  \t\t   0.100000\n"
GBPS = 52.43


def table(header: str = HEADER, columns: str = COLUMNS, rows: str = ROW, title: str = TITLE) -> str:
    return RULER + title + header + RULER + ADDRESSES + RULER + columns + rows + RULER


def parse(text: str) -> dict[str, Any]:
    return registry.parse("perftest", text)


def squeezed(text: str) -> str:
    """Return what a web page makes of it: one blank between words, a blank line between lines."""
    return "".join(" ".join(line.split()) + "\n\n" for line in text.split("\n") if line.strip())


def test_header_that_a_page_squeezed():
    plain = only(table())
    assert only(squeezed(table())) == plain
    assert (plain["device"], plain["qps"], plain["connection"]) == ("mlx5_1", 2, "RC")
    cm = HEADER.replace("OFF\n Data", "ON\n Data")
    cm = cm.replace("method : Ethernet", "method : rdma_cm \tTOS    : 41")
    assert only(squeezed(table(cm)))["rdma_cm"] is True
    new = HEADER.replace("SRQ      : ON\n", "SRQ      : ON\n PCIe relax order: ON\t\tLock-free      : OFF\n")
    new = new.replace(" CQ Mod", " ibv_wr* API     : ON\t\tUsing Enhanced Reorder      : OFF\n CQ Mod")
    assert only(squeezed(table(new))) == plain


def test_excerpt_that_begins_inside_the_header():
    plain, text = only(table()), table()
    for line, left in (
        (" Number of qps", ("qps", "connection", "mtu_bytes", "gid_index")),
        (" Mtu", ("mtu_bytes", "gid_index")),
    ):
        output = only(text[text.index(line) :])
        assert {key: output[key] for key in left} == {key: plain[key] for key in left}
        # Who sends in both directions states its TX depth, too.
        assert (output["test"], output["role"], output["rows"]) == (None, None, plain["rows"])
    assert only("Device: mlx5_9\nMtu: 1500\n" + COLUMNS + ROW + RULER)["device"] is None


def test_raw_ethernet_on_a_page():
    header = HEADER.replace("type : RC", "type : RawEth").replace("1024[B]", "1518[B]")
    text = squeezed(table(header, title="                    Send BW Test\n"))
    output = only(text)
    assert (output["test"], output["connection"], output["mtu_bytes"]) == ("raw_ethernet_bw", "RawEth", 1518)


def test_before_2013_the_mtu_has_no_brackets_and_there_is_no_message_rate():
    header = (
        " Number of qps   : 1\n Connection type : RC\n TX depth        : 300\n CQ Moderation   : 50\n"
        " Mtu             : 2048B\n Link type       : IB\n Max inline data : 0B\n"
        " rdma_cm QPs\t : OFF\n Data ex. method : Ethernet\n"
    )
    columns = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]\n"
    rows = " 65536      5000           3001.00            3000.00\n"
    output = only(table(header, columns, rows).replace("-" * 87, "-" * 66))
    assert (output["mtu_bytes"], output["link_layer"], output["qps"]) == (2048, "InfiniBand", 1)
    (row,) = output["rows"]
    assert row["bandwidth_average_gbps"] == pytest.approx(3000 * 2**20 * 8 / 1e9)
    assert row["message_rate_mpps"] is None


def test_titles_of_2008():
    text = (
        "-" * 66 + "\n                    RDMA Write Latency Test\n"
        "Inline data is used up to 400 bytes message\nConnection type : RC\n"
        "  local address:  LID 0x01, QPN 0x40405, PSN 0x5b4b9c\n" + "-" * 66 + "\n"
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]\n"
        "      2        1000           1.21          14.40             1.25\n" + "-" * 66 + "\n"
    )
    output = only(text)
    assert (output["test"], output["latency_is"], output["role"]) == ("ib_write_lat", "one_way", None)
    assert output["rows"][0]["typical_us"] == 1.25
    assert output["rows"][0]["average_us"] is None


@pytest.mark.parametrize(
    ("lines", "gpu"),
    [
        (
            "Using ROCm Device with ID: 3, Name: AMD Instinct MI300X, PCI Bus ID: 0x9, GCN Arch: gfx942\n",
            "AMD Instinct MI300X",
        ),
        (
            "initializing CUDA\n\nPicking device No. 1\n[pid = 7, dev = 1] device name = [NVIDIA L4]\n",
            "NVIDIA L4",
        ),
        ("initializing CUDA\nPicking GPU number 2\n", "CUDA device 2"),
        ("initializing MUSA\nPicking GPU number 0\n", "MUSA device 0"),
    ],
)
def test_gpu_of_each_maker(lines, gpu):
    assert only(lines + table())["gpu"] == gpu


def test_cpu_column():
    columns = COLUMNS.rstrip("\n") + "    CPU_Util[%]\n"
    rows = ROW.rstrip("\n") + "\t    12.50\n"
    assert only(table(columns=columns, rows=rows))["rows"][0]["cpu_percent"] == 12.5
    assert only(table())["rows"][0]["cpu_percent"] is None
    assert failed(table(columns=columns)) == "garbled"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("52.50              ", "52.50"),
        (".", ","),
        ("65536      5000  ", "655365000"),
        ("  \t\t   0.1", "0.1"),
    ],
    ids=["glued rates", "decimal commas", "glued size", "glued message rate"],
)
def test_row_that_cannot_be_read_is_not_passed_over(right, wrong):
    text = table(rows=ROW.replace("65536", "32768") + ROW.replace(right, wrong))
    found = captures.parse_failed("perftest", text, "garbled")
    # Behind the row of 32768 bytes: the ruler, its table's title, header and addresses, the columns.
    assert found["error"]["message"].startswith(
        f"line {len((RULER * 3 + TITLE + HEADER + ADDRESSES).splitlines()) + 3}, "
    )


def test_what_is_between_the_last_row_and_its_ruler():
    for noise in (
        "\tport_xmit_data=1234\n\tport_rcv_data=99\n\n",
        "[12345.678901] mlx5_core 0000:01:00.0: Port module event\n",
        "Conflicting CPU frequency values detected: 1500.000000 != 3300.016000. CPU Frequency is not max.\n",
    ):
        assert only(table(rows=ROW + noise))["rows"][0]["bandwidth_average_gbps"] == GBPS
    # A run that was cut, with the next one behind it, is still not complete.
    cut = table().rsplit(RULER, 1)[0] + "[1.000000] mlx5_core: link down\n"
    assert parse(cut + table())["valid"] is False


def test_a_side_that_states_no_tx_depth_is_the_server():
    server = HEADER.replace(" TX depth        : 128\n", "")
    assert only(table(server))["role"] == "server"
    assert only(table())["role"] == "client"
    # A header that was shortened says nothing of its side.
    assert only(table(" Dual-port       : OFF\t\tDevice         : mlx5_1\n"))["role"] is None


def test_server_of_rdma_cm_without_its_banner():
    waiting = RULER + (
        " Waiting for client rdma_cm QP to connect\n"
        " Please run the same command with the IB/RoCE interface IP\n"
    )
    both = HEADER.replace("QPs\t : OFF", "QPs\t : ON") + waiting
    header = both.replace(" TX depth        : 128\n", "")
    for banner in (BANNER, ""):
        output = only(banner + table(header))
        assert (output["role"], output["rdma_cm"]) == ("server", True)
    output = only(table(both, title=TITLE.replace("BW Test", "Bidirectional BW Test")))
    assert (output["role"], output["bidirectional"]) == ("server", True)


def test_efa_is_no_infiniband():
    header = HEADER.replace("type : IB", "type : Unknown").replace("type : RC", "type : SRD")
    header = header.replace("Link type       : Ethernet", "Link type       : IB")
    header = header.replace("mlx5_1", "rdmap0s6")
    output = only(table(header))
    assert (output["link_layer"], output["connection"], output["device"]) == (None, "SRD", "rdmap0s6")
    iwarp = only(table(HEADER.replace("type : IB", "type : IW")))
    assert iwarp["link_layer"] == "Ethernet"


def test_peak_that_is_not_given():
    (row,) = only(table(rows=ROW.replace("52.50", "N/A")))["rows"]
    assert (row["bandwidth_peak_gbps"], row["bandwidth_average_gbps"]) == (None, GBPS)
    assert parse(table(rows=ROW.replace("52.43", "N/A")))["valid"] is False


def test_ports_of_a_dual_port_run_are_behind_the_sum():
    more = "   BW Port1[Gb/sec]   MsgRate Port1[Mpps]   BW Port2[Gb/sec]   MsgRate Port2[Mpps]"
    columns = COLUMNS.rstrip("\n") + more + "\n"
    rows = ROW.rstrip("\n") + "        26.21            0.050000              26.22            0.050000\n"
    (row,) = only(table(columns=columns, rows=rows))["rows"]
    assert (row["bandwidth_average_gbps"], row["message_rate_mpps"]) == (GBPS, 0.1)


def test_run_infinitely_gives_its_reports_and_is_not_complete():
    """It has no end of its own: the user stopped it."""
    for end in ("", "^C\n"):
        found = parse(table(rows=ROW * 3).rsplit(RULER, 1)[0] + end)
        assert found["valid"] is False
        rows = found["outputs"][0]["rows"]
        assert [row["bandwidth_average_gbps"] for row in rows] == [GBPS] * 3


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (" Port number 1 state is Down\n Couldn't set the link layer\n", "port_down"),
        ("Couldn't connect to 10.0.1.2:18515\n", "connection_refused"),
        ("Couldn't allocate MR\nfailed to create mr\nFailed to create MR\n", "memory"),
        ("Couldn't create IB resources\n", "resources"),
        ("RDMA CM event error:\nEvent: RDMA_CM_EVENT_REJECTED; error: -111.\n", "rdma_cm"),
        ("Failed status-transport retry counter exceeded (12): wr_id 0 syndrom 0x81\n", "retry_exceeded"),
        ("\n Found Incompatibility issue with GID types.\n", "gid_mismatch"),
        (" Did not get Message for 120 Seconds, exiting..\n Total Received=5\n", "timeout"),
        (" CPU Utilization works only with Duration mode.\n", "usage"),
        (" Multiple QPs only available on bw tests\n", "usage"),
        ("No such device ID (9) exists in system\nCouldn't init GPU context: 1\n", "gpu"),
        ("initializing CUDA\ncuInit(0) returned 100\n", "gpu"),
        ("There are no available device(s) that support CUDA\n", "gpu"),
        ("Requested ROCm device 3 but found only 2 device(s)\n", "gpu"),
        ("GPU 7 is out of range, gpu[:2]\nFailed to initialize GPU\n", "gpu"),
    ],
)
def test_failures_in_its_own_words(text, kind):
    found = parse(text)
    assert (found["valid"], found["error"]["class"], found["outputs"]) == (False, kind, [])


def test_data_that_arrived_spoilt_is_no_result():
    assert failed(table() + "VALIDATION: FAILED [client] - 3 error(s), 5 slots\n") == "validation"
    unproven = parse(table() + "VALIDATION: WARNING [client] - no data validated\n")
    assert unproven["valid"] is False


def test_data_that_arrived_intact_says_so_above_the_last_ruler():
    passed = "VALIDATION: PASSED - 40 chunks, 2621440 bytes\n"
    (start, end) = table().rsplit(RULER, 1)
    assert only(start + passed + RULER + end) == only(table())


def test_noise_of_loaders_is_a_warning():
    noise = (
        "ERROR: ld.so: object 'libx.so' from LD_PRELOAD cannot be preloaded: ignored.\n"
        "libibverbs: Warning: couldn't load driver 'libmana-rdmav34.so': cannot open shared object file\n"
    )
    found = parse(noise + table())
    assert found["valid"] is True
    assert len(found["warnings"]) == 2


def test_json_says_what_the_cpu_did():
    text = (
        '{\n"test_info": {\n"test": "RDMA_Write_BW_Test",\n"Device": "mlx5_1",\n'
        '"TX_depth": 128,\n"musa_device": 1\n},\n'
        '"results": {\n"MsgSize": 65536,\n"n_iterations": 5000,\n"BW_peak": 0.00,\n"BW_average": 52.43,\n'
        '"MsgRate": 0.100000,\n"CPU_util": 12.50\n}\n}\n'
    )
    output = only(text)
    assert (output["gpu"], output["rows"][0]["cpu_percent"]) == ("MUSA device 1", 12.5)


LAT_COLUMNS = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    "   99% percentile[usec]   99.9% percentile[usec] \n"
)
LAT_ROW = " 2       1000          1.83           4.03         1.86     1.87        0.05   2.05    3.03   \n"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("1.83", "2.00"), ("1.86", "186"), ("1.87", "4.50"), ("2.05", "3.20"), ("4.03", "3.00")],
)
def test_times_outside_their_shortest_and_longest(right, wrong):
    text = table(title="RDMA_Write Latency Test", columns=LAT_COLUMNS, rows=LAT_ROW)
    assert only(text)["rows"][0]["p999_us"] == 3.03
    assert failed(text.replace(right, wrong)) == "inconsistent"


def test_transactions_that_the_time_does_not_allow():
    columns = " #bytes        #iterations       t_avg[usec]    tps average\n"
    rows = " 2       100000     1.83       546448.09\n"
    text = table(title="RDMA_Read Latency Test", columns=columns, rows=rows)
    assert only(text)["rows"][0]["transactions_per_s"] == 546448.09
    wrong = text.replace("546448.09", "546.09")
    assert failed(wrong) == "inconsistent"
