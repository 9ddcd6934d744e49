# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rule files: as they are, or with the site's job name, thresholds and overrides."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

# Those of an installed collection, and those of a checkout.
_FOLDERS = (Path(__file__).parents[3] / "roles", Path(__file__).parents[7] / "roles")

SEVERITIES = ("critical", "warning", "info")
THRESHOLDS_FILE = "railyard.thresholds.yml"
_MADE = "# Made by Railyard from roles/monitoring/files/rules: change the inventory, not this file.\n"
_JOB = re.compile(r'job="railyard-(node|gpu)"')

Document = dict[str, Any]


class RulesError(Exception):
    """A name that no rule has; the message lists the known names."""


def files_folder() -> Path:
    """Return the folder `files` of role monitoring, of a checkout or of an installed collection."""
    found = (folder / "monitoring" / "files" for folder in _FOLDERS)
    return next((folder for folder in found if folder.is_dir()), _FOLDERS[-1] / "monitoring" / "files")


def alerts(folder: Path | None = None) -> dict[str, Document]:
    """Return the rule of each alert by its name."""
    texts = rule_texts(folder)
    rules = (rule for text in texts.values() for rule in _rules(yaml.safe_load(text)))
    return {rule["alert"]: rule for rule in rules if "alert" in rule}


def thresholds(folder: Path | None = None) -> dict[str, Document]:
    """Return what is known of each threshold that a site may change, by its name."""
    file = (folder or files_folder()) / "thresholds.yml"
    found: dict[str, Document] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found


def rule_texts(folder: Path | None = None) -> dict[str, str]:
    """Return the rule files by name, in the order of their names."""
    rules = (folder or files_folder()) / "rules"
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(rules.glob("*.yml"))}


def site_rules(
    texts: Mapping[str, str],
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    job: str | None = None,
    keep_firing: bool = True,
) -> dict[str, str]:
    """Return rule files as a site wants them; a file that nothing changes keeps its text.

    Args:
        texts: the files by name.
        overrides: alert -> `enabled`, `for`, `severity`.
        job: a regular expression for the job that scrapes node_exporter, in place of railyard-node.
        keep_firing: whether the Prometheus knows `keep_firing_for`, which came with 2.42.

    Raises:
        RulesError: An override is of no alert that there is.
    """
    changed: dict[str, str] = {}
    wanted = dict(overrides or {})
    known = {
        rule["alert"] for text in texts.values() for rule in _rules(yaml.safe_load(text)) if "alert" in rule
    }
    unknown = sorted(set(wanted) - known)
    if unknown:
        raise RulesError(f"{unknown[0]} is no alert; there are: {', '.join(sorted(known))}")
    for name, text in texts.items():
        document = yaml.safe_load(text)
        result = copy.deepcopy(document)
        for group in result["groups"]:
            group["rules"] = [
                rule
                for rule in (_changed(one, wanted, job, keep_firing) for one in group["rules"])
                if rule is not None
            ]
        result["groups"] = [group for group in result["groups"] if group["rules"]]
        changed[name] = text if result == document else _MADE + dump(result)
    return changed


def threshold_rules(values: Mapping[str, float], folder: Path | None = None) -> str | None:
    """Return a rule file that records the site's thresholds; None where it has none.

    Raises:
        RulesError: A threshold that no rule reads.
    """
    if not values:
        return None
    known = thresholds(folder)
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise RulesError(f"{unknown[0]} is no threshold; there are: {', '.join(sorted(known))}")
    rules = [
        {"record": f"railyard:threshold:{name}", "expr": f"vector({values[name]})"} for name in sorted(values)
    ]
    return _MADE + dump({"groups": [{"name": "railyard-thresholds", "interval": "1m", "rules": rules}]})


def as_prometheus_rule(name: str, text: str) -> str:
    """Wrap a rule file as an object of the Prometheus operator."""
    return _MADE + dump(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {"name": name.removesuffix(".yml").replace(".", "-")},
            "spec": {"groups": yaml.safe_load(text)["groups"]},
        }
    )


def with_job_in_json(text: str, job: str) -> str:
    """Put the site's job into the queries of a dashboard, which are strings in JSON."""
    quoted = json.dumps(_matcher(job))[1:-1]
    return text.replace(r"job=\"railyard-node\"", quoted)


def dump(document: Any) -> str:
    """Write YAML as a person would: keys in their order, long expressions as blocks."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def _rules(document: Document) -> Iterator[Document]:
    for group in document["groups"]:
        yield from group["rules"]


def _changed(
    rule: Document, overrides: Mapping[str, Mapping[str, Any]], job: str | None, keep_firing: bool
) -> Document | None:
    override = overrides.get(rule.get("alert", ""), {})
    if override.get("enabled") is False:
        return None
    if "for" in override:
        rule["for"] = override["for"]
    if "severity" in override:
        rule["labels"]["severity"] = override["severity"]
    if not keep_firing:
        rule.pop("keep_firing_for", None)
    if job is not None:
        rule["expr"] = _JOB.sub(_of_node(job), rule["expr"])
    return rule


def _of_node(job: str) -> Callable[[re.Match[str]], str]:
    return lambda match: _matcher(job) if match.group(1) == "node" else match.group(0)


def _matcher(job: str) -> str:
    # A string of PromQL has the escapes of Go, which JSON's are a part of.
    return f"job=~{json.dumps(job, ensure_ascii=False)}"
