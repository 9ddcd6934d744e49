# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds the RoCE QoS of a node: looks at all ports, sets what differs, reads it back, keeps it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .. import atomic_files, node_files
from . import node as roce_qos_node
from . import replay
from . import settings as roce_qos
from .settings import QosError
from .tools import Run, format_error

PORT_SETTINGS = (*roce_qos.AT_LOAD, "global_pause")


class Work(NamedTuple):
    """One port: what is wanted of it, what it had, what is to be set, what waits for a reboot."""

    port: roce_qos_node.Port
    settings: dict[str, Any]
    found: dict[str, Any]
    todo: dict[str, Any]
    waits: list[str]


def look(
    node: roce_qos_node.Node, ports: list[roce_qos_node.Port], declared: roce_qos.Declared
) -> list[Work]:
    """Return what is to be done at each port; raise QosError with all problems."""
    work, problems = [], []
    for port in ports:
        settings = roce_qos.wanted(declared, port.driver)
        try:
            found, refused = roce_qos_node.read(node, port, settings, declared.priority)
        except QosError as error:
            problems.append(f"{port.rail}: {error}")
            continue
        missing = roce_qos.without_way(settings, found)
        if missing:
            why = "; ".join(dict.fromkeys(refused[name] for name in missing if name in refused))
            problems.append(
                f"{port.rail} ({port.netdev}, {port.driver}): no way to set {', '.join(missing)}"
                f"{f' ({why})' if why else ''}. Fix: {roce_qos.remedy(missing, declared.not_asked)}"
            )
        todo = roce_qos.differences(settings, found)
        waits = sorted(name for name in roce_qos.AT_LOAD if name in todo)
        if waits:
            # Until the driver is loaded anew its flow control stays as it is, rather than be neither or both.
            todo = {name: value for name, value in todo.items() if name not in PORT_SETTINGS}
        work.append(Work(port, settings, found, todo, waits))
    if problems:
        raise QosError("; ".join(problems))
    return work


def apply(node: roce_qos_node.Node, work: list[Work], declared: roce_qos.Declared, run: Run) -> list[Work]:
    """Set what differs at all ports and read it back.

    Raises:
        QosError: A value is not what was set. What was changed before, at all ports, has its old values again
            then, as far as the error does not say otherwise.
    """
    done: list[Work] = []
    begun: list[Work] = []
    try:
        for one in work:
            if one.todo:
                begun.append(one)
            done.append(_apply_port(node, one, declared, run) if one.todo else one)
    except (QosError, OSError) as error:
        raise restored(node, begun, declared, run, error) from error
    return done


def restored(
    node: roce_qos_node.Node, begun: list[Work], declared: roce_qos.Declared, run: Run, error: Exception
) -> QosError:
    """Give ports the values that they had before, and return the error that says so."""
    lost = [text for one in reversed(begun) for text in _restore(node, one, declared, run)]
    if lost:
        return QosError(f"{error}. Not all could be set back as it was: {'; '.join(lost)}")
    return QosError(f"{error}. What was changed before is set back as it was")


def _apply_port(node: roce_qos_node.Node, one: Work, declared: roce_qos.Declared, run: Run) -> Work:
    for action in roce_qos_node.actions(node, one.port, one.todo, one.found, declared.priority):
        problem = do(action, run)
        if problem:
            raise QosError(f"{one.port.rail} ({one.port.netdev}): {problem}")
    found, _refused = roce_qos_node.read(node, one.port, one.settings, declared.priority)
    held = {name: value for name, value in one.settings.items() if not (one.waits and name in PORT_SETTINGS)}
    lost = roce_qos.without_way(held, found)
    wrong = [f"{name} is not there any more" for name in lost] + [
        f"{name} was set to {roce_qos.shown(value)} and reads {roce_qos.shown(found[name])}"
        for name, value in sorted(roce_qos.differences(held, found).items())
    ]
    if wrong:
        by = one.port.tool.name if one.port.tool else "ethtool"
        raise QosError(
            f"{one.port.rail} ({one.port.netdev}): not read back as set, though {by} reported success: "
            f"{'; '.join(wrong)}. Fix: look for lldpad or another service that sets the same, and at the "
            "firmware's own DCBX (mlxconfig LLDP_NB_DCBX)"
        )
    return one._replace(found=found)


def _restore(node: roce_qos_node.Node, one: Work, declared: roce_qos.Declared, run: Run) -> list[str]:
    """Give a port the values that it had before; return what has another value now."""
    place = f"{one.port.rail} ({one.port.netdev})"
    try:
        for action in roce_qos_node.restoring_actions(node, one.port, one.todo, one.found, declared.priority):
            do(action, run)  # what failed shows when it is read
        now, _refused = roce_qos_node.read(node, one.port, one.settings, declared.priority)
    except (QosError, OSError) as error:
        return [f"{place}: {error}"]
    return [
        f"{place}: {name} was {roce_qos.shown(one.found[name])}"
        f" and is {roce_qos.shown(now[name]) if name in now else 'not shown any more'}"
        for name in one.todo
        if now.get(name) != one.found[name]
    ]


def do(action: dict[str, Any], run: Run) -> str | None:
    """Do one action; return what went wrong, None when nothing did."""
    if "path" in action:
        return replay.do(action)
    answer = run(action["argv"])
    if answer.status in action["ok"]:
        return None
    return f"{' '.join(action['argv'])}: {format_error(answer)}"


def kept_files(
    node: roce_qos_node.Node, work: list[Work], declared: roce_qos.Declared, folder: str
) -> dict[str, str]:
    """Return the text of the files that keep the settings over a boot."""
    ports = [
        {
            "netdev": one.port.netdev,
            "device": one.port.device,
            "actions": roce_qos_node.actions(node, one.port, one.settings, one.found, declared.priority),
        }
        for one in work
    ]
    record = {"schema": replay.SCHEMA, "sys_root": node.sys_root, "ports": ports}
    # Ansible ships module_utils inside a zip file, so the source comes from the loader, not from the disk.
    loader: Any = replay.__loader__
    source = str(loader.get_source(replay.__name__))
    return {
        os.path.join(folder, "record.json"): json.dumps(record, indent=1, sort_keys=True) + "\n",
        os.path.join(folder, "replay.py"): source,
    }


def differing(files: dict[str, str]) -> dict[str, str]:
    """Return those of the files that are not on the node as they should be."""
    return {path: text for path, text in files.items() if node_files.read_text(path) != text}


def store(files: dict[str, str]) -> None:
    """Write the files, each old or new after a power cut; where one cannot be written, all stay old."""
    atomic_files.write_together(
        [atomic_files.NewFile(path, text.encode(), 0o644) for path, text in files.items()]
    )


def make_diff(work: list[Work]) -> dict[str, str]:
    """Return the diff of the settings that differ."""
    names = [(one, name) for one in work for name in sorted(one.todo)]
    return {
        "before_header": "RoCE QoS",
        "after_header": "RoCE QoS",
        "before": "".join(
            f"{one.port.rail} {name}: {roce_qos.shown(_same_keys(one.found.get(name), one.todo[name]))}\n"
            for one, name in names
        ),
        "after": "".join(
            f"{one.port.rail} {name}: {roce_qos.shown(one.todo[name])}\n" for one, name in names
        ),
    }


def _same_keys(there: Any, wanted: Any) -> Any:
    if isinstance(there, dict) and isinstance(wanted, dict):
        return {key: there.get(key) for key in wanted}
    return there


def hold(
    params: Mapping[str, Any], run: Run, which: Callable[[str], str | None], check_mode: bool
) -> dict[str, Any]:
    """Do what is declared; return the module's result.

    Args:
        params: The module's options.
        run: Runs a program of the node.
        which: Returns the path of a program, None for none.
        check_mode: Only look, and say what would be done.

    Raises:
        QosError: What is declared cannot be, or was not read back.
    """
    declared = roce_qos.check(params)
    node = roce_qos_node.Node(run, os.path.join(params["root"], "sys"))
    ports, problems = [], []
    for rail in params["rails"]:
        try:
            port = roce_qos_node.find_port(rail, node.sys_root)
            ports.append(roce_qos_node.choose_tool(node, which, port))
        except QosError as error:
            problems.append(str(error))
    has_mlx4 = any(port.driver == roce_qos.MLX4 for port in ports)
    if has_mlx4:
        problems += roce_qos_node.foreign_options(params["root"], params["modprobe_file"], declared)
    if problems:
        raise QosError("; ".join(problems))
    first: Any = next((port for port in ports if port.tool is not None), None)
    work = look(node, ports, declared)
    todo = [one for one in work if one.todo]
    diff = make_diff(work)
    if not check_mode:
        work = apply(node, work, declared, run)
    files = differing(kept_files(node, work, declared, params["folder"]))
    if not check_mode:
        try:
            store(files)
        except OSError as error:
            # A port that has its values until the next boot alone is half-changed, too.
            raise restored(node, todo, declared, run, error) from error
    return {
        "changed": bool(todo or files),
        "diff": diff,
        "tool": first.tool.name if first else None,
        "rival": first.tool.rival(run, first.netdev) if first else None,
        "module_options": roce_qos.module_options(declared) if has_mlx4 else "",
        "ports": [
            {
                "rail": one.port.rail,
                "netdev": one.port.netdev,
                "device": one.port.device,
                "driver": one.port.driver,
                "changed": sorted(one.todo),
                "waits_for_reboot": one.waits,
                "settings": {name: one.found[name] for name in one.settings if name in one.found},
            }
            for one in work
        ],
    }
