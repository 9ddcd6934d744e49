"""Simulate clusters with many faults at once, and count which of them the isolation names, and what else.

python benchmarks/isolation/measure.py run SERIES [--seeds 0-199]   # goes on where it was stopped
python benchmarks/isolation/measure.py table                        # Markdown, from results.jsonl
python benchmarks/isolation/measure.py show SERIES SEED             # what was missed, and what was wrong

SERIES is one of those in `SERIES` below. A line of results.jsonl is one simulated run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tools")]

from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds
from railyard.simulate import cluster, command

RESULTS = Path(__file__).with_name("results.jsonl")
KINDS = ("node", "node_rail", "rail", "leaf", "pair")
KEYS = ("kind", "node", "rail", "peer", "leaf")
#: Of each kind at most so many faults; one in ten leaves nothing, the others 0 to 0.8 of the rate.
MOST, DEAD, SHARE = 8, 0.1, 0.8


class Series(NamedTuple):
    """A cluster and how it is measured; `narrowest`: see railyard.simulate.faults.Shares."""

    nodes: int
    rails: int
    pattern: str
    narrowest: bool = False


SERIES = {
    "all_pairs_232": Series(232, 8, "all_pairs"),
    "auto_1024": Series(1024, 8, "auto"),
    "all_pairs_1024": Series(1024, 8, "all_pairs"),
    "narrowest_232": Series(232, 8, "all_pairs", narrowest=True),
    "narrowest_auto_1024": Series(1024, 8, "auto", narrowest=True),
    "auto_64": Series(64, 8, "auto"),
    "auto_15": Series(15, 2, "auto"),
}


def faults(series: Series, seed: int) -> list[str]:
    """Return a mix of faults, as `--fault` takes them; of pairs only those that meet in the pattern."""
    made = cluster.make(series.nodes, series.rails, None, series.pattern)
    draw = random.Random(f"{seed}")  # noqa: S311 - a repeatable draw
    met = None
    if series.pattern == cluster.AUTO:
        met = [(one.node, one.peer) for one in rounds.meetings(made.order)]
    names: set[str] = set()
    for kind in KINDS:
        for _ in range(draw.randint(0, MOST)):
            rail = draw.choice(made.rails)
            both = draw.choice(met) if met else sorted(draw.sample(made.nodes, 2), key=made.nodes.index)
            names.add(
                {
                    "node": f"node:{both[0]}",
                    "node_rail": f"node_rail:{both[0]}/{rail}",
                    "rail": f"rail:{rail}",
                    "leaf": f"leaf:{draw.choice(list(made.leaves))}",
                    "pair": f"pair:{both[0]},{both[1]}/{rail}",
                }[kind]
            )
    shares = (0.0 if draw.random() < DEAD else draw.uniform(0.0, SHARE) for _ in names)
    return [f"{name}@{share:.3f}" for name, share in zip(sorted(names), shares, strict=True)]


def part(one: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a fault or a suspect is about."""
    return tuple(one[key] for key in KEYS)


def score(result: dict[str, Any]) -> dict[str, Any]:
    """Return of each kind [named rightly, to be named, named, named though hidden], and what differs."""
    wanted = {part(one["seen_as"]) for one in result["injected"] if one["seen_as"]}
    hidden = {part(one) for one in result["injected"]} - wanted
    named = {part(one) for one in result["suspects"]}
    counts = {
        kind: [
            sum(one[0] == kind for one in group)
            for group in (wanted & named, wanted, named - hidden, named & hidden)
        ]
        for kind in KINDS
    }
    return {
        "counts": counts,
        "missed": sorted(map(str, wanted - named)),
        "wrong": sorted(map(str, named - wanted - hidden)),
    }


def run(name: str, seeds: range, path: Path) -> None:
    """Simulate each seed that has no result yet, and append it."""
    done = {(one["series"], one["seed"]) for one in results(path)}
    series = SERIES[name]
    for seed in seeds:
        if (name, seed) in done:
            continue
        mix, start = faults(series, seed), time.process_time()
        result, _ = command.simulate(
            series.nodes, series.rails, seed, series.pattern, fault=mix, narrowest=series.narrowest
        )
        line = {
            "series": name,
            "seed": seed,
            "faults": len(mix),
            **{key: result[key] for key in ("tests", "rounds", "confirming_rounds", "modelled_minutes")},
            **score(result),
            "cannot_tell": len(result["cannot_tell"]),
            "cpu_s": round(time.process_time() - start, 2),
            "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        }
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
        print(name, seed, f"{line['cpu_s']} s", line["missed"], line["wrong"], flush=True)


def results(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the results that are there; a torn last line is not one."""
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            yield json.loads(text)
        except ValueError:
            print("a torn line is left out", file=sys.stderr)


def table(path: Path) -> None:
    """Print recall and precision of each series and kind, and what the runs take."""
    print(
        "| series | runs | kind | to be named | recall | precision | tests | rounds | modelled min | CPU s |"
    )
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    by_series: dict[str, list[dict[str, Any]]] = {}
    for one in results(path):
        by_series.setdefault(one["series"], []).append(one)
    for name, lines in by_series.items():
        total: dict[str, Counter[int]] = {kind: Counter() for kind in KINDS}
        for one in lines:
            for kind, counts in one["counts"].items():
                total[kind].update(dict(enumerate(counts)))
        for row, kind in enumerate(KINDS):
            good, wanted, named, _hidden = (total[kind][column] for column in range(4))
            cells = [name, str(len(lines))] if not row else ["", ""]
            cells += [kind, str(wanted), f"{good / max(wanted, 1):.4f}", f"{good / max(named, 1):.4f}"]
            cells += [
                _range(lines, key) if not row else ""
                for key in ("tests", "rounds", "modelled_minutes", "cpu_s")
            ]
            print("| " + " | ".join(cells) + " |")


def _range(lines: list[dict[str, Any]], key: str) -> str:
    values = sorted(one[key] for one in lines)
    return f"{values[len(values) // 2]:,} ({values[0]:,} to {values[-1]:,})"


def show(name: str, seed: int) -> None:
    """Print one run in full."""
    series = SERIES[name]
    mix = faults(series, seed)
    result, _ = command.simulate(
        series.nodes, series.rails, seed, series.pattern, fault=mix, narrowest=series.narrowest
    )
    print(json.dumps(result, indent=1), json.dumps(score(result), indent=1))


def main() -> None:
    """Run, print a table, or show one run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "table", "show"))
    parser.add_argument("series", nargs="?", choices=sorted(SERIES))
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("--seeds", default="0-199", help="FIRST-LAST")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.what == "table":
        table(options.results)
    elif options.series is None:
        parser.error("name a series")
    elif options.what == "show":
        show(options.series, options.seed)
    else:
        first, _, last = options.seeds.partition("-")
        run(options.series, range(int(first), int(last or first) + 1), options.results)


if __name__ == "__main__":
    main()
