# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes found by jobs of all nodes together."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.cause_table.cause import RAW, Cause

TABLE = (
    Cause("collective_failed", "a job of all nodes was aborted",
          "See which node's row names a cause, and the tests of the rails; then validate again.",
          "a rail that loses large packets, or a node that failed", RAW),
    Cause("collective_wrong", "a job of all nodes gave a wrong result",
          "Test the nodes' memory and GPUs, exclude one node after the other (--limit), validate again.",
          "faulty memory, or a GPU that computes wrongly", "dcgmi diag -r 3"),
    Cause("collective_elsewhere", "a job of all nodes did not use the rails that it was given",
          "Look at the routes to the others' rail addresses, and at NCCL's settings by `railyard lint-nccl`.",
          "a route over management, or NCCL that fell back to sockets", "ip route get ADDRESS"),
    Cause("collective_slow_rail", "all-reduce over this rail falls far behind that over the others",
          "See the rail's own bandwidth tests, which name the node; look at its cable, port and switch.",
          "a rail that is slow at one node, which slows down all of them", "ethtool NETDEV"),
)  # fmt: skip
