"""Make run folders that are healthy, and changes of them: a table of every field, and some drawn anew."""

from __future__ import annotations

import copy
import itertools
import json
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / name) for name in ("benchmarks/judge", "collections", "tools", "tests")]

import sound_run
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests
from ansible_collections.railyard.fabric.tests.unit.plugins.plugin_utils.judge import (
    test_false_pass_rdma,
    test_rdma_without_ip,
)
from ansible_collections.railyard.fabric.tests.unit.plugins.plugin_utils.judge.attribution import (
    test_attempts,
)
from ansible_collections.railyard.fabric.tests.unit.plugins.plugin_utils.judge.rules import (
    test_collectives,
    test_gpus,
    test_rdma_facts,
)
from support.runs import fake_bmc, fake_gpus, fake_memory, fake_storage, run_builder, spoil
from support.runs.fake_run import FakeRun, exchanged
from tools.report import column_cases, one_change, test_plain

Json = dict[str, Any]
RESULTS, FACTS = "results.jsonl", "facts.jsonl"
DELETE = "taken out"
VALUES: list[Any] = [*spoil.GARBAGE, 2**63, 10**400, DELETE]
FACTORS = (*test_plain.NEAR, *test_plain.FAR)
#: What one end tells the other of its row.
TOLD = ("status", "proof", "metrics", "counters", "error")
#: Files that nobody reads in judging, and lists of which one item stands for all.
IDLE, LONG = ("raw",), ("samples", "argv", "sizes", "gids")
ERRORS = ("tool_failed", "deadline", "rendezvous_timeout", "peer_failed", "tool_garbage")


class Base:
    """A run folder: its name in the table, the run's id, and the lines of each file."""

    def __init__(self, name: str, files: dict[str, list[str]]) -> None:
        self.name, self.files = name, files
        self.run = str(json.loads("\n".join(files["manifest.json"]))["run"])
        self.rows: list[Json] = [json.loads(line) for line in files.get(RESULTS, [])]
        self.of: dict[str, list[int]] = defaultdict(list)
        for at, row in enumerate(self.rows):
            self.of[str(row.get("id"))].append(at)

    def change(self, what: str, rows: dict[int, list[Json]], target: Sequence[str], file: str = RESULTS) -> Json:
        """Return a change: other rows in the place of these."""
        edits = {at: [json.dumps(one) for one in many] for at, many in rows.items()}
        return {"what": what, "target": sorted(set(target)), "edits": {file: edits}}


def of_fake(name: str, run: FakeRun) -> Base:
    """Return the folder of a run in memory."""
    whole = {"manifest.json": run.manifest, "plan.json": run.sealed(), "work_order.json": run.order}
    lines = {FACTS: run.facts, "asked.jsonl": run.asked, RESULTS: exchanged(run.results)}
    files = {key: [json.dumps(one)] for key, one in whole.items()}
    return Base(name, files | {key: [json.dumps(one) for one in many] for key, many in lines.items()})


def of_folder(name: str, path: Path) -> Base:
    """Return a folder as it stands."""
    files = [one for one in sorted(path.iterdir()) if one.is_file() and one.name != "verdicts.jsonl"]
    return Base(name, {one.name: one.read_text(encoding="utf-8").splitlines() for one in files})


def infiniband() -> FakeRun:
    """Return a run over InfiniBand with IP, at the rate that its rows have."""
    run = FakeRun(transport="infiniband", driver_class="hardware")
    for port in itertools.chain(*(facts["hcas"] for facts in run.facts)):
        port |= {"link_layer": "InfiniBand", "lid": 3, "sm_lid": 1, "rate_gbps": 1.0}
    return run


def efa() -> FakeRun:
    """Return the tests' EFA nodes with rows: as over InfiniBand without IP, but for the GID's index."""
    run, like = test_rdma_facts.efa(), test_rdma_without_ip.healthy()
    for facts, its in zip(run.facts, like.facts, strict=True):
        for port, other in zip(facts["hcas"], its["hcas"], strict=True):
            port |= {"port_guid": other["port_guid"], "rate_gbps": 1.0}
    for rail in itertools.chain(*(node["rails"] for node in run.plan["nodes"].values())):
        rail["rate_gbps"] = 1.0
    rows = {(row["check"], row["node"], row["rail"], row["end"]): row for row in run.results}
    run.results = [
        {**row, "id": mine["id"], "gid_index": 0, "counters": _counted(row["counters"]),
         "other_rails": {rail: dict.fromkeys(("hw_tx_bytes", "hw_rx_bytes"), [7, 7]) for rail in row["other_rails"]}}
        for row in like.results
        if (mine := rows.get((row["check"], row["node"], row["rail"], row["end"])))
    ]  # fmt: skip
    return run


def gpu_facts() -> FakeRun:
    """Return a run of nodes that declare a GPU, near to the card of each rail."""
    run = FakeRun(transport="roce", driver_class="hardware", node_class="hardware")
    for facts in run.facts:
        facts["gpus"] = {**copy.deepcopy(test_gpus.GPUS), "near": facts["gpus"]["near"]}
        run.plan["nodes"][facts["node"]]["gpus"] = {"count": 1}
    run.asked = requests.asked_lines(run.plan, run.order)
    run.manifest["asked"] = requests.fingerprint(run.asked)
    return run


def _counted(port: Json) -> Json:
    """Return an InfiniBand port's counters as EFA's driver has them, in bytes."""
    ways = (("xmit", "tx"), ("rcv", "rx"))
    data = {f"hw_{way}_bytes": [4 * at for at in port[f"port_{word}_data"]] for word, way in ways}
    return data | {f"hw_{way}_pkts": port[f"port_{word}_packets"] for word, way in ways}


def bases(place: Path) -> list[Base]:
    """Return healthy runs of each kind."""
    asked, card = test_false_pass_rdma.ASKED, {"driver_class": "hardware", "node_class": "hardware"}
    three = ("gpuserver1", "gpuserver2", "gpuserver3")
    made = {
        "tcp": FakeRun(),
        "soft roce": FakeRun(transport="roce", node_class="virtual", bidirectional=True, **asked),
        "roce card": FakeRun(transport="roce", bidirectional=True, **card, **asked),
        "infiniband": infiniband(),
        "infiniband without ip": test_rdma_without_ip.healthy(),
        "efa": efa(),
        "gpus": fake_gpus.with_gpus(three, driver_class="hardware"),
        "gpu facts": gpu_facts(),
        "drives": fake_storage.with_drives(three),
        "memory": fake_memory.with_memory(),
        "collectives": test_collectives.made(),
        "bmc": fake_bmc.with_bmcs(),
        "eight nodes": run_builder.TenGbps(10.0, nodes=tuple(f"gpu{one}" for one in range(8)), rails=1),
    }
    found = [of_fake(name, run) for name, run in made.items()]
    for transport, short in itertools.product(("tcp", "roce"), (False, True)):
        name = f"sound {transport}{' in short rows' if short else ''}"
        path = place / name / "made" / sound_run.RUN
        rules = {"questions": "together"} if short else {"bidirectional": True}
        change = test_plain.apart if short else lambda row: row
        sound_run.build(path, 3 if short else 2, 2, rules=rules, change=change, short=short, transport=transport)
        found.append(of_folder(name, path))
    return found


def told(rows: dict[int, Json]) -> None:
    """Let both rows of a test hold what the other says by now."""
    if len(rows) == 2:
        for row, other in itertools.permutations(rows.values()):
            if isinstance(row.get("other_end"), dict):
                row["other_end"] |= {key: other.get(key) for key in TOLD}


def put(value: Any, path: tuple[Any, ...], new: Any) -> None:
    """Set what stands there, or take it out."""
    *inner, last = path
    at = spoil.at(value, tuple(inner))
    if isinstance(new, str) and new == DELETE:
        del at[last]
    else:
        at[last] = new


def places(row: Json) -> list[tuple[Any, ...]]:
    """Return where the values of a row are; of a long list one item's."""
    return [
        path
        for path in spoil.places(row)
        if path[0] not in IDLE
        and not any(isinstance(one, int) and one and {*path} & {*LONG} for one in path)
    ]


def shown(path: tuple[Any, ...]) -> str:
    """Return a place as text, the same for each item of a list."""
    return ".".join("*" if isinstance(one, int) else str(one) for one in path)


def word(value: Any) -> str:
    """Return a value as a short text."""
    return value if value == DELETE and isinstance(value, str) else f"= {value!r:.24}"


def fields(base: Base, check: str, values: int, draw: random.Random) -> Iterator[Json]:
    """Yield changes of one field of one row, for each kind of row of a check; those of all its tests in turn."""
    kinds: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for at, row in enumerate(base.rows):
        if row["check"] == check:
            kinds[str(row["end"]), *sorted(map(shown, places(row)))].append(at)
    for many in kinds.values():
        turn = itertools.cycle(many)
        for path in places(base.rows[many[0]]):
            for value in draw.sample(VALUES, values):
                identity = str(base.rows[at := next(turn)]["id"])
                rows = {one: json.loads(base.files[RESULTS][one]) for one in base.of[identity]}
                try:
                    put(rows[at], path, value)
                except LookupError:
                    continue
                if draw.random() < 0.7 and path[0] != "other_end":
                    told(rows)
                what = f"{check} {rows[at].get('end') or 'end'} {shown(path)} {word(value)}"
                yield base.change(what, {one: [row] for one, row in rows.items()}, [identity])


def whole_rows(base: Base, check: str) -> Iterator[Json]:
    """Yield changes of whole rows of a check's first two tests."""
    tests = list(dict.fromkeys(str(row["id"]) for row in base.rows if row["check"] == check))[:2]
    mine = [{at: json.loads(base.files[RESULTS][at]) for at in base.of[one]} for one in tests]
    for test, rows in zip(tests, mine, strict=True):
        for at, row in rows.items():
            lost: dict[str, list[Json]] = {"lost": [], "twice": [row, row], "another": [row, {**row, "attempt": 2}]}
            for name, many in lost.items():
                yield base.change(f"{check} row {name}", {at: many}, [test])
            for name in ERRORS:
                spoil.error_row(error := json.loads(json.dumps(row)), name, "failed", str(row["host"]))
                yield base.change(f"{check} row error {name}", {at: [error]}, [test])
        yield base.change(f"{check} rows lost", dict.fromkeys(rows, []), [test])
        for key in ("end", "host", "netdev", "hca", "address", "counters", "metrics", "window_s", "started"):
            new = [{**row, key: other.get(key)} for row, other in zip(rows.values(), [*rows.values()][::-1], strict=True)]
            yield base.change(f"{check} {key} of ends exchanged", {at: [one] for at, one in zip(rows, new, strict=True)}, [test])
    for key in ("id", "node", "rail", "counters", "metrics", "round") if len(tests) == 2 else ():
        pairs = list(zip(mine[0].items(), mine[1].items(), strict=False))
        new = {at: [{**row, key: other.get(key)}] for (a, one), (b, two) in pairs for at, row, other in ((a, one, two), (b, two, one))}
        yield base.change(f"{check} {key} of tests exchanged", new, tests)


def of_nodes(base: Base) -> Iterator[Json]:
    """Yield changes of all that a node handed over."""
    for file in (FACTS, RESULTS):
        rows = [json.loads(line) for line in base.files[file]]
        key = "node" if file == FACTS else "host"
        nodes = list(dict.fromkeys(str(row[key]) for row in rows))
        turned = dict(zip(nodes, [*nodes[1:], nodes[0]], strict=True))
        every = dict(enumerate(rows))
        yield base.change(f"{file} of nodes exchanged", {at: [{**row, key: turned[row[key]]}] for at, row in every.items()}, [], file)
        yield base.change(f"{file} of a node lost", {at: [] for at, row in every.items() if row[key] == nodes[0]}, [], file)
        yield base.change(f"{file} of a node twice", {at: [row, row] for at, row in every.items() if row[key] == nodes[0]}, [], file)
        yield base.change(f"{file} in reverse", {at: [rows[-1 - at]] for at in every}, [], file)
        yield base.change(f"{file} lost", dict.fromkeys(every, []), [], file)
        cut = {"what": f"{file} cut in mid-row", "target": [], "edits": {file: {len(rows) - 1: [base.files[file][-1][:99]]}}}
        yield cut


def of_facts(base: Base, values: int, draw: random.Random) -> Iterator[Json]:
    """Yield changes of one value of the first node's facts; of each list one item."""
    facts = json.loads(base.files[FACTS][0])
    for path in places(facts):
        if not any(isinstance(one, int) and one for one in path):
            for value in draw.sample(VALUES, values):
                put(new := json.loads(base.files[FACTS][0]), path, value)
                yield base.change(f"facts {shown(path)} {word(value)}", {0: [new]}, [], FACTS)


def packed(many: Sequence[Iterator[Json]]) -> Iterator[list[Json]]:
    """Yield changes of different checks together: each is seen in the lines of its own test."""
    for pack in itertools.zip_longest(*many):
        yield [one for one in pack if one is not None]


def spoilt(base: Base, values: int, seed: int) -> Iterator[list[Json]]:
    """Yield the changes of the table for a run of full rows."""
    draw = random.Random(f"{seed} {base.name}")  # noqa: S311 - nothing secret is drawn
    checks = sorted({str(row["check"]) for row in base.rows})
    yield from packed([fields(base, check, values, draw) for check in checks])
    yield from packed([whole_rows(base, check) for check in checks])
    for one in itertools.chain(of_nodes(base), of_facts(base, max(1, values // 6), draw)):
        yield [one]


def attempts(base: Base) -> Iterator[list[Json]]:
    """Yield tests that were measured again, each with up to three attempts, of which some are bad."""
    for check in ("tcp_bandwidth", "ping_rtt"):
        identity = test_attempts.HEALTHY.ids(check)[0]
        for kinds in itertools.chain(*(itertools.product("gloufc-", repeat=count) for count in (1, 2, 3))):
            run = test_attempts.with_attempts(test_attempts.HEALTHY, identity, "".join(kinds))
            rows = [row for row in exchanged(run.results) if row["id"] == identity]
            first, *others = base.of[identity]
            new = {first: rows, **{at: [] for at in others}}
            yield [base.change(f"{check} attempts {''.join(kinds)}", new, [identity])]


def short_rows(found: dict[str, Base], place: Path) -> Iterator[tuple[Base, list[Json]]]:
    """Yield the tests' own table of changes of sweeps in short rows."""
    for name, (kind, which, change, edit, _expected) in column_cases.TABLE.items():
        folder, identity = one_change.spoilt(kind, which, change, edit, place)
        base = found.get(kind) or found.setdefault(kind, of_folder(f"short {kind}", one_change.sweep(kind, place)[0].path))
        new = of_folder("new", folder.path).files[RESULTS]
        old = base.files[RESULTS]
        edits = {at: [] for at in range(len(old))} | {0: new} if old != new else {}
        yield base, [{"what": f"short {kind} {name}", "target": [identity], "edits": {RESULTS: edits}}]


def drawn(all_bases: Sequence[Base], seed: int) -> tuple[Base, list[Json]]:
    """Return one case drawn with a seed: one to three changes."""
    draw = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    base = draw.choice(all_bases)
    lines = {name: [json.loads(line) for line in many] for name, many in base.files.items() if name[-1] == "l"}
    what, target = [], set()
    for _ in range(draw.choice((1, 1, 2, 3))):
        if "short rows" in base.name:
            test_plain.spoil(lines[RESULTS], draw)
            what.append("short rows")
            continue
        file = draw.choice((*[RESULTS] * 8, FACTS, "asked.jsonl"))
        at = draw.randrange(len(lines[file])) if lines[file] else None
        if at is None:
            continue
        row, way = lines[file][at], draw.random()
        target |= {str(row.get("id"))} if file != FACTS else set()
        if way < 0.05:
            del lines[file][at]
            what.append(f"{file} row lost")
        elif way < 0.1:
            lines[file].insert(draw.randrange(len(lines[file])), json.loads(json.dumps(row)))
            what.append(f"{file} row twice")
        else:
            what.append(f"{file} {_drawn_value(row, draw)}")
            if file == RESULTS and draw.random() < 0.7:
                told({n: one for n, one in enumerate(lines[file]) if one.get("id") == row.get("id")})
    edits = {}
    for name, many in lines.items():
        new = [json.dumps(one) for one in many]
        if new != base.files[name] and base.files[name]:
            edits[name] = {at: [] for at in range(len(base.files[name]))} | {0: new}
    return base, [{"what": f"drawn {'; '.join(what)} (seed {seed})", "target": sorted(target), "edits": edits}]


def _drawn_value(row: Json, draw: random.Random) -> str:
    path = draw.choice(places(row))
    old = spoil.at(row, path)
    number = isinstance(old, (int, float)) and not isinstance(old, bool)
    way = draw.random() if number else 1.0
    new = draw.choice(VALUES)
    if way < 0.2:
        new = old + draw.choice((-1, 1, 1000))
    elif way < 0.8:
        new = type(old)(old * draw.choice(FACTORS)) if abs(old) < 1e300 else 0
    put(row, path, new)
    return f"{row.get('check', '')} {shown(path)} {word(new)}"


def all_cases(count: int, seed: int, values: int, only: Sequence[str] = ()) -> Iterator[tuple[Base, list[Json]]]:
    """Yield all cases, a base and its changes: healthy ones, those of the table, and so many drawn anew.

    Args:
        count: how many are drawn.
        seed: what they are drawn with.
        values: how many of VALUES each field gets.
        only: the names of the runs that are spoilt; default: all.
    """
    with tempfile.TemporaryDirectory() as place:
        found = [base for base in bases(Path(place)) if not only or base.name in only]
        for base in found:
            yield base, []
        for base in found:
            if "short rows" not in base.name:
                yield from ((base, many) for many in spoilt(base, values, seed))
            if base.name == "tcp":
                yield from ((base, many) for many in attempts(base))
        if not only or any("short rows" in name for name in only):
            yield from short_rows({}, Path(place))
        for number in range(seed, seed + count):
            yield drawn(found, number)
