# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When may a verdict rest on the rows of a test? Only on both ends', whole, proven and of one mind. Pure.

Closed: what is not understood is not trusted. A test has no number, for the first of these reasons:

 1. Nothing is known of one of its nodes (`Evidence.unknown`).
 2. A row names no end, or one end wrote two.
 3. A row is not what its type says (`records/pair_rows`), or says itself that nothing was measured.
 4. A row is not the asked test's (`_not_the_asked`): of another run, host, netdev or address; its numbers
    are impossible (`row_numbers.impossible`); the MTU is not the plan's; of RDMA (`_not_the_rails_port`)
    port, GUID, GID or RDMA MTU is not the rail's, or a counter is missing or stood still.
 5. A row is missing.
 6. Probes were lost, which is a failure, or were missed by the tool alone.
 7. The two rows are no pair (`_no_pair`): a node was rebooted, the ends did not tell each other over the rail
    what they wrote down, were not alike, or say different numbers (`row_numbers.disagreement`).
 8. An end is not proven, by its own word or by its counters (`row_counters.counter_problem`), or another test
    claims the same bytes (`row_counters.Claims`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import chain
from typing import cast

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import nic_drivers, rdma_counters
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind, rdma_mtu
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.records import failures, reader
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine, nodes_of
from ansible_collections.railyard.fabric.plugins.module_utils.records.pair_rows import PairRow
from ansible_collections.railyard.fabric.plugins.module_utils.records.reader import RefusedError
from ansible_collections.railyard.fabric.plugins.module_utils.runner import short_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.rail_end import RailEnd
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    CHECKS,
    FAIL,
    PATH_MTU,
    PROBES,
    UNMEASURED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import (
    gpu_rows,
    readings,
    row_counters,
    row_numbers,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.clock import Clock
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome import causes
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row, unlike

#: A row as it was read; and one that is known to be what its type says.
Pair = tuple[PairRow, PairRow]
#: Id in the cause table, and what was seen.
Problem = tuple[str, str]

_ECHOES = ("peer_failed", "rendezvous_timeout", "management_timeout")
_SAME_AS_ASKED = ("check", "tool", "node", "peer", "rail", "direction")
#: What both ends of RDMA must say alike: a test of two different things is none.
ALIKE = (
    "gid_type", "active_mtu_bytes", "qps", "message_bytes", "bandwidth_is", "traffic_class", "service_level",
)  # fmt: skip
#: From this exit status on a program was ended by a signal, as a shell says it. What these print is a result
#: all the same; all others' was taken with a status of 0 alone, or of a server that was not waited for.
_KILLED, _WHATEVER_STATUS = 128, ("ping", "sockperf", "udp_probe")


class Evidence:
    """Looks at the rows of one test after the other.

    Args:
        run: the run id.
        rules: the merged policy.
        fleet: all nodes' facts.
        why_apart: returns the cause why the two ends of a test did not meet, by what the rails heard of each
            other; None where nothing shows it.
        claims: whose bytes the counters of all rows are.
        clock: when the rows can have been written.
        whole: returns a light row as it stands in the folder.
    """

    def __init__(
        self,
        run: str,
        rules: Policy,
        fleet: BoundFacts,
        why_apart: Callable[[AskedLine], dict[str, str] | None],
        claims: row_counters.Claims,
        clock: Clock,
        whole: Callable[[Row], Row] = lambda row: row,
    ) -> None:
        self._whole = whole
        self._clock = clock
        self._run = run
        self._policy = rules
        self._fleet = fleet
        self._why_apart = why_apart
        self._claims = claims
        #: Node -> rail -> its end; node -> the words of all its rails.
        self.ends = {
            node: {rail: RailEnd(end, fleet.transports[node]) for rail, end in rails.items()}
            for node, rails in fleet.bound.items()
        }
        self.all_words = {
            node: set[str]().union(*(end.words for end in rails.values()))
            for node, rails in self.ends.items()
        }
        #: Test -> its good pairs.
        self._good: dict[str, list[tuple[Row, Row]]] = {}
        #: Tests whose rows are known to be good.
        self.plain: Container[str] = ()

    def pair(self, asked: AskedLine, mine: Sequence[Row]) -> Pair | Answer:
        """Return the two rows of an attempt at a test when a verdict may rest on them, else what follows.

        Args:
            asked: the asked line.
            mine: the attempt's rows.
        """
        if len(mine) == 2 and asked["id"] in self.plain:
            both = mine if mine[0]["end"] == "client" else mine[::-1]
            return cast("PairRow", both[0]), cast("PairRow", both[1])
        # Sums, switches and both directions at once ask again of tests that were answered before.
        for client, server in self._good.get(str(asked["id"]), ()):
            if len(mine) == 2 and all(row is client or row is server for row in mine):
                return cast("PairRow", self._whole(client)), cast("PairRow", self._whole(server))
        whole = [self._whole(row) for row in mine]
        found = self._pair(asked, whole)
        if isinstance(found, tuple):
            good = mine if found[0] is whole[0] else mine[::-1]
            self._good.setdefault(str(asked["id"]), []).append((good[0], good[1]))
        return found

    def _pair(self, asked: AskedLine, mine: Sequence[Row]) -> Pair | Answer:
        if nothing := self.unknown(asked):
            return nothing
        node, peer = nodes_of(asked)
        by_end: dict[str, list[Row]] = {"client": [], "server": []}
        for row in mine:
            if row.get("end") not in ("client", "server"):
                return Answer.unmeasured("row_garbled", f"end is {row.get('end')!r}")
            by_end[row["end"]].append(row)
        if any(len(found) > 1 for found in by_end.values()):
            return Answer.unmeasured("duplicate_row", asked["id"])
        refused = [
            answer
            for row in mine
            if (answer := self.refused(row, asked, node if row["end"] == "client" else peer))
        ]
        if refused:
            told = min(refused, key=_telling)
            # A node that met nobody says so; why its peer was not there is what helps.
            absent = peer if by_end["client"] else node
            echo = told.cause.get("cause_class") in _ECHOES and len(mine) == 1
            if told.cause.get("cause_class") == "rendezvous_timeout":
                told.cause = self._why_apart(asked) or told.cause
            return (self._fleet.held_up(absent) if echo else None) or told
        if not mine:
            held = self._fleet.held_up(node) or self._fleet.held_up(peer)
            return held or Answer.unmeasured("no_row", f"{node} and {peer}")
        if len(mine) == 1:
            silent = peer if by_end["client"] else node
            return self._fleet.held_up(silent) or Answer.unmeasured("one_ended", f"{silent} is silent")
        # Which has not been refused is what its type says.
        client, server = cast("PairRow", by_end["client"][0]), cast("PairRow", by_end["server"][0])
        return self._doubt(client, server) or (client, server)

    def unknown(self, asked: AskedLine) -> Answer | None:
        """Return the verdict of a test when nothing is known of one of its ends."""
        node, peer = nodes_of(asked)
        return self._fleet.unknown(node) or self._fleet.unknown(peer)

    def refused(self, row: Row, asked: AskedLine, host: str) -> Answer | None:
        """Return the verdict of a row that says itself that it measured nothing, or cannot be this test's."""
        try:
            if row.get("status") == "measured":
                wrong = next(self._not_the_asked(reader.read(PairRow, row), asked, host), None)
                return Answer.unmeasured(*wrong) if wrong else None
            failed = failures.read(row)
        except RefusedError as refused:
            return Answer.unmeasured("row_garbled", f"{host}: {refused}")
        ends = str(asked["node"]), str(asked["peer"])
        answer = Answer(UNMEASURED, cause=causes.explain_error(failed["error"], host, *ends))
        # A probe that was sent and never came back is an answer about the path, not a missing one.
        ran = failed["status"] == "failed" and failed["error"]["class"] == "tool_failed"
        if ran and asked["check"] in PROBES and self.answers(row, asked):
            answer.outcome = FAIL
            answer.basis = "the probe has to arrive"
        return answer

    def _not_the_asked(self, row: PairRow, asked: AskedLine, host: str) -> Iterator[Problem]:
        """Yield in what a row that says `measured` is not the asked test's row of this end: first counts.

        Args:
            row: the row; its `end` is already known to be client or server.
            asked: the asked line.
            host: who should have written it.
        """
        known = self.ends[host][str(asked["rail"])]
        end, check, without_ip = known.bound, CHECKS[str(asked["check"])], known.without_ip
        question: Mapping[str, object] = asked
        wanted = {"schema": 1, "run": self._run, **{key: question[key] for key in _SAME_AS_ASKED}}
        wanted |= {"host": host, "address": known.address}
        wanted |= {"round": asked.get("round"), "group": asked.get("group")}
        said: Mapping[str, object] = row
        if key := unlike(said, wanted):
            yield "row_garbled", f"{host}: {key} is {said.get(key)!r}, asked was {wanted[key]!r}"
        if outside := self._clock.outside(host, row):
            yield "row_garbled", f"{host}: {outside}"
        of_gpu = gpu_rows.unlike(row, end, self._fleet.gpus.get(host), self._policy)
        for problem in chain(self._not_its_tool(row, asked, host), of_gpu):
            yield "row_garbled", f"{host}: {problem}"
        # An InfiniBand port without IP needs no netdev: its rail is told by port and GUID.
        own, netdev = (end.netdev or {}).get("netdev"), row["netdev"]
        if netdev != own or (own is None and not (without_ip and check.rdma)):
            yield "row_garbled", f"{host}: it was measured on netdev {netdev!r}, the rail is bound to {own!r}"
        for problem in row_numbers.impossible(row, self._policy):
            yield "row_garbled", f"{host}: {problem}"
        if short := row_numbers.too_short(row, self._policy):
            yield "window_short", f"{host}: {short}"
        # Without IP there is no netdev whose MTU counts; the port's is `active_mtu_bytes`.
        mtu_bytes, planned = row["mtu_bytes"], end.rail.get("mtu")
        has_one = check.name not in PATH_MTU and not without_ip
        if has_one and (mtu_bytes is None or planned not in (None, mtu_bytes)):
            yield "mtu_differs", f"{host}: measured at MTU {mtu_bytes!r}, the plan's is {planned!r}"
        if check.rdma:
            for cause, problem in _not_the_rails_port(row, known, self._fleet.transports[host]):
                yield cause, f"{host}: {problem}"

    def _not_its_tool(self, row: PairRow, asked: AskedLine, host: str) -> Iterator[str]:
        """Yield in what the tool's own end, or its command line, is not that of a test on this rail."""
        status = row.get("exit_status")
        good = range(_KILLED if asked["tool"] in _WHATEVER_STATUS else 1)
        if status is not None and status not in good:
            yield f"its tool's exit status is {status!r}"
        # The floor rests on what its version can do; a busy node may not tell it in time.
        version, known = row["tool_version"], self._fleet.iperf3.get(host)
        if asked["tool"] == "iperf3" and known and version not in (known, "unknown"):
            yield f"it is iperf3 {version}, by its facts the node has {known}"
        peer, rail = str(asked["peer"] if host == asked["node"] else asked["node"]), str(asked["rail"])
        mine, its = self.ends[host][rail].words, self.ends[peer][rail].words
        for argv in row.get("argv", []):
            if others := self.all_words[host].intersection(argv) - mine - its:
                stranger = min(others, key=argv.index)
                yield f"its tool was told {stranger}, which is another rail's"
            elif asked["tool"] not in argv and asked["tool"] not in map(os.path.basename, argv):
                yield f"it is {asked['tool']}'s, and was told {' '.join(argv)}"
            elif mine.isdisjoint(argv) and its.isdisjoint(argv):
                yield f"its tool was told nothing of this rail: {' '.join(argv)}"
            elif other := row_numbers.other_class(argv, asked["check"], self._policy):
                yield other

    def answers(self, row: Row, asked: AskedLine) -> bool:
        """Tell whether a row without a measurement is this run's and this test's."""
        question: Mapping[str, object] = asked
        same = all(row.get(key) == question[key] for key in ("check", "node", "peer", "rail"))
        return same and row.get("run") == self._run

    def _doubt(self, client: PairRow, server: PairRow) -> Answer | None:
        """Return the verdict when the two rows contradict each other, their counters or their proof."""
        lost = readings.lost(client)
        if lost:
            # Of a path of a smaller MTU the counters hold what was tried as well.
            came = lost["cause_class"] == "lost_packets" and readings.came_after_all(client, server)
            if came:
                return Answer.unmeasured("probes_missed", came)
            return Answer(FAIL, readings.observed(client, server), basis="loss must be 0", cause=lost)
        problems = chain(self._no_pair(client, server), self._unproven(client, server))
        wrong = next(problems, None)
        return Answer.unmeasured(*wrong) if wrong else None

    def _no_pair(self, client: PairRow, server: PairRow) -> Iterator[Problem]:
        """Yield in what two good rows of one test do not belong together."""
        ends = ((client, server), (server, client))
        for row, other in ends:
            boot_id, said = self._fleet.boot_ids.get(other["host"]), row["other_end"]
            if not boot_id:
                yield "facts_garbled", f"{other['host']}: boot_id is {boot_id!r}"
            # Both ends tell each other what they found, on the rail under test and sealed with the run's
            # secret. Two rows that only look like a pair did not have that conversation.
            if said is None:
                heard = f"{row['host']} did not hear from {other['host']} over the rail what it found"
                yield "ends_disagree", heard
                return
            if short_rows.boot_id_of(said, boot_id) != boot_id:
                yield "node_rebooted", other["host"]
            for key in short_rows.unlike(said, other):
                told = f"{other['host']} told {row['host']} of another {key} than it wrote down"
                yield "ends_disagree", told
        apart = row_numbers.disagreement(client, server, self._policy)
        if apart:
            yield "ends_disagree", apart
        if not CHECKS[client["check"]].rdma:
            return
        versions = client["tool_version"], server["tool_version"]
        if versions[0] is None or versions[0] != versions[1]:
            seen = f"{client['host']} {versions[0]!r}, {server['host']} {versions[1]!r}"
            yield "version_differs", f"{client['tool']}: {seen}"
        mine: Mapping[str, object] = client
        theirs: Mapping[str, object] = server
        for key in ALIKE:
            if mine.get(key) != theirs.get(key):
                yield "ends_disagree", f"{key}: client {mine.get(key)!r}, server {theirs.get(key)!r}"
        for row, other in ends:
            met, own = row.get("exchange", {}), other.get("exchange", {})
            if met.get("peer_port_guid") != own.get("port_guid"):
                seen = f"{row['host']} met a port of GUID {met.get('peer_port_guid')}"
                yield "guid_differs", f"{seen}, {other['host']}'s is {own.get('port_guid')}"
            if met and met.get("port_guid") == own.get("port_guid"):
                yield "guid_differs", f"both ends are the port of GUID {own.get('port_guid')}"

    def _unproven(self, client: PairRow, server: PairRow) -> Iterator[Problem]:
        """Yield what the runner and the rail's counters say against a pair."""
        for row in (client, server):
            where = f"{row['host']} ({row['end']})"
            if row["proof"] != "proven" or row.get("proof_reason"):
                reason = row.get("proof_reason") or f"it says {row['proof']!r}"
                yield "unproven", f"{where}: {reason}"
            problem = row_counters.counter_problem(row, client, self._policy)
            if problem:
                yield "unproven", f"{where}: {problem}"
            if row.get("group") is None and (unseen := self._claims.not_idle(row) or self._not_shown(row)):
                yield "unproven", f"{where}: nothing says that {unseen} was idle meanwhile"
            twice = self._claims.shared_by(row)
            if twice:
                yield "counted_twice", f"{where}: {twice}"

    def _not_shown(self, row: PairRow) -> str:
        """Return another rail of which a row leaves out what its netdev, or of RDMA its card, carried."""
        rdma, ends = CHECKS[row["check"]].rdma, self._fleet.bound[row["host"]]
        for rail, spans in (row["other_rails"] or {}).items():
            netdev, hca = (ends[rail].netdev, ends[rail].hca or {}) if rail in ends else (None, {})
            wanted: tuple[str, ...] = rdma_counters.NETDEV_BYTES if netdev else ()
            if rdma and hca.get("driver_class") == "hardware":
                driver = nic_drivers.find(hca.get("driver"))
                if driver is None or driver.traffic is None:
                    return rail
                wanted += () if driver.traffic.netdev_shows_rdma else driver.traffic.bytes
            if not spans.keys() >= set(wanted):
                return rail
        return ""


def _not_the_rails_port(row: PairRow, known: RailEnd, transport: str) -> Iterator[Problem]:
    """Yield in what an RDMA test did not run over the rail's own port, GID and RDMA MTU; the first counts."""
    end = known.bound
    hca = end.hca or {}
    port = hca.get("hca")
    if port is None or row["hca"] != port:
        yield "row_garbled", f"it was measured on HCA port {row['hca']!r}, the rail's is {port!r}"
    yield from _met_elsewhere(row, end)
    if transport == "roce":
        found = known.gid
        if found is None:
            yield "no_gid", f"the facts show no GID of the rail's address on {port}"
            return
        index, kind = row["gid_index"], row["gid_type"]
        if (index, kind) != (found.index, found.type):
            yield (
                "gid_wrong",
                f"it used GID index {index!r}, {kind!r}; the rail's is {found.index}, {found.type}",
            )
    elif transport == "efa" and row["gid_index"] != 0:
        yield "gid_wrong", f"it used GID index {row['gid_index']!r}; an EFA device has index 0 alone"
    mtu = row["active_mtu_bytes"]
    if mtu is None or mtu not in rdma_mtu.STEPS:
        yield "row_garbled", f"active_mtu_bytes is {mtu!r}"
        return
    least, greatest = known.rdma_mtus
    if least is not None and mtu < least:
        yield "rdma_mtu_small", f"measured at an RDMA MTU of {mtu}, {least} fits the inventory's"
    if greatest is not None and mtu > greatest:
        yield "mtu_differs", f"measured at an RDMA MTU of {mtu}, the inventory's allows {greatest}"
    yield from _not_the_drivers(row, hca)


def _not_the_drivers(row: PairRow, hca: Row) -> Iterator[Problem]:
    """Yield why a row's counters are not those by which its port's driver shows RDMA.

    Which ones they are is not for the row to choose: a card that shows netdev bytes alone shows no RDMA.
    """
    driver, port, spans = hca.get("driver"), hca.get("hca"), row["counters"] or {}
    if why_not := nic_drivers.why_unproven(driver):
        yield "unproven", f"{port}: {why_not}"
        return
    known = nic_drivers.find(driver)
    traffic = known.traffic if known is not None else None
    missing = next((one.name for one in traffic.counters if one.name not in spans), None) if traffic else None
    if missing is not None:
        reason = row.get("proof_reason") or f"by which driver {driver} of {port} shows its traffic"
        yield "unproven", f"{missing} is not counted: {reason}"
    if traffic is not None and not traffic.count_acknowledgements:
        return
    for name in rdma_counters.BOTH_WAYS:
        before, after = spans.get(name, (None, ...))
        if before == after:
            yield "unproven", f"{name} stood still, and whatever is sent is acknowledged"


def _met_elsewhere(row: PairRow, end: Bound) -> Iterator[Problem]:
    """Yield what is wrong with where the ends met: over the rail, and without IP on it over management."""
    said, guid = row.get("exchange"), (end.hca or {}).get("port_guid")
    if not bind.without_ip(end.rail):
        if said:
            yield "row_garbled", f"exchange is {said!r}, it had to be over the rail, which has an address"
    elif said is None or said.get("over") != "management":
        yield "row_garbled", f"exchange is {said!r}; without IP it is over the management network"
    elif not guid:
        yield "guid_unknown", f"the facts hold no GUID of {row['hca']}"
    elif said.get("port_guid") != guid:
        seen = f"it was measured on a port of GUID {said.get('port_guid')}"
        yield "guid_differs", f"{seen}, its facts say {guid}"


def _telling(answer: Answer) -> tuple[bool, bool]:
    """Order what two ends say of a test without a result: a finding first, an end that only echoes last."""
    return answer.outcome != FAIL, answer.cause.get("cause_class") in _ECHOES
