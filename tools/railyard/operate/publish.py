"""After each run its metrics go to the monitoring hosts; whether they arrive changes no run's verdict.

Not a play of validate.yml: Ansible ends a playbook when a run has failed, which is when metrics matter most.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring import targets
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line, fold_names
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import run_metrics
from rich.console import Console
from rich.text import Text

from railyard.base import paths
from railyard.operate.ansible import AnsibleRun, Outcome

if TYPE_CHECKING:
    from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory

#: A host that accepts a connection and then hangs must not keep anybody waiting.
LIMIT_S = 60.0


def publish_runs(
    inventory: Inventory,
    reach: Sequence[str],
    reports_dir: Path,
    passwords: Mapping[str, str],
    stops_asked: Callable[[], int],
    out: Console,
) -> None:
    """Copy the metrics of all runs to the hosts that serve them; print a line where that does not succeed.

    Args:
        inventory: the run's.
        reach: options of Ansible that say how hosts are reached.
        reports_dir: the folder with the metrics.
        passwords: as `AnsibleRun` takes them.
        stops_asked: how often the user pressed Ctrl-C since the run was concluded.
        out: where to print.
    """
    hosts = [one.name for one in targets.servers(inventory)]
    if not hosts or not (reports_dir / run_metrics.FILE).is_file():
        return
    playbook = paths.repo_root() / "playbooks" / "monitoring.yml"
    ours = ["-e", f"railyard_reports_dir={reports_dir.absolute()}"]
    until_s = time.monotonic() + LIMIT_S
    # The last --limit counts, so that the run's own does not leave the hosts out.
    only = ["--tags", "runs", "--limit", "monitoring", "-e", "railyard_inventory_checked=true"]
    try:
        outcome = AnsibleRun(
            playbook,
            inventory.sources,
            [*reach, *only, *ours],
            stops_asked=lambda: stops_asked() + (time.monotonic() > until_s),
            passwords=passwords,
            ends_late=True,
        ).run()
        reasons = _reasons(outcome, hosts)
    except OSError as error:
        reasons = dict.fromkeys(hosts, str(error))
    if not reasons:
        return
    sources = [word for source in inventory.sources for word in ("-i", source)]
    again = shlex.join(["ansible-playbook", *sources, str(playbook), *ours])
    for reason in dict.fromkeys(reasons.values()):
        named = fold_names([host for host, why in reasons.items() if why == reason])
        text = (
            f"{named} did not get the metrics of this run, which changes nothing in its result: {reason}. "
            f"Fix: the next run copies them again; to copy them now, or to set the host up first: {again}"
        )
        out.print(Text(clean_line(text), style="yellow"), soft_wrap=True)


def _reasons(outcome: Outcome, hosts: Sequence[str]) -> dict[str, str]:
    """Return why each host has no metrics of the run."""
    progress = outcome.progress
    found = {one.host: _first_line(one.message) for one in progress.failures}
    reasons = {host: found[host] for host in hosts if host in found}
    if outcome.interrupted:
        return {host: found.get(host, "it was stopped, or took too long") for host in hosts}
    if outcome.return_code and not reasons:
        told = [*found.values(), *progress.messages, f"Ansible ended with {outcome.return_code}"]
        return dict.fromkeys(hosts, _first_line(told[0]))
    return reasons


def _first_line(message: str) -> str:
    return message.removeprefix("Task failed: ").partition("\n")[0].rstrip(". ")
