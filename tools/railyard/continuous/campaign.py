"""`railyard validate --idle`: idle nodes in groups, longest unproven first, within a time."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.railyard.fabric.plugins.module_utils import owner_lock
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import cost
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.continuous import choose, own_history
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line, fold_names
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import node_results, wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.comparison import three
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.node_results import RunResult

from railyard.base import output
from railyard.base.errors import UserError
from railyard.base.signals import Interrupts
from railyard.continuous import allocation, idle
from railyard.operate import ansible_args, commands
from railyard.operate.commands import FAILED, INCOMPLETE, OK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory

#: `--limit-time` where none is given.
LIMIT_TIME = "30m"
#: Beside the runs; `.lock` is a single run's.
_LOCK = ".idle.lock"
_SPAN = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_UNIT_S = (3600, 60, 1)
#: Facts, staging, fetching and judging, beside what the tests take; and what an estimate may be wrong by.
_AROUND_S, _MARGIN = 60.0, 1.2
#: Nodes that Slurm gave to somebody else in the meantime are looked up anew so often.
_TRIES = 3
_WORSE_SHOWN = 20


def seconds(text: str) -> float:
    """Return a span of time such as `30m`, `1h30m` or `90s` in seconds.

    Raises:
        UserError: it is none.
    """
    found = _SPAN.fullmatch(text.strip())
    parts = [int(one or 0) for one in found.groups()] if found else []
    total = sum(number * unit for number, unit in zip(parts, _UNIT_S, strict=True)) if parts else 0
    if not total:
        raise UserError(f"--limit-time {text} is no time", "write it as 30m, 1h30m or 90s")
    return float(total)


@dataclass
class Campaign:
    """One call of `validate --idle`.

    Attributes:
        inventory: the whole inventory, checked.
        sources: the values of `-i`.
        argv: Ansible's options.
        reports_dir: the folder of all clusters' runs.
        uses_slurm: nodes come from sinfo, and are held by salloc; else from a look at each of them.
        interrupts: counts the signals that ask to stop.
        retests: nodes that `railyard drain` drained are measured as well, since a good run resumes them.
        until_s: by the monotonic clock; no group begins that would end later, and one that runs is stopped.
    """

    inventory: Inventory
    sources: Sequence[str]
    argv: Sequence[str]
    reports_dir: Path
    uses_slurm: bool
    until_s: float
    interrupts: Interrupts
    retests: bool = False
    done: set[str] = field(default_factory=set)
    met: dict[str, set[str]] = field(default_factory=dict)
    statuses: list[int] = field(default_factory=list)
    is_shown: bool = False

    @property
    def least(self) -> int:
        """The fewest nodes of a group: of a cluster of two, both."""
        return min(choose.LEAST_NODES, len(self.inventory.nodes))

    @property
    def cluster_dir(self) -> Path:
        """The folder of the cluster's runs."""
        return self.reports_dir / self.inventory.cluster

    def runs(self) -> list[RunResult]:
        """Return the cluster's runs, newest first."""
        return list(node_results.each(self.cluster_dir))

    def run(self) -> int:
        """Validate groups until the time or the idle nodes are over; return the exit status."""
        if self.uses_slurm and self.retests:
            self.retest()
        tries = 0
        while tries < _TRIES and not self.interrupts.count:
            states = self.states()
            group = self.next_group(states)
            if not group:
                break
            try:
                self.validate(group, states)
            except allocation.NotIdleError as error:
                tries += 1
                say(f"Slurm does not give {fold_names(group)} now: {error}", "yellow")
        return self.conclude()

    def retest(self) -> None:
        """Measure nodes that `railyard drain` drained, with idle ones as partners.

        Slurm starts nothing on a drained node, so that the run goes by SSH; its partners are allocated, and a
        step of that job does not make them busy.
        """
        states = self.states()
        ours = choose.order([name for name, one in states.items() if one.is_ours], self.runs())
        partners = [name for name, one in states.items() if one.state == idle.IDLE][: self.least - 1]
        if not ours or len(partners) < self.least - 1:
            return
        group = next(
            (ours[:size] for size in range(len(ours), 0, -1) if self.fits([*ours[:size], *partners])), []
        )
        if not group:
            return
        say(f"Measuring drained nodes again: {fold_names(group)}, with {fold_names(partners)}")
        try:
            names = [states[name].name for name in partners]
            left_s = self.until_s - time.monotonic()
            # Of the partners' GPUs the job needs none: what is measured does not run in it.
            with allocation.held(names, 0, left_s) as job:
                self.operate(
                    [*group, *partners], "ansible", ["-e", f"{policy.RUN_VARIABLES['slurm_job']}={job}"]
                )
        except allocation.NotIdleError as error:
            say(f"Slurm does not give {fold_names(partners)} now: {error}", "yellow")

    def states(self) -> dict[str, idle.NodeState]:
        """Return which nodes are idle now."""
        names = [node.name for node in self.inventory.selected_nodes()]
        if self.uses_slurm:
            return idle.of_slurm(names)
        return idle.of_nodes(self.sources, ansible_args.parse(self.argv), names, self.interrupts)

    def next_group(self, states: Mapping[str, idle.NodeState]) -> list[str]:
        """Return the nodes of the next run, and say why there is none."""
        free = [name for name, one in states.items() if one.state == idle.IDLE]
        waiting = [name for name in free if name not in self.done]
        if not self.is_shown:
            idle.show(states)
            self.is_shown = True
        if not waiting:
            return []
        runs = self.runs()
        ordered = choose.order(waiting, runs)
        # An allocation asks for so many GPUs of each of its nodes.
        of_kind = [name for name in free if states[name].gpus == states[ordered[0]].gpus]
        alike = [name for name in ordered if name in of_kind]
        # Nodes that were measured already serve as partners again, where too few others are left.
        known = self.met.get(ordered[0], set())
        spare = sorted((name for name in of_kind if name not in alike), key=lambda name: name in known)
        alike += spare[: max(0, self.least - len(alike))]
        group = choose.group(alike, self.met, self.fits, self.least)
        if not group and not self.done:
            say(self.why_none(alike), "yellow")
        return group

    def why_none(self, nodes: Sequence[str]) -> str:
        """Say why no group can be made of idle nodes."""
        if len(nodes) < self.least:
            needs = f"It takes {self.least} to tell a slow node from a slow partner."
            return f"Nothing was measured: {wording.count(len(nodes), 'idle node')}. {needs}"
        takes = self.cost_of(nodes[: self.least]).time_text()
        return f"Nothing was measured: {self.least} nodes take about {takes}. Give more with --limit-time."

    def cost_of(self, nodes: Collection[str]) -> cost.Cost:
        """Return what a run of these nodes is expected to take."""
        of_group = copy.copy(self.inventory)
        of_group.selected = frozenset(nodes)
        of_group.policy = policy.apply_run_variables(self.inventory.policy, {})
        return cost.estimate_inventory(of_group)

    def fits(self, nodes: Sequence[str]) -> bool:
        """Tell whether a run of these nodes ends in time."""
        expected_s = self.cost_of(nodes).duration_s * _MARGIN + _AROUND_S
        return expected_s <= self.until_s - time.monotonic()

    def validate(self, group: Sequence[str], states: Mapping[str, idle.NodeState]) -> None:
        """Measure a group, and note with whom each of its nodes failed.

        Raises:
            NotIdleError: Slurm gave one of them to somebody else.
        """
        say(f"Validating {len(group)} idle nodes: {fold_names(group)}")
        with ExitStack() as stack:
            if self.uses_slurm:
                names = [states[name].name for name in group]
                left_s = self.until_s - time.monotonic()
                stack.enter_context(allocation.held(names, states[group[0]].gpus, left_s))
            self.operate(group, "slurm" if self.uses_slurm else "ansible")
        self.done |= set(group)
        runs = self.runs()
        if runs:
            self.tell_worse(runs)
            for name in group:
                partners = choose.failed_with(name, runs[0])
                others = (
                    {one for one, state in states.items() if state.state == idle.IDLE} - partners - {name}
                )
                # Its second run decides, with other partners, while they are idle and there is time.
                if partners and others and name not in self.met:
                    self.met[name] = partners
                    self.done.discard(name)

    def operate(self, nodes: Sequence[str], launcher: str, more: Sequence[str] = ()) -> None:
        """Measure nodes, judge and report."""
        words = [*self.argv, f"--limit={','.join(nodes)}", "-e", f"{cost.CONSENT}=true", *more]
        status = commands.operate(
            "validate",
            self.sources,
            words,
            self.reports_dir,
            launcher=launcher,
            until_s=self.until_s,
            stops=self.interrupts,
        )
        self.statuses.append(status)

    def tell_worse(self, runs: Sequence[RunResult]) -> None:
        """Print which rails became worse than they were in the node's own last good runs."""
        compared = own_history.compare(runs[0], runs[1:])
        worse = own_history.worse(compared)
        for one in worse[:_WORSE_SHOWN]:
            where = f"{one.node} {one.rail or 'all rails'}"
            unit = wording.unit(one.metric)
            say(
                f"{where}: {wording.check_title(one.check)} {three(one.value)} {unit}, before "
                f"{three(one.usual or 0.0)} {unit} (median of its last {len(one.before)} good runs)",
                "yellow",
            )
        if len(worse) > _WORSE_SHOWN:
            say(f"and {len(worse) - _WORSE_SHOWN} more", "yellow")

    def conclude(self) -> int:
        """Say what was left, and return the exit status of all groups together."""
        if not self.statuses:
            return INCOMPLETE
        return next((status for status in (FAILED, INCOMPLETE) if status in self.statuses), OK)


def run(
    sources: Sequence[str],
    argv: Sequence[str],
    reports_dir: Path,
    limit_time: str,
    launcher: str | None,
    after: Callable[[Inventory], int] | None = None,
) -> int:
    """Validate idle nodes.

    Args:
        sources: the values of `-i`.
        argv: Ansible's options; `--limit` narrows the choice.
        reports_dir: the folder of all clusters' runs.
        limit_time: how long all of it may take.
        launcher: `slurm`, `ansible`, or None: Slurm where this machine has it.
        after: called when all is measured, such as what drains nodes; returns an exit status.

    Returns:
        1 when something failed, 3 when something is unmeasured or nothing was measured, else 0.

    Raises:
        UserError: bad input, Slurm does not answer, or another such call is going on.
    """
    limit_s = seconds(limit_time)
    arguments = ansible_args.parse(argv)
    inventory = commands.checked_inventory(sources, arguments.limit)
    has_slurm = idle.has_slurm()
    if launcher == "ansible" and has_slurm:
        raise UserError(
            "this machine has Slurm: without an allocation a job may begin on a node that is measured",
            "leave --launcher out, or give --launcher slurm",
        )
    if launcher == "slurm" and not has_slurm:
        raise UserError("there is no sinfo here", "run it on a machine of the Slurm cluster")
    with Interrupts() as interrupts:
        until_s = time.monotonic() + limit_s
        campaign = Campaign(
            inventory, sources, argv, reports_dir, has_slurm, until_s, interrupts, retests=after is not None
        )
        if arguments.check:
            idle.show(campaign.states())
            print("Check mode: nothing was measured.")
            return INCOMPLETE
        with _only_one(campaign.cluster_dir):
            status = campaign.run()
            told = after(inventory) if after else OK
    return next((one for one in (FAILED, INCOMPLETE) if one in (status, told)), OK)


@contextmanager
def _only_one(cluster_dir: Path) -> Iterator[None]:
    """Keep a second call away for the time of this one; the kernel lets go of it when this process ends."""
    try:
        cluster_dir.mkdir(parents=True, exist_ok=True)
        with owner_lock.held(cluster_dir / _LOCK, patience_s=0):
            yield
    except owner_lock.LockedError as error:
        raise UserError(
            f"another validation of idle nodes of {cluster_dir.name} is going on: {error}",
            "wait for it to end, or stop it with Ctrl-C where it runs",
        ) from None


def say(text: str, style: str | None = None) -> None:
    """Print a line."""
    output.console().print(clean_line(text), style=style)
