"""Build the made-up series of a case, with the labels that a scrape gives them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: The labels of the scrape target; `instance` and `job` stay on what is not joined.
NODE = {"cluster": "c1", "node": "gpu001"}
TARGET = {**NODE, "instance": "192.0.2.11:9100", "job": "railyard-node"}
GPU_TARGET = {**NODE, "instance": "192.0.2.11:9400", "job": "railyard-gpu"}
CLUSTER = {"cluster": "c1", "instance": "192.0.2.1:9100", "job": "railyard-runs"}
#: Of a rail: by name alone, and as rules that join netdevs have it.
RAIL = {"rail": "rail3"}
PORT = {"rail": "rail3", "device": "ens9"}

Series = dict[str, str]


@dataclass
class Case:
    """One situation, and the alerts that fire in it; no other alert of the rule files may fire.

    Attributes:
        alert: the alert that the case is about.
        why: what is special about it.
        series: name, labels and values as promtool writes them.
        at: when the alerts are looked at.
        expect: alert -> its labels and summary, once for each time that it fires.
        step: between two samples and two evaluations.
    """

    alert: str
    why: str
    series: list[Series]
    at: str
    expect: dict[str, list[tuple[dict[str, str], str]]] = field(default_factory=dict)
    step: str = "15s"


@dataclass(frozen=True)
class Situation:
    """One situation of an alert: what is special about it, its series, and whether the alert fires.

    Attributes:
        at: when the alert is looked at, if not when its other situations are.
        text: what the alert's summary has here in the place of `{}`.
        labels: labels that only this situation's alert has.
    """

    why: str
    series: tuple[Series, ...]
    is_firing: bool
    at: str = ""
    text: str = ""
    labels: dict[str, str] = field(default_factory=dict)


def fires(why: str, *series: Series, **more: Any) -> Situation:
    """Return a situation in which the alert fires once."""
    return Situation(why, series, True, **more)


def quiet(why: str, *series: Series, at: str = "") -> Situation:
    """Return a situation in which no alert fires."""
    return Situation(why, series, False, at)


def alert(
    name: str, at: str, labels: dict[str, str], summary: str, *situations: Situation, step: str = "15s"
) -> list[Case]:
    """Return the cases of an alert, which has these labels and this summary where it fires."""
    cases = []
    for one in situations:
        shown = {**labels, **one.labels}, summary.replace("{}", one.text)
        expect = {name: [shown]} if one.is_firing else {}
        cases.append(Case(name, one.why, list(one.series), one.at or at, expect, step))
    return cases


def one(name: str, values: str, target: dict[str, str] = TARGET, **labels: str) -> Series:
    """Return one series."""
    body = ",".join(f'{key}="{value}"' for key, value in {**target, **labels}.items())
    return {"series": f"{name}{{{body}}}", "values": values}


def answers(steps: int) -> list[Series]:
    """Return what each node has that is scraped and has the writer."""
    return [
        one("up", f"1x{steps}"),
        one("node_network_carrier", f"1x{steps}", device="lo"),
        one("railyard_node_metrics_info", f"1x{steps}", version="1.0"),
    ]
