"""What a node's network is, read by means of its own: not by the code whose undoing it is to judge.

    node_watch.py probe                 one JSON object on stdout
    node_watch.py watch FILE INTERVAL   a line of JSON whenever something changes, until it is stopped

Runs on the node; standard library, Python 3.9.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import subprocess
import sys
import time
from typing import Any

PENDING = "/var/lib/railyard/rail_network/pending.json"
SYSCTLS = ("rp_filter", "arp_ignore", "arp_announce")
# The campaign's own: a broken file, and what fills a small disk. They are no part of the node's network.
NOT_COUNTED = ("/etc/netplan/70-recovery-broken.yaml", "/etc/netplan/.fill")
_PASSING = ("valid_life_time", "preferred_life_time", "ifindex", "link_index", "qlen", "flags", "operstate")


def _ip(*words: str) -> Any:
    return json.loads(subprocess.run(["ip", "-j", *words], check=True, capture_output=True).stdout or "[]")


def _plain(value: Any) -> Any:
    """Leave out what changes by itself: lifetimes, indexes, the carrier."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if key not in _PASSING}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _settled(listing: list[Any]) -> list[Any]:
    # The kernel makes and withdraws these with the link: multicast, link-local and their local routes.
    rows = [
        row
        for row in _plain(listing)
        if not str(row.get("dst", "")).startswith(("fe80", "ff00")) and row.get("type") != "multicast"
    ]
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as handle:
        return handle.read()


def probe() -> dict[str, Any]:
    """Return links, addresses, routes, rules, sysctls and netplan's files of this node."""
    links = {}
    for item in _ip("address", "show"):
        if item:
            addresses = [row for row in _plain(item.get("addr_info", [])) if row.get("scope") != "link"]
            up = "UP" in item["flags"]
            links[item["ifname"]] = [item["mtu"], up, item.get("master"), addresses]
    files = {}
    for path in sorted(glob.glob("/etc/netplan/*") + glob.glob("/etc/netplan/.*")):
        if os.path.isfile(path) and path not in NOT_COUNTED:
            status = os.stat(path)
            text = hashlib.sha256(_read(path).encode()).hexdigest()
            files[path] = [oct(status.st_mode & 0o7777), status.st_uid, text]
    sysctls = {
        path: _read(path).strip()
        for netdev in links
        for name in SYSCTLS
        for path in [f"/proc/sys/net/ipv4/conf/{netdev}/{name}"]
    }
    return {
        "links": links,
        "routes": [_settled(_ip(family, "route", "show", "table", "all")) for family in ("-4", "-6")],
        "rules": [_settled(_ip(family, "rule", "show")) for family in ("-4", "-6")],
        "sysctls": sysctls,
        "files": files,
    }


def digest(found: dict[str, Any]) -> str:
    """Return a short name of a probe."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]


def watch(path: str, interval_s: float) -> None:
    """Append `{"at_s", "digest", "pending"}` whenever one of the two changes."""
    said: tuple[str, bool] | None = None
    with open(path, "a", encoding="utf-8") as handle:
        while True:
            pending = os.path.exists(PENDING)
            try:
                now = (digest(probe()), pending)
            except (OSError, ValueError, subprocess.CalledProcessError):
                now = ("unreadable", pending)  # a link or file that went while it was read
            if now != said:
                row = {"at_s": round(time.monotonic(), 2), "digest": now[0], "pending": pending}
                handle.write(json.dumps(row) + "\n")
                handle.flush()
                said = now
            time.sleep(interval_s)


if __name__ == "__main__":
    if sys.argv[1] == "probe":
        sys.stdout.write(json.dumps(probe(), sort_keys=True) + "\n")
    else:
        watch(sys.argv[2], float(sys.argv[3]))
