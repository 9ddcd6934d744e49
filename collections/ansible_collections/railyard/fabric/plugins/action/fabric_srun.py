# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run's steps on the nodes by `srun`, on all at once: what validate.yml's actions do one by one by SSH."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.railyard.fabric.plugins.module_utils import atomic_files
from ansible_collections.railyard.fabric.plugins.module_utils.runner import agent, progress
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import archive as harvest
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import (
    archive_limits,
    intake,
    orders,
    srun,
    waiting,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import who_is_slow
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import (
    action_base,
    json_lines,
    stale_secrets,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documented_action import DocumentedAction

# Python starts, and reads a node's facts; a slow node, and one that Slurm is late to start on.
_INSPECT_S = 180.0
# For staging; then for the last rows and the transfer of archives, beyond the time of the test schedule.
_STAGE_S, _HAND_OVER_S = 60.0, 300.0
_SAY_EVERY_S = 30.0
# Of what is neither facts nor an archive.
_MOST_WORDS_BYTES = 64 << 10
# Set by `railyard` (base/orphans.py), which stays beside the playbook that it starts.
_OF_RAILYARD = "RAILYARD_ANSIBLE_RUN"
_NEEDS_ROOT = (
    "call railyard as root, or let this user do `sudo -n python3` on the nodes: raw sockets, locked memory, "
    "other users' processes and /run/railyard are root's"
)

display = Display()


class ActionModule(DocumentedAction):
    """One srun over the nodes of the run that are in this allocation."""

    _requires_connection = False

    def act(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return `nodes` (that did their part) and `failed_nodes` (node -> why not)."""
        folder = action_base.open_folder(args["folder"])
        try:
            held = srun.allocation(os.environ)
            names = {held.name_of(node): node for node in folder.plan()["nodes"] if held.name_of(node)}
            if not names:
                raise srun.SrunError(
                    f"no node of the inventory is in allocation {held.job} ({', '.join(held.nodes[:8])}). "
                    "Fix: let hosts of gpu_nodes have Slurm's node names"
                )
            step = _Inspect if args["state"] == "inspected" else _Measure
            work: _Step = step(folder, held, names, args["part_of_node"])
            work.run()
        except (srun.SrunError, orders.OrderError, run_folder.RunFolderError) as error:
            raise AnsibleActionFail(str(error)) from error
        for node, why in sorted(work.failed.items()):
            display.warning(f"{node}: {why}")
        if not work.done:
            why = next(iter(work.failed.values()), "srun printed nothing")
            raise AnsibleActionFail(f"no node of the allocation returned results: {why}")
        return {"nodes": sorted(work.done), "failed_nodes": work.failed}


class _Step:
    """What both have in common: the nodes, and what came of them."""

    what = ""
    kind = ""

    def __init__(
        self,
        folder: run_folder.RunFolder,
        held: srun.Allocation,
        names: dict[Any, str],
        part_of_node: bool = False,
    ) -> None:
        self.folder, self.held, self.part_of_node = folder, held, part_of_node
        # Slurm's name -> the inventory's, in the order in which Slurm numbers its tasks.
        self.names: dict[str, str] = {name: names[name] for name in held.nodes if name in names}
        self.done: set[str] = set()
        self.failed: dict[str, str] = {}
        self.greeted: set[str] = set()

    def run(self) -> None:
        raise NotImplementedError

    def start(self, most_bytes: Mapping[str, int]) -> srun.Step:
        """Start the agent on the nodes that are left, and send it itself."""
        program, _sha256 = orders.program("runner.agent")
        argv = srun.command(self.held.job, list(self.names), len(program), self.what)
        step = srun.Step(argv, list(self.names), most_bytes.__getitem__)
        step.send(program)
        return step

    def fail(self, name: str, error: Mapping[str, Any]) -> None:
        """Keep why a node has no result, for the judge to say."""
        node = self.names[name]
        told = {key: error[key] for key in ("class", "message", "fix") if isinstance(error.get(key), str)}
        told = {"class": self.kind, "message": "it does not say why", **told}
        self.failed[node] = action_base.shorten(told["message"])
        action_base.record_node_error(self.folder, node, told)

    def greet(self, received: srun.Message) -> None:
        """Take a node's first word: it is the one that Slurm's order says, and root."""
        words = _object(received.data)
        if words.get("name") != received.name:
            message = (
                f"Slurm started it in the place of {received.name}, and it says it is {words.get('name')!r}"
            )
            self.fail(received.name, {"message": message})
        elif words.get("root") is not True:
            self.fail(received.name, {"message": "the runner is not root there", "fix": _NEEDS_ROOT})
        else:
            self.greeted.add(received.name)

    def fail_silent(self, step: srun.Step, name: str) -> None:
        """Report why a node sent nothing more, by its last output or srun's."""
        words = action_base.shorten(step.last_output(name))
        error = {"message": f"srun: {words}" if words else "it ended without a message"}
        if name not in self.greeted and "sudo" in words:
            error = {
                "message": f"the runner needs root, and `sudo -n` does not give it: {words}",
                "fix": _NEEDS_ROOT,
            }
        self.fail(name, error)


class _Inspect(_Step):
    """Read the facts of all nodes."""

    what, kind = agent.INSPECT, "not_inspected"

    def run(self) -> None:
        """Append a facts row for each node, and the error of each node without one."""
        for node in self.folder.plan()["nodes"]:
            if node not in self.names.values():
                self.failed[node] = f"it is not in allocation {self.held.job}"
                error = {
                    "class": "node_unreachable",
                    "message": self.failed[node],
                    "fix": "allocate it too, or leave it out with --limit",
                }
                action_base.record_node_error(self.folder, node, error)
        rows: dict[str, dict[str, Any]] = {}
        most = dict.fromkeys(self.names, intake.MOST_FACTS_BYTES)
        with self.start(most) as step:
            step.close_input()
            for received in step.messages(_INSPECT_S):
                node = self.names[received.name]
                if node in self.failed or node in rows:
                    continue
                if received.wrong:
                    self.fail(received.name, {"message": received.wrong})
                elif received.kind == agent.HELLO:
                    self.greet(received)
                    self._processors(received)
                elif received.kind == agent.ERROR:
                    self.fail(received.name, {"message": _object(received.data).get("message")})
                elif received.kind == agent.FACTS and received.name in self.greeted:
                    try:
                        found = _object(received.data, intake.MOST_FACTS_BYTES)
                        rows[node] = intake.facts_row(found, node, self.folder.name)
                    except ValueError as error:
                        self.fail(received.name, {"message": str(error)})
            for name, node in self.names.items():
                if node not in rows and node not in self.failed:
                    self.fail_silent(step, name)
        self.folder.append(run_folder.FACTS, rows.values())
        self.done = set(rows)

    def _processors(self, received: srun.Message) -> None:
        """Refuse a part of a node: the missing processors would limit the rails."""
        words = _object(received.data)
        usable, there = words.get("usable_cpus"), words.get("cpus")
        if self.part_of_node or not isinstance(usable, int) or not isinstance(there, int) or usable >= there:
            return
        if self.names[received.name] not in self.failed:
            self.fail(
                received.name,
                {
                    "message": f"the allocation has {usable} of its {there} processors",
                    "fix": "allocate whole nodes (--exclusive); where Slurm keeps processors for the system, "
                    "give -e railyard_slurm_part_of_node=true",
                },
            )


class _Measure(_Step):
    """Stage, start, keep alive, collect."""

    what, kind = agent.MEASURE, "not_collected"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._most: dict[str, archive_limits.NodeLimits] = {}
        self._progress: dict[str, dict[str, Any]] = {}
        self._warned: dict[str, list[str]] = {}

    def run(self) -> None:
        """Take each node's archive into the folder, and the error of each node without one."""
        sent = orders.split_orders(self.folder, self.names.values())
        self.failed.update(sent.refused)
        if not sent.own:
            raise srun.SrunError("no node of the allocation reported its facts, so none can be measured")
        self.names = {name: node for name, node in self.names.items() if node in sent.own}
        # What a node could not hand over of the first order comes with the second.
        of_run = self.folder.orders()
        most = self._most = {name: archive_limits.of_node(of_run, node) for name, node in self.names.items()}
        lease_s = float(sent.common["policy"]["lease_s"])
        message = {
            "common": sent.common,
            "nodes": {name: sent.own[node] for name, node in self.names.items()},
            "secret": self.folder.secret(),
            "controller": orders.controller_name(),
            "deadline_s": sent.deadline_s,
        }
        limit_s = sent.deadline_s + _STAGE_S + _HAND_OVER_S
        with self.start({name: limits.total_bytes for name, limits in most.items()}) as step:
            step.send(json.dumps(message).encode() + b"\n")
            self._follow(step, lease_s, limit_s)
            for name, node in self.names.items():
                if node not in self.done and node not in self.failed:
                    self.fail_silent(step, name)

    def _follow(self, step: srun.Step, lease_s: float, limit_s: float) -> None:
        begun, callers = time.monotonic(), _callers()
        heard = dict.fromkeys(self.names, begun)
        staged: set[str] = set()
        ended: set[str] = set()
        started, shown_at = False, begun
        while time.monotonic() - begun < limit_s and not step.ended:
            for received in step.messages(min(5.0, lease_s / 4)):
                heard[received.name] = time.monotonic()
                if received.name not in ended and self._take(received, step, staged):
                    ended.add(received.name)
                if len(ended | step.gone) == len(heard) or (
                    not started and len(ended | staged) == len(heard)
                ):
                    break
            now = time.monotonic()
            gone = {name for name in step.gone if now - heard[name] > 2.0}
            dumb = {name for name, at in heard.items() if now - at > 2 * lease_s + 30}
            # A worker of Ansible's outlives who called it, and would go on renewing the lease.
            if ended | gone | dumb >= set(heard) or _callers() != callers:
                break
            if not started and (staged | ended | gone >= set(heard) or now - begun > _STAGE_S):
                started = True
                step.send(f"{agent.START}\n".encode())
            step.send(f"{agent.ALIVE}\n".encode())
            if now - shown_at > _SAY_EVERY_S and self._progress:
                shown_at = now
                self._show()

    def _show(self) -> None:
        """Say how far the slowest is, and whose rails look bad so far."""
        seen = min(self._progress.values(), key=lambda one: one["finished_tests"] / (one["total_tests"] or 1))
        display.display(clean_line(waiting.progress_line({**seen, "done": False})))
        for node, one in sorted(self._progress.items()):
            if one["suspects"] and one["suspects"] != self._warned.get(node):
                self._warned[node] = one["suspects"]
                display.display(clean_line(who_is_slow.so_far(node, one["suspects"])))

    def _take(self, received: srun.Message, step: srun.Step, staged: set[str]) -> bool:
        """Take a message; return whether it is the last of its node."""
        node = self.names[received.name]
        if received.wrong:
            self.fail(received.name, {"message": received.wrong})
        elif received.kind == agent.HELLO:
            self.greet(received)
        elif received.kind == agent.STAGED:
            staged.add(received.name)
        elif received.kind == agent.PROGRESS:
            words = _object(received.data)
            self._progress[node] = progress.read_progress(words, str(words.get("uptime_s")))
        elif received.kind == agent.ERROR:
            self.fail(received.name, _object(received.data))
        elif received.kind == agent.ARCHIVE and received.name in self.greeted:
            self._archive(received, step)
        return node in self.failed or node in self.done

    def _archive(self, received: srun.Message, step: srun.Step) -> None:
        node = self.names[received.name]
        place = intake.archive_path(self.folder, node)
        again = place.exists()
        try:
            atomic_files.write_bytes(str(place), received.data, owner=(os.geteuid(), os.getegid()))
            _fresh, notes = intake.take_archive(self.folder, node, None, self._most[received.name], again)
        except (harvest.ArchiveError, run_folder.RunFolderError, OSError) as error:
            self.fail(received.name, {"message": str(error)})
            return
        for note in notes:
            display.warning(f"{node}: {note}")
        self.done.add(node)
        # Only now, with the rows on our disk.
        step.send(f"{agent.TAKEN} {received.name}\n".encode())


def _callers() -> tuple[int, ...]:
    """Return who waits for this: `ansible-playbook`, and `railyard` where that has started it."""
    playbook = os.getppid()
    if _OF_RAILYARD not in os.environ:
        return (playbook,)
    return (playbook, stale_secrets.process_field(playbook, 4) or 0)


def _object(data: bytes, most_bytes: int = _MOST_WORDS_BYTES) -> dict[str, Any]:
    """Return a node's words as an object; an empty one for anything else, too long words among it."""
    rows, _torn = json_lines.parse_lines(data) if len(data) <= most_bytes else ([], False)
    return rows[0] if rows else {}
