"""A node's own /sys/devices/system/cpu: this host's values, copied, and CPU frequency files of its own.

Containers share the host's governor. A tree of plain files in its place lets the governor role do its work
for real on the node's side and keeps the host's governor out of reach; it works on hosts that have no cpufreq
at all.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path

HOST_TREE = Path("/sys/devices/system/cpu")
_CPU = re.compile(r"cpu[0-9]+")
_LARGEST_FILE_BYTES = 65536
# The notes' machines: 1.2 GHz when idle, 3.6 GHz at most, and powersave after each boot.
_POLICY = {
    "cpuinfo_max_freq": "3600000",
    "cpuinfo_min_freq": "1200000",
    "cpuinfo_transition_latency": "20000",
    "scaling_available_governors": "performance powersave",
    "scaling_cur_freq": "1200000",
    "scaling_driver": "intel_pstate",
    "scaling_governor": "powersave",
    "scaling_max_freq": "3600000",
    "scaling_min_freq": "1200000",
}


def build(target: Path, source: Path = HOST_TREE) -> None:
    """Fill `target` as after a boot; the folder itself stays, since a stopped node refers to it."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in target.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    _copy(source, target)
    for number in sorted(int(entry.name[3:]) for entry in target.iterdir() if _CPU.fullmatch(entry.name)):
        policy = target / "cpufreq" / f"policy{number}"
        policy.mkdir(parents=True)
        for name, value in {**_POLICY, "affected_cpus": str(number), "related_cpus": str(number)}.items():
            (policy / name).write_text(f"{value}\n", encoding="ascii")
        (target / f"cpu{number}" / "cpufreq").symlink_to(f"../cpufreq/policy{number}")


def _copy(source: Path, target: Path) -> None:
    """Copy values and links; a file that cannot be read becomes an empty one."""
    for entry in os.scandir(source):
        if entry.name == "cpufreq":
            continue
        copy = target / entry.name
        if entry.is_symlink():
            copy.symlink_to(os.readlink(entry.path))
        elif entry.is_dir():
            copy.mkdir()
            _copy(Path(entry.path), copy)
        elif entry.is_file():
            copy.write_bytes(_value(entry.path))
            copy.chmod(stat.S_IMODE(entry.stat().st_mode) | stat.S_IRUSR)


def _value(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(_LARGEST_FILE_BYTES) or b""
    except OSError:
        return b""
