# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each check asks for: its tool, and the metrics that each end must state.

One table, so that policy (what may be bounded), the row reader (what must be there) and expectations (what is
bounded by default) cannot drift apart.
"""

from __future__ import annotations

from dataclasses import dataclass

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
        server: metric -> kind that the server's row must hold.
        from_facts: answered by the facts row of a node, not by result rows.
    """

    name: str
    title: str
    bounded: tuple[str, ...]
    client: dict[str, str]
    server: dict[str, str]
    from_facts: bool = False


_BANDWIDTH_CLIENT = {"bandwidth_gbps": "positive", "sent_gbps": "positive"}
_BANDWIDTH_SERVER = {"bandwidth_gbps": "positive"}

CHECKS: dict[str, Check] = {
    check.name: check
    for check in (
        Check("link", "link state", (), {}, {}, from_facts=True),
        Check("address", "address", (), {}, {}, from_facts=True),
        Check("mtu", "MTU", (), {}, {}, from_facts=True),
        Check("path_mtu", "path MTU", (), {"path_mtu_bytes": "positive_count"}, {}),
        Check(
            "path_mtu_one_way",
            "one-way path MTU",
            (),
            {"path_mtu_bytes": "positive_count", "sent": "positive_count", "received": "count"},
            {},
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
            {},
        ),
        Check("tcp_bandwidth", "TCP bandwidth", ("bandwidth_gbps",), _BANDWIDTH_CLIENT, _BANDWIDTH_SERVER),
        Check(
            "tcp_latency",
            "one-way TCP latency",
            ("latency_average_us", "latency_p50_us", "latency_p99_us", "latency_p999_us"),
            {
                "latency_average_us": "positive",
                "latency_p50_us": "positive",
                "latency_p99_us": "positive",
                "latency_p999_us": "positive",
                "latency_min_us": "positive",
                "latency_max_us": "positive",
                "observations": "positive_count",
            },
            {},
        ),
        Check(
            "tcp_bandwidth_concurrent",
            "TCP bandwidth of all rails at once",
            ("bandwidth_gbps",),
            _BANDWIDTH_CLIENT,
            _BANDWIDTH_SERVER,
        ),
        Check("aggregate_bandwidth", "aggregate bandwidth", ("bandwidth_gbps",), {}, {}),
    )
}

#: Checks whose failing probe is itself the answer: a jumbo packet that does not arrive is a finding about the
#: path, while an iperf3 that dies only leaves the bandwidth unknown.
PROBES = ("path_mtu", "path_mtu_one_way", "ping_rtt")

BANDWIDTH = ("tcp_bandwidth", "tcp_bandwidth_concurrent")

PASS, FAIL, UNMEASURED, NOT_APPLICABLE, RECORDED = "pass", "fail", "unmeasured", "not_applicable", "recorded"
OUTCOMES = (PASS, FAIL, UNMEASURED, NOT_APPLICABLE, RECORDED)
#: Worst first: what a rail, pair or node with several verdicts is shown as.
WORST_FIRST = (FAIL, UNMEASURED, RECORDED, PASS, NOT_APPLICABLE)
