"""Sound sweeps in which one quantity is changed, in one row of a test or in both."""

from __future__ import annotations

import copy
import functools
import itertools
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.runner import row_packer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder
from support.runs import packed_lines
from support.runs.packed_lines import FIRST
from support.runs.sweeps import build_sweep, lines_of, sound_run
from tools.report.test_plain import apart, expand_row, tell, written

Row = dict[str, Any]
Change = Callable[[Row, Row], None]
Edit = Callable[[list[Row], list[Row]], None]
#: A path's test, and one of a rate.
PATH, RATE = 0, 1
CLIENT, SERVER, BOTH = (0,), (1,), (0, 1)
#: A rail's netdev may be called as a port is.
DIGITS = "18629"
#: When the run began, and how long after it its clock lets rows be written.
BEGIN_MS = int(sound_run.BEGIN.timestamp() * 1000)
LAST_MS = 4_132_000
PORT = {"tx_bytes": "port_xmit_data", "rx_bytes": "port_rcv_data"}


def soft(row: Row) -> Row:
    """Return a row as software RoCE writes it: the netdev's bytes, and the port's packets."""
    for told in (row, row["other_end"]) if row["check"].startswith("rdma") else ():
        was = told["counters"]
        told["counters"] = made = {}
        for way, word, packets in (("rx", "rcv", "hw_rcvd_pkts"), ("tx", "xmit", "hw_sent_pkts")):
            made[packets] = was[f"port_{word}_packets"]
            # Far from those of the paths, whose rows count them too.
            made[f"{way}_packets"] = [2**40 + at for at in made[packets]]
            made[f"{way}_bytes"] = [2**40 + 4 * at for at in was[f"port_{word}_data"]]
    return apart(row)


def digits(row: Row) -> Row:
    """Return a row of a node of which one rail's netdev is DIGITS."""
    made: Row = json.loads(json.dumps(apart(row)).replace("ens1f0", DIGITS))
    return made


def boot_of(boot_id: str, host: str) -> str:
    """Return a node's own boot id of this kind: it ends as the node's name does."""
    return boot_id[:-1] + host[-1]


def booted(boot_id: str, row: Row) -> Row:
    """Return a row whose other end had a boot id of this kind."""
    made = apart(row)
    other = made.get("other_end")
    return {**made, "other_end": other and {**other, "boot_id": boot_of(boot_id, other["host"])}}


#: Kind of sweep -> its transport, how its rows differ, keys of its policy, and ids of its tests. Both rows of
#: these are the last ones of their frames.
KINDS: dict[str, tuple[str, Any, Row, tuple[str, str]]] = {
    "tcp": ("tcp", apart, {}, ("m00056", "m00058")),
    "roce": ("roce", apart, {}, ("m00084", "m00086")),
    "soft": ("roce", soft, {}, ("m00084", "m00086")),
    "busy": ("tcp", apart, {"allow_busy": True}, ("m00056", "m00058")),
    "digits": ("tcp", digits, {}, ("m00056", "m00058")),
    "boots": ("tcp", partial(booted, "630994f3"), {}, ("m00056", "m00058")),
}


@functools.cache
def sweep(kind: str, place: Path) -> tuple[RunFolder, list[Row], dict[str, row_packer.Packer], str]:
    """Return a sound sweep of three nodes with two rails, its rows, who packed them, and these lines."""
    transport, change, rules, _tests = KINDS[kind]
    made = build_sweep(place / kind, rules, change=change, packed=False, transport=transport)
    if kind == "soft":
        facts = lines_of(made, "facts")
        for port in itertools.chain(*(one["hcas"] for one in facts)):
            port |= {"driver": "rdma_rxe", "driver_class": "software"}
        made.write("facts.jsonl", "".join(json.dumps(line) + "\n" for line in facts))
    if kind.endswith("boots"):
        boot_id = KINDS[kind][1].args[0]
        facts = [{**one, "boot_id": boot_of(boot_id, one["node"])} for one in lines_of(made, "facts")]
        made.write("facts.jsonl", "".join(json.dumps(line) + "\n" for line in facts))
    for name in ("plan.json", "facts.jsonl") if kind == "digits" else ():
        made.write(name, (made.path / name).read_text(encoding="utf-8").replace("ens1f0", DIGITS))
    rows, lines = lines_of(made), []
    packers = {row["host"]: row_packer.Packer() for row in rows}
    for row in rows:
        lines += packers[row["host"]].lines([row])
    return made, rows, packers, json.dumps(packed_lines.unpack(lines))


# Changes of a test's two rows, the client's first.


def put(at: tuple[int, ...], path: str, value: Any) -> Change:
    """Say something there, or what follows from what was there."""

    def change(*rows: Row) -> None:
        *inner, last = path.split(".")
        for which in at:
            where = functools.reduce(dict.__getitem__, inner, rows[which])
            where[last] = value(where[last]) if callable(value) else value

    return change


def grow(at: tuple[int, ...], counters: str, by: Any) -> Change:
    """Let counters grow by so much, or by what follows from the row and the client's."""

    def change(*rows: Row) -> None:
        for which, name in itertools.product(at, counters.split()):
            begin = rows[which]["counters"][name][0]
            grown = by(rows[which], rows[0]) if callable(by) else by
            rows[which]["counters"][name] = [begin, begin + int(grown)]

    return change


def both(*changes: Change) -> Change:
    """Make several changes."""

    def change(*rows: Row) -> None:
        for one in changes:
            one(*rows)

    return change


def out(at: tuple[int, ...], path: str) -> Change:
    """Leave something out."""

    def change(*rows: Row) -> None:
        *inner, last = path.split(".")
        for which in at:
            del functools.reduce(dict.__getitem__, inner, rows[which])[last]

    return change


def window(at: tuple[int, ...], begin_s: float, end_s: float) -> Change:
    return put(at, "window_s", [begin_s, end_s])


def least_bytes(row: Row, client: Row) -> float:
    """Return what must have crossed the rail for the client's numbers to be true."""
    if row["check"] == "path_mtu":
        return 9000.0
    if "iterations" in client:
        return float(client["iterations"] * 65536)
    begin, end = client["window_s"]
    return float(client["metrics"]["bandwidth_gbps"] * 1e9 / 8 * 0.95 * max(4.0, end - begin))


def idle_bytes(row: Row) -> float:
    """Return what an idle rail may carry around a row's window."""
    return float(row["idle_bytes_per_s"] * ((row["window_s"] or [0, 0])[1] + 120))


def least(times: float) -> Any:
    """Return what makes that many times the least that must have crossed, in the counters' unit."""
    return lambda row, client: (
        times * least_bytes(row, client) / (4 if "port_rcv_data" in row["counters"] else 1)
    )


def most(factor: float, times: float) -> Any:
    """Return what makes that many times the most that explains itself."""
    return lambda row, client: (
        times * (20 * factor * least_bytes(row, client) + idle_bytes(row))
        / (4 if "port_rcv_data" in row["counters"] else 1)
    )  # fmt: skip


# Edits of packed rows: they and all lines.


def exchange_digests(packed: list[Row], lines: list[Row]) -> None:
    """Let each end have heard the digest of what the other one says by now."""
    for one, other in (packed, packed[::-1]):
        made = expand_row(one, lines)[0]
        if made is not None:
            tell(other, made)


def value(at: tuple[int, ...], place: int, new: Any, retell: bool = True) -> Edit:
    """Put a value in its place, or what follows from it."""

    def edit(packed: list[Row], lines: list[Row]) -> None:
        for which in at:
            values = packed[which]["v"]
            values[place] = new(values[place]) if callable(new) else new
        if retell:
            exchange_digests(packed, lines)

    return edit


def beside(at: tuple[int, ...], place: int, after: bool, by: int) -> Edit:
    """Let a counter begin where it ended in another row, or end where it began there, but for so many."""

    def edit(packed: list[Row], lines: list[Row]) -> None:
        mine = packed[at[0]]
        its = next(one for one in lines if one.get("as") == mine["as"] and one is not mine)["v"]
        mine["v"][place] = (its[place] + its[place + 1] if after else its[place] - mine["v"][place + 1]) + by
        exchange_digests(packed, lines)

    return edit


def frame_of(packed: Row, lines: list[Row]) -> Row:
    """Give a packed row a frame of its own, and return the values in it."""
    own = json.loads(json.dumps(next(one for one in lines if one.get("frame") == packed["as"])))
    own["frame"] = packed["as"] = packed["as"][:-8] + "00000000"
    lines.insert(lines.index(packed), own)
    made: Row = own["row"]
    return made


def fixed(at: tuple[int, ...], name: str, new: Any = None) -> Edit:
    """Let a metric be where a frame has what is alike in all of its rows."""

    def edit(packed: list[Row], lines: list[Row]) -> None:
        for which in at:
            alike, own = frame_of(packed[which], lines)["metrics"]
            seen = packed[which]["v"].pop(FIRST + list(own).index(name)) if name in own else None
            alike[name] = seen if new is None else new
            if name in own:
                del own[name]
        exchange_digests(packed, lines)

    return edit


def framed(at: tuple[int, ...], key: str, new: Any) -> Edit:
    """Let a frame say something."""

    def edit(packed: list[Row], lines: list[Row]) -> None:
        for which in at:
            frame_of(packed[which], lines)[key] = new
        exchange_digests(packed, lines)

    return edit


def of_other_rail(at: tuple[int, ...]) -> Edit:
    """Let a row be one of the frame of the node's other rail."""

    def edit(packed: list[Row], lines: list[Row]) -> None:
        frames = {one["frame"]: one["row"] for one in lines if "frame" in one}
        for which in at:
            mine = frames[packed[which]["as"]]
            alike = [
                name
                for name, one in frames.items()
                if one["rail"] != mine["rail"]
                and all(one[key] == mine[key] for key in ("host", "end", "check"))
            ]
            packed[which]["as"] = alike[0]

    return edit


def nothing(*_given: Any) -> None:
    """Change nothing."""


def spoilt(kind: str, which: int, change: Change, edit: Edit, place: Path) -> tuple[RunFolder, str]:
    """Return a sweep in which one test's rows are changed, then their packed rows; and the test's id."""
    folder, rows, packers, before = sweep(kind, place)
    identity = KINDS[kind][-1][which]
    mine = [row for row in rows if row["id"] == identity]
    ends = sorted(json.loads(json.dumps(mine)), key=lambda row: str(row["end"]))
    change(*ends)
    for row, other in (ends, ends[::-1]):
        row["other_end"] |= {key: other[key] for key in ("status", "proof", "metrics", "counters", "error")}
    lines: list[Row] = json.loads(before)
    for row, host in [(row, str(row["host"])) for row in mine]:
        at = next(at for at, line in enumerate(lines) if line.get("id") == identity and _host(line) == host)
        new = next(one for one in ends if one["host"] == row["host"])
        frames = [line for line in lines if "frame" in line]
        changed = packed_lines.unpack([*frames, *copy.deepcopy(packers[host]).lines([new])])
        lines[at : at + 1] = changed[len(frames) :]
    packed = [line for line in lines if line.get("id") == identity]
    assert all("as" in line for line in packed), "a row is written in full, and in no column"
    packed.sort(key=lambda line: _host(line) != ends[0]["host"])
    edit(packed, lines)
    return written(folder, place / "spoilt" / kind, results=lines), identity


def _host(line: Row) -> str:
    return str(line["as"]).partition("/")[0]
