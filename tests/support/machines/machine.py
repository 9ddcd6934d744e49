# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine of the gallery: its node, its healthy figures, what is expected of it, and its sick variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.machines import model
from support.machines.fields import DataError, Fields, load, merged

#: Where an expectation is looked for: each names a part of Railyard that runs on the node or on its results.
STAGES = (
    *("preflight", "bind", "judge", "quick", "gpu_info", "roce_qos", "kernel_settings", "nccl", "end_state"),
)
OUTCOMES = ("fail", "unmeasured", "refused")
FINDINGS = ("R1", "R2", "R3", "R4", "R5", "R11", "J2")


@dataclass(frozen=True)
class Figure:
    """What a healthy machine reaches."""

    value: float
    source: str
    is_assumed: bool


@dataclass(frozen=True)
class Change:
    """What results report in place of healthy ones: values by key path, `gbps` or `us` with its counters."""

    check: str
    rail: str | None
    node: str | None
    end: str | None
    gbps: float | None
    us: float | None
    values: dict[str, Any]


@dataclass(frozen=True)
class Cause:
    """What has to come out: at which stage, for which check, with which cause or words."""

    stage: str
    outcome: str
    cause: str | None
    check: str | None
    words: str | None
    known_fault: str | None


@dataclass(frozen=True)
class Variant:
    """A sick machine: what differs from the healthy one, on which nodes, and what has to come out."""

    name: str
    what: str
    source: str
    over: Mapping[str, Any]
    inventory: Mapping[str, Any]
    counters: Mapping[str, Any]
    results: list[Change]
    on_nodes: list[int]
    expect: list[Cause]


@dataclass(frozen=True)
class Expected:
    """What a healthy machine has to come to."""

    hcas: dict[str, str]
    nccl: dict[str, str | None]
    roce_qos: str
    roce_qos_words: str | None
    gpus: int
    findings: list[str]
    known_faults: dict[str, str]


@dataclass(frozen=True)
class Machine:
    """A folder of tests/machines."""

    name: str
    folder: Path
    title: str
    driver: str
    stack: str
    sources: dict[str, str]
    figures: dict[str, Figure]
    data: Mapping[str, Any]
    node: model.Node
    expected: Expected
    variants: dict[str, Variant]
    not_visible: list[dict[str, str]]

    def with_changes(self, variant: Variant) -> model.Node:
        """Return the node with a variant's changes."""
        return model.read_node(
            merged(self.data, variant.over), f"{self.folder.name}: variant {variant.name}", self.folder
        )


def read(folder: Path) -> Machine:
    """Read a machine's folder.

    Raises:
        DataError: names file and key of what is wrong.
    """
    path = folder / "machine.yml"
    fields = Fields(load(path), f"{folder.name}/machine.yml")
    where = fields.where
    machine = Machine(
        name=folder.name,
        folder=folder,
        title=fields.take("machine", str),
        driver=fields.take("driver", str),
        stack=fields.word("stack", ("inbox", "vendor")),
        sources=fields.each("sources", _word),
        figures=fields.each("figures", _figure),
        data=(data := fields.take("node", dict)),
        node=model.read_node(data, f"{where}.node", folder),
        expected=_expected(fields.take("expected", dict), f"{where}.expected"),
        variants={},
        not_visible=fields.listed("not_visible", _not_visible),
    )
    machine.variants.update(
        {
            name: _variant(name, one, f"{where}.variants.{name}")
            for name, one in fields.take("variants", dict).items()
        }
    )
    fields.done()
    for name, variant in machine.variants.items():
        machine.with_changes(variant)
        if not variant.expect:
            raise DataError(f"{where}.variants.{name}.expect: nothing is expected; say what has to come out")
    return machine


def _word(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{where}: must be a text, not {value!r}")
    return value


def _figure(value: object, where: str) -> Figure:
    fields = Fields(value, where)
    number = fields.take("gbps", float, None)
    number = fields.take("us", float, None) if number is None else number
    if number is None:
        raise DataError(f"{where}: write gbps or us")
    figure = Figure(number, fields.take("source", str), fields.take("assumed", bool, False))
    fields.done()
    return figure


def _expected(value: object, where: str) -> Expected:
    fields = Fields(value, where)
    faults = fields.take("known_faults", dict, {})
    for stage, finding in faults.items():
        if stage not in STAGES or finding not in FINDINGS:
            raise DataError(f"{where}.known_faults.{stage}: write one of {STAGES} and one of {FINDINGS}")
    expected = Expected(
        hcas={name: str(one) for name, one in fields.take("hcas", dict).items()},
        nccl={name: None if one is None else str(one) for name, one in fields.take("nccl", dict, {}).items()},
        roce_qos=fields.word("roce_qos", ("set", "refused", "not_asked"), "not_asked"),
        roce_qos_words=fields.take("roce_qos_words", str, None),
        gpus=fields.take("gpus", int, 0),
        findings=fields.listed("findings", _word),
        known_faults={str(stage): str(one) for stage, one in faults.items()},
    )
    fields.done()
    return expected


def _not_visible(value: object, where: str) -> dict[str, str]:
    fields = Fields(value, where)
    found = {key: fields.take(key, str) for key in ("what", "why", "source")}
    fields.done()
    return found


def _variant(name: str, value: object, where: str) -> Variant:
    fields = Fields(value, where)
    expect = fields.take("expect", (list, dict))
    causes = expect if isinstance(expect, list) else [expect]
    variant = Variant(
        name=name,
        what=fields.take("what", str),
        source=fields.take("source", str),
        over=fields.take("node", dict, {}),
        inventory=fields.take("inventory", dict, {}),
        counters=fields.take("counters", dict, {}),
        results=fields.listed("results", _change),
        on_nodes=[int(one) for one in fields.take("on_nodes", list, [2])],
        expect=[_cause(one, f"{where}.expect") for one in causes],
    )
    fields.done()
    if not (variant.over or variant.inventory or variant.counters or variant.results):
        raise DataError(f"{where}: it changes nothing; give node, inventory, counters or results")
    return variant


def _change(value: object, where: str) -> Change:
    fields = Fields(value, where)
    change = Change(
        check=fields.take("check", str),
        rail=fields.take("rail", str, None),
        node=fields.take("node", str, None),
        end=fields.word("end", ("client", "server"), None),
        gbps=fields.take("gbps", float, None),
        us=fields.take("us", float, None),
        values=fields.take("set", dict, {}),
    )
    fields.done()
    return change


def _cause(value: object, where: str) -> Cause:
    fields = Fields(value, where)
    cause = Cause(
        stage=fields.word("stage", STAGES, "judge"),
        outcome=fields.word("outcome", OUTCOMES, "fail"),
        cause=fields.take("cause", str, None),
        check=fields.take("check", str, None),
        words=fields.take("words", str, None),
        known_fault=fields.word("known_fault", FINDINGS, None),
    )
    fields.done()
    if cause.cause is None and cause.words is None:
        raise DataError(f"{where}: write the cause or words that name it")
    return cause
