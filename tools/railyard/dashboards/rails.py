# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dashboard of rails: a map of node and rail, traffic, pauses, errors."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.models import units

from railyard.dashboards.parts import RAIL_STATES, RED, Query, State, board, lines, matrix, timeline
from railyard.dashboards.promql import BY_RAIL, CLUSTER, RAIL, top

STATE = f"railyard:rail_state{{{RAIL}}}"
NAME = "{{node}} {{rail}}"
MAP = (
    "Green: good. Orange: its error counters grow, or it is paused. Red: no link, RDMA port down, below the "
    "declared rate, or another MTU."
)


def _ten(record: str) -> str:
    """Return the ten rails with the most of something."""
    return top(10, f"{record}{{{RAIL}}}", " > 0")


def _share(record: str) -> str:
    """Return the ten busiest rails as shares of their declared rate."""
    return f"({_ten(record)}) / on ({BY_RAIL}) group_left () railyard_rail_expected_rate_bytes_per_second"


def make() -> Dashboard:
    """Build the dashboard."""
    return board(
        "railyard-rails",
        "Railyard: rails",
        "Each rail of each node: state, traffic, pauses, errors.",
        [
            "Node and rail",
            matrix(
                "Nodes with a rail that is not good",
                f"{MAP} Only nodes with such a rail; a click opens the node.",
                f"max by (node, rail) ({STATE} and on (cluster, node) (max by (cluster, node) ({STATE}) > "
                f"0))",
                "node",
                "rail",
                states=RAIL_STATES,
                height=8,
            ),
            matrix(
                "All nodes",
                f"{MAP} A node that does not answer is missing here; the cluster's dashboard counts them.",
                f"max by (node, rail) ({STATE})",
                "node",
                "rail",
                states=RAIL_STATES,
                height=12,
            ),
            timeline(
                "Alerts of rails",
                "Alerts that fire, by node and rail: 40 at most. Choose nodes and rails above to see others.",
                Query(
                    f'topk(40, max by (alertname, node, rail) (ALERTS{{alertstate="firing",{RAIL}}}))',
                    "{{alertname}} {{node}} {{rail}}",
                ),
                states=(State(1, "fires", RED),),
                height=9,
            ),
            "Traffic",
            lines(
                "RDMA received: the ten busiest",
                "Bytes that the HCA counted, per second, as bits. The ten with the most over the time shown.",
                Query(f"8 * ({_ten('railyard:rail_rdma_receive_bytes:rate2m')})", NAME),
                unit=units.BitsPerSecondSI,
            ),
            lines(
                "RDMA sent: the ten busiest",
                "Bytes that the HCA counted, per second, as bits. The ten with the most over the time shown.",
                Query(f"8 * ({_ten('railyard:rail_rdma_transmit_bytes:rate2m')})", NAME),
                unit=units.BitsPerSecondSI,
            ),
            lines(
                "RDMA received, as a share of the declared rate",
                "1 is the declared rate of the link. Rails without a declared rate are missing.",
                Query(_share("railyard:rail_rdma_receive_bytes:rate2m"), NAME),
                unit=units.PercentUnit,
                most=1.0,
            ),
            lines(
                "TCP/IP received: the ten busiest",
                "Bytes that the netdev counted, per second, as bits. On most cards RDMA is not among them.",
                Query(f"8 * ({_ten('railyard:rail_receive_bytes:rate2m')})", NAME),
                unit=units.BitsPerSecondSI,
            ),
            lines(
                "RDMA received, by rail",
                "Sum over the nodes. Rails of one cluster carry the same load in most jobs: look at one "
                "that differs.",
                Query(f"8 * sum by (rail) (railyard:rail_rdma_receive_bytes:rate2m{{{RAIL}}})", "{{rail}}"),
                unit=units.BitsPerSecondSI,
            ),
            lines(
                "Links that changed",
                "Changes of the carrier in 15 minutes. Alert RailFlapping fires above 4.",
                Query(
                    f"railyard_rail_netdev_info{{{RAIL}}} * on (cluster, node, device) group_left () "
                    f"(increase(node_network_carrier_changes_total{{{CLUSTER}}}[15m]) > 0)",
                    NAME,
                ),
            ),
            "Congestion and errors",
            lines(
                "Paused share of the time: the ten most paused",
                "rx: the switch pauses the node. tx: the node pauses the switch; look at its PCI Express "
                "and memory.",
                Query(_ten("railyard:rail_pause_share"), f"{NAME} {{{{direction}}}} {{{{priority}}}}"),
                unit=units.PercentUnit,
            ),
            lines(
                "CNPs sent: the ten with the most",
                "Congestion notification packets per second that a receiver sends back. Congestion "
                "control at work: not "
                "a fault of the node by itself.",
                Query(_ten("railyard:rail_cnp:rate5m"), NAME),
                unit=units.PacketsPerSecond,
            ),
            lines(
                "Errors in an hour, by kind",
                "Growth of the error counters of all rails in an hour.",
                Query(f"sum by (kind) (railyard:rail_errors:increase1h{{{RAIL}}})", "{{kind}}"),
            ),
            lines(
                "Errors in an hour: the ten rails with the most",
                "Growth of a rail's error counters in an hour.",
                Query(_ten("railyard:rail_errors:increase1h"), f"{NAME} {{{{kind}}}}"),
            ),
        ],
    )
