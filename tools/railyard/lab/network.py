"""The lab's network namespace: a bridge per rail, a management bridge, this host's link into it, the way out.

Everything that forwards, translates or shapes is in there. On the host there is one link, `ry-<lab>`, while
the lab is up, and nothing else.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from railyard.lab import naming, owners
from railyard.lab.nodes import Link
from railyard.lab.process import LabError, command_lines, popen, read_json, run, state_of
from railyard.lab.topology import WAY_OUT, Node, Topology

# A bridge of the lab, as a switch that forwards at once and to everybody; for `ip link add`.
BRIDGE = "type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
_TAP = "tap0"
_CONTROLLER_LEG = "ctl-mgmt"
_MANAGEMENT_MTU_BYTES = 1500
_SYSCTLS = (
    "net.ipv4.ip_forward=1",
    # The bridges are switches: they have nothing to say on the rails themselves.
    "net.ipv6.conf.all.disable_ipv6=1",
    "net.ipv6.conf.default.disable_ipv6=1",
    # Where the host has br_netfilter a bridged packet would meet the NAT's chains too early: the way out of a
    # VM, whose cable has a bridge of its own, would be left without its MASQUERADE.
    "net.bridge.bridge-nf-call-iptables=0",
    "net.bridge.bridge-nf-call-ip6tables=0",
    "net.bridge.bridge-nf-call-arptables=0",
)


class Namespace:
    """The network namespace of one lab, by the lab's name alone."""

    def __init__(self, lab: str):
        self.name = naming.namespace(lab)

    def in_namespace(self, *command: str) -> list[str]:
        """Return the argv that runs `command` in the lab's namespace."""
        return ["ip", "netns", "exec", self.name, *command]

    def links(self) -> dict[str, dict[str, Any]]:
        """Return the links of the lab's namespace by name, as `ip -j link` describes them."""
        return links_of(["ip", "-n", self.name])

    def batch(self, lines: Iterable[str]) -> None:
        """Run `ip` commands in the lab's namespace; the first that fails ends it."""
        text = "".join(f"{line}\n" for line in lines)
        if text:
            run(["ip", "-n", self.name, "-batch", "-"], stdin=text.encode())

    def remove_link(self, link: str) -> None:
        """Remove a link if there is one."""
        remove_link(["ip", "-n", self.name], link)

    def shape(self, link: str, rate_gbps: float | None) -> None:
        """Shape what leaves by a link of the namespace; see `shape`."""
        shape(["tc", "-n", self.name], link, rate_gbps)

    def exists(self) -> bool:
        """Return whether there is a namespace of this name."""
        return Path(namespace_path(self.name)).exists()


class LabNetwork(Namespace):
    """The network of a lab. Each `ensure_*` looks first and creates what is missing."""

    def __init__(self, topology: Topology):
        super().__init__(topology.name)
        self.topology = topology

    def ensure(self, log_dir: Path) -> None:
        """Make namespace, bridges, controller link and way out, or what is missing of them."""
        self.check_overlap()
        _ensure_namespace(self.name)
        self._ensure_bridges()
        self._ensure_controller_link()
        self._ensure_way_out(log_dir)

    def node_links(self, node: Node) -> list[Link]:
        """Return the cables of a node: management first, then the rails in order."""

        def link(bridge: str, rail: int | None, netdev: str, mtu_bytes: int) -> Link:
            lab, leg = self.topology.name, naming.leg(node.position, rail)
            outer_mac, mac = naming.mac(lab, node, f"{netdev}/lab"), naming.mac(lab, node, netdev)
            return Link(bridge, leg, outer_mac, netdev, mac, mtu_bytes)

        return [
            link(naming.MANAGEMENT_BRIDGE, None, self.topology.management.netdev, _MANAGEMENT_MTU_BYTES),
            *(
                link(naming.rail_bridge(position), position, rail.netdev, self.topology.mtu_bytes)
                for position, rail in enumerate(self.topology.rails)
            ),
        ]

    def check_overlap(self) -> None:
        """Refuse a management network that this host reaches some other way."""
        routes = []
        for route in read_json(["ip", "-j", "-4", "route", "show", "table", "all"]):
            with suppress(ValueError):  # "default", and no destination at all
                network = ipaddress.IPv4Network(route.get("dst", "default"), strict=False)
                routes.append(owners.Route(network, str(route.get("dev"))))
        refusal = owners.refuse_network(
            self.topology.name,
            self.topology.management.subnet,
            routes,
            owners.running_labs(),
            str(self.topology.source),
        )
        if refusal is not None:
            raise LabError(refusal.message, refusal.fix)

    def _ensure_bridges(self) -> None:
        links = self.links()
        management = self.topology.management
        rails = [naming.rail_bridge(i) for i in range(len(self.topology.rails))]
        wanted = {
            naming.MANAGEMENT_BRIDGE: _MANAGEMENT_MTU_BYTES,
            **dict.fromkeys(rails, self.topology.mtu_bytes),
        }
        lines = ["link set lo up"]
        for bridge, mtu_bytes in wanted.items():
            if bridge not in links:
                lines.append(
                    f"link add {bridge} address {naming.mac(self.topology.name, 'lab', bridge)} {BRIDGE}"
                )
            lines.append(f"link set {bridge} mtu {mtu_bytes} up")
        prefix = management.subnet.prefixlen
        lines.append(f"address replace {management.gateway}/{prefix} dev {naming.MANAGEMENT_BRIDGE}")
        self.batch(lines)
        # -e: a host without br_netfilter has no such keys.
        run(self.in_namespace("sysctl", "-q", "-e", "-w", *_SYSCTLS))

    def _ensure_controller_link(self) -> None:
        lab, management = self.topology.name, self.topology.management
        own = naming.controller_link(lab)
        if not (own in links_of(["ip"]) and _CONTROLLER_LEG in self.links()):
            remove_link(["ip"], own)
            near_end = [own, "address", naming.mac(lab, "controller", "host"), "type", "veth"]
            far_end = [_CONTROLLER_LEG, "address", naming.mac(lab, "controller", "lab"), "netns", self.name]
            run(["ip", "link", "add", *near_end, "peer", "name", *far_end])
        self.batch([f"link set {_CONTROLLER_LEG} master {naming.MANAGEMENT_BRIDGE} up"])
        run(["ip", "link", "set", own, "addrgenmode", "none", "up"])
        address = f"{management.controller}/{management.subnet.prefixlen}"
        run(["ip", "address", "replace", address, "dev", own])

    def _ensure_way_out(self, log_dir: Path) -> None:
        """Start user-mode NAT for the namespace, and let the management network use it."""
        if not (slirp_pids(self.name) and _TAP in self.links()):
            stop_way_out(self.name)
            self.remove_link(_TAP)
            log = log_dir / "slirp4netns.log"
            with log.open("wb") as output:
                options = ["--configure", "--disable-host-loopback", f"--cidr={WAY_OUT}", "--netns-type=path"]
                popen(
                    ["slirp4netns", *options, namespace_path(self.name), _TAP], stdout=output, stderr=output
                )
            self._await_tap(log)
        rule = ["POSTROUTING", "-s", str(self.topology.management.subnet), "-o", _TAP, "-j", "MASQUERADE"]
        problems = []
        # Kernels differ in which of the two they have.
        for program in ("iptables-legacy", "iptables"):
            call = self.in_namespace(program, "-w", "-t", "nat")
            if run([*call, "-C", *rule], check=False).returncode == 0:
                return
            added = run([*call, "-A", *rule], check=False)
            if added.returncode == 0:
                return
            problems.append(f"{program}: {added.stderr.strip()}")
        raise LabError(
            f"lab {self.topology.name}: the kernel does not let the lab's namespace translate addresses, so"
            f" nodes could not install packages ({'; '.join(problems)})",
            "use a kernel with iptables or nftables NAT",
        )

    def _await_tap(self, log: Path) -> None:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if slirp_pids(self.name) and self.links().get(_TAP, {}).get("operstate") in ("UP", "UNKNOWN"):
                return
            time.sleep(0.05)
        said = log.read_text(errors="replace").strip()
        raise LabError(
            f"lab {self.topology.name}: slirp4netns does not come up: {said}",
            "see whether /dev/net/tun exists",
        )


def namespace_path(name: str) -> str:
    """Return the file that stands for a network namespace."""
    return f"/run/netns/{name}"


def _ensure_namespace(name: str) -> None:
    path = Path(namespace_path(name))
    if path.exists() and run(["ip", "-n", name, "link", "show", "lo"], check=False).returncode != 0:
        # A plain file: `ip netns add` was killed before it bound the namespace to it.
        run(["ip", "netns", "delete", name], check=False)
        path.unlink(missing_ok=True)
    if not path.exists():
        run(["ip", "netns", "add", name])


def links_of(ip_argv: list[str]) -> dict[str, dict[str, Any]]:
    """Return the links that `ip_argv` (`ip` with options, or through nsenter) sees, by name."""
    return {link["ifname"]: link for link in read_json([*ip_argv, "-j", "-d", "link", "show"]) if link}


def remove_link(ip_argv: list[str], name: str) -> None:
    """Remove a link if there is one."""
    if name in links_of(ip_argv):
        run([*ip_argv, "link", "delete", name], check=False)


def tbf_arguments(rate_gbps: float) -> list[str]:
    """Return the arguments of `tc qdisc` that shape a link to `rate_gbps`.

    The bucket holds 4 ms at that rate, the longest that a kernel tick lasts, and never less than one
    offloaded 64 KiB segment, which would not get through at all.
    """
    bits_per_s = round(rate_gbps * 1e9)
    burst_bytes = max(round(bits_per_s / 8 * 0.004), 131072)
    return ["tbf", "rate", f"{bits_per_s}bit", "burst", str(burst_bytes), "latency", "50ms"]


def shape(tc_argv: list[str], link: str, rate_gbps: float | None) -> None:
    """Shape what leaves by `link`, or take the shaping away; a link that is right already is left alone."""
    if rate_gbps is not None:
        run([*tc_argv, "qdisc", "replace", "dev", link, "root", *tbf_arguments(rate_gbps)])
    elif shaped_rate_gbps(tc_argv, link, check=True) is not None:
        run([*tc_argv, "qdisc", "delete", "dev", link, "root"])


def shaped_rate_gbps(tc_argv: list[str], link: str, *, check: bool = False) -> float | None:
    """Return the rate that `link` is shaped to, or None; with `check` it has to be there."""
    for qdisc in read_json([*tc_argv, "-j", "qdisc", "show", "dev", link], check=check):
        if qdisc.get("kind") == "tbf":
            return float(qdisc["options"]["rate"]) * 8 / 1e9
    return None


def slirp_pids(namespace: str) -> list[int]:
    """Return the slirp4netns processes of a namespace, found by what they were called with."""
    wanted = namespace_path(namespace).encode()
    argvs = ((pid, words.split(b"\0")) for pid, words in command_lines())
    return [pid for pid, argv in argvs if os.path.basename(argv[0]) == b"slirp4netns" and wanted in argv]


def stop_way_out(namespace: str) -> None:
    """End the slirp4netns of a namespace."""
    for pid in slirp_pids(namespace):
        end_process(pid)


def end_process(pid: int, *, at_once: bool = False) -> None:
    """End a process and wait until it is gone: kindly first, unless `at_once`; after two seconds by force."""
    try:
        os.kill(pid, signal.SIGKILL if at_once else signal.SIGTERM)
        for _ in range(100):
            time.sleep(0.02)
            os.kill(pid, 0)
            if state_of(pid) == "Z":
                return  # our own child: it is dead, and goes when we do
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def remove_namespace(name: str) -> None:
    """End what runs in a network namespace and remove it, whole or half made."""
    if not Path(namespace_path(name)).exists():
        return
    for pid in run(["ip", "netns", "pids", name], check=False).stdout.split():
        end_process(int(pid))
    run(["ip", "netns", "delete", name], check=False)
    Path(namespace_path(name)).unlink(missing_ok=True)


def stranger_namespaces(lab: str) -> list[str]:
    """Return the namespaces of a lab's rival hosts, independent of the state file."""
    return sorted(path.name for path in Path("/run/netns").glob(f"{naming.namespace(lab)}-stranger-*"))


def remove_all(lab: str) -> None:
    """Remove everything of a lab's network by name alone."""
    for name in stranger_namespaces(lab):
        remove_namespace(name)
    stop_way_out(naming.namespace(lab))
    remove_link(["ip"], naming.controller_link(lab))
    remove_namespace(naming.namespace(lab))
