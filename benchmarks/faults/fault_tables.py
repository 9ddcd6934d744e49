"""The campaign's results as Markdown: each case (README.md), and each kind of fault (docs/faults.md)."""

from __future__ import annotations

from typing import Any

from fault_cases import CASES, WANTED, Case, target_of

Line = dict[str, Any]
_HEAD = """<!-- Made by benchmarks/faults/campaign.py --docs from its results; do not edit. -->
# Faults, and how they are reported

Each line is a fault that was made on a healthy lab, and what `railyard validate` reported: the exit status,
the verdicts at its place, and the cause that names it ([what to do next](troubleshooting.md)). The labs are
four containers and two VMs with two rails each, shaped to a declared rate (the VMs since 2026-11-24).
[benchmarks/faults](../benchmarks/faults/README.md) describes each run. A fault without a line has not been
run yet, and faults that only a card can show are not included. The messages are those of the run's date.

| fault | lab | run | exit | verdict | cause |
|---|---|---|---:|---|---|
"""


def is_of(line: Line, case: Case) -> bool:
    """Tell whether a line of the results is of a case."""
    return (line["lab"], line["case"], line["repeat"]) == (case.lab, case.name, case.number)


def table(results: list[Line]) -> str:
    """Return all cases: of one that was run again the last run, and how many there were."""
    lines = [
        "| lab | case | good | runs | last | load | exit | first report |",
        "|---|---|---|---:|---|---:|---:|---|",
    ]
    healthy: dict[str, list[list[Line]]] = {}
    for case in CASES:
        ones = [one for one in results if is_of(one, case)]
        if not ones:
            continue
        if not case.faults:
            healthy.setdefault(case.lab, []).append(ones)
            continue
        one = ones[-1]
        said = "; ".join(next(iter(causes), "**not found**") for causes in one["found"].values())
        good, load, day = "yes" if one["good"] else "NO", one.get("load", ""), one["at"][:10]
        cells = (
            case.lab,
            case.name,
            good,
            len(ones),
            day,
            load,
            one["exit_status"],
            said.replace("|", "\\|"),
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    for lab, runs in healthy.items():
        last = [ones[-1] for ones in runs]
        good_runs, loads = sum(one["good"] for one in last), [one.get("load", 0.0) for one in last]
        said = "; ".join(text for one in last for text in one["not_good"][:1]) or "no finding"
        exits = ", ".join(sorted({str(one["exit_status"]) for one in last}))
        lines.append(
            f"| {lab} | healthy, {len(runs)} times | {good_runs} of {len(runs)} | {sum(map(len, runs))} "
            f"| {max(one['at'] for one in last)[:10]} | {min(loads)} to {max(loads)} | {exits} | {said} |"
        )
    return "\n".join(lines)


def documentation(results: list[Line]) -> str:
    """Return docs/faults.md: of each kind of fault in each lab the first case that was made alone."""
    rows: dict[tuple[str, str], str] = {}
    for case in CASES:
        last = next((one for one in reversed(results) if is_of(one, case)), None)
        if len(case.faults) != 1 or last is None:
            continue
        kind, _target = target_of(case.faults[0])
        wanted = WANTED[kind]
        classes = ", ".join(f"`{name}`" for name in last.get("causes", {}).get(case.faults[0], ()) if name)
        day, status = last["at"][:10], last["exit_status"]
        said = (last["found"][case.faults[0]] or ["**not found**"])[0].replace("|", "\\|")
        cause = f"{classes}: {said}" if classes else said
        rows.setdefault(
            (kind, case.lab),
            f"| {wanted.what} | {case.lab} | {day} | {status} | {wanted.outcome} | {cause} |",
        )
    return (
        _HEAD
        + "\n".join(rows[key] for key in sorted(rows, key=lambda key: list(WANTED).index(key[0])))
        + "\n"
    )
