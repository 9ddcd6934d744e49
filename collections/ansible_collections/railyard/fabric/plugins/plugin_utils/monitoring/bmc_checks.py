# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with the variables of role bmc_exporter, before any host is touched."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import values
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory, Monitor
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import Finding
from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring import targets

STATE, _PORT = "bmc_exporter_state", "bmc_exporter_port"
#: As in the role's defaults; on the loopback, as those of the exporter of runs and, by default, Alertmanager.
DEFAULT_PORT = 9290
_ADD_HOST = "add the host to hosts.yml, as `monitoring: {hosts: {monitor1: {ansible_host: 192.168.0.9}}}`"
_IN_VAULT = "write it into a file that ansible-vault encrypts, of a user that may only read"


def check(inventory: Inventory) -> Iterator[Finding]:
    """Yield what is wrong with them in an inventory that has no problems of its own."""
    wanting = [node.name for node in inventory.nodes if node.metrics.get(STATE) == "present"]
    if wanting and not inventory.monitors:
        yield Finding(STATE, "it is present, and group monitoring has no host", _ADD_HOST, wanting[0])
    for monitor in inventory.monitors:
        if monitor.variables.get(STATE) == "present":
            yield from _check_host(inventory, monitor)


def _check_host(inventory: Inventory, monitor: Monitor) -> Iterator[Finding]:
    given = monitor.variables
    if not targets.bmc_targets(inventory):
        fix = f"set bmc_address of the nodes in hosts.yml, as 192.168.10.7, or {STATE}: ignored"
        yield Finding(STATE, "it is present, and no node has a bmc_address", fix, monitor.name)
    for variable in ("bmc_exporter_user", "bmc_exporter_password"):
        if not given.get(variable):
            yield Finding(STATE, f"it is present, and {variable} is not set", _IN_VAULT, monitor.name)
    port = given.get(_PORT, DEFAULT_PORT)
    if any(values.literal(port)):
        return  # the role's own check has its value
    wrong = values.integer(1, 65535)(port)
    taken = {
        given.get("monitoring_alertmanager_port", targets.ALERTMANAGER_PORT): "Alertmanager",
        targets.RUNS_PORT: "the exporter of runs",
    }
    if wrong is None and port in taken:
        wrong = f"{port} is the port of {taken[port]}"
    if wrong is not None:
        yield Finding(_PORT, wrong, f"write a free port, as {DEFAULT_PORT}", monitor.name)
