"""What a tuned node should be, from the roles' variables; each function returns what is wrong.

Pure: variables and a reading in, sentences out. It shares no code with what configured the node.
"""

from __future__ import annotations

from typing import Any

from end_state.expect import Options, Plan, Problems, Reading, netdev_of

# What the role sets where the inventory says nothing.
_SYSCTL = {
    "net.core.rmem_max": "268435456",
    "net.core.wmem_max": "268435456",
    "net.ipv4.tcp_rmem": "4096 131072 134217728",
    "net.ipv4.tcp_wmem": "4096 65536 134217728",
    "net.core.netdev_max_backlog": "250000",
    "net.core.default_qdisc": "fq",
    "net.ipv4.tcp_mtu_probing": "1",
    "kernel.numa_balancing": "0",
}
_PROFILING = {"kernel.perf_event_paranoid": "1", "kernel.kptr_restrict": "0"}
_PASSTHROUGH = "iommu.passthrough=1"
_NOFILE = 1048576
_HUGEPAGE = {"enabled": "always", "defrag": "madvise"}
_SYSCTL_FILE = "/etc/sysctl.d/60-railyard.conf"
_TMPFILES_FILE = "/etc/tmpfiles.d/railyard-node-tuning.conf"


def energy_preference(wanted: str, reading: Reading) -> Problems:
    """Every CPU that has a preference has the one that is wanted, now and at the next boot."""
    found = reading["energy_preferences"]
    # Under governor performance the drivers that have it go by performance, whatever the file keeps.
    if not found or (wanted == "performance" and reading["governors"] == ["performance"]):
        return []
    problems = []
    if found != [wanted]:
        problems.append(f"the energy-performance preference is {', '.join(found)}, wanted is {wanted}")
    if f"echo {wanted} | tee" not in (reading["governor_unit"] or ""):
        problems.append(f"railyard-cpu-governor.service does not set {wanted}, so that a boot loses it")
    return problems


def energy_preference_wanted(profile: str, node_class: str, options: Options) -> str:
    """The preference that the inventory wants; empty where it leaves it alone."""
    default = "balance_power" if profile == "powersave" and node_class != "virtual" else ""
    return str(options.get("node_tuning_energy_preference", default))


def idle_limit_us(options: Options) -> int:
    """Microseconds that a CPU may take to leave its idle state, by the inventory; negative: any."""
    return int(options.get("node_tuning_idle_limit_us", -1))


def idle_states(options: Options, reading: Reading) -> Problems:
    """Each idle state that takes too long to leave is disabled on all CPUs, now and at the next boot."""
    problems = []
    for name, latency, values in reading["idle_states"]:
        if values == ["only shown"] or not latency.isdigit() or int(latency) <= idle_limit_us(options):
            continue
        if values != ["1"]:
            problems.append(
                f"idle state {name}, which takes {latency} us to leave, is not disabled on all CPUs"
            )
        if not any(line[1].endswith(f"/cpuidle/{name}/disable") for line in reading["tmpfiles"]):
            problems.append(f"{_TMPFILES_FILE} does not disable idle state {name}, so that a boot loses it")
    return problems


def interrupts(rail: Plan, reading: Reading) -> Problems:
    """Each interrupt of the rail's port is served by CPUs of its NUMA node, and after a boot as well."""
    netdev = interrupts_of(rail, reading)
    if netdev is None:
        return []
    found = reading["interrupts"][netdev]
    local = _numbers(found["cpus"])
    problems = [
        f"interrupt {number} of {netdev} may be served by CPUs {cpus}, its NUMA node has {found['cpus']}"
        for number, cpus in sorted(found["served"].items())
        if not _numbers(cpus) <= local
    ]
    if f'KERNEL=="{netdev}"' not in reading["irq_rules"]:
        problems.append(f"no rule of udev places the interrupts of {netdev}, so that a boot loses it")
    return problems


def interrupts_of(rail: Plan, reading: Reading) -> str | None:
    """The netdev that has the rail's interrupts; None where there is no near and far, or none is known."""
    netdev = netdev_of({**rail, "vlan": None}, reading)
    found = reading["interrupts"].get(netdev)
    several = reading["numa_nodes"] not in ("", "0")
    return netdev if several and found and found["cpus"] and found["node"] not in ("", "-1") else None


def ring_sizes(options: Options) -> dict[str, str]:
    """The sizes that the inventory wants: rx, tx → a number or max; empty where it leaves rings alone."""
    wanted: dict[str, Any] = options.get("node_tuning_ring_sizes") or {}
    return {kind: str(size) for kind, size in wanted.items() if size is not None}


def rings(rail: Plan, options: Options, reading: Reading) -> Problems | None:
    """The rings of the rail's port have their sizes, now and after a boot; None where ethtool tells none."""
    netdev = netdev_of({**rail, "vlan": None}, reading)
    most, _, now = (reading["rings"].get(netdev or "") or "").partition("Current hardware settings:")
    problems = []
    for kind, size in ring_sizes(options).items():
        there = _after(f"{kind.upper()}:", now)
        wanted = _after(f"{kind.upper()}:", most) if size == "max" else size
        if not there.isdigit() or not wanted:
            return None
        if there != wanted:
            problems.append(f"the {kind} ring of {netdev} has {there} descriptors, wanted are {wanted}")
        if f'KERNEL=="{netdev}"' not in reading["ring_rules"] or _after(kind, reading["ring_unit"]) != size:
            problems.append(f"no unit gives {netdev} {kind} rings of {size}, so that a boot loses it")
    return problems


def _after(word: str, text: str) -> str:
    """The word that follows another; empty where there is none."""
    words = text.split()
    return words[words.index(word) + 1] if word in words[:-1] else ""


def _numbers(text: str) -> set[int]:
    """The numbers of a list of CPUs such as 0-3,8."""
    ends = [part.split("-") for part in text.split(",") if part]
    return {number for one in ends for number in range(int(one[0]), int(one[-1]) + 1)}


def sysctl(options: Options, reading: Reading) -> Problems:
    """Each key that can be set here has its value, now and at the next boot."""
    problems = []
    for key, value in _wanted_sysctl(options).items():
        found = reading["sysctl"].get(key)
        lacking = reading["lacks_fq"] and (key, value) == ("net.core.default_qdisc", "fq")
        if not found or not found["settable"] or lacking:
            continue  # the role says so, and leaves it out
        if found["value"].split() != value.split():
            problems.append(f"{key} is {found['value']}, wanted is {value}")
        if reading["sysctl_at_boot"].get(key, "").split() != value.split():
            problems.append(f"{_SYSCTL_FILE} does not set {key} to {value}, so that a boot loses it")
    return problems


def unknown_sysctl(options: Options, reading: Reading) -> list[str]:
    """Keys of the inventory's own of which nothing was found on the node, neither value nor file."""
    known = _SYSCTL.keys() | _PROFILING.keys()
    return [key for key in _wanted_sysctl(options) if key not in reading["sysctl"] and key not in known]


def iommu(reading: Reading) -> Problems:
    """The running kernel was booted without translation by the IOMMU, and the next boot will be."""
    problems = []
    if _PASSTHROUGH not in reading["command_line"]:
        problems.append(f"the kernel was booted without {_PASSTHROUGH}: the node waits for a reboot")
    if _PASSTHROUGH not in reading["iommu_file"]:
        problems.append(f"no file in /etc/default/grub.d has {_PASSTHROUGH}, so that a new menu loses it")
    return problems


def is_passthrough_asked(options: Options) -> bool:
    """Whether the inventory wants the IOMMU not to translate."""
    return bool(options.get("node_tuning_iommu") == "passthrough")


def hugepage(options: Options, reading: Reading) -> Problems:
    """Transparent huge pages are as wanted, now and at the next boot, where this kernel has them to set."""
    problems = []
    for name, default in _HUGEPAGE.items():
        suffix = "" if name == "enabled" else f"_{name}"
        wanted = str(options.get(f"node_tuning_transparent_hugepage{suffix}", default))
        found = reading["hugepage"].get(name)
        if not wanted or not found or not found["settable"]:
            continue
        path = f"/sys/kernel/mm/transparent_hugepage/{name}"
        if f"[{wanted}]" not in found["value"].split():
            problems.append(f"{path} has {found['value']}, wanted is {wanted}")
        if ["w", path, "-", "-", "-", "-", wanted] not in reading["tmpfiles"]:
            problems.append(f"{_TMPFILES_FILE} does not set {path} to {wanted}, so that a boot loses it")
    return problems


def nofile(options: Options, node_class: str, reading: Reading) -> Problems:
    """A login and a service may have so many open files; in a container, all that it was given."""
    wanted = nofile_wanted(options)
    limits = reading["login_nofile"]
    problems = []
    if len(limits) != 2:
        problems.append("the limit on open files of a login could not be read (su and ulimit)")
    elif limits != [str(wanted)] * 2 and (node_class != "container" or limits[0] != limits[1]):
        problems.append(f"a login may open {limits[0]} files (at most {limits[1]}), wanted is {wanted}")
    if reading["service_nofile"] != f"DefaultLimitNOFILE={wanted}":
        problems.append(
            f"services start with {reading['service_nofile'] or 'an unknown limit'}, not {wanted}"
        )
    return problems


def nofile_wanted(options: Options) -> int:
    """The limit on open files that the inventory wants; 0 leaves it alone."""
    return int(options.get("node_tuning_nofile", _NOFILE))


def _wanted_sysctl(options: Options) -> dict[str, str]:
    wanted: dict[str, Any] = dict(_PROFILING) if options.get("node_tuning_profiling") else {}
    wanted |= options.get("node_tuning_sysctl", _SYSCTL)
    return {key: str(value) for key, value in wanted.items()}
