"""A node's own /sys/devices/system/cpu: this host's values, copied, and its own for clock and idle states.

Containers share the host's. A tree of plain files in their place lets the role of tuning do its work for real
on the node's side and keeps the host's out of reach; it works on hosts that have neither cpufreq nor cpuidle.
What the kernel itself would do (refuse a value, change another file) a plain file does not.
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
    "energy_performance_available_preferences": "default performance balance_performance balance_power power",
    "energy_performance_preference": "balance_performance",
    "scaling_available_governors": "performance powersave",
    "scaling_cur_freq": "1200000",
    "scaling_driver": "intel_pstate",
    "scaling_governor": "powersave",
    "scaling_max_freq": "3600000",
    "scaling_min_freq": "1200000",
}
# Names, and microseconds that they take to leave, as intel_idle has them for Skylake-SP; all are allowed.
_IDLE_STATES = (("POLL", 0), ("C1", 2), ("C1E", 10), ("C6", 133))


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
        for index, (name, latency_us) in enumerate(_IDLE_STATES):
            state = target / f"cpu{number}" / "cpuidle" / f"state{index}"
            state.mkdir(parents=True)
            for file, text in {"name": name, "latency": str(latency_us), "disable": "0"}.items():
                (state / file).write_text(f"{text}\n", encoding="ascii")


def _copy(source: Path, target: Path) -> None:
    """Copy values and links; a file that cannot be read becomes an empty one."""
    for entry in os.scandir(source):
        if entry.name in ("cpufreq", "cpuidle"):
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
