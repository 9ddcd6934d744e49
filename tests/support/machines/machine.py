# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine of the gallery: its node, its healthy figures, what is expected of it, and its sick variants."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from support.machines import fields, model
from support.machines.fields import DataError, key, load, merged
from support.machines.model import Text

#: Where an expectation is looked for: each names a part of Railyard that runs on the node or on its results.
Stage = Literal[
    "preflight", "bind", "judge", "quick", "gpu_info", "roce_qos", "kernel_settings", "nccl", "end_state"
]
STAGES = get_args(Stage)
NVIDIA = Path(__file__).resolve().parents[2] / "machines/nvidia.yml"
Finding = Literal["R1", "R2", "R3", "R4", "R5", "R11", "J2"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What a healthy machine reaches: bandwidth or latency."""

    gbps: float | None = None
    us: float | None = None
    source: str
    is_assumed: bool = key("assumed", False)

    def complain(self, where: str) -> None:
        """Complain where there is no number."""
        if self.gbps is None and self.us is None:
            raise DataError(f"{where}: write gbps or us")

    @property
    def value(self) -> float | None:
        """Return the number."""
        return self.us if self.gbps is None else self.gbps


@dataclass(frozen=True, kw_only=True)
class Change:
    """What results report in place of healthy ones: values by key path, `gbps` or `us` with its counters."""

    check: str
    rail: str | None = None
    node: str | None = None
    end: Literal["client", "server"] | None = None
    gbps: float | None = None
    us: float | None = None
    values: dict[str, Any] = field(default_factory=dict, metadata={"key": "set"})


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What has to come out: at which stage, for which check, with which cause or words."""

    stage: Stage = "judge"
    outcome: Literal["fail", "unmeasured", "refused"] = "fail"
    cause: str | None = None
    check: str | None = None
    words: str | None = None
    known_fault: Finding | None = None


def _causes(value: object, where: str) -> list[Cause]:
    """Read one cause or a list of them."""
    causes = [fields.read(Cause, one, where) for one in (value if isinstance(value, list) else [value])]
    if not causes:
        raise DataError(f"{where}: nothing is expected; say what has to come out")
    if any(one.cause is None and one.words is None for one in causes):
        raise DataError(f"{where}: write the cause or words that name it")
    return causes


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A sick machine: what differs from the healthy one, on which nodes, and what has to come out."""

    what: str
    source: str
    over: dict[str, Any] = field(default_factory=dict, metadata={"key": "node"})
    inventory: dict[str, Any] = field(default_factory=dict)
    counters: dict[str, Any] = field(default_factory=dict)
    results: list[Change] = field(default_factory=list)
    on_nodes: list[int] = field(default_factory=lambda: [2])
    expect: Annotated[list[Cause], _causes]

    def complain(self, where: str) -> None:
        """Complain where it is the healthy machine."""
        if not (self.over or self.inventory or self.counters or self.results):
            raise DataError(f"{where}: it changes nothing; give node, inventory, counters or results")


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a healthy machine has to come to."""

    hcas: dict[str, Text]
    nccl: dict[str, Text | None] = field(default_factory=dict)
    roce_qos: Literal["set", "refused", "not_asked"] = "not_asked"
    roce_qos_words: str | None = None
    gpus: int = 0
    findings: list[str] = field(default_factory=list)
    known_faults: dict[Stage, Finding] = field(default_factory=dict)


@dataclass(frozen=True)
class NotVisible:
    """What no variant can show, and why."""

    what: str
    why: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A folder of tests/machines."""

    title: str = key("machine")
    driver: str
    stack: Literal["inbox", "vendor"]
    sources: dict[str, str] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)
    data: dict[str, Any] = field(metadata={"key": "node"})
    expected: Expected
    variants: dict[str, Variant]
    not_visible: list[NotVisible] = field(default_factory=list)
    #: Not of the data: where it lies.
    folder: Annotated[Path, lambda value, _where: value]

    @property
    def name(self) -> str:
        """Return the machine's name, which is its folder's."""
        return self.folder.name

    @functools.cached_property
    def node(self) -> model.Node:
        """Return the healthy node."""
        return model.read_node(self.data, f"{self.name}/machine.yml.node", self.folder)

    def with_changes(self, variant: Variant) -> model.Node:
        """Return the node with a variant's changes."""
        where = f"{self.name}: variant {variant.what!r}"
        return model.read_node(merged(self.data, variant.over), where, self.folder)


def load_data(folder: Path) -> dict[str, Any]:
    """Load a machine's file, with all GPUs that the driver `nvidia` has and what they print when healthy."""
    data = load(folder / "machine.yml")
    node = data.get("node") or {}
    if nvidia := node.get("nvidia"):
        healthy = load(NVIDIA)["fields"]
        nvidia["fields"] = {**healthy, **nvidia.get("fields", {})}
        nvidia["gpus"] = {
            address: {} for address, one in node["pci"].items() if one.get("driver") == "nvidia"
        }
    return data


def read(folder: Path) -> Machine:
    """Read a machine's folder.

    Raises:
        DataError: names file and key of what is wrong.
    """
    data = load_data(folder)
    machine = fields.read(Machine, {**data, "folder": folder}, f"{folder.name}/machine.yml")
    assert machine.node
    for variant in machine.variants.values():
        machine.with_changes(variant)
    return machine
