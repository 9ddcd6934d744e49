# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The three ways to trust, PFC and buffers of a netdev: mlnx_qos, dcb, and the vendor driver's sysfs.

Each way reads settings (as `roce_qos` names them) and gives the actions that set some of them. An action is
data, so that it can be done, and kept for the next boot: `{"argv", "ok"}` or `{"path", "text"}`.
Sources: Mellanox/mlnx-tools python/mlnx_qos (options, output, files below qos/); iproute2's dcb/*.c, man8.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import node_files
from ..parsers import common
from ..parsers.hca import dcb, mlnx_qos
from .settings import DSCP_VALUES, PRIORITIES, QosError, Settings

Action = dict[str, Any]
# Values of single settings are short; a table is a line for each entry.
LARGEST_VALUE_BYTES = 1 << 16
# ethtool's exit status where nothing was to be changed (do_spause in its ethtool.c).
_ETHTOOL_UNCHANGED = 78
_PAUSE = re.compile(r"^(RX|TX):\s*(on|off)\s*$", re.M)


class Answer(NamedTuple):
    """What a program did: exit status, standard output, standard error."""

    status: int
    out: str
    error: str


Run = Callable[[Sequence[str]], Answer]


def command(*words: str, ok: Sequence[int] = (0,)) -> Action:
    """Return the action of running a program; `ok` are the exit statuses of success."""
    return {"argv": list(words), "ok": list(ok)}


def write(path: str, text: str) -> Action:
    """Return the action of writing to a file of the kernel's."""
    return {"path": path, "text": text}


def format_error(answer: Answer) -> str:
    """Return the message of a program that failed, on one line."""
    text = " ".join(f"{answer.error} {answer.out}".split())
    return (text or "no word")[:300] + f" (exit status {answer.status})"


def _ask(run: Run, *argv: str) -> str:
    answer = run(argv)
    if answer.status != 0:
        raise QosError(f"{' '.join(argv)}: {format_error(answer)}")
    return answer.out


def _list(values: Sequence[Any]) -> str:
    return ",".join(str(value) for value in values)


class MlnxQos:
    """mlnx_qos of mlnx-tools, which goes through netlink or the driver's sysfs as the kernel has it."""

    name = "mlnx_qos"
    program = "mlnx_qos"

    def read(self, run: Run, netdev: str, sys_root: str) -> Settings:
        """Return what the port has now; raise QosError when the tool has no answer."""
        text = _ask(run, "mlnx_qos", "-i", netdev)
        try:
            parsed = mlnx_qos.parse(text)
        except common.NotThisTool as error:
            raise QosError(f"mlnx_qos -i {netdev}: {error}") from error
        output = parsed["outputs"][0] if len(parsed["outputs"]) == 1 else {"pfc": None}
        if output["pfc"] is None:
            problem = (parsed["error"] or {}).get("message", "no PFC configuration of one interface")
            raise QosError(f"mlnx_qos -i {netdev}: {problem}")
        found = {
            "dcbx": mlnx_qos.dcbx_mode(text),
            # A driver without trust says "none".
            "trust": None if output["trust"] == "none" else output["trust"],
            "dscp_to_priority": output["dscp_to_priority"] or {},
            "pfc": output["pfc"],
            "buffers_bytes": output["buffers_bytes"],
            "buffer_of_priority": mlnx_qos.buffer_of_priority(text),
        }
        if found["trust"] is None:
            del found["dscp_to_priority"]
        return {name: value for name, value in found.items() if value is not None}

    def rival(self, run: Run, netdev: str) -> str | None:
        """Return what else sets the same values on this node."""
        return "lldpad" if mlnx_qos.has_rival(run(["mlnx_qos", "-i", netdev]).out) else None

    def actions(self, netdev: str, settings: Settings, found: Settings, sys_root: str) -> list[Action]:
        """Return what sets these; trust first, since it resets the map, and apart: mlnx_qos refuses both."""
        base = ("mlnx_qos", "-i", netdev)
        todo = []
        if "dcbx" in settings:
            todo.append(command(*base, "--dcbx", "fw" if settings["dcbx"] == "firmware" else "os"))
        if "trust" in settings:
            todo.append(command(*base, "--trust", settings["trust"]))
        pairs = [f"set,{dscp},{one}" for dscp, one in settings.get("dscp_to_priority", {}).items()]
        if pairs:
            todo.append(command(*base, *(word for pair in pairs for word in ("--dscp2prio", pair))))
        if "pfc" in settings:
            todo.append(command(*base, "--pfc", _list(settings["pfc"])))
        # Two calls: with the driver's sysfs mlnx_qos heeds only the sizes of the two.
        if "buffer_of_priority" in settings:
            todo.append(command(*base, "--prio2buffer", _list(settings["buffer_of_priority"])))
        if "buffers_bytes" in settings:
            todo.append(command(*base, "--buffer_size", _list(settings["buffers_bytes"])))
        return todo

    def restoring_actions(self, netdev: str, old: Settings, before: Settings, sys_root: str) -> list[Action]:
        """Return what sets the values of before again; firmware gets DCBX back at the end."""
        todo = self.actions(netdev, old, before, sys_root)
        return [*todo[1:], todo[0]] if "dcbx" in old else todo


class Dcb:
    """dcb of iproute2, through netlink."""

    name = "dcb"
    program = "dcb"

    def read(self, run: Run, netdev: str, sys_root: str) -> Settings:
        """Return what the port has now; raise QosError when there is no DCB on it."""

        def show(*words: str) -> str:
            return _ask(run, "dcb", "-j", *words[:1], "show", "dev", netdev, *words[1:])

        try:
            mapping = dcb.dscp_to_priority(
                _ask(run, "dcb", "-j", "-N", "app", "show", "dev", netdev, "dscp-prio")
            )
            found: Settings = {
                "pfc": dcb.pfc(show("pfc")),
                # As mlnx_qos has it, and the mlx5 driver does it: entries of DSCP make the port trust DSCP.
                "trust": "dscp" if mapping else "pcp",
                "dscp_to_priority": mapping,
            }
            for what in ("buffer", "dcbx"):
                answer = run(["dcb", "-j", what, "show", "dev", netdev])
                if answer.status != 0:
                    continue  # an object of its own, which many drivers lack
                if what == "buffer":
                    found["buffers_bytes"], found["buffer_of_priority"] = dcb.buffers(answer.out)
                else:
                    found["dcbx_flags"] = dcb.dcbx_flags(answer.out)
                    found["dcbx"] = "os" if "host" in found["dcbx_flags"] else "firmware"
        except common.NotThisTool as error:
            raise QosError(f"{netdev}: {error}") from error
        return found

    def rival(self, run: Run, netdev: str) -> str | None:
        """Return nothing: dcb does not look for one."""
        return None

    def actions(self, netdev: str, settings: Settings, found: Settings, sys_root: str) -> list[Action]:
        """Return what sets these settings."""

        def change(what: str, verb: str, *words: str) -> Action:
            return command("dcb", what, verb, "dev", netdev, *words)

        todo = []
        if "dcbx" in settings:
            # The flags of the driver stay (IEEE, CEE): each driver takes only its own set.
            flags = {"host", *found.get("dcbx_flags", ["ieee"])} - {"lld-managed"}
            todo.append(change("dcbx", "set", *sorted(flags)))
        mapping = dict(settings.get("dscp_to_priority", {}))
        if "trust" in settings:
            # The whole table, as firmware and mlnx_qos have it by default: the class selector of each DSCP.
            mapping = {**{str(dscp): dscp >> 3 for dscp in range(DSCP_VALUES)}, **mapping}
        if mapping:
            todo.append(
                change("app", "replace", "dscp-prio", *(f"{dscp}:{one}" for dscp, one in mapping.items()))
            )
        if "pfc" in settings:
            lossless = [f"{priority}:on" for priority in range(PRIORITIES) if settings["pfc"][priority]]
            todo.append(change("pfc", "set", "prio-pfc", "all:off", *lossless))
        places = [f"{one}:{buffer}" for one, buffer in enumerate(settings.get("buffer_of_priority", []))]
        sizes = [f"{buffer}:{size}" for buffer, size in enumerate(settings.get("buffers_bytes", []))]
        words = [*(["prio-buffer", *places] if places else []), *(["buffer-size", *sizes] if sizes else [])]
        return [*todo, change("buffer", "set", *words)] if words else todo

    def restoring_actions(self, netdev: str, old: Settings, before: Settings, sys_root: str) -> list[Action]:
        """Return what sets the values of before again; without entries of DSCP the port trusts PCP."""
        todo = []
        if "trust" in old or "dscp_to_priority" in old:
            todo.append(command("dcb", "app", "flush", "dev", netdev, "dscp-prio"))
            pairs = [f"{dscp}:{one}" for dscp, one in before.get("dscp_to_priority", {}).items()]
            if pairs:
                todo.append(command("dcb", "app", "add", "dev", netdev, "dscp-prio", *pairs))
        rest: Settings = {
            name: old[name] for name in ("pfc", "buffer_of_priority", "buffers_bytes") if name in old
        }
        todo += self.actions(netdev, rest, before, sys_root)
        if "dcbx" in old:
            flags = sorted(before.get("dcbx_flags", []))
            todo.append(command("dcb", "dcbx", "set", "dev", netdev, *flags))
        return todo


class Sysfs:
    """The files below /sys/class/net/NETDEV/qos of the vendor's driver; they have no PFC."""

    name = "sysfs"
    program = None
    _HEADER_AND_PAIRS = re.compile(r"^\s*([0-9]+)\s+([0-9]+)\b", re.M)

    def _at(self, sys_root: str, netdev: str, name: str) -> str:
        return os.path.join(sys_root, "class/net", netdev, "qos", name)

    def read(self, run: Run, netdev: str, sys_root: str) -> Settings:
        """Return what the port has now; files that are missing leave their setting out."""
        found: Settings = {}
        trust = read_value(self._at(sys_root, netdev, "trust"))
        if trust:
            found["trust"] = trust
        pairs = {
            name: {int(key): int(value) for key, value in self._HEADER_AND_PAIRS.findall(text)}
            for name in ("dscp2prio", "prio2buffer", "buffer_size")
            for text in [read_value(self._at(sys_root, netdev, name))]
            if text
        }
        if "dscp2prio" in pairs:
            found["dscp_to_priority"] = {str(key): value for key, value in pairs["dscp2prio"].items()}
        for name, file in (("buffer_of_priority", "prio2buffer"), ("buffers_bytes", "buffer_size")):
            if file in pairs:
                found[name] = [pairs[file].get(place, 0) for place in range(PRIORITIES)]
        return found

    def rival(self, run: Run, netdev: str) -> str | None:
        """Return nothing: sysfs does not look for one."""
        return None

    def actions(self, netdev: str, settings: Settings, found: Settings, sys_root: str) -> list[Action]:
        """Return what sets these settings."""
        todo = []
        if "trust" in settings:
            todo.append(write(self._at(sys_root, netdev, "trust"), settings["trust"]))
        for dscp, one in settings.get("dscp_to_priority", {}).items():
            todo.append(write(self._at(sys_root, netdev, "dscp2prio"), f"{dscp} {one} "))
        for name, file in (("buffer_of_priority", "prio2buffer"), ("buffers_bytes", "buffer_size")):
            if name in settings:
                todo.append(write(self._at(sys_root, netdev, file), _list(settings[name]) + ","))
        return todo

    def restoring_actions(self, netdev: str, old: Settings, before: Settings, sys_root: str) -> list[Action]:
        """Return what sets the values of before again."""
        return self.actions(netdev, old, before, sys_root)


# In this order: mlnx_qos knows what the vendor's driver does not tell netlink, dcb is on every node of today.
TOOLS = (MlnxQos(), Dcb(), Sysfs())


def read_pause(run: Run, netdev: str) -> dict[str, bool] | None:
    """Return whether the port answers to and sends global pause frames; None for a driver without them.

    Raises:
        QosError: ethtool failed otherwise.
    """
    answer = run(["ethtool", "-a", netdev])
    found = {name.lower(): value == "on" for name, value in _PAUSE.findall(answer.out)}
    if answer.status == 0 and len(found) == 2:
        return found
    if "not supported" in answer.error + answer.out:
        return None
    raise QosError(f"ethtool -a {netdev}: {format_error(answer)}")


def pause_action(netdev: str, pause: dict[str, bool]) -> Action:
    """Return what switches global pause."""
    words = [word for name in ("rx", "tx") for word in (name, "on" if pause[name] else "off")]
    return command("ethtool", "-A", netdev, *words, ok=(0, _ETHTOOL_UNCHANGED))


def read_value(path: str) -> str:
    """Return a file's text without white space around it, empty when it cannot be read."""
    return node_files.read_word(path, LARGEST_VALUE_BYTES)
