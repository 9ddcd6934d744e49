"""The tables of docs/machines.md: what tests/machines has of each machine type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from railyard.base import paths

_FOLDER = paths.repo_root() / "tests/machines"
# Of each machine, by tests/tools/machines.
_ALWAYS = "inventory, binding, verdicts, quick check, GPUs, kernel settings, NCCL profile, end state"


def _all() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each machine's folder and its data."""
    for path in sorted(_FOLDER.glob("*/machine.yml")):
        yield path.parent.name, yaml.safe_load(path.read_text(encoding="utf-8"))


def _cell(text: object) -> str:
    return " ".join(str(text).split()).replace("|", "/")


def tested() -> Iterator[tuple[str, ...]]:
    """Yield a row for each machine: what it is, what was checked, and the source."""
    yield "machine", "driver and names", "checked", "healthy figures", "sources", "how"
    for name, machine in _all():
        expected = machine["expected"]
        qos = {"set": ", RoCE QoS", "refused": ", RoCE QoS (refused)"}.get(expected.get("roce_qos", ""), "")
        faults = expected.get("known_faults") or {}
        open_faults = "".join(f"; not yet: {stage} ({fault})" for stage, fault in faults.items())
        yield (
            f"`{name}`: {_cell(machine['machine'])}",
            f"{machine['driver']}, {machine['stack']}",
            f"{_ALWAYS}{qos}{open_faults}",
            "; ".join(_figure(check, one) for check, one in (machine.get("figures") or {}).items())
            or "assumed: 90 % of the narrower of port rate and PCIe link",
            _cell("; ".join(f"{of}: {text}" for of, text in machine["sources"].items())),
            "on stand-ins",
        )


def _figure(check: str, one: Mapping[str, Any]) -> str:
    value = f"{one['gbps']:g} Gbit/s" if "gbps" in one else f"{one['us']:g} us"
    return _cell(f"{check} {value} ({'assumed' if one.get('assumed') else one['source']})")


def variants() -> Iterator[tuple[str, ...]]:
    """Yield a row for each sick variant: the fault, what has to come out, and the source."""
    yield "machine", "fault", "what comes out", "source"
    for name, machine in _all():
        for variant, one in machine["variants"].items():
            expect = one["expect"] if isinstance(one["expect"], list) else [one["expect"]]
            yield f"`{name}`", f"`{variant}`: {_cell(one['what'])}", _expected(expect), _cell(one["source"])


def _expected(expect: list[Mapping[str, Any]]) -> str:
    found = []
    for one in expect:
        where = one.get("check") or one.get("stage", "judge")
        cause = f"`{one['cause']}`" if "cause" in one else f'"{one["words"]}"'
        fault = f" (not yet: {one['known_fault']})" if "known_fault" in one else ""
        found.append(f"{where}: {one.get('outcome', 'fail')}, {cause}{fault}")
    return _cell("; ".join(found))


def not_visible() -> Iterator[tuple[str, ...]]:
    """Yield a row for each published fault that Railyard cannot see, with the reason."""
    yield "machine", "fault", "not visible to Railyard, because", "source"
    for name, machine in _all():
        for one in machine.get("not_visible") or ():
            yield f"`{name}`", _cell(one["what"]), _cell(one["why"]), _cell(one["source"])
