# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Prometheus with the rules of role `monitoring`, scraping a cluster with one fault of each kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import prometheus_tools
from support.monitoring import server
from support.monitoring.fake_cluster import Cluster

HOSTILE = """<img src=x onerror="document.title='run'">{{ printf "%s" . }}'&"""
#: Its run is exported by rail, as that of a large cluster is.
FOLDED = Cluster(size=2, name="folded", faults={}, folded_run=True)
CLUSTERS = (Cluster(), FOLDED, Cluster(size=2, name=f"x{HOSTILE}", names=[HOSTILE]))


@pytest.fixture(scope="session")
def watched() -> Iterator[server.Prometheus]:
    """Run it until the slowest fault shows: a rate over two minutes takes half of one to rise."""
    rules = {name: server.hurried(text) for name, text in server.delivered_rules().items()}
    program = prometheus_tools.find("prometheus")
    with (
        server.exporters(CLUSTERS) as port,
        server.prometheus(program, server.scrape_config(CLUSTERS, port, 1), rules) as running,
    ):
        running.wait_for('ALERTS{alertname="RailPauseStorm",alertstate="firing"}', limit_s=120)
        yield running
