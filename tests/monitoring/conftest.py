# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Prometheus with the rules of role `monitoring`, scraping a cluster with one fault of each kind."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from support import prometheus_tools
from support.monitoring import server
from support.monitoring.fake_cluster import Cluster

HOSTILE = """<img src=x onerror="document.title='run'">{{ printf "%s" . }}'&"""
#: Its run is exported by rail, as that of a large cluster is.
FOLDED = Cluster(size=2, name="folded", faults={}, folded_run=True)
SINGLE = Cluster(size=1, name="single", faults={})
CLUSTERS = (Cluster(), FOLDED, SINGLE, Cluster(size=2, name=f"x{HOSTILE}", names=["gpu0001", HOSTILE]))


@pytest.fixture(scope="session")
def watched() -> Iterator[server.Prometheus]:
    """Run it until the slowest fault shows: a rate over two minutes takes half of one to rise."""
    rules = {name: server.hurried(text) for name, text in server.delivered_rules().items()}
    program = prometheus_tools.find("prometheus")
    with (
        server.exporters(CLUSTERS) as port,
        server.prometheus(program, server.scrape_config(CLUSTERS, port, 10), rules) as running,
    ):
        paused = 'ALERTS{alertname="RailPauseStorm",alertstate="firing"}'
        # One node is silent with both of its exporters, and one with its GPUs'.
        answering = sum(2 * one.size + 1 for one in CLUSTERS) - 3
        state = 'railyard:rail_state{cluster="fake",node="gpu0008",rail="rail6"} == 1'
        running.wait_for(f"{paused} and on () ({state}) and on () (sum(up) == {answering})", limit_s=600)
        running.at_s = time.time()
        yield running
