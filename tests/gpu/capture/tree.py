"""Lay out the kernel's files of GPUs below a folder, as far as the product's node code reads them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.facts import nvidia_pci
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader

# Files of a PCI function that the node code reads, beside what says which function it is.
_MORE = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width", "numa_node",
         "aer_dev_correctable")  # fmt: skip


def reader_of(root: str) -> Reader:
    """Return a reader of the kernel's files below a root."""
    root = root.rstrip("/")
    return Reader(f"{root}/sys", f"{root}/proc", f"{root}/etc")


def functions(reader: Reader) -> list[dict[str, Any]]:
    """Return NVIDIA's PCI functions, each with `pci`, `device`, `class` and the texts of its `files`."""
    found = []
    for one in nvidia_pci.functions(reader):
        texts = {name: reader.text(os.path.join(one["folder"], name)) for name in _MORE}
        files = {name: text for name, text in texts.items() if text is not None}
        found.append({"pci": one["pci"], "device": one["device"], "class": one["class"], "files": files})
    return found


def lay(root: str, of: Iterable[Mapping[str, Any]], driver: str | None, module: str | None) -> Reader:
    """Write the files.

    Args:
        root: an empty folder.
        of: NVIDIA's PCI functions, as `functions` returns them.
        driver: the version of the module that is loaded; None where none is.
        module: the text of /proc/driver/nvidia/version, if any.

    Returns:
        A reader of them.
    """
    for one in of:
        folder = os.path.join("sys/bus/pci/devices", one["pci"])
        _write(root, os.path.join(folder, "vendor"), f"0x{nvidia_pci.NVIDIA:04x}")
        _write(root, os.path.join(folder, "device"), f"0x{one['device']:04x}")
        _write(root, os.path.join(folder, "class"), f"0x{one['class'] << 8:06x}")
        for name, text in one["files"].items():
            _write(root, os.path.join(folder, name), text)
    if driver is not None:
        _write(root, "sys/module/nvidia/version", driver)
    if module is not None:
        _write(root, "proc/driver/nvidia/version", module)
    return reader_of(root)


def _write(root: str, name: str, text: str) -> None:
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="replace") as handle:
        handle.write(f"{text}\n")
