"""Start a lab, repair a running one, and remove it.

`up` and `down` look at what is really there and go on from it; so a second `up`, or a `down` after a kill -9,
needs no record of how far the first one came.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from threading import Event
from types import FrameType

from railyard.base.paths import repo_root
from railyard.base.signals import on_stop
from railyard.lab import (
    apt,
    bootstrap,
    faults,
    host,
    inventory,
    keys,
    machine,
    naming,
    network,
    owners,
    reference,
    seed,
    speed,
    state,
)
from railyard.lab.nodes import NodeState
from railyard.lab.process import LabError, command_lines
from railyard.lab.topology import Node, Topology
from railyard.lab.wiring import Lab, NodeKind, await_ready, kinds_of, plug_in, start

Say = Callable[[str], None]
There = Mapping[str, Mapping[str, NodeState]]  # kind → node → what was found
_ORPHAN_DEADLINE_S = 30.0


def up(topology: Topology, say: Say) -> Lab:
    """Start a lab, or repair it; return when each node runs and answers SSH.

    On failure or Ctrl-C what this call made is removed; a healthy node that was there before stays.

    Raises:
        LabError: what is missing or went wrong, with lab and node.
    """
    host.require_tools(topology.kinds)
    host.require_room(sum(node.kind == "container" for node in topology.nodes))
    with state.locked(topology.name):
        lab = Lab.from_topology(topology)
        _await_orphans(topology.name)
        before = _look(lab.kinds)
        _refuse_foreign(before, topology.name)
        lab.network.check_overlap()  # before the image, which may take minutes
        with _interruptible() as interrupted:
            try:
                _build(lab, before, interrupted, say)
            except BaseException:
                say("cleaning up what this call made")
                _undo(lab, before)
                raise
    return lab


def down(name: str, say: Say, *, force: bool = False) -> None:
    """Take a lab down by its name alone, whole or half made, and say whether there was anything.

    Raises:
        LabError: another checkout's lab has this name, and `force` is not set.
    """
    with state.locked(name):
        kinds = kinds_of(name)
        _await_orphans(name)
        there = _look(kinds)
        if not force:
            _refuse_foreign(there, name)
        found = any(there.values()) or naming.lab_dir(name).exists() or network.Namespace(name).exists()
        with _uninterruptible():
            _thaw_hung(kinds, there)
            for kind, states in there.items():
                kinds[kind].remove(sorted(states))
            _erase(name)
            bootstrap.clean_up()
        say(f"lab {name} is down" if found else f"lab {name} was not up; nothing to do")


def _look(kinds: Mapping[str, NodeKind]) -> There:
    return {name: kind.states() for name, kind in kinds.items()}


def _build(lab: Lab, before: There, interrupted: Event, say: Say) -> None:
    started = time.monotonic()
    topology = lab.topology
    record = state.load(topology.name)
    if record is not None and record.torn:
        say(f"{state.file_of(topology.name)} cannot be read; going by what is really there")
    settings = apt.read(topology.image.suite)
    images = {kind: lab.kinds[kind].ensure_image(topology.image, settings, say) for kind in topology.kinds}
    folder = naming.lab_dir(topology.name)
    keys.ensure(lab.keys.folder, topology.nodes)
    host.give_to_caller(naming.lab_root(), folder, lab.keys.folder, *lab.keys.folder.rglob("*"))
    _drop_outdated(lab, before, images, say)
    lab.network.ensure(folder)
    say(
        f"network ready: {', '.join(rail.name for rail in topology.rails)};"
        f" management {topology.management.subnet}"
    )
    _heal_leftovers(lab, record, say)
    found = lab.states()  # healing may have started a node
    state.save(state.State(topology.name, str(topology.source)))
    host.give_to_caller(state.file_of(topology.name), *inventory.write(topology))
    patience = min(speed.MOST, max(1.0, machine.cpu_slowness()))
    with ThreadPoolExecutor(max_workers=min(8, len(topology.nodes))) as pool:
        jobs = {
            pool.submit(
                _bring_up, lab, node, images[node.kind], found.get(node.name), interrupted, say, patience
            ): node
            for node in topology.nodes
        }
        try:
            for job in as_completed(jobs):
                say(f"{jobs[job].name} {job.result()}")
        except BaseException:
            interrupted.set()
            raise
    _measure_speed(lab, say)
    say(f"lab {topology.name} is up after {time.monotonic() - started:.1f} s")


def _measure_speed(lab: Lab, say: Say) -> None:
    """Measure how slow the nodes are, and write it to the lab's state and into its inventory."""
    measured = speed.measure(lab.topology.nodes, lab.keys.ssh_argv)
    say(str(measured))
    if measured.time_factor >= reference.SLOW:
        say("this machine is slow, or busy with something else: what follows takes longer than usual")
    state.save(state.State(lab.name, str(lab.topology.source), speed=measured))
    files = inventory.write(lab.topology, measured.time_factor)
    host.give_to_caller(state.file_of(lab.name), *files)


def _bring_up(
    lab: Lab,
    node: Node,
    image: str,
    found: NodeState | None,
    interrupted: Event,
    say: Say,
    patience: float,
) -> str:
    """Bring one node to where it answers; return what had to be done."""
    done = []
    kind, links = lab.kind(node), lab.network.node_links(node)
    content = seed.files(lab.topology, node, lab.keys)
    if found is None:
        kind.create(node, image, content, links)
        done.append("made")
    if found is None or not found.pid:
        start(lab, node)
        done.append("started")
    else:
        done.extend(f"{netdev} plugged in" for netdev in plug_in(lab, node))
        if not kind.carries(node, seed.key_files(node, lab.keys)):
            kind.reseed(node, content, links)
            done.append("given new keys")
    await_ready(lab, node, interrupted, say, patience)
    return "is ready" if not done else f"is ready ({', '.join(done)})"


def _drop_outdated(lab: Lab, before: There, images: Mapping[str, str], say: Say) -> None:
    """Remove nodes that the topology no longer has, of another kind, or made of something else."""
    wanted = {(node.kind, node.name): node for node in lab.topology.nodes}
    for kind, states in before.items():
        gone = []
        for name, found in sorted(states.items()):
            node = wanted.get((kind, name))
            # podman may put the registry's name before an image's.
            if node is None or lab.kinds[kind].made_of(node, images[kind]) not in found.made_of:
                gone.append(name)
        if gone:
            say(f"removing {', '.join(gone)} ({kind}): no longer what {lab.topology.source.name} asks for")
            lab.kinds[kind].remove(gone)


def _heal_leftovers(lab: Lab, record: state.State | None, say: Say) -> None:
    """End the faults of an earlier session: `up` promises a lab that is well."""
    _thaw_hung(lab.kinds, _look(lab.kinds))
    if record is not None:
        for fault in reversed(record.faults):
            say(f"healing {fault.kind} {fault.target}, made {fault.since}")
            faults.undo_in_place(lab, fault)
    for name in network.stranger_namespaces(lab.name):
        network.remove_namespace(name)


def _thaw_hung(kinds: Mapping[str, NodeKind], there: There) -> None:
    for kind, states in there.items():
        for name, found in states.items():
            if found.condition == "hung" and found.checkout in ("", str(repo_root())):
                kinds[kind].thaw(name)


def _refuse_foreign(there: There, lab: str) -> None:
    for found in (found for states in there.values() for found in states.values()):
        if owners.is_foreign(found.checkout, repo_root()):
            refusal = owners.refuse_name(lab, found.checkout)
            raise LabError(refusal.message, refusal.fix)


def _await_orphans(lab: str) -> None:
    """Let calls of a killed command come to their end; they would undo what we do next."""
    deadline = time.monotonic() + _ORPHAN_DEADLINE_S
    while time.monotonic() < deadline and any(_is_our_call(words, lab) for _pid, words in command_lines()):
        time.sleep(0.1)


def _is_our_call(words: bytes, lab: str) -> bool:
    argv = words.decode(errors="replace").split("\0")
    marks = naming.on_host(lab, "")
    return os.path.basename(argv[0]) in ("podman", "unshare", "sh", "nsenter") and any(
        argument.removeprefix("--name=").startswith(marks) for argument in argv
    )


def _undo(lab: Lab, before: There) -> None:
    with _uninterruptible():
        for kind, states in _look(lab.kinds).items():
            lab.kinds[kind].remove([name for name in states if name not in before[kind]])
        if not any(before.values()):
            _erase(lab.name)


def _erase(name: str) -> None:
    """Remove all of a lab but its nodes."""
    network.remove_all(name)
    inventory.remove(name)
    shutil.rmtree(naming.lab_dir(name), ignore_errors=True)


@contextmanager
def _interruptible() -> Iterator[Event]:
    """Turn SIGTERM and SIGHUP into what Ctrl-C does, and offer an event that tells the threads."""
    interrupted = Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    with on_stop(stop):
        yield interrupted


def _uninterruptible() -> AbstractContextManager[None]:
    """Ignore signals until the clean-up ends; after kill -9, run `down` again."""
    return on_stop(signal.SIG_IGN)
