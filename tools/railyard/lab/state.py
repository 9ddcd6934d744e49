"""What a lab has to remember: its topology, its faults and its speed.

All else is looked up where it really is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils import owner_lock
from ansible_collections.railyard.fabric.plugins.module_utils.atomic_files import write_file

from railyard.base.errors import BAD_INPUT
from railyard.lab import naming, speed
from railyard.lab.process import LabError

SCHEMA = 1


@dataclass(frozen=True)
class Fault:
    """One injected fault; `undo` holds what `heal` needs to restore exactly what was before."""

    kind: str
    target: str
    since: str
    undo: dict[str, Any] = field(default_factory=dict)


@dataclass
class State:
    """The content of `.lab/<name>/state.json`."""

    name: str
    topology: str
    faults: list[Fault] = field(default_factory=list)
    torn: bool = False
    speed: speed.Speed | None = None


def file_of(lab: str) -> Path:
    """Return the state file of a lab."""
    return naming.lab_dir(lab) / "state.json"


def load(lab: str) -> State | None:
    """Return the state of a lab, or None when it has none.

    A file that cannot be read (torn by a crash, edited by hand) gives a state without faults and `torn` set:
    the lab is still there, and `up` finds it by looking.
    """
    try:
        data = json.loads(file_of(lab).read_text(encoding="utf-8"))
        faults = [Fault(**fault) for fault in data["faults"]]
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']}")
        return State(str(data["name"]), str(data["topology"]), faults, speed=speed.load(data.get("speed")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return State(lab, "", torn=True)


def time_factor(lab: str) -> float:
    """Return by how much a lab's time limits are longer than usual; 1 where its speed was not measured."""
    record = load(lab)
    return record.speed.time_factor if record is not None and record.speed is not None else 1.0


def save(state: State) -> None:
    """Write the state so that a crash leaves the old file or the new one."""
    data = {"schema": SCHEMA, **asdict(state)}
    del data["torn"]
    write_file(str(file_of(state.name)), json.dumps(data, indent=2, sort_keys=True) + "\n", 0o644)


@contextmanager
def locked(lab: str) -> Iterator[None]:
    """Hold a lab alone; the kernel lets go when this process ends, however it ends.

    Raises:
        LabError: somebody else holds it.
    """
    path = naming.lab_root() / ".locks" / f"{lab}.lock"
    with ExitStack() as held:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = held.enter_context(owner_lock.held(path, patience_s=0))
        except owner_lock.LockedError as error:
            holder = path.read_text(errors="replace").strip() or error.holder or "unknown"
            raise LabError(
                f"another `railyard lab` command works on lab {lab} (process {holder})",
                "wait for it to end, or stop it with Ctrl-C where it runs",
                BAD_INPUT,
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
