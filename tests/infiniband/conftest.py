# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Subnets that ibsim simulates, read by Debian's tools, parsed and judged by Railyard's own code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet.capture import parse
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import Reading
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet_capture import Capture
from railyard.lab.subnet.faults import LiveFault
from support import simulated
from support.net_faults import OtherRate
from support.simulated import Cluster


class Healthy:
    """A capture of a cluster's subnet without faults, its reading and when that began."""

    def __init__(self, capture: Capture):
        self.capture, self.reading = capture, parse(capture)


class Reader:
    """Simulates clusters with faults and reads them; the healthy state of each cluster is read once."""

    def __init__(self, folders: Callable[[], Path]):
        self._folders = folders
        self._healthy: dict[object, Healthy] = {}

    def healthy(self, cluster: Cluster) -> Healthy:
        """Return the cluster's subnet without faults."""
        key = (cluster.text(), cluster.spines, cluster.uplinks)
        if key not in self._healthy:
            self._healthy[key] = Healthy(self.capture(cluster))
        return self._healthy[key]

    def capture(
        self, cluster: Cluster, net_faults: Iterable[OtherRate] = (), live: Iterable[LiveFault] = ()
    ) -> Capture:
        """Capture the cluster's subnet with faults."""
        net = cluster.net()
        for fault in net_faults:
            net = fault.apply_to(net)
        with simulated.simulate(net, self._folders()) as subnet:
            subnet.make(*live)
            return simulated.read(subnet)

    def reading(
        self, cluster: Cluster, net_faults: Iterable[OtherRate] = (), live: Iterable[LiveFault] = ()
    ) -> Reading:
        """Read the cluster's subnet with faults; its counters were also read an hour before, without them."""
        before = self.healthy(cluster).capture
        return parse(simulated.count_between(before, self.capture(cluster, net_faults, live), 3600))


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    simulated.find_programs()
    return Reader(lambda: tmp_path_factory.mktemp("subnet"))
