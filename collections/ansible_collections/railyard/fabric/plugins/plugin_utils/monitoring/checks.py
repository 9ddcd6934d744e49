# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with the variables of monitoring, before any host is touched: file, line, host and fix."""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load, model, values
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import plan as fabric_plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.lines import places
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import Finding, near_key
from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring import (
    bmc_checks,
    receivers,
    rules,
    scrape,
    server,
    targets,
)

#: Seconds between writes of a node's metrics.
INTERVAL_S = (15, 3600)
_DURATION = re.compile(r"[1-9][0-9]*(ms|s|m|h|d|w|y)")
#: What differs between nodes in the name of a file.
_OWN_NAME = re.compile(r"\{\{\s*inventory_hostname\s*\}\}")
_EVERY_INTERFACE = "it is every interface, those of the rails too"
_ADDRESS_FIX = "write the host's own address on the management network"

Values = Mapping[str, Any]


class Rails:
    """The networks of all rails, by which an address is found among thousands at once."""

    def __init__(self, nodes: Iterable[model.Node]) -> None:
        self._owners: dict[tuple[int, int, int], str] = {}
        for name, node in fabric_plan.plans_of(list(nodes)).items():
            for rail in node["rails"]:
                for interface in filter(None, (rail.get("address"), rail.get("address6"))):
                    network = ipaddress.ip_interface(interface).network
                    key = (network.version, network.prefixlen, int(network.network_address))
                    self._owners.setdefault(key, f"{rail['name']} ({network}, {name})")

    def owner(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str | None:
        """Return the name of the rail whose network contains an address."""
        for prefix in {prefix for version, prefix, _network in self._owners if version == address.version}:
            network = ipaddress.ip_network((address, prefix), strict=False)
            owner = self._owners.get((address.version, prefix, int(network.network_address)))
            if owner is not None:
                return owner
        return None


def check(inventory: model.Inventory, *, export: bool = False) -> list[model.Problem]:
    """Return everything that is wrong; nothing where neither role is turned on.

    Args:
        inventory: without problems of its own (`load.validate`).
        export: targets are made for a Prometheus of the site, whatever the roles' states are.
    """
    found: list[tuple[Finding, tuple[str, ...]]] = []
    nodes = targets.nodes_to_scrape(inventory, only_ours=not export)
    on = [one for one in inventory.monitors if one.variables.get("monitoring_state") == "present"]
    of_bmcs = [] if export else list(bmc_checks.check(inventory))
    if not nodes and not on and not of_bmcs and not any(_wants_server(node) for node in inventory.nodes):
        return []
    groups = {node.name: node.groups for node in inventory.nodes}
    groups |= {monitor.name: monitor.groups for monitor in inventory.monitors}
    rails = Rails(inventory.nodes)
    found += [(one, groups.get(one.host or "", ())) for one in _check_nodes(nodes, rails)]
    if not export:
        servers = [*_check_servers(inventory, on, nodes, rails), *of_bmcs]
        found += [(one, groups.get(one.host or "", ())) for one in servers]
    return _problems(inventory, found)


def _wants_server(node: model.Node) -> bool:
    return node.metrics.get("monitoring_state") == "present"


def _problems(
    inventory: model.Inventory, found: Iterable[tuple[Finding, tuple[str, ...]]]
) -> list[model.Problem]:
    folded: dict[tuple[str, str, str], list[tuple[str | None, tuple[str, ...]]]] = {}
    for one, groups in found:
        folded.setdefault((one.variable, one.message, one.fix), []).append((one.host, groups))
    problems = []
    for (variable, message, fix), hosts in folded.items():
        host, groups = hosts[0]
        file = places.find_variable(inventory.sources, variable, host, groups)
        if file is None and host is not None:
            file = places.find_host(inventory.sources, host)
        text = f"{variable}: {message}" if file else message
        named = load.fold([name for name, _groups in hosts if name is not None])
        problems.append(model.Problem(file or variable, named, None, text, fix))
    return problems


def _check_nodes(nodes: Iterable[model.Node], rails: Rails) -> Iterator[Finding]:
    taken: dict[tuple[str, int], str] = {}
    for node in nodes:
        said = list(_check_node(node, rails))
        yield from said
        if said:
            continue
        address = targets.scrape_address(node)
        ports = [("node_metrics_port", targets.port_of(node))]
        if node.metrics.get("monitoring_dcgm_port"):
            ports.append(("monitoring_dcgm_port", int(node.metrics["monitoring_dcgm_port"])))
        for variable, port in ports:
            other = taken.setdefault((address, port), node.name)
            if other != node.name:
                message = f"{address}:{port} is where Prometheus would find {other} as well"
                fix = "write each node's own management address as node_metrics_listen"
                yield Finding("node_metrics_listen", message, fix, node.name)
            elif variable == "monitoring_dcgm_port" and port == targets.port_of(node):
                message = f"{port} is the port of node_exporter too"
                yield Finding(variable, message, "give each exporter a port of its own (9400)", node.name)


def _check_node(node: model.Node, rails: Rails) -> Iterator[Finding]:
    given = node.metrics
    for variable, low, high, fix in (
        ("node_metrics_port", 1, 65535, "write the port of node_exporter, as 9100"),
        ("monitoring_dcgm_port", 1, 65535, "write the port of dcgm-exporter, as 9400, or remove it"),
        ("node_metrics_interval_s", *INTERVAL_S, f"write seconds from {INTERVAL_S[0]} to {INTERVAL_S[1]}"),
    ):
        yield from _check_value(given, variable, values.integer(low, high), fix, node.name)
    listen = given.get("node_metrics_listen")
    if listen is not None:
        wrong = _expression(listen) or values.address(listen)
        if wrong is not None:
            yield Finding("node_metrics_listen", wrong, _ADDRESS_FIX + ", or remove it", node.name)
            return
    variable = "node_metrics_listen" if listen is not None else "ansible_host"
    yield from _check_address(variable, targets.scrape_address(node), rails, node.name)
    yield from _check_node_tls(node)


def _check_node_tls(node: model.Node) -> Iterator[Finding]:
    tls = node.metrics.get("node_metrics_tls")
    wrong = None if tls is None else _expression(tls) or values.choice("none", "files")(tls)
    if wrong is not None:
        yield Finding("node_metrics_tls", wrong, "write none or files", node.name)
    if tls != "files" or wrong is not None:
        return
    files = {}
    for variable in ("node_metrics_tls_certificate", "node_metrics_tls_key"):
        path = _OWN_NAME.sub(node.name, str(node.metrics.get(variable) or ""))
        if not path:
            yield Finding(variable, "it is missing", "name a PEM file on the controller", node.name)
            return
        if _expression(path) or not os.path.isabs(path):
            return  # only Ansible knows where that is
        files[variable] = path
        if not os.path.isfile(path):
            fix = "write the node's certificate there, or correct the path"
            yield Finding(variable, f"{path} is no file on the controller", fix, node.name)
            return
    if (wrong := _why_no_pair(*files.values())) is not None:
        fix = "name the key that the node's certificate was made with, as PEM"
        yield Finding("node_metrics_tls_key", wrong, fix, node.name)


def _check_servers(
    inventory: model.Inventory, on: list[model.Monitor], nodes: list[model.Node], rails: Rails
) -> Iterator[Finding]:
    wanting = [node for node in inventory.nodes if _wants_server(node)]
    if wanting and not inventory.monitors:
        fix = (
            "add the host to hosts.yml, as `monitoring: {hosts: {monitor1: {ansible_host: 192.168.0.9}}}`; "
            "for this machine `localhost: {ansible_connection: local, monitoring_listen: 192.168.0.9}`"
        )
        message = "it is present, and group monitoring has no host"
        yield Finding("monitoring_state", message, fix, wanting[0].name)
    for monitor in on:
        # Rules and targets for a Prometheus of the site: nothing of it listens.
        is_export = monitor.variables.get("monitoring_mode") == "export"
        if not nodes and not is_export:
            message = "it is present, and no node publishes metrics"
            fix = (
                "set node_metrics_state: present for the nodes; for a Prometheus of your own use "
                "`railyard monitoring export`"
            )
            yield Finding("monitoring_state", message, fix, monitor.name)
        server_wide = (
            _check_rules(monitor.variables) if is_export else _check_server(monitor, inventory, nodes, rails)
        )
        yield from (replace(one, host=monitor.name) for one in server_wide)


def _check_server(
    monitor: model.Monitor, inventory: model.Inventory, nodes: list[model.Node], rails: Rails
) -> Iterator[Finding]:
    given = monitor.variables
    least, most = scrape.INTERVAL_S
    seconds = f"write seconds from {least} to {most}: with more, alerts on rates never fire"
    yield from _check_value(given, "monitoring_scrape_interval_s", values.integer(least, most), seconds)
    for variable in ("monitoring_port", "monitoring_alertmanager_port"):
        yield from _check_value(given, variable, values.integer(1, 65535), "write a port, as 9090")
    yield from _check_value(given, "monitoring_retention", _duration, "write a number and a unit, as 30d")
    yield from _check_listen(monitor, rails)
    yield from receivers.check(given.get("monitoring_receivers"))
    yield from _check_rules(given)
    yield from _check_tls(given, inventory)
    yield from _check_node_access(given, nodes, inventory)


def _check_listen(monitor: model.Monitor, rails: Rails) -> Iterator[Finding]:
    given = monitor.variables
    taken = set()
    for variable, default, port, usual in (
        ("monitoring_listen", monitor.ansible_host, "monitoring_port", targets.PORT),
        (
            "monitoring_alertmanager_listen",
            "127.0.0.1",
            "monitoring_alertmanager_port",
            targets.ALERTMANAGER_PORT,
        ),
    ):
        address = given.get(variable, default)
        taken.add((str(address), given.get(port, usual)))
        if address is not None and _expression(address):
            continue  # the role's own check has its value
        wrong = "no address is known" if address is None else values.address(address)
        if wrong is not None:
            yield Finding(variable, wrong, f"{_ADDRESS_FIX}, as `{variable}: 192.168.0.9`")
        else:
            yield from _check_address(variable, str(address), rails, None)
    if len(taken) == 1 or ("127.0.0.1", targets.RUNS_PORT) in taken:
        message = "another service of the role has the same address and port"
        fix = f"keep {targets.PORT}, {targets.ALERTMANAGER_PORT} and {targets.RUNS_PORT} apart"
        yield Finding("monitoring_port", message, fix)


def _check_rules(given: Values) -> Iterator[Finding]:
    overrides, numbers = given.get("monitoring_rule_overrides"), given.get("monitoring_thresholds")
    alerts = rules.alerts()
    for variable, value in (("monitoring_rule_overrides", overrides), ("monitoring_thresholds", numbers)):
        if value is not None and not isinstance(value, Mapping) and not _expression(value):
            message = f"it is {values.show(value)}, not a mapping"
            yield Finding(variable, message, "write names and their values")
    for name, override in overrides.items() if isinstance(overrides, Mapping) else ():
        where = f"monitoring_rule_overrides.{name}"
        if name not in alerts:
            yield Finding(where, f"there is no alert {name}", _named(str(name), alerts))
        yield from _check_override(override, where)
    known = rules.thresholds() if isinstance(numbers, Mapping) else {}
    for name, number in numbers.items() if isinstance(numbers, Mapping) else ():
        where = f"monitoring_thresholds.{name}"
        if name not in known:
            yield Finding(where, f"there is no threshold {name}", _named(str(name), known))
        elif isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < 1e15:
            fix = f"write {known[name].get('unit', 'a number')}, as {known[name]['default']}"
            yield Finding(where, f"{values.show(number)} is no number", fix)


def _named(name: str, known: Iterable[str]) -> str:
    near = near_key(name, list(known))
    return (f"did you mean {near}? " if near else "") + f"There are: {', '.join(sorted(known))}"


def _check_override(override: Any, where: str) -> Iterator[Finding]:
    fix = "write {enabled: false}, {severity: warning} or {for: 5m}"
    if not isinstance(override, Mapping):
        yield Finding(where, f"it is {values.show(override)}, not a mapping", fix)
        return
    for key, value in override.items():
        good = {
            "enabled": isinstance(value, bool),
            "severity": value in rules.SEVERITIES,
            "for": isinstance(value, str) and bool(_DURATION.fullmatch(value)),
        }
        if not good.get(str(key), False):
            yield Finding(f"{where}.{key}", f"{values.show(value)} is not possible for this key", fix)


def _check_tls(given: Values, inventory: model.Inventory) -> Iterator[Finding]:
    tls = given.get("monitoring_tls", "none")
    if tls not in ("none", "files"):
        message = f"{values.show(tls)} is neither none nor files"
        yield Finding("monitoring_tls", message, "write none or files")
        return
    files = {}
    for key in ("monitoring_tls_cert_file", "monitoring_tls_key_file") if tls == "files" else ():
        path = given.get(key)
        if path is not None and _expression(path):
            return
        files[key] = _beside(inventory, str(path)) if path else ""
        if not os.path.isfile(files[key]):
            message = "it is missing" if path is None else f"{values.show(path)} is no file on the controller"
            fix = "name a PEM file on the controller, absolute, or from the inventory as ../tls/x.pem"
            yield Finding(key, message, fix)
            return
    if files and (wrong := _why_no_pair(*files.values())) is not None:
        fix = "name the key that the certificate was made with, both as PEM without a passphrase"
        yield Finding("monitoring_tls_key_file", wrong, fix)


def _check_node_access(
    given: Values, nodes: list[model.Node], inventory: model.Inventory
) -> Iterator[Finding]:
    """Check that Prometheus can ask the nodes' exporters."""
    path = given.get("monitoring_node_ca_file")
    if path and not _expression(path) and not os.path.isfile(_beside(inventory, str(path))):
        message = f"{values.show(path)} is no file on the controller"
        fix = "name the PEM file that signed the nodes', absolute, or from the inventory as ../tls/ca.pem"
        yield Finding("monitoring_node_ca_file", message, fix)
    asked = nodes[0].metrics.get("node_metrics_basic_auth") if nodes else None
    if isinstance(asked, Mapping) and "password" not in asked and not given.get("monitoring_node_basic_auth"):
        message = "the nodes ask for a password, of which the inventory holds a hash alone"
        fix = "write monitoring_node_basic_auth: {user: ..., password: ...}, the password encrypted"
        yield Finding("monitoring_node_basic_auth", message, fix)


def _why_no_pair(certificate: str, key: str) -> str | None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")
    except (ssl.SSLError, OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        return f"certificate and key do not belong together, or are not PEM ({why})"
    return None


def _check_address(variable: str, address: str, rails: Rails, host: str | None) -> Iterator[Finding]:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return  # a name: who it is, only a resolver knows
    owner = rails.owner(parsed)
    if parsed.is_unspecified:
        yield Finding(variable, _EVERY_INTERFACE, _ADDRESS_FIX, host)
    elif owner is not None:
        message = f"{address} is in the network of rail {owner}: rails carry the fabric's traffic alone"
        yield Finding(variable, message, _ADDRESS_FIX, host)
    elif parsed.is_multicast:
        yield Finding(variable, f"{address} is a multicast address", _ADDRESS_FIX, host)


def _check_value(
    given: Values, variable: str, good: values.Check, fix: str, host: str | None = None
) -> Iterator[Finding]:
    value = given.get(variable)
    if value is None or (host is None and _expression(value)):
        return  # the role's own check has the value of an expression
    wrong = _expression(value) or good(value)
    if wrong is not None:
        yield Finding(variable, wrong, fix, host)


def _expression(value: Any) -> str | None:
    return next((wrong for _path, wrong in values.literal(value)), None)


def _duration(value: Any) -> str | None:
    is_one = isinstance(value, str) and _DURATION.fullmatch(value)
    return None if is_one else f"{values.show(value)} is no duration"


def _beside(inventory: model.Inventory, path: str) -> str:
    """Return a path on the controller; a relative one starts at the inventory's folder."""
    return os.path.join(server.base_of(inventory.sources), path)
