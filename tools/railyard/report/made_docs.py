"""Write the tables in docs/ that are made from the code: `python -m railyard.report.made_docs [--check]`.

A table is between `<!-- table NAME -->` and `<!-- end -->`; all around it is written by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from railyard.base import paths
from railyard.report import machines

# Ansible reads its configuration when it is imported.
os.environ.setdefault("ANSIBLE_CONFIG", str(paths.repo_root() / "ansible.cfg"))

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import nic_drivers, rdma_counters
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import Check
from ansible_collections.railyard.fabric.plugins.module_utils.rules import symbol_errors
from ansible_collections.railyard.fabric.plugins.module_utils.schedule.policy_keys import KEYS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import figures, minimum_versions
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, RDMA_LATENCY
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import schema
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import formulas
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.end_rules import list_end_rules
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.pair_rules import (
    NOTHING_LOST,
    list_pair_rules,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.rule import Lookup, Rule
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.causes import CAUSES

DOCS = paths.repo_root() / "docs"
NAMES = (
    "troubleshooting.md", "inventory.md", "figures.md", "drivers.md", "machines.md", "rules.md",
    "clustermax.md",
)  # fmt: skip
ENDS = ("client", "server")


def causes() -> Iterator[tuple[str, ...]]:
    """Yield the cause table's rows."""
    yield "`cause_class`", "what it means", "likely cause", "see", "what to do"
    for cause in CAUSES.values():
        yield f"`{cause.name}`", cause.sentence, cause.likely, f"`{cause.command}`", cause.next


def fields(of: Mapping[str, schema.Field]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of one mapping's keys."""
    yield "key", "meaning"
    for name, field in of.items():
        yield f"`{name}`", field.meaning


def policy_keys() -> Iterator[tuple[str, ...]]:
    """Yield the rows of `fabric_policy`."""
    yield "key", "default", "allowed", "meaning"
    for name, key in KEYS.items():
        words = {"switch": "`true`, `false`", "path": "an absolute path", "own": "as its meaning says"}
        allowed = words.get(key.kind)
        shown = json.dumps(key.default).replace('"', "")
        numbers = f"{key.least:.15g} to {key.most:.15g}" + (", whole" if key.kind == "whole" else "")
        yield f"`{name}`", f"`{shown}`" if shown else "empty", allowed or numbers, key.meaning


def rules(of: Callable[[Check], Sequence[Rule | Lookup]]) -> Iterator[tuple[str, ...]]:
    """Yield the conditions of a good test between two nodes, and the checks that have them."""
    tests = [one for one in CHECKS.values() if one.source == "test"]
    groups = {
        "all": {one.name for one in tests},
        "all RDMA checks": {one.name for one in tests if one.rdma},
        "RDMA bandwidth checks": {one.name for one in tests if formulas.is_rdma_bandwidth(one.name)},
        "RDMA latency checks": set(RDMA_LATENCY),
        "latency checks": {one.name for one in tests if "latency_p50_us" in one.client},
    }
    found: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for check in tests:
        for rule in of(check):
            names, checks = found.setdefault(rule.what, ({}, {}))
            names |= dict.fromkeys([f"`{rule.of}`"] if rule.of and rule.of not in ENDS else [])
            checks[check.name] = None
    yield "rule", "fields", "checks"
    for what, (names, checks) in found.items():
        group = next((name for name, members in groups.items() if members == set(checks)), None)
        yield what, ", ".join(names) or "-", group or ", ".join(f"`{name}`" for name in checks)


def catalogue(group: str) -> Iterator[tuple[str, ...]]:
    """Yield the rows of one group of figures, without the columns that say nothing in any of them."""
    rows = [("figure", "of", "value", "message", "source", "read by", "note")]
    for name, row in figures.FIGURES.items():
        if row["group"] == group:
            value = "none" if row["value"] is None else f"{figures.read_value(name):.6g} {row['unit']}"
            size = "-" if row["message_bytes"] is None else f"{row['message_bytes']} bytes"
            reader = "-" if row["read_by"] == figures.NOTHING else f"`plugin_utils/{row['read_by']}`"
            what = f"`{name}`: {row['what']}"
            rows.append((what, row["class"], value, size, row["source"], reader, row["note"] or "-"))
    kept = [place for place in range(len(rows[0])) if any(row[place] != "-" for row in rows[1:])]
    yield from (tuple(row[place] for place in kept) for row in rows)


def permitted_symbol_errors() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the symbol errors that a link may have."""
    yield "link", "errors per bit", "in an hour, up to", "source"
    for limit in symbol_errors.LIMITS:
        bounds = (
            f"above {limit.above_gbps:g}" if limit.above_gbps else "",
            f"up to {limit.to_gbps:g}" if limit.to_gbps else "",
        )
        rates = f"{' '.join(filter(None, bounds))} Gbit/s"
        link = f"{rates}, FEC with PLR" if limit.with_plr else rates
        example_gbps = limit.to_gbps or 400
        permitted = limit.ratio * example_gbps * 1e9 * 3600
        yield link, f"{limit.ratio:.0e}", f"{permitted:.4g} at {example_gbps:g} Gbit/s", limit.source


def drivers() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the RDMA drivers."""
    yield (
        "driver",
        "cards",
        "`device/driver`",
        "bytes sent",
        "packets sent",
        "width",
        "refresh",
        "QoS",
        "notes",
        "source",
    )
    for row in nic_drivers.DRIVERS:
        links = ", ".join(f"`{link}`" for link in row.links)
        sent = [f"none: {row.why_not}", "none"]
        width = refresh = "-"
        if row.traffic is not None:
            sent = [_files(row.traffic, row.traffic.bytes[0]), _files(row.traffic, row.traffic.packets[0])]
            width = f"{row.width_bits} bits, {row.at_greatest}"
            refresh = f"{row.lifespan_ms} ms" if row.lifespan_ms else "at each read"
        qos = ", ".join(f"`{way}`" for way in row.qos) or f"none: {row.qos_otherwise}"
        notes = f"{row.quirks} perftest runs with -c {row.connection}." if row.connection else row.quirks
        yield f"`{row.name}`", row.cards, links, *sent, width, refresh, qos, notes, row.source


def minimums() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the minimum versions."""
    yield "component", "branch", "minimum", "bulletin", "released", "CVE"
    for kind in minimum_versions.COMPONENTS.values():
        for one in kind["minimums"]:
            bulletin = minimum_versions.BULLETINS[one["bulletin"]]
            year = bulletin["released"][:4]
            address = (
                f"https://github.com/NVIDIA/product-security/blob/main/{year}/{one['bulletin']}/README.md"
            )
            yield (
                kind["title"],
                "-" if one["branch"] is None else str(one["branch"]),
                one["version"],
                f"[{one['bulletin']}]({address})",
                bulletin["released"],
                ", ".join(bulletin["cves"]),
            )


def _files(traffic: rdma_counters.Traffic, name: str) -> str:
    """Return the files of one counter of a port, or the netdev's name of it."""
    own = next((counter for counter in traffic.counters if counter.name == name), None)
    if own is None:
        return f"netdev `{name}`"
    unit = rdma_counters.unit_bytes(name)
    words = " or ".join(" + ".join(f"`{own.folder}/{file}`" for file in files) for files in own.files)
    return words if unit == 1 else f"{words}, in {unit} bytes"


TABLES: dict[str, Callable[[], Iterator[tuple[str, ...]]]] = {
    "causes": causes,
    "rules_each": partial(
        rules, lambda check: [*list_end_rules(check, "client"), *list_end_rules(check, "server")]
    ),
    "rules_both": partial(rules, lambda check: [NOTHING_LOST, *list_pair_rules(check)]),
    "symbol_errors": permitted_symbol_errors,
    "drivers": drivers,
    "minimum_versions": minimums,
    "fabric": lambda: fields(schema.FABRIC),
    "rail": lambda: fields(schema.RAIL),
    "frontend": lambda: fields(schema.FRONTEND),
    "network": lambda: fields(schema.NETWORK),
    "policy": policy_keys,
    "machines": machines.tested,
    "machine_variants": machines.variants,
    "machine_not_visible": machines.not_visible,
    **{f"figures_{group}": partial(catalogue, group) for group in figures.GROUPS},
}


def made(text: str) -> str:
    """Return a document with each of its tables as the code has it."""
    return re.sub(
        r"<!-- table (\w+) -->\n.*?<!-- end -->\n",
        lambda found: f"<!-- table {found[1]} -->\n{_table(found[1])}<!-- end -->\n",
        text,
        flags=re.DOTALL,
    )


def _table(name: str) -> str:
    head, *rows = TABLES[name]()
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]]) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Write the documents, or with `--check` return 1 when one is not up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when one is out of date")
    check = parser.parse_args(argv).check
    status = 0
    for path in (DOCS / name for name in NAMES):
        seen = path.read_text(encoding="utf-8")
        if seen != made(seen) and check:
            sys.stderr.write(f"{path} is out of date; run: python -m railyard.report.made_docs\n")
            status = 1
        elif seen != made(seen):
            path.write_text(made(seen), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
