"""Reports which versions on the nodes are below their minimum, or have none that is known.

It is no test: an inventory does not promise a version, so nothing fails by it. The minimums and the
comparison with them are the collection's (`plugin_utils/checks/minimum_versions.py`); the versions are what
the node's own programs print.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import minimum_versions

# As each program prints it: `dcgmi  version: 4.3.0`; `Cuda compilation tools, release 12.8, V12.8.93`;
# `DCGM Exporter version 3.3.5-3.4.0`, of DCGM and then its own.
_PRINTED = {
    "dcgmi": ("dcgm", re.compile(r"version: *(\S+)")),
    "nvcc": ("cuda", re.compile(r"release ([0-9.]+)")),
    "dcgm_exporter": ("dcgm_exporter", re.compile(r"version (?:[0-9.]+-)?([0-9.]+)")),
}


def compared(read: Mapping[str, Any]) -> Iterator[minimum_versions.Comparison]:
    """Yield what a node has of versions, each beside its minimum; what it does not have is left out."""
    if read.get("driver"):
        yield minimum_versions.compare("nvidia_driver", read["driver"].strip())
    for name, (component, pattern) in _PRINTED.items():
        if read.get(name):
            found = pattern.search(read[name])
            # What it prints in another way is not known, and quoted.
            version = found.group(1) if found else " ".join(read[name].split())[:80]
            yield minimum_versions.compare(component, version)
    for firmware in read.get("firmware") or ():
        yield minimum_versions.compare("connectx_firmware", firmware)


def lines(states: Mapping[str, Any], today: datetime.date) -> list[str]:
    """Return the report.

    Args:
        states: node -> what was read of it, or the error that came instead.
        today: the date, for the age of the table.
    """
    read = {
        name: list(compared(state["versions"]))
        for name, state in states.items()
        if isinstance(state, Mapping) and "versions" in state
    }
    head = f"Minimum versions ({minimum_versions.describe_age(today)}):"
    told = [
        f"  {one.state} on {nodes}: {one.text}"
        for one, nodes in minimum_versions.fold(read, minimum_versions.BELOW, minimum_versions.NOT_KNOWN)
    ]
    fine = minimum_versions.fold(read, minimum_versions.FINE)
    if fine:
        told.append(f"  not below: {'; '.join(f'{one.text} on {nodes}' for one, nodes in fine)}")
    if unread := len(states) - len(read):
        told.append(f"  {unread} of {len(states)} nodes could not be read")
    elif not told:
        return [f"{head} no NVIDIA driver, CUDA, DCGM or ConnectX firmware was found"]
    return [head, *told]
