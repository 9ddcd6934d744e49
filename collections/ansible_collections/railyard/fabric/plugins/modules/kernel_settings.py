#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: what to read, write and record is decided in module_utils/kernel/settings.py and originals.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_settings
short_description: Set CPU clock, sysctls, rings and switches of a kernel, and record their former values
version_added: "0.1.0"
description:
  - Sets governor and idle states of all CPUs, sysctls and files of sysfs, and records first what is not
    recorded yet. What an earlier call held and this one does not ask for goes back to its recorded value.
  - Changes the running kernel only. To survive a reboot is the business of files that a role writes.
  - A node without cpufreq is reported, not failed, as is a sysctl or file that this kernel lacks, or that a
    container or network namespace only shows.
author:
  - Railyard contributors (@railyard)
options:
  governor:
    description:
      - The governor for every CPU. Omitted, the governors are left alone, or given back.
      - V(saving) is C(powersave) where the driver itself chooses the clock (intel_pstate and amd_pstate in
        active mode), and else the first of C(schedutil), C(ondemand) and C(conservative) that there is,
        since C(powersave) then pins the lowest clock.
    type: str
  energy_preference:
    description:
      - The energy-performance preference for every CPU that has one. Omitted, it is what it was before the
        first change of the governor.
      - Under governor C(performance), a driver in active mode takes C(performance) alone.
    type: str
  idle_limit_us:
    description: >-
      Idle states that take longer to leave, in microseconds, are disabled on every CPU. Omitted, none is.
    type: int
  rails:
    description: Rails as planned, for O(irq_affinity), O(ring_sizes) and RV(pcie_findings).
    type: list
    elements: dict
    default: []
  irq_affinity:
    description:
      - Whether the interrupts of the rails' ports are to be served by CPUs of the port's NUMA node. One that
        a CPU of the node serves already stays there. If not, all are left alone, or given back.
      - irqbalance must be configured to leave these ports to it.
    type: bool
    default: false
  irq_program:
    description: >-
      Where the program lies that does the same with the netdevs given to it, for a unit to run when a port
      comes. Written where RV(irq_ports) is not empty, else removed.
    type: path
  ring_sizes:
    description: >-
      Descriptors of the rings of the rails' ports, a number or V(max), the most that the port has. A kind
      that is not named stays as it is.
    type: dict
    default: {}
    suboptions:
      rx:
        description: Receive rings.
        type: str
      tx:
        description: Rings of packets that go.
        type: str
  ring_program:
    description: As O(irq_program), for a unit that sets O(ring_sizes) when a port comes.
    type: path
  allow_ring_resize:
    description: >-
      Whether rings may change now, also back: most drivers take the link down for it. Otherwise that is in
      RV(rings_waiting), recorded, and left to the next boot.
    type: bool
    default: false
  sysctl:
    description: Sysctl keys and values. A key of an interface with a dot in its name is written with slashes.
    type: dict
    default: {}
  sysfs:
    description: Files by their path below C(/sys), and values; where a file shows its choices, one of them.
    type: dict
    default: {}
  nofile:
    description: A limit on open files; nothing is set, RV(nofile_possible) is whether a login may have it.
    type: int
  boot_parameter:
    description: >-
      A parameter of the kernel's command line; nothing is set, RV(boot_parameter) is where it is.
    type: str
  originals:
    description: The file with the values from before the first change.
    type: path
    required: true
  rivals:
    description:
      - Systemd units that set clock and idle states too. If O(governor), O(energy_preference) or
        O(idle_limit_us) is given and one of them is active, nothing is changed and the module fails, since
        two managers of one setting undo each other. What is no longer requested is left to the one that is
        active.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Reports what would change without changing it.
    support: full
  diff_mode:
    description: Shows the values before and after.
    support: full
"""

EXAMPLES = r"""
- name: Run all CPUs at full clock
  railyard.fabric.kernel_settings:
    governor: performance
    sysctl:
      net.core.rmem_max: "268435456"
    sysfs:
      kernel/mm/transparent_hugepage/enabled: always
    originals: /var/lib/railyard/node_tuning/originals.json
    rivals: [tuned.service]

- name: Put everything back
  railyard.fabric.kernel_settings:
    originals: /var/lib/railyard/node_tuning/originals.json
"""

RETURN = r"""
governors:
  description: Governor of each CPU before the change; empty where there is no cpufreq.
  returned: success
  type: dict
  sample: {"cpu0": "powersave"}
governor:
  description: The governor that O(governor) means on this node.
  returned: success
  type: str
  sample: performance
energy_preference:
  description: O(energy_preference), where it is held; null where no CPU has one or the governor overrides it.
  returned: success
  type: str
  sample: balance_power
idle_globs:
  description: Switches of the idle states that are disabled, as patterns of paths.
  returned: success
  type: list
  elements: str
  sample: ["/sys/devices/system/cpu/cpu*/cpuidle/state3/disable"]
absent_cpu:
  description: Requested CPU settings that no CPU has, or that a container only shows.
  returned: success
  type: list
  elements: str
  sample: ["energy_performance_preference"]
irq_ports:
  description: Netdevs whose interrupts are held on their NUMA node, and their PCI addresses.
  returned: success
  type: dict
  sample: {"ens1f0np0": "0000:3b:00.0"}
irq_unknown:
  description: Rails whose interrupts are not known, and why.
  returned: success
  type: list
  elements: str
  sample: ["rail0 (ens1f0np0): the firmware does not say on which NUMA node it is"]
rings:
  description: Rings that are held, by port.
  returned: success
  type: dict
  sample: {"ens1f0np0": "rx 8192 tx 8192"}
rings_waiting:
  description: What O(allow_ring_resize) would have changed, as a command.
  returned: success
  type: list
  elements: str
  sample: ["ethtool -G ens1f0np0 rx 8192 tx 8192"]
absent_rings:
  description: Ports in O(ring_sizes) that report no rings, and rails without a port.
  returned: success
  type: list
  elements: str
  sample: ["veth0"]
pcie_findings:
  description: >-
    What reduces the bandwidth of a rail's port on PCI Express, access control of a switch above it beside a
    GPU, an IOMMU that translates, small or differing read requests. Nothing of it is set.
  returned: success
  type: list
  elements: str
  sample: ["rail0 (ens6): the IOMMU translates the addresses of its DMA (DMA-FQ)"]
cpufreq_driver:
  description: Name of the cpufreq driver.
  returned: success
  type: str
  sample: intel_pstate
absent_sysctl:
  description: Requested keys that this node does not have, or that cannot be set in its network namespace.
  returned: success
  type: list
  elements: str
  sample: ["net.core.rmem_max"]
absent_sysfs:
  description: Requested files of sysfs that this node does not have, or only shows.
  returned: success
  type: list
  elements: str
  sample: ["kernel/mm/transparent_hugepage/enabled"]
nofile_possible:
  description: >-
    The limit on open files that root may give here: O(nofile), or where that is above C(fs.nr_open) or what a
    container was given, the hard limit that it has. Without O(nofile), that hard limit.
  returned: success
  type: int
  sample: 1048576
boot_parameter:
  description: >-
    Whether the running kernel was booted with O(boot_parameter) (C(runs)), whether an entry of GRUB's menu
    has it (C(in_menu)), and whether that menu can be made anew (C(can_write)). Null without it.
  returned: success
  type: dict
  sample: {"runs": false, "in_menu": true, "can_write": true}
memlock_unlimited_possible:
  description: >-
    Whether root may raise the hard limit on locked memory here. In a container without CAP_SYS_RESOURCE it
    may not; pam_limits then sets neither limit and complains at each login.
  returned: success
  type: bool
  sample: true
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils import module_end
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import (
    boot_parameter,
    cpus,
    irqs,
    limits,
    originals,
    pcie,
    programs,
    rings,
    settings,
)
from ansible_collections.railyard.fabric.plugins.module_utils.rails import resolve

ROOT = "/"
EXPECTED = (settings.KernelSettingsError, cpus.CpuError, rings.RingError, originals.OriginalsError)
_OF_CPUS = ("governors", "energy_preferences", "idle_states")


def active_units(module: AnsibleModule, units: list[str]) -> list[str]:
    """Return those of `units` that systemd calls active; none where there is no systemd."""
    systemctl = module.get_bin_path("systemctl") if units else None
    if systemctl is None:
        return []
    states = module.run_command([systemctl, "is-active", *units])[1].split()
    return [unit for unit, state in zip(units, states) if state == "active"]  # noqa: B905 - strict= is Python 3.10's


def rail_netdevs(rails: list[dict[str, t.Any]]) -> tuple[dict[str, str], list[str]]:
    """Return netdev to rail, and what is wrong with those that have none."""
    found, unknown = {}, []
    for rail in rails:
        try:
            found[resolve.netdev_of(rail, ROOT + "sys")] = str(rail["name"])
        except resolve.ResolveError as error:
            unknown.append(str(error))
    return found, unknown


def make_diff(writes: list[settings.Write], before: t.Any, after: t.Any, path: str) -> list[dict[str, t.Any]]:
    """Return the diff of kernel values and of the record."""
    diff = []
    if writes:
        now = "".join(f"{write.name} = {write.before}\n" for write in writes)
        wanted = "".join(f"{write.name} = {write.after}\n" for write in writes)
        diff.append(module_end.diff("running kernel", now, wanted))
    if before != after:
        diff.append(module_end.diff(path, before or "", after or ""))
    return diff


def hold(module: AnsibleModule) -> dict[str, t.Any]:
    """Do what the parameters ask; return the result."""
    wanted: dict[str, t.Any] = module.params
    path = wanted["originals"]
    recorded = originals.load(path)
    sysctl, sysfs = ({key: str(value) for key, value in wanted[name].items()} for name in ("sysctl", "sysfs"))
    sizes = {kind: size for kind, size in wanted["ring_sizes"].items() if size is not None}
    ports, unknown = rail_netdevs(wanted["rails"])
    asked = settings.Wanted(
        wanted["governor"],
        wanted["energy_preference"],
        wanted["idle_limit_us"],
        list(ports) if wanted["irq_affinity"] else None,
        sysctl,
        sysfs,
        dict.fromkeys(ports, sizes) if sizes else {},
    )
    state = settings.read(ROOT, asked, recorded)
    held = settings.held(state, asked, recorded)
    kept, released = originals.split(recorded, held, asked.sections(), state)
    of_cpus = [section for section in _OF_CPUS if section in asked.sections()]
    rivals = active_units(module, wanted["rivals"]) if of_cpus or any(map(released.get, _OF_CPUS)) else []
    if rivals and of_cpus:
        raise settings.KernelSettingsError(
            f"{', '.join(rivals)} is active and sets the CPU governor too: stop and disable it, or leave "
            "clock and idle states to it"
        )
    if rivals:
        released.update({section: {} for section in _OF_CPUS})  # the other program's now
    writes = settings.plan(state, held, released)
    waiting: list[settings.Write] = []
    if not wanted["allow_ring_resize"]:
        writes, waiting = settings.without_rings(writes, kept, released)
    after = originals.merged(kept, held, state)
    if not module.check_mode:
        # What will be held is recorded first, and what was given back leaves the record last: a run cut off
        # in between must neither take its own values for originals nor forget what it was to put back.
        before_writes = originals.union(recorded, after)
        if before_writes is not None and before_writes != recorded:
            originals.store(path, before_writes)
        settings.apply(ROOT, writes)
        if after is not None and after != before_writes:
            originals.store(path, after)
        if after is None and recorded is not None:
            originals.remove(path)
    without_rings = [*unknown, *(port for port in ports if port not in held["rings"])] if sizes else []
    unknown += [f"{ports[netdev]} ({netdev}): {why}" for netdev, why in state["irq_unknown"].items()]
    written = [
        *programs.hold(wanted["irq_program"], irqs, bool(state["irq_ports"]), module.check_mode),
        *programs.hold(wanted["ring_program"], rings, bool(held["rings"]), module.check_mode),
    ]
    return {
        "changed": bool(writes or written) or after != recorded,
        "diff": make_diff(writes, recorded, after, path) + written,
        "irq_ports": state["irq_ports"],
        "irq_unknown": unknown if wanted["irq_affinity"] else [],
        "rings": held["rings"],
        "rings_waiting": [f"{write.name} {write.after}" for write in waiting],
        "absent_rings": without_rings,
        "pcie_findings": pcie.findings(ROOT, ports),
        "governors": state["governors"],
        "governor": cpus.governor(state, asked.governor),
        "energy_preference": asked.energy_preference if any(held["energy_preferences"].values()) else None,
        "idle_globs": cpus.idle_globs(state, held["idle_states"]),
        "absent_cpu": [
            name
            for name, is_asked, there in (
                ("energy_performance_preference", asked.energy_preference, state["energy_preferences"]),
                ("idle states (cpuidle)", asked.idle_limit_us is not None, state["idle_states"]),
            )
            if is_asked and not there
        ],
        "cpufreq_driver": state["cpufreq_driver"],
        "absent_sysctl": [key for key in sysctl if key not in held["sysctl"]],
        "absent_sysfs": [name for name in sysfs if name not in held["sysfs"]],
        "nofile_possible": limits.nofile_possible(wanted["nofile"]),
        "memlock_unlimited_possible": limits.memlock_unlimited_possible(),
        "boot_parameter": boot_parameter.look(ROOT, wanted["boot_parameter"])
        if wanted["boot_parameter"]
        else None,
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "governor": {"type": "str"},
            "energy_preference": {"type": "str"},
            "idle_limit_us": {"type": "int"},
            "irq_affinity": {"type": "bool", "default": False},
            "rails": {"type": "list", "elements": "dict", "default": []},
            "irq_program": {"type": "path"},
            "ring_sizes": {
                "type": "dict",
                "default": {},
                "options": {kind: {"type": "str"} for kind in rings.KINDS},
            },
            "ring_program": {"type": "path"},
            "allow_ring_resize": {"type": "bool", "default": False},
            "sysctl": {"type": "dict", "default": {}},
            "sysfs": {"type": "dict", "default": {}},
            "nofile": {"type": "int"},
            "boot_parameter": {"type": "str"},
            "originals": {"type": "path", "required": True},
            "rivals": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    module_end.end(module, hold, *EXPECTED)


if __name__ == "__main__":
    main()
