# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List what each kernel driver of an RDMA device counts, in which files, and which tools set its QoS.

One row of data for each driver. The proof of a measurement, the busy check, the error counters and the judge
read it; `docs/drivers.md` shows it. A driver that is not here proves nothing, and its tests say so.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

from . import rdma_counters

#: The page that lists the drivers; messages name it.
PAGE = "docs/drivers.md"

#: The kernel's default of `hw_counters/lifespan` (torvalds/linux include/rdma/ib_verbs.h), and its most.
LIFESPAN_MS, LONGEST_LIFESPAN_MS = 10, 10_000
#: What a counter does at its greatest value.
STOPS, WRAPS = "stops", "wraps"
#: What to do where nothing better is known of a driver.
BY_VENDOR = "set trust, PFC and ECN with the vendor's tool, and declare roce_qos_enabled: false"


class Errors(NamedTuple):
    """Error counters of a driver as PLACE.NAME, by what growth means.

    `hca` is the port's folder counters, `hw` its hw_counters, `netdev` the netdev's statistics, `ethtool`
    what `ethtool -S` prints.

    Attributes:
        physical: The cable or its ends are bad.
        link_down: The link went down, which is physical too.
        symbol: A link may have some by its specification; some were counted by a switch, of another link.
        transport: Packets were sent again.
        loss: A packet was dropped because buffers were full, which does not happen on a lossless rail.
        notice: Congestion control at work, or packets that were not sent; reported and never judged.
    """

    physical: tuple[str, ...] = ()
    link_down: tuple[str, ...] = ()
    symbol: tuple[str, ...] = ()
    transport: tuple[str, ...] = ()
    loss: tuple[str, ...] = ()
    notice: tuple[str, ...] = ()


class NicDriver(NamedTuple):
    """What is known of one kernel driver.

    Attributes:
        name: The RDMA driver's module.
        cards: Which cards it is for.
        links: Names that sysfs's `device/driver` link may have: mostly the PCI function's driver.
        traffic: The counters that prove RDMA; None where no published counter does.
        why_not: Why none does.
        width_bits: Width of the traffic counters.
        at_greatest: What they do at their greatest value.
        lifespan_ms: How old a value may be where no file `lifespan` says so; 0 where each read asks the card.
        errors: Its own error counters, beside those of every netdev and InfiniBand port.
        qos: Ways by which `roce_qos` sets it: names in qos/tools.py, or `MLX4_OPTIONS`.
        qos_otherwise: What to do where there is none. NETDEV stands for the port's netdev.
        quirks: What a reader of the numbers must know.
        source: Where this is from.
        connection: Type of its queue pairs, as perftest's `-c` names it; empty for RC, the default.
        link_is_hidden: Whether no counter shows its link, which is the cloud's: `errors.transport` is judged.
        link_tools: Programs that read the port's module and bit error ratios as mlxlink does, the first that
        is there.
    """

    name: str
    cards: str
    links: tuple[str, ...]
    quirks: str
    source: str
    traffic: Optional[rdma_counters.Traffic] = None  # noqa: UP045 - Python 3.9 evaluates it
    why_not: str = ""
    width_bits: int = 64
    at_greatest: str = WRAPS
    lifespan_ms: int = LIFESPAN_MS
    errors: Errors = Errors()
    qos: tuple[str, ...] = ()
    qos_otherwise: str = BY_VENDOR
    connection: str = ""
    link_is_hidden: bool = False
    link_tools: tuple[str, ...] = ()


#: Error counters that no single driver owns: the kernel's netdev statistics, and InfiniBand's PortCounters
#: (Documentation/ABI/stable/sysfs-class-infiniband).
COMMON = Errors(
    physical=(
        "hca.link_error_recovery",
        "hca.port_rcv_errors",
        "hca.local_link_integrity_errors",
        "hca.excessive_buffer_overrun_errors",
        "netdev.rx_crc_errors",
        "netdev.rx_frame_errors",
        "netdev.tx_carrier_errors",
    ),
    link_down=("hca.link_downed", "netdev.carrier_changes"),
    symbol=("hca.symbol_error", "hca.port_rcv_remote_physical_errors"),
    # port_xmit_wait counts ticks without credit to send, port_xmit_discards packets that waited too long for
    # it or found the port down: of the fabric beyond the port, mostly.
    notice=("hca.port_xmit_discards", "hca.port_xmit_wait"),
)
_SOFT_IWARP = "Soft-iWARP sends by the kernel's TCP and counts nothing itself"
#: ConnectX-3 has flow control alone, which its Ethernet driver takes as module options.
MLX4_OPTIONS = "mlx4_en"
DRIVERS = (
    NicDriver(
        name="mlx5_ib",
        cards="NVIDIA ConnectX-4 to ConnectX-8, BlueField",
        links=("mlx5_core", "mlx5_ib"),
        traffic=rdma_counters.PORT_WORDS,
        at_greatest=STOPS,
        lifespan_ms=0,
        errors=Errors(
            physical=("hw.rx_icrc_encapsulated", "ethtool.rx_crc_errors_phy"),
            link_down=("ethtool.link_down_events_phy",),
            symbol=("ethtool.rx_symbol_err_phy", "ethtool.rx_pcs_symbol_err_phy"),
            transport=(
                "hw.out_of_sequence",
                "hw.packet_seq_err",
                "hw.local_ack_timeout_err",
                "hw.implied_nak_seq_err",
                "hw.rnr_nak_retry_err",
                "hw.duplicate_request",
            ),
            # Both are listed as errors in mlx5's documentation.
            loss=(
                "ethtool.rx_discards_phy",
                "ethtool.tx_pause_storm_error_events",
                *(
                    f"ethtool.rx_prio{priority}_{what}"
                    for priority in range(8)
                    for what in ("discards", "buf_discard", "cong_discard")
                ),
            ),
            # A packet above the MTU is one that was not sent, too. What FEC corrects is there on each link of
            # 50 Gbit/s a lane and more; the judge bounds its ratio to all bits (judge/optics.py).
            notice=(
                "ethtool.rx_corrected_bits_phy",
                "ethtool.tx_errors_phy",
                "ethtool.tx_pause_storm_warning_events",
                "hw.np_cnp_sent",
                "hw.np_ecn_marked_roce_packets",
                "hw.rp_cnp_handled",
                "hw.rp_cnp_ignored",
            ),
        ),
        qos=("mlnx_qos", "dcb", "sysfs"),
        qos_otherwise="",
        quirks="On an Ethernet port these are RoCE alone. hw_counters are 32 bits wide and wrap; they count "
        "requests at the receiver, and no bytes. An IPoIB netdev has no ethtool -m: mlxlink reads its "
        "module.",
        source="torvalds/linux drivers/infiniband/hw/mlx5/mad.c, counters.c; Documentation/networking/"
        "device_drivers/ethernet/mellanox/mlx5/counters.rst; drivers/net/ethernet/mellanox/mlx5/core/ipoib/"
        "ethtool.c; prometheus/procfs fixtures",
        link_tools=("mlxlink", "mstlink"),
    ),
    NicDriver(
        name="mlx4_ib",
        cards="NVIDIA ConnectX-3",
        links=("mlx4_core", "mlx4_ib"),
        traffic=rdma_counters.PORT_WORDS,
        width_bits=32,
        at_greatest=STOPS,
        lifespan_ms=0,
        errors=Errors(transport=("hw.sq_num_oos", "hw.rq_num_oos", "hw.sq_num_to")),
        qos=(MLX4_OPTIONS,),
        qos_otherwise="",
        quirks=(
            "64 bits wide where the extended set is there. Without it a counter stops at 0xffffffff, at 40 "
            "Gbit/s after 3.4 s: such a test is unproven."
        ),
        source="torvalds/linux drivers/infiniband/hw/mlx4/mad.c, main.c; prometheus/procfs fixtures",
    ),
    NicDriver(
        name="bnxt_re",
        cards="Broadcom NetXtreme-E and Thor",
        links=("bnxt_en", "bnxt_re"),
        traffic=rdma_counters.TX_RX,
        errors=Errors(
            physical=("ethtool.rx_fcs_err_frames",),
            symbol=("ethtool.rx_fec_uncorrectable_blocks",),
            transport=(
                "hw.to_retransmits",
                "hw.seq_err_naks_rcvd",
                "hw.rnr_naks_rcvd",
                "hw.max_retry_exceeded",
                "hw.oos_drop_count",
            ),
            notice=("ethtool.rx_corrected_bits", "hw.tx_cnp_pkts", "hw.rx_cnp_pkts", "hw.rx_ecn_marked_pkts"),
        ),
        # Its DCB takes PFC only after ETS gave the priority a traffic class (bnxt_dcb.c), and roce_qos leaves
        # ETS alone; congestion control is in configfs of Broadcom's own driver.
        qos_otherwise=(
            "set ETS, PFC and ECN with Broadcom's bnxt_setupcc.sh -i NETDEV -m 3 (it uses dcb or niccli), "
            "and declare roce_qos_enabled: false"
        ),
        quirks=(
            "counters/ answers EINVAL on many kernels. recoverable_errors is filled from a field of "
            "broadcast packets and is never judged."
        ),
        source="torvalds/linux drivers/infiniband/hw/bnxt_re/hw_counters.c, drivers/net/ethernet/broadcom/"
        "bnxt/bnxt_ethtool.c; prometheus/procfs issue 675",
    ),
    NicDriver(
        name="irdma",
        cards="Intel E810, E830 and X722 (i40iw)",
        links=("ice", "i40e", "idpf", "irdma", "i40iw"),
        traffic=rdma_counters.in_hw_counters(
            (("ip4OutOctets", "ip6OutOctets"),),
            (("ip4InOctets", "ip6InOctets"),),
            (("ip4OutPkts", "ip6OutPkts"),),
            (("ip4InPkts", "ip6InPkts"),),
        ),
        errors=Errors(
            physical=(
                "ethtool.rx_crc_errors.nic",
                "ethtool.port.rx_crc_errors",
                "ethtool.illegal_bytes.nic",
                "ethtool.mac_local_faults.nic",
                "ethtool.mac_remote_faults.nic",
            ),
            transport=(
                "hw.RetransSegs",
                "hw.tcpRetransSegs",
                "hw.Nak Sequence Error",
                "hw.Rcvd Out of order packets",
            ),
            notice=("hw.cnpSent", "hw.cnpHandled", "hw.cnpIgnored", "hw.RxECNMrkd"),
        ),
        # The firmware's agent overrules software, and PFC needs a map of priorities to at most four classes.
        # X722 (i40e) has iWARP and link pause alone.
        qos_otherwise=(
            "run ethtool --set-priv-flags NETDEV fw-lldp-agent off, set PFC and ETS with lldptool as in "
            "Intel's README of irdma, and declare roce_qos_enabled: false"
        ),
        quirks=(
            "No counters/. Octets of IPv4 and IPv6 are added up. Messages and segments (InRdmaWrites, "
            "tcpInSegs) hold no bytes and prove none. On some cards the octets were reported not to move "
            "with RoCE: such a test is unproven."
        ),
        source=(
            "torvalds/linux drivers/infiniband/hw/irdma/verbs.c, i40iw/i40iw_verbs.c; Intel's "
            "README_irdma.txt; prometheus/procfs issue 605"
        ),
    ),
    NicDriver(
        name="efa",
        cards="AWS Elastic Fabric Adapter",
        links=("efa",),
        traffic=rdma_counters.EFA,
        errors=Errors(
            transport=(
                "hw.rx_drops",
                "hw.retrans_timeout_events",
                "hw.rdma_read_wr_err",
                "hw.rdma_write_wr_err",
            ),
            notice=(
                "hw.retrans_bytes",
                "hw.retrans_pkts",
                "hw.impaired_remote_conn_events",
                "hw.unresponsive_remote_events",
            ),
        ),
        qos_otherwise=(
            "there is nothing to set, AWS controls congestion itself: declare roce_qos_enabled: false"
        ),
        quirks=(
            "No netdev, no LID and no counters/. lifespan reads 12 on a kernel with HZ=250. Queue pairs are "
            "SRD or UD alone. Older drivers report 100 Gbit/s of every card."
        ),
        source=(
            "torvalds/linux drivers/infiniband/hw/efa/efa_verbs.c; aws-samples/awsome-distributed-training "
            "efa-node-exporter; linux-rdma/perftest pull requests 57 and 206, issue 113"
        ),
        connection="SRD",
        link_is_hidden=True,
    ),
    NicDriver(
        name="mana_ib",
        cards="Microsoft Azure Network Adapter",
        links=("mana", "mana_ib"),
        traffic=rdma_counters.in_hw_counters(
            (("tx_bytes",),), (("rx_bytes",),), (("tx_packets",),), (("rx_packets",),)
        ),
        errors=Errors(
            transport=(
                "hw.requester_timeout",
                "hw.requester_oos_nak",
                "hw.requester_implicit_nak",
                "hw.responder_oos",
                "hw.responder_dup_request",
                "hw.requester_retries_exceeded",
            ),
            notice=("hw.received_cnps",),
        ),
        qos_otherwise="there is nothing to set, Azure sets the classes: declare roce_qos_enabled: false",
        quirks="sent_cnps and received_ecns are the device's, not the port's.",
        source="torvalds/linux drivers/infiniband/hw/mana/counters.c",
    ),
    NicDriver(
        name="ionic_rdma",
        cards="AMD Pensando DSC, Pollara",
        links=("ionic", "ionic_rdma"),
        traffic=rdma_counters.in_hw_counters(
            (("tx_rdma_ucast_bytes",),),
            (("rx_rdma_ucast_bytes",),),
            (("tx_rdma_ucast_pkts",),),
            (("rx_rdma_ucast_pkts",),),
        ),
        errors=Errors(
            transport=("hw.tx_rdma_ack_timeout", "hw.req_tx_retry_excd_err", "hw.req_rx_pkt_seq_err"),
            notice=("hw.rx_rdma_cnp_pkts", "hw.rx_rdma_ecn_pkts"),
        ),
        qos_otherwise="set it with AMD's nicctl update qos, and declare roce_qos_enabled: false",
        quirks=(
            "Names and widths (8 to 64 bits) come from the firmware; those here were seen on 400G cards. A "
            "value that cannot be read is all ones. Port 1 alone."
        ),
        source="torvalds/linux drivers/infiniband/hw/ionic/ionic_hw_stats.c; ROCm's "
        "rocprofiler-systems, pmc/collectors/nic",
    ),
    NicDriver(
        name="hfi1",
        cards="Cornelis and Intel Omni-Path 100",
        links=("hfi1",),
        traffic=rdma_counters.PORT_WORDS,
        at_greatest=STOPS,
        lifespan_ms=0,
        qos_otherwise="Omni-Path has no RoCE: declare roce_qos_enabled: false",
        quirks="It counts more errors in hw_counters, by names of its own, which are not judged.",
        source="prometheus/procfs fixtures (hfi1_0)",
    ),
    NicDriver(
        name="rxe",
        cards="Soft-RoCE",
        links=("rxe", "rdma_rxe"),
        traffic=rdma_counters.SOFT_ROCE,
        errors=Errors(
            link_down=("hw.link_downed",),
            transport=(
                "hw.out_of_seq_request",
                "hw.rcvd_seq_err",
                "hw.completer_retry_err",
                "hw.retry_exceeded_err",
                "hw.duplicate_request",
            ),
        ),
        qos_otherwise="software RDMA has no QoS of hardware: declare fabric.node_class virtual",
        quirks="Bytes are the netdev's, held within the port's own packets. Sending again is not judged.",
        source="torvalds/linux drivers/infiniband/sw/rxe/rxe_hw_counters.c; run in the lab",
    ),
    NicDriver(
        name="siw",
        cards="Soft-iWARP",
        links=("siw",),
        why_not=_SOFT_IWARP,
        width_bits=0,
        lifespan_ms=0,
        qos_otherwise="software RDMA has no QoS of hardware: declare fabric.node_class virtual",
        quirks="The netdev's bytes move with it, and could be TCP's.",
        source="torvalds/linux drivers/infiniband/sw/siw/siw_main.c",
    ),
    NicDriver(
        name="qedr",
        cards="Marvell FastLinQ 45000",
        links=("qede", "qedr"),
        why_not="qedr answers queries of port counters without filling them in",
        width_bits=0,
        lifespan_ms=0,
        quirks="Files in counters/ read 0 whatever crosses the port.",
        source="torvalds/linux drivers/infiniband/hw/qedr/verbs.c (qedr_process_mad)",
    ),
    NicDriver(
        name="erdma",
        cards="Alibaba Elastic RDMA",
        links=("erdma",),
        traffic=rdma_counters.in_hw_counters(
            (("tx_bytes_cnt",), ("hw_tx_bytes_cnt",)),
            (("rx_bytes_cnt",), ("hw_rx_bytes_cnt",)),
            (("tx_packets_cnt",), ("hw_tx_packets_cnt",)),
            (("rx_packets_cnt",), ("hw_rx_packets_cnt",)),
        ),
        errors=Errors(
            notice=("hw.tx_bps_limit_drop_cnt", "hw.rx_bps_limit_drop_cnt", "hw.hw_rx_bps_limit_drop_cnt")
        ),
        quirks="The driver of Alibaba Cloud puts hw_ before the kernel's names.",
        source=(
            "torvalds/linux drivers/infiniband/hw/erdma/erdma_verbs.c; the vendor's driver (names with hw_)"
        ),
    ),
    NicDriver(
        name="hns_roce_hw_v2",
        cards="HiSilicon Kunpeng",
        links=("hns3", "hns_roce_hw_v2", "hns_roce"),
        why_not="hns_roce counts packets and no bytes",
        width_bits=0,
        quirks="hw_counters from HIP09 on, not for a VF.",
        source="torvalds/linux drivers/infiniband/hw/hns/hns_roce_main.c",
    ),
)
_BY_LINK = {link: row for row in DRIVERS for link in (row.name, *row.links)}


def find(driver: str | None) -> NicDriver | None:
    """Return the row of a driver, by its module or by the name of sysfs's `device/driver` link."""
    return _BY_LINK.get(driver) if driver else None


def connection_of(driver: str | None) -> str:
    """Return the connection type that perftest needs for a driver's device; empty for RC, its default."""
    row = find(driver)
    return row.connection if row is not None else ""


def why_unproven(driver: str | None) -> str | None:
    """Return why RDMA over a driver's device cannot be proven by counters, None where it can."""
    row = find(driver)
    if row is None:
        named = f"driver {driver}" if driver else "its driver, which sysfs does not name,"
        return f"{named} is not among those whose traffic counters are known ({PAGE} lists them)"
    if row.traffic is None:
        return f"driver {driver} has no counter that proves RDMA: {row.why_not} ({PAGE})"
    return None
