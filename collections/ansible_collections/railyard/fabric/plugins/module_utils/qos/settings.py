# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RoCE QoS of a port: what is wanted, what differs, what the node has no way to set. Pure.

A setting is a name and a value. The settings depend on the driver: mlx4 (ConnectX-3, RoCE v1) has flow
control and nothing else. Sources: NVIDIA/doroce-linux doRoCE.sh (trust DSCP, PFC on priority 3, class 106);
docs.nvidia.com/doca/sdk/explicit+congestion+notification (ecn/ in sysfs), MLNX_OFED 4.5 "Flow Control"
(pfctx, pfcrx); torvalds/linux drivers/net/ethernet/mellanox/mlx4/en_main.c (both are read-only once loaded).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

PRIORITIES = 8
DSCP_VALUES = 64
MLX4 = "mlx4_core"
# What a site may declare that its drivers cannot set, and the settings that this leaves out. The kernel's own
# mlx5 has neither ecn/ nor tc/ in sysfs: firmware decides on ECN, and applications mark their traffic.
LEAVES_OUT: dict[str, tuple[str, ...]] = {
    "ecn": ("ecn_notification_point", "ecn_reaction_point"),
    "cnp": ("cnp_dscp", "cnp_priority"),
    "traffic_class": ("traffic_class",),
    "connection_manager_tos": ("connection_manager_tos",),
}
# Settings that only a driver that is loaded anew takes.
AT_LOAD = ("module_pfc",)

Settings = dict[str, Any]


class QosError(Exception):
    """The QoS cannot be had as declared; the message names rail, setting and fix."""


class Declared(NamedTuple):
    """What the site declares for all its RoCE ports.

    Attributes:
        dscp: DSCP of RoCE packets, 0 to 63.
        priority: Their priority, 0 to 7.
        pfc: Whether that priority is lossless by PFC.
        cnp_dscp: DSCP of congestion notification packets.
        cnp_priority: Their priority.
        buffers_bytes: Size of each of the eight receive buffers; None leaves them to the driver.
        buffer_of_priority: Receive buffer of each priority; None leaves it to the driver.
        not_asked: Keys of `LEAVES_OUT`.
        mlx4_flow_control: `global_pause` or `pfc`.
    """

    dscp: int
    priority: int
    pfc: bool
    cnp_dscp: int
    cnp_priority: int
    buffers_bytes: Optional[list[int]]  # noqa: UP045 - Python 3.9, which nodes may have, evaluates it
    buffer_of_priority: Optional[list[int]]  # noqa: UP045 - as above
    not_asked: frozenset[str]
    mlx4_flow_control: str


def traffic_class(dscp: int) -> int:
    """Return the byte of the IP header that carries `dscp` and ECN's ECT(0): 26 gives 106."""
    return dscp * 4 + 2


def _range(problems: list[str], what: str, value: int, count: int) -> None:
    if not 0 <= value < count:
        problems.append(f"{what} {value} is not within 0 to {count - 1}")


def check(parameters: Mapping[str, Any]) -> Declared:
    """Return what is declared.

    Args:
        parameters: The module's options.

    Raises:
        QosError: Names every option that cannot be.
    """
    declared = Declared(
        **{key: parameters[key] for key in Declared._fields if key != "not_asked"},
        not_asked=frozenset(parameters["not_asked"]),
    )
    problems: list[str] = []
    for what, value in (("dscp", declared.dscp), ("cnp_dscp", declared.cnp_dscp)):
        _range(problems, what, value, DSCP_VALUES)
    for what, value in (("priority", declared.priority), ("cnp_priority", declared.cnp_priority)):
        _range(problems, what, value, PRIORITIES)
    if declared.dscp == declared.cnp_dscp and declared.priority != declared.cnp_priority:
        problems.append(
            f"dscp and cnp_dscp are both {declared.dscp}, and their priorities differ: change one"
        )
    for what, values in (
        ("buffers_bytes", declared.buffers_bytes),
        ("buffer_of_priority", declared.buffer_of_priority),
    ):
        if values is not None and len(values) != PRIORITIES:
            problems.append(f"{what} has {len(values)} values instead of {PRIORITIES}")
    problems += [f"buffers_bytes: {value} is negative" for value in declared.buffers_bytes or [] if value < 0]
    for value in declared.buffer_of_priority or []:
        _range(problems, "buffer_of_priority", value, PRIORITIES)
    sizes, places = declared.buffers_bytes, declared.buffer_of_priority
    if not problems and sizes and places and sizes[places[declared.priority]] == 0:
        problems.append(
            f"priority {declared.priority} is in buffer {places[declared.priority]}, whose size is 0 bytes"
        )
    if problems:
        raise QosError("; ".join(problems))
    return declared


def wanted(declared: Declared, driver: str) -> Settings:
    """Return the settings of a port.

    Args:
        declared: From `check`.
        driver: The driver of the netdev's device, such as `mlx5_core`.
    """
    if driver == MLX4:
        by_pfc = declared.mlx4_flow_control == "pfc"
        mask = 1 << declared.priority if by_pfc else 0
        # Never both: a port has one or the other (mlx4_en_get_profile starts with pause off where PFC is on).
        return {
            "global_pause": {"rx": not by_pfc, "tx": not by_pfc},
            "module_pfc": {"pfctx": mask, "pfcrx": mask},
        }
    settings: Settings = {
        "dcbx": "os",
        "trust": "dscp",
        "dscp_to_priority": {
            str(declared.dscp): declared.priority,
            str(declared.cnp_dscp): declared.cnp_priority,
        },
        "pfc": [int(declared.pfc and one == declared.priority) for one in range(PRIORITIES)],
        "global_pause": {"rx": False, "tx": False},
        "ecn_notification_point": True,
        "ecn_reaction_point": True,
        "cnp_dscp": declared.cnp_dscp,
        "cnp_priority": declared.cnp_priority,
        "traffic_class": traffic_class(declared.dscp),
        "connection_manager_tos": traffic_class(declared.dscp),
    }
    if declared.buffer_of_priority is not None:
        settings["buffer_of_priority"] = declared.buffer_of_priority
    if declared.buffers_bytes is not None:
        settings["buffers_bytes"] = declared.buffers_bytes
    for key in declared.not_asked:
        for name in LEAVES_OUT[key]:
            settings.pop(name, None)
    return settings


def without_way(settings: Settings, found: Settings) -> list[str]:
    """Return the settings for which the node showed no value, so that none can be set and read back.

    A driver without DCBX has no firmware that overrules us, and one without pause has none to switch off.
    """
    nothing_to_do = {"dcbx"}
    if not any(settings["global_pause"].values()):
        nothing_to_do.add("global_pause")
    return sorted(name for name in settings if name not in found and name not in nothing_to_do)


def remedy(missing: list[str], not_asked: frozenset[str]) -> str:
    """Return what to do about settings without a way: what to declare, what to install.

    Args:
        missing: the settings.
        not_asked: what is left out already: a declared list replaces the default, so it must repeat these.
    """
    keys = [key for key, names in LEAVES_OUT.items() if set(names) & set(missing)]
    declared = [key for key in LEAVES_OUT if key in keys or key in not_asked]
    others = [name for name in missing if not any(name in LEAVES_OUT[key] for key in keys)]
    parts = []
    if keys:
        parts.append(
            f"install the vendor's driver, or leave it out by roce_qos_not_asked: [{', '.join(declared)}]"
        )
    if others:
        parts.append(
            f"for {', '.join(others)} install mlnx-tools or iproute2 (dcb), or declare no such setting"
        )
    return "; ".join(parts)


def differences(settings: Settings, found: Settings) -> Settings:
    """Return the settings whose value on the node is another; of a dictionary only what is wanted counts."""
    return {name: value for name, value in settings.items() if name in found and _differs(value, found[name])}


def _differs(value: Any, there: Any) -> bool:
    if isinstance(value, dict) and isinstance(there, dict):
        return any(there.get(key) != one for key, one in value.items())
    return bool(value != there)


def module_options(declared: Declared) -> str:
    """Return the options of mlx4_en that keep PFC over a boot, as a line of modprobe.d; empty for none."""
    mask = 1 << declared.priority
    return (
        f"options mlx4_en pfctx={mask:#04x} pfcrx={mask:#04x}" if declared.mlx4_flow_control == "pfc" else ""
    )


def shown(value: Any) -> str:
    """Return a value as a person reads it in a diff."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {shown(one)}" for key, one in value.items())
    if isinstance(value, list):
        return " ".join(map(shown, value))
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else str(value)
