# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each check asks for: its tool, and the metrics that each end must state.

One table, so that policy (what may be bounded), the row reader (what must be there) and expectations (what is
bounded by default) cannot drift apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: Metric kinds: what a sane value of the metric looks like. `positive` > 0, `count` whole and >= 0,
#: `positive_count` whole and > 0, `share` within 0 and 100, `nonnegative` >= 0. All are finite numbers, never
#: bool.
KINDS = ("positive", "positive_count", "count", "share", "nonnegative")


@dataclass(frozen=True)
class Check:
    """One kind of question.

    Attributes:
        name: the check, as asked.jsonl writes it.
        title: how a person calls it.
        bounded: metrics that a bound may be laid on (site policy included).
        client: metric -> kind that the client's row must hold.
        server: metric -> kind that the server's row must hold; empty where that end states no number.
        source: where its answer comes from, one of SOURCES.
        rdma: it is asked only where the inventory declares RDMA.
    """

    name: str
    title: str
    bounded: tuple[str, ...] = ()
    client: dict[str, str] = field(default_factory=dict)
    server: dict[str, str] = field(default_factory=dict)
    source: str = "test"
    rdma: bool = False

    @property
    def from_facts(self) -> bool:
        """Tell whether a node's facts row answers it, not result rows."""
        return self.source == "facts"

    @property
    def local(self) -> bool:
        """Tell whether it is asked of one node alone: the asked line names no peer, a BMC's no rail."""
        return self.source in ("facts", "counters", "cabling", "hops", "bmc")


#: Where an answer comes from: a node's facts row, the two rows of a test, the error counters in the rows of
#: all tests of a rail, the sum of the tests that ran at once, what the rails heard of each other, the
#: latencies of all tests of a rail, or what the controller heard of a node's BMC.
SOURCES = ("facts", "test", "counters", "sum", "cabling", "hops", "bmc")

_BANDWIDTH_CLIENT = {"bandwidth_gbps": "positive", "sent_gbps": "positive"}
_BANDWIDTH_SERVER = {"bandwidth_gbps": "positive"}
_BOTH_WAYS = {"bandwidth_gbps": "positive", "forward_gbps": "positive", "reverse_gbps": "positive"}
# perftest prints the message rate with six digits behind the point: few large messages a second show as 0.
_RDMA_BANDWIDTH = {"bandwidth_gbps": "positive", "message_rate_mpps": "nonnegative"}
_LATENCY = {
    "latency_average_us": "positive",
    "latency_p50_us": "positive",
    "latency_p99_us": "positive",
    "latency_p999_us": "positive",
    "latency_min_us": "positive",
    "latency_max_us": "positive",
    "observations": "positive_count",
}
_LATENCY_BOUNDED = ("latency_average_us", "latency_p50_us", "latency_p99_us", "latency_p999_us")
# How many packets of the size that was found were sent, and how many of them passed.
_PATH_MTU = {"path_mtu_bytes": "positive_count", "sent": "positive_count", "received": "count"}


def _rdma_bandwidth(name: str, title: str, server: bool = True) -> Check:
    both = dict(_RDMA_BANDWIDTH)
    return Check(name, title, ("bandwidth_gbps",), both, dict(both) if server else {}, rdma=True)


def _rdma_latency(name: str, title: str) -> Check:
    return Check(name, title, _LATENCY_BOUNDED, dict(_LATENCY), rdma=True)


CHECKS: dict[str, Check] = {
    check.name: check
    for check in (
        Check("link", "link state", source="facts"),
        Check("address", "address", source="facts"),
        Check("mtu", "MTU", source="facts"),
        Check("rdma_port", "RDMA port", source="facts", rdma=True),
        Check("rdma_gid", "RDMA GID", source="facts", rdma=True),
        Check("rdma_mtu", "RDMA MTU", source="facts", rdma=True),
        Check("path_mtu", "path MTU", (), dict(_PATH_MTU)),
        Check(
            "path_mtu_one_way",
            "one-way path MTU",
            (),
            dict(_PATH_MTU),
        ),
        Check(
            "ping_rtt",
            "ping round trip",
            ("rtt_average_us", "rtt_max_us"),
            {
                "rtt_average_us": "positive",
                "rtt_min_us": "positive",
                "rtt_max_us": "positive",
                "rtt_mdev_us": "nonnegative",
                "loss_percent": "share",
            },
        ),
        Check("tcp_bandwidth", "TCP bandwidth", ("bandwidth_gbps",), _BANDWIDTH_CLIENT, _BANDWIDTH_SERVER),
        Check("tcp_latency", "one-way TCP latency", _LATENCY_BOUNDED, dict(_LATENCY)),
        Check(
            "tcp_bandwidth_bi",
            "TCP bandwidth of both directions",
            ("bandwidth_gbps", "forward_gbps", "reverse_gbps"),
            dict(_BOTH_WAYS),
            dict(_BOTH_WAYS),
        ),
        Check(
            "tcp_bandwidth_concurrent",
            "TCP bandwidth of all rails at once",
            ("bandwidth_gbps",),
            _BANDWIDTH_CLIENT,
            _BANDWIDTH_SERVER,
        ),
        _rdma_bandwidth("rdma_bandwidth", "RDMA write bandwidth"),
        # The server of a read does nothing and knows nothing: its HCA answers by itself.
        _rdma_bandwidth("rdma_read_bandwidth", "RDMA read bandwidth", server=False),
        _rdma_bandwidth("rdma_send_bandwidth", "RDMA send bandwidth"),
        _rdma_bandwidth("rdma_bandwidth_unpinned", "RDMA write bandwidth without NUMA pinning"),
        _rdma_bandwidth("rdma_bandwidth_bi", "RDMA write bandwidth of both directions"),
        _rdma_bandwidth("rdma_bandwidth_concurrent", "RDMA write bandwidth of all rails at once"),
        _rdma_latency("rdma_latency", "one-way RDMA write latency"),
        _rdma_latency("rdma_read_latency", "round-trip RDMA read latency"),
        _rdma_latency("rdma_send_latency", "one-way RDMA send latency"),
        Check("link_errors", "link errors", source="counters"),
        Check("cabling", "cabling", source="cabling"),
        Check("link_address_owner", "who answers for an address", source="cabling"),
        Check("reply_path", "path of replies", source="cabling"),
        Check("neighbour", "switch at the cable's end", source="cabling"),
        Check("hops", "switches on the way", source="hops", rdma=True),
        Check("bmc", "BMC", source="bmc"),
        Check("aggregate_bandwidth", "aggregate bandwidth", ("bandwidth_gbps",), source="sum"),
        Check(
            "rdma_aggregate_bandwidth",
            "aggregate RDMA bandwidth",
            ("bandwidth_gbps",),
            source="sum",
            rdma=True,
        ),
    )
}

#: Checks whose failing probe is itself the answer: a jumbo packet that does not arrive is a finding about the
#: path, while an iperf3 that dies only leaves the bandwidth unknown.
PROBES = ("path_mtu", "path_mtu_one_way", "ping_rtt")

#: TCP from client to server; both directions at once is another check.
BANDWIDTH = ("tcp_bandwidth", "tcp_bandwidth_concurrent")
RDMA_BANDWIDTH = (
    "rdma_bandwidth",
    "rdma_read_bandwidth",
    "rdma_send_bandwidth",
    "rdma_bandwidth_unpinned",
    "rdma_bandwidth_concurrent",
)
#: Both directions at once: `bandwidth_gbps` is their sum, at both ends.
BI = ("tcp_bandwidth_bi", "rdma_bandwidth_bi")
RDMA_LATENCY = ("rdma_latency", "rdma_read_latency", "rdma_send_latency")
#: What a row's `latency_is` must say: a read is answered by the peer, so its time is that of a round trip.
LATENCY_IS = {
    "tcp_latency": "one_way",
    "rdma_latency": "one_way",
    "rdma_send_latency": "one_way",
    "rdma_read_latency": "round_trip",
}
#: Aggregate -> the concurrent check whose tests it adds up.
AGGREGATES = {
    "aggregate_bandwidth": "tcp_bandwidth_concurrent",
    "rdma_aggregate_bandwidth": "rdma_bandwidth_concurrent",
}
#: Transports that RDMA is asked of.
RDMA_TRANSPORTS = ("roce", "infiniband")
#: perftest's programs that `fabric_policy.rdma_tests` may list.
RDMA_TESTS = ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_read_lat", "ib_send_lat")

PASS, FAIL, UNMEASURED, NOT_APPLICABLE, RECORDED = "pass", "fail", "unmeasured", "not_applicable", "recorded"
OUTCOMES = (PASS, FAIL, UNMEASURED, NOT_APPLICABLE, RECORDED)
#: Worst first: what a rail, pair or node with several verdicts is shown as.
WORST_FIRST = (FAIL, UNMEASURED, RECORDED, PASS, NOT_APPLICABLE)
