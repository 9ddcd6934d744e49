"""Cases for two judges: healthy runs with changes, of a table of all fields and rows, and some drawn anew."""

from __future__ import annotations

import copy
import importlib
import itertools
import json
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / name) for name in ("benchmarks/judge", "collections", "tools", "tests")]

import sound_run
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from support.runs import fake_bmc, fake_gpus, fake_memory, fake_storage, run_builder, spoil
from support.runs.fake_run import FakeRun, exchanged
from tools.report import column_cases, one_change, test_plain
from tools.report.test_plain import times_as_much

Json = dict[str, Any]

_OF_JUDGE = "ansible_collections.railyard.fabric.tests.unit.plugins.plugin_utils.judge"
of_rdma, without_ip, of_attempts, of_collectives, of_gpus, of_rdma_facts = (
    importlib.import_module(f"{_OF_JUDGE}.{name}")
    for name in ("test_false_pass_rdma", "test_rdma_without_ip", "attribution.test_attempts",
                 "rules.test_collectives", "rules.test_gpus", "rules.test_rdma_facts")
)  # fmt: skip
RESULTS, FACTS, ASKED = "results.jsonl", "facts.jsonl", "asked.jsonl"
SHORT = "short rows"
TAKEN_OUT = "taken out"
VALUES: list[Any] = [*spoil.GARBAGE, 2**63, 10**400, TAKEN_OUT]
FACTORS = (*test_plain.NEAR, *test_plain.FAR)
#: What an end tells the other of its row.
TOLD = ("status", "proof", "metrics", "counters", "error")
#: Fields that no judge reads, and lists of which one item stands for all.
IDLE, LONG = {"raw"}, {"samples", "argv", "sizes", "gids"}
ERRORS = ("tool_failed", "deadline", "rendezvous_timeout", "peer_failed", "tool_garbage")
#: What both ends of a test exchange, and what two tests of a check do.
OF_ENDS = ("end", "host", "netdev", "hca", "address", "counters", "metrics", "window_s", "started")
OF_TESTS = ("id", "node", "rail", "round", "counters", "metrics")


class Base:
    """A run folder: its name in the table, the run's id, the lines of each file, the rows of each test."""

    def __init__(self, name: str, files: dict[str, list[str]]) -> None:
        self.name, self.files = name, files
        self.run = str(json.loads("".join(files["manifest.json"])).get("run"))
        self.transport = json.loads("".join(files["plan.json"])).get("transport")
        self.places: dict[str, list[int]] = defaultdict(list)
        for at, row in enumerate(self.rows()):
            self.places[str(row.get("id"))].append(at)

    def rows(self, file: str = RESULTS) -> list[Json]:
        """Return the rows of a file, free to be changed."""
        return [json.loads(line) for line in self.files.get(file, ())]

    def change(
        self, what: str, rows: Mapping[int, Sequence[Any]], target: Iterable[str] = (), file: str = RESULTS
    ) -> Json:
        """Return a change: other rows in the places of these."""
        edits = {at: [json.dumps(one) for one in many] for at, many in rows.items()}
        return {"what": what, "target": sorted(target), "edits": {file: edits}}

    def all_changed(self, rows: Sequence[Any], file: str = RESULTS) -> dict[int, Sequence[Any]]:
        """Return the places of all rows of a file, that contain these fields."""
        return {**dict.fromkeys(range(len(self.files[file])), ()), 0: rows}


Case = tuple[Base, list[Json]]


def of_fake(name: str, run: FakeRun) -> Base:
    """Return the folder of a run in memory."""
    files = {"manifest.json": [run.manifest], "plan.json": [run.sealed()], "work_order.json": [run.order]}
    files |= {FACTS: run.facts, ASKED: run.asked, RESULTS: exchanged(run.results)}
    return Base(name, {key: [json.dumps(one) for one in many] for key, many in files.items()})


def of_folder(name: str, path: Path) -> Base:
    """Return a folder with its current content."""
    files = [one for one in path.iterdir() if one.is_file()]
    return Base(name, {one.name: one.read_text(encoding="utf-8").splitlines() for one in files})


def efa() -> FakeRun:
    """Return the tests' EFA nodes with the rows of InfiniBand without IP, counted as EFA's driver does."""
    run, like = of_rdma_facts.efa(), without_ip.healthy()
    for facts, its in zip(run.facts, like.facts, strict=True):
        for port, other in zip(facts["hcas"], its["hcas"], strict=True):
            port |= {"port_guid": other["port_guid"], "rate_gbps": 1.0}
    for rail in itertools.chain(*(node["rails"] for node in run.plan["nodes"].values())):
        rail["rate_gbps"] = 1.0
    run.results = like.results
    for row in run.results:
        port, ways = row["counters"], (("xmit", "tx"), ("rcv", "rx"))
        data = {f"hw_{way}_bytes": [4 * at for at in port[f"port_{word}_data"]] for word, way in ways}
        packets = {f"hw_{way}_pkts": port[f"port_{word}_packets"] for word, way in ways}
        others = {rail: {name: [7, 7] for name in data} for rail in row["other_rails"]}
        row.update(gid_index=0, other_rails=others, counters={**data, **packets})
    return run


def gpu_facts(card: Json) -> FakeRun:
    """Return a run of nodes that declare a GPU, near to the card of each rail."""
    run = FakeRun(**card)
    for facts in run.facts:
        facts["gpus"] = {**copy.deepcopy(of_gpus.GPUS), "near": facts["gpus"]["near"]}
        run.plan["nodes"][facts["node"]]["gpus"] = {"count": 1}
    run.asked = requests.asked_lines(run.plan, run.order)
    run.manifest["asked"] = requests.fingerprint(run.asked)
    return run


def healthy(place: Path) -> list[Base]:
    """Return a healthy run of each kind; those of benchmarks/judge are written below a folder first."""
    three, eight = (tuple(f"gpuserver{one}" for one in range(1, count + 1)) for count in (3, 8))
    card: Json = {"transport": "roce", "driver_class": "hardware", "node_class": "hardware"}
    soft = {"transport": "roce", "node_class": "virtual"}
    made = {
        "tcp": FakeRun(),
        "soft roce": FakeRun(bidirectional=True, **soft, **of_rdma.ASKED),
        "roce card": FakeRun(bidirectional=True, **card, **of_rdma.ASKED),
        "infiniband without ip": without_ip.healthy(),
        "efa": efa(),
        "gpus": fake_gpus.with_gpus(three, driver_class="hardware"),
        "gpu facts": gpu_facts(card),
        "drives": fake_storage.with_drives(three),
        "memory": fake_memory.with_memory(),
        "collectives": of_collectives.made(),
        "bmc": fake_bmc.with_bmcs(),
        "eight nodes": run_builder.TenGbps(10.0, nodes=eight, rails=1),
    }
    found = [of_fake(name, run) for name, run in made.items()]
    for transport, short in itertools.product(("tcp", "roce"), (False, True)):
        path = place / f"{transport}{short}" / "made" / sound_run.RUN
        rules = {"questions": "together"} if short else {"bidirectional": True}
        change = test_plain.apart if short else lambda row: row
        sound_run.build(path, 2 + short, 2, rules=rules, change=change, short=short, transport=transport)
        found.append(of_folder(f"sound {transport} {SHORT if short else 'full rows'}", path))
    return found


def tell(rows: Iterable[Json]) -> None:
    """Let both rows of a test hold what the other one says by now."""
    ends = list(rows)
    for row, other in itertools.permutations(ends) if len(ends) == 2 else ():
        if isinstance(row.get("other_end"), dict):
            row["other_end"] |= {key: other.get(key) for key in TOLD}


def alike(old: Any, new: Any) -> bool:
    """Tell whether two values have one type: numbers as integers or not, lists of the same length."""
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(alike, old, new))
    if type(old) is int:
        return type(new) is int and 0 <= new < 2**63
    return type(old) is type(new) or (isinstance(old, float) and is_number(new))


def put(row: Json, path: tuple[Any, ...], new: Any) -> str:
    """Set or remove a value at a place; return check, end, place, what was done, and the value."""
    at, last = spoil.at(row, path[:-1]), path[-1]
    removed = isinstance(new, str) and new == TAKEN_OUT
    done = TAKEN_OUT if removed else "changed" if alike(at[last], new) else "retyped"
    where = ".".join("*" if isinstance(one, int) else str(one) for one in path)
    what = f"{row.get('check', 'facts')} {row.get('end', 'node')} {where} {done} {new!r:.24}"
    if removed:
        del at[last]
    else:
        at[last] = new
    return what


def places(row: Json) -> list[tuple[Any, ...]]:
    """Return where the values of a row are."""
    every = [path for path in spoil.places(row) if path[0] not in IDLE]
    return [one for one in every if not (LONG & {*one} and any(isinstance(at, int) and at for at in one))]


def some_values(count: int, draw: random.Random) -> list[Any]:
    """Return so many values for a field; it is taken out in any case."""
    return [TAKEN_OUT, *draw.sample(VALUES[:-1], count - 1)] if count else []


def kinds(base: Base, seen: set[Any]) -> Iterator[list[int]]:
    """Yield the places of rows of each kind that no run before had: one check, one end, the same keys."""
    found: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for at, row in enumerate(base.rows()):
        keys = (sorted(row.get(key) or ()) for key in ("metrics", "counters"))
        found[base.transport, row["check"], row["end"], *map(str, (sorted(row), *keys))].append(at)
    for number, (key, many) in enumerate(sorted(found.items())):
        if key not in seen:
            seen.add(key)
            yield many[number % 2 :: 2] or many  # other tests than those changed at the other end meanwhile


def fields(base: Base, many: Sequence[int], values: int, draw: random.Random) -> Iterator[Json]:
    """Yield changes of each field of rows of one check, in one of its tests after the other.

    A number also becomes so many times what it was, at one end or at both.
    """
    turn, all_rows = itertools.cycle(many), base.rows()
    for path in places(all_rows[many[0]]):
        times = draw.sample(FACTORS, values if is_number(spoil.at(all_rows[many[0]], path)) else 0)
        for number, value in enumerate((*some_values(values, draw), *times)):
            identity, what = str(all_rows[at := next(turn)]["id"]), ""
            rows = {one: json.loads(base.files[RESULTS][one]) for one in base.places[identity]}
            for one in rows if number >= values and draw.random() < 0.5 else [at]:
                with suppress(LookupError, TypeError):  # the other end has no such field
                    old = spoil.at(rows[one], path)
                    what = put(rows[one], path, times_as_much(old, value) if number >= values else value)
            if draw.random() < 0.7 and path[0] != "other_end":
                tell(rows.values())
            if what:
                yield base.change(what, {one: [row] for one, row in rows.items()}, [identity])


def whole_rows(base: Base, check: str) -> Iterator[Json]:
    """Yield changes of whole rows of a check's first two tests."""
    rows = base.rows()
    tests = list(dict.fromkeys(str(row["id"]) for row in rows if row["check"] == check))[:2]
    ends = [base.places[test] for test in tests]
    for test, at in [(test, at) for test, places_of in zip(tests, ends, strict=True) for at in places_of]:
        new = {"lost": [], "twice": [rows[at]] * 2, "again": [rows[at], {**rows[at], "attempt": 2}]}
        for name in ERRORS:
            new[name] = [copy.deepcopy(rows[at])]
            spoil.error_row(new[name][0], name, "failed", str(rows[at]["host"]))
        for name, many in new.items():
            yield base.change(f"{check} {rows[at]['end']} row {name}", {at: many}, [test])
    turns = [([test], mine, mine[::-1], OF_ENDS) for test, mine in zip(tests, ends, strict=True)]
    if len(ends) == 2:
        turns.append((tests, [*ends[0], *ends[1]], [*ends[1], *ends[0]], OF_TESTS))
    for target, mine, its, keys in turns:
        yield base.change(f"{check} rows of {len(target)} tests lost", dict.fromkeys(mine, ()), target)
        for key in keys:
            turned = zip(mine, [rows[at].get(key) for at in its], strict=False)
            new_rows = {at: [{**rows[at], key: value}] for at, value in turned}
            yield base.change(f"{check} exchanged {key} of {len(target)} tests", new_rows, target)


def of_nodes(base: Base) -> Iterator[Json]:
    """Yield changes of all that a node handed over."""
    for file, key in ((FACTS, "node"), (RESULTS, "host")):
        rows = base.rows(file)
        nodes = list(dict.fromkeys(str(row[key]) for row in rows))
        turned = dict(zip(nodes, [*nodes[1:], nodes[0]], strict=True))
        first = [row for row in rows if row[key] == nodes[0]]
        new: dict[str, list[Any]] = {
            "of nodes exchanged": [{**row, key: turned[row[key]]} for row in rows],
            "of a node lost": [row for row in rows if row[key] != nodes[0]],
            "of a node twice": [*rows, *first],
            "in reverse": rows[::-1],
            "lost": [],
            "with a number for a row": [*rows, 5],
        }
        for name, many in new.items():
            yield base.change(f"{file} {name}", base.all_changed(many, file), file=file)


def slow_down(row: Json, share: float) -> None:
    """Let a row of a bandwidth test carry a share of what it did, with counters and samples that show it."""
    rates = {name: one for name, one in row["metrics"].items() if name[-5:] in ("_gbps", "_mpps") and one}
    row["metrics"] |= {name: one * share for name, one in rates.items()}
    row |= {"iterations": round(row["iterations"] * share)} if row.get("iterations") else {}
    sampled = {name: many for name, many in (row.get("samples") or {}).items() if name.endswith("_bytes")}
    for spans in (row["counters"], sampled):
        for many in spans.values():
            many[:] = [many[0] + round((one - many[0]) * share) for one in many]


def slow_parts(base: Base) -> Iterator[Json]:
    """Yield runs in which a part of the first test's is slow in all bandwidth tests, as its counters show."""
    at = next(row for row in base.rows() if row.get("peer"))
    parts: dict[str, Callable[[Json], bool]] = {
        "sender": lambda row: row["node"] == at["node"],
        "node": lambda row: at["node"] in (row["node"], row["peer"]),
        "rail": lambda row: row["rail"] == at["rail"],
        "port": lambda row: parts["node"](row) and parts["rail"](row),
    }
    for (name, is_slow), share in itertools.product(parts.items(), (0.3, 0.6, 0.85)):
        rows = base.rows()
        for row in rows:
            if "bandwidth_gbps" in (row.get("metrics") or {}) and is_slow(row):
                slow_down(row, share)
        for places_of in base.places.values():
            tell(rows[place] for place in places_of)
        yield base.change(f"slow {name} at {share}", base.all_changed(rows))


def of_facts(base: Base, values: int, draw: random.Random, seen: set[Any]) -> Iterator[Json]:
    """Yield changes of each value of the first node's facts that no run before had; one item of each list."""
    for path in places(base.rows(FACTS)[0]):
        key = base.transport, FACTS, *map(str, path)
        if key in seen or any(isinstance(at, int) and at for at in path):
            continue
        seen.add(key)
        for value in some_values(values, draw):
            what = put(new := json.loads(base.files[FACTS][0]), path, value)
            yield base.change(what, {0: [new]}, file=FACTS)


def attempts(base: Base) -> Iterator[Json]:
    """Yield tests that were measured up to three times, with bad attempts among these."""
    letters = itertools.chain(*(itertools.product("gloufc-", repeat=count) for count in (1, 2, 3)))
    for kind, check in itertools.product(map("".join, letters), ("tcp_bandwidth", "ping_rtt")):
        identity = of_attempts.HEALTHY.ids(check)[0]
        run = of_attempts.with_attempts(of_attempts.HEALTHY, identity, kind)
        first, *others = base.places[identity]
        rows = [row for row in exchanged(run.results) if row["id"] == identity]
        yield base.change(f"{check} attempts {kind}", {first: rows, **dict.fromkeys(others, ())}, [identity])


def short_rows(place: Path) -> Iterator[Case]:
    """Yield the tests' own table of changes of sweeps in short rows."""
    found: dict[str, Base] = {}
    for name, (kind, which, change, edit, _expected) in column_cases.TABLE.items():
        folder, identity = one_change.spoilt(kind, which, change, edit, place)
        if kind not in found:
            found[kind] = of_folder(f"table {kind}", one_change.sweep(kind, place)[0].path)
        rows = found[kind].all_changed(of_folder("", folder.path).rows())
        yield found[kind], [found[kind].change(f"{kind} columns {name}", rows, [identity])]


def drawn(bases: Sequence[Base], seed: int) -> Case:
    """Return a case of one to three changes, drawn with a seed."""
    draw, what, target = random.Random(seed), [], set()  # noqa: S311 - nothing secret is drawn
    base = draw.choice(bases)
    lines = {file: base.rows(file) for file in (RESULTS, FACTS, ASKED)}
    for _ in range(draw.choice((1, 1, 2, 3))):
        rows = lines[file := draw.choice((*[RESULTS] * 12, FACTS, FACTS, ASKED))]
        if SHORT in base.name and file == RESULTS:
            test_plain.spoil(rows, draw)
            what.append(SHORT)
            continue
        row = rows[at := draw.randrange(len(rows))]
        target |= {str(row["id"])} if file != FACTS else set()
        if (way := draw.random()) < 0.1:
            rows[at : at + 1] = [] if way < 0.05 and len(rows) > 1 else [row, copy.deepcopy(row)]
            what.append(f"{file} {'lost' if way < 0.05 else 'twice'}")
            continue
        old, new = spoil.at(row, path := draw.choice(places(row))), draw.choice(VALUES)
        if is_number(old) and way < 0.8:
            new = times_as_much(old, draw.choice(FACTORS)) if way < 0.6 else old + draw.choice((-1, 1, 1000))
        what.append(put(row, path, new))
        if file == RESULTS and draw.random() < 0.7:
            tell(one for one in rows if one.get("id") == row.get("id"))
    changes = [base.change("", base.all_changed(rows, file), file=file) for file, rows in lines.items()]
    edits = {file: change["edits"][file] for change, file in zip(changes, lines, strict=True)}
    return base, [{"what": f"drawn {seed}: {'; '.join(what)}", "target": sorted(target), "edits": edits}]


def recorded(files: Sequence[Path]) -> Iterator[Case]:
    """Yield the run folders that record.py kept."""
    for file in files:
        with file.open(encoding="utf-8") as stream:
            yield from ((Base("recorded", json.loads(line)), []) for line in stream)


def all_cases(count: int, seed: int, values: int, only: Sequence[str] = ()) -> Iterator[Case]:
    """Yield all cases: healthy runs, those of the table, and so many drawn anew.

    Args:
        count: how many are drawn.
        seed: what they are drawn with.
        values: how many of VALUES each field gets.
        only: the names of the runs that are spoilt; default: all.
    """
    with tempfile.TemporaryDirectory() as place:
        bases = [base for base in healthy(Path(place)) if not only or base.name in only]
        yield from ((base, []) for base in bases)
        seen: set[Any] = set()
        for base in [base for base in bases if SHORT not in base.name]:
            draw = random.Random(f"{seed} {base.name}")  # noqa: S311 - nothing secret is drawn
            many = [fields(base, one, values, draw) for one in kinds(base, seen)]
            rows = [whole_rows(base, check) for check in sorted({row["check"] for row in base.rows()})]
            # Changes of different tests are made in one run: each is seen in its own line.
            for pack in itertools.chain(itertools.zip_longest(*many), itertools.zip_longest(*rows)):
                yield base, [change for change in pack if change]
            facts = of_facts(base, values, draw, seen)
            more = attempts(base) if base.name == "tcp" else ()
            for change in itertools.chain(of_nodes(base), slow_parts(base), facts, more):
                yield base, [change]
        yield from short_rows(Path(place)) if not only else ()
        yield from (drawn(bases, number) for number in range(seed, seed + count))
