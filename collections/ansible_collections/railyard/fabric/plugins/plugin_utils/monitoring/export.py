# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All files for a Prometheus that a site already has: rules, dashboards, targets and scrape jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring import readme, rules, scrape, targets

#: Where the README has the site put the folder; names of target files in scrape.yml begin with it.
INSTALLED_AT = "/etc/prometheus/railyard"
INHIBIT = "alertmanager-inhibit.yml"
#: The forms of the rules: files of Prometheus', or objects of the Prometheus operator.
FORMS = ("rules", "prometheusrule")


class Wanted(NamedTuple):
    """What a site wants.

    Attributes:
        installed_at: the folder on the host of Prometheus.
        form: one of `FORMS`.
        job: a regular expression for the site's own job of node_exporter; None: Railyard's job is used.
        runs: targets that serve the metrics of runs.
        overrides: alert -> what the site changes of it.
        thresholds: threshold -> the site's number.
        bmc_exporter: address and port of what asks the BMCs; empty: there is none.
    """

    installed_at: str = INSTALLED_AT
    form: str = "rules"
    job: str | None = None
    runs: Sequence[str] = ()
    overrides: Mapping[str, Mapping[str, Any]] = {}
    thresholds: Mapping[str, float] = {}
    bmc_exporter: str = ""


def files(inventory: Inventory, wanted: Wanted, folder: Path | None = None) -> dict[str, str]:
    """Return the files by their path in the folder, README.md last.

    Args:
        inventory: checked.
        wanted: what the site wants.
        folder: where the role's files are; None: found beside this collection.

    Raises:
        RulesError: an override or a threshold is of nothing that there is.
    """
    made = {**rule_files(wanted, folder), **dashboards(wanted.job, folder)}
    nodes = targets.nodes_to_scrape(inventory, only_ours=False)
    for job, entries in targets.target_files(inventory.cluster, nodes).items():
        made[f"file_sd/{targets.FILES[job]}"] = targets.to_json(entries)
    if wanted.bmc_exporter:
        made[f"file_sd/{targets.BMC_FILE}"] = targets.to_json(targets.bmc_targets(inventory))
    runs = [{"targets": list(wanted.runs), "labels": {}}] if wanted.runs else []
    made["file_sd/railyard_runs.json"] = targets.to_json(runs)
    jobs = scrape.jobs(wanted.installed_at, None, bmc_exporter=wanted.bmc_exporter)
    if wanted.job is not None:
        jobs = jobs[1:]  # the site's own job scrapes node_exporter: never twice
    made["scrape.yml"] = readme.SCRAPE_COMMENT + rules.dump({"scrape_configs": jobs})
    made[INHIBIT] = ((folder or rules.files_folder()) / INHIBIT).read_text(encoding="utf-8")
    made["README.md"] = readme.text(
        inventory.cluster, wanted.installed_at, wanted.form, wanted.job, len(jobs), sorted(made)
    )
    return made


def rule_files(wanted: Wanted, folder: Path | None = None) -> dict[str, str]:
    """Return the rule files in the form that is wanted, by their path in the folder."""
    texts = rules.site_rules(rules.rule_texts(folder), wanted.overrides, wanted.job)
    own = rules.threshold_rules(wanted.thresholds, folder)
    if own is not None:
        texts[rules.THRESHOLDS_FILE] = own
    if wanted.form == "prometheusrule":
        texts = {name: rules.as_prometheus_rule(name, text) for name, text in texts.items()}
    return {f"rules/{name}": text for name, text in texts.items()}


def dashboards(job: str | None, folder: Path | None = None) -> dict[str, str]:
    """Return the dashboards by their path in the folder."""
    found = sorted(((folder or rules.files_folder()) / "dashboards").glob("*.json"))
    texts = {file.name: file.read_text(encoding="utf-8") for file in found}
    if job is not None:
        texts = {name: rules.with_job_in_json(text, job) for name, text in texts.items()}
    return {f"dashboards/{name}": text for name, text in texts.items()}


def checked_configuration(made: Mapping[str, str], installed_at: str, folder: str) -> str:
    """Return a prometheus.yml with which promtool checks the files of `folder` before they are installed."""
    jobs = yaml.safe_load(made["scrape.yml"])["scrape_configs"]
    text = rules.dump({"rule_files": [f"{folder}/rules/*.yml"], "scrape_configs": jobs})
    return text.replace(installed_at, folder)
