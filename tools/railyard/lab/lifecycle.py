"""Bringing a lab up, mending what is left of one, and taking it down.

`up` and `down` look at what is really there and go on from it; so a second `up`, or a `down` after a kill -9,
needs no record of how far the first one came.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import FrameType

from railyard.lab import apt, faults, host, image, keys, naming, network, seed, state
from railyard.lab.nodes import NodeKind, NodeState
from railyard.lab.nodes.container import ContainerKind
from railyard.lab.process import LabError, run
from railyard.lab.topology import Node, Topology
from railyard.lab.wiring import Lab, await_ready, plug_in
from railyard.paths import repo_root

Say = Callable[[str], None]
_ORPHAN_DEADLINE_S = 30.0


def up(topology: Topology, say: Say) -> Lab:
    """Bring a lab up, or mend it; returns when each node runs and answers SSH.

    On failure or Ctrl-C what this call made is removed; a healthy node that was there before stays.

    Raises:
        LabError: what is missing or went wrong, with lab and node.
    """
    host.require_tools()
    with state.locked(topology.name):
        lab = Lab.of(topology)
        _await_orphans(topology.name)
        before = _refuse_foreign(lab.kind.states(), topology.name)
        with _interruptible() as interrupted:
            try:
                _build(lab, before, interrupted, say)
            except BaseException:
                say("cleaning up what this call made")
                _undo(lab, before)
                raise
    return lab


def down(name: str, say: Say, *, force: bool = False) -> bool:
    """Take a lab down by its name alone, whole or half made; return whether there was anything.

    Raises:
        LabError: another checkout's lab has this name, and `force` is not set.
    """
    with state.locked(name):
        kind = ContainerKind(name, host.probe())
        _await_orphans(name)
        states = kind.states()
        if not force:
            _refuse_foreign(states, name)
        folder = naming.lab_dir(name)
        found = (
            bool(states) or folder.exists() or Path(network.namespace_path(naming.namespace(name))).exists()
        )
        with _uninterruptible():
            _thaw_hung(kind, states)
            kind.remove(sorted(states))
            network.remove_all(name)
            shutil.rmtree(folder, ignore_errors=True)
            image.clean_up()
        say(f"lab {name} is down" if found else f"lab {name} was not up; nothing to do")
        return found


def _build(lab: Lab, before: dict[str, NodeState], interrupted: Event, say: Say) -> None:
    started = time.monotonic()
    topology = lab.topology
    record = state.load(topology.name)
    if record is not None and record.torn:
        say(f"{state.file_of(topology.name)} cannot be read; going by what is really there")
    settings = apt.read(topology.image.suite)
    name = image.ensure(host.probe(), topology.image, settings, say)
    folder = naming.lab_dir(topology.name)
    keys.ensure(lab.keys.folder, topology.nodes)
    host.give_to_caller(naming.lab_root(), folder, lab.keys.folder, *lab.keys.folder.rglob("*"))
    before = _drop_outdated(lab, before, name, say)
    lab.network.ensure(folder)
    say(
        f"network ready: {', '.join(rail.name for rail in topology.rails)};"
        f" management {topology.management.subnet}"
    )
    _heal_leftovers(lab, record, before, say)
    before = lab.kind.states()  # healing may have started a node
    state.save(state.State(topology.name, str(topology.source)))
    with ThreadPoolExecutor(max_workers=min(8, len(topology.nodes))) as pool:
        jobs = {
            pool.submit(_bring_up, lab, node, name, before.get(node.name), interrupted): node
            for node in topology.nodes
        }
        try:
            for job in as_completed(jobs):
                say(f"{jobs[job].name} {job.result()}")
        except BaseException:
            interrupted.set()
            raise
    host.give_to_caller(state.file_of(topology.name))
    say(f"lab {topology.name} is up after {time.monotonic() - started:.1f} s")


def _bring_up(lab: Lab, node: Node, image_name: str, found: NodeState | None, interrupted: Event) -> str:
    """Bring one node to where it answers; return what had to be done."""
    done = []
    content = seed.files(lab.topology, node, lab.keys)
    if found is None:
        lab.kind.create(node, image_name, seed.archive(content))
        done.append("made")
    pid = found.pid if found is not None and found.pid else 0
    if not pid:
        pid = lab.kind.start(node.name)
        done.append("started")
    done.extend(f"{netdev} plugged in" for netdev in plug_in(lab, node, pid) if found is not None)
    if found is not None and found.pid and not _keys_agree(lab, node, pid):
        lab.kind.reseed(node.name, seed.archive(seed.key_files(node, lab.keys)))
        run(lab.kind.inside(pid, "systemctl", "restart", "ssh.service"))
        done.append("given new keys")
    await_ready(lab, node, interrupted)
    return "is ready" if not done else f"is ready ({', '.join(done)})"


def _keys_agree(lab: Lab, node: Node, pid: int) -> bool:
    wanted = seed.key_files(node, lab.keys)
    public = [path for path in wanted if not path.endswith("host_ed25519_key")]
    answer = run(lab.kind.inside(pid, "cat", *(f"/{path}" for path in public)), check=False).stdout
    return answer == "".join(wanted[path][2] for path in public)


def _drop_outdated(lab: Lab, before: dict[str, NodeState], image_name: str, say: Say) -> dict[str, NodeState]:
    """Remove nodes that the topology no longer has, or whose image is not the one it asks for."""
    wanted = {node.name for node in lab.topology.nodes}
    gone = sorted(
        name for name, found in before.items() if name not in wanted or image_name not in found.image
    )
    if gone:
        say(f"removing {', '.join(gone)}: no longer what {lab.topology.source.name} asks for")
        lab.kind.remove(gone)
    return {name: found for name, found in before.items() if name not in gone}


def _heal_leftovers(lab: Lab, record: state.State | None, before: dict[str, NodeState], say: Say) -> None:
    """End the faults of an earlier session: `up` promises a lab that is well."""
    _thaw_hung(lab.kind, before)
    if record is not None:
        for fault in record.faults:
            say(f"healing {fault.kind} {fault.target}, made {fault.since}")
            faults.undo_in_place(lab, fault, before)
    for name in network.stranger_namespaces(lab.name):
        network.remove_namespace(name)


def _thaw_hung(kind: NodeKind, states: dict[str, NodeState]) -> None:
    for name, found in states.items():
        if found.condition == "hung":
            kind.thaw(name)


def _refuse_foreign(states: dict[str, NodeState], lab: str) -> dict[str, NodeState]:
    for found in states.values():
        if found.checkout and found.checkout != str(repo_root()) and Path(found.checkout).is_dir():
            raise LabError(
                f"lab {lab} is run from another checkout, {found.checkout}",
                f"take it down there (`railyard lab down --name {lab}`), or here with `down --force`",
            )
    return states


def _await_orphans(lab: str) -> None:
    """Let podman calls of a killed command come to their end; they would undo what we do next."""
    deadline = time.monotonic() + _ORPHAN_DEADLINE_S
    while time.monotonic() < deadline and any(
        _is_podman_call(entry.path, lab) for entry in os.scandir("/proc")
    ):
        time.sleep(0.1)


def _is_podman_call(process: str, lab: str) -> bool:
    try:
        argv = Path(process, "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    marks = naming.container(lab, "")
    return os.path.basename(argv[0]) in ("podman", "unshare", "sh") and any(
        argument.removeprefix("--name=").startswith(marks) for argument in argv
    )


def _undo(lab: Lab, before: dict[str, NodeState]) -> None:
    with _uninterruptible():
        mine = [name for name in lab.kind.states() if name not in before]
        lab.kind.remove(mine)
        if not before:
            network.remove_all(lab.name)
            shutil.rmtree(naming.lab_dir(lab.name), ignore_errors=True)


@contextmanager
def _interruptible() -> Iterator[Event]:
    """Turn SIGTERM and SIGHUP into what Ctrl-C does, and offer an event that tells the threads."""
    interrupted = Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    old = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield interrupted
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


@contextmanager
def _uninterruptible() -> Iterator[None]:
    """Let cleaning up come to its end; whoever cannot wait has kill -9, and `down` again."""
    old = {
        number: signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
