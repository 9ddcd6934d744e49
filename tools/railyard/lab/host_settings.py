"""What a lab must leave as it was: this host's settings, as one comparable object."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from railyard.lab import network
from railyard.lab.process import run

_SYSCTL_TREES = ("vm", "kernel", "fs", "net")
# Values that move by themselves, each with its reason; all else has to be the same before and after.
MOVING = {
    "fs.dentry-state": "counts cached directory entries",
    "fs.file-nr": "counts open files",
    "fs.inode-nr": "counts inodes",
    "fs.inode-state": "counts inodes",
    "fs.quota.syncs": "counts quota syncs",
    "fs.aio-nr": "counts asynchronous requests in flight",
    "kernel.keys.gc_delay": "kept by the keyring's own collector",
    "kernel.ns_last_pid": "the last process id given out",
    "kernel.pty.nr": "counts open terminals",
    "kernel.random.entropy_avail": "moves with use",
    "kernel.random.uuid": "new at each reading",
    "kernel.tainted": "set by the kernel at warnings of its own",
    "net.netfilter.nf_conntrack_count": "counts connections",
}
# A stock kernel loads these by itself when somebody makes a veth, a bridge, a tap, a shaper or a container;
# they set nothing and stay until the next boot.
AUTOLOADED_MODULES = (
    "bridge", "ip_tables", "iptable_nat", "llc", "nf_conntrack", "nf_defrag_ipv4", "nf_defrag_ipv6", "nf_nat",
    "nf_tables", "nft_chain_nat", "nft_compat", "overlay", "sch_tbf", "stp", "tap", "tun", "veth", "x_tables",
    "xt_MASQUERADE", "xt_REDIRECT",
)  # fmt: skip

_RULE_LISTERS = ("iptables-legacy-save", "ip6tables-legacy-save", "iptables-save", "ip6tables-save")


def snapshot() -> dict[str, Any]:
    """Return sysctls, governors, huge pages, modules, packet filter and links of the host's namespace."""
    sysctls = {}
    for tree in _SYSCTL_TREES:
        for folder, _, names in os.walk(f"/proc/sys/{tree}"):
            for name in names:
                path = Path(folder, name)
                key = str(path.relative_to("/proc/sys")).replace("/", ".")
                value = _read(path)
                if key not in MOVING and value is not None:
                    sysctls[key] = value
    cpus = Path("/sys/devices/system/cpu")
    thp = Path("/sys/kernel/mm/transparent_hugepage")
    modules = [line.split()[0] for line in (_read(Path("/proc/modules")) or "").splitlines() if line]
    return {
        "sysctls": sysctls,
        "ip_forward": _read(Path("/proc/sys/net/ipv4/ip_forward")),
        "governors": {str(path): _read(path) for path in sorted(cpus.glob("cpu*/cpufreq/scaling_governor"))},
        "transparent_hugepage": {path.name: _read(path) for path in sorted(thp.iterdir()) if path.is_file()}
        if thp.is_dir()
        else {},
        "modules": sorted(name for name in modules if name not in AUTOLOADED_MODULES),
        "packet_filter": {program: _rules(program) for program in _RULE_LISTERS},
        "links": sorted(network.links_of(["ip"])),
        "routes": sorted(run(["ip", "route", "show", "table", "all"]).stdout.splitlines()),
        "namespaces": sorted(
            line.split()[0] for line in run(["ip", "netns", "list"]).stdout.splitlines() if line.strip()
        ),
    }


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None  # write-only, or it belongs to a device that has gone


def _rules(program: str) -> list[str]:
    """Return rules without the comments (which carry the time) and without packet counters."""
    if shutil.which(program) is None:  # a host without the program has no such rules
        return []
    answer = run([program], check=False).stdout
    return [line.partition(" [")[0] for line in answer.splitlines() if not line.startswith("#")]
