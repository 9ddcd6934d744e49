# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a monitoring host: configuration of Prometheus and Alertmanager, rules, targets, secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring import (
    alertmanager,
    export,
    rules,
    scrape,
    targets,
)

#: All files are below it, so that no conffile of a package is touched.
FOLDER = export.INSTALLED_AT
SECRETS = alertmanager.SECRETS
#: The exporter of runs, on the monitoring host itself.
RUNS_TARGET = f"127.0.0.1:{targets.RUNS_PORT}"
#: The daemons' group.
GROUP = "prometheus"
#: `keep_firing_for` came with this version.
KEEP_FIRING_SINCE = (2, 42)

File = dict[str, str]


@dataclass(frozen=True)
class Settings:
    """The role's variables that make files, rendered.

    Attributes:
        alertmanager: address and port of Alertmanager.
        prometheus_version: the installed package's version; empty: not installed yet.
        tls_files: paths of certificate and key on the controller; empty: no TLS.
        basic_auth: user -> bcrypt hash of the page of Prometheus.
        node_ca_file: path on the controller of what signed the nodes' certificates; empty: none.
        node_basic_auth: `user` and `password` of the nodes' exporters; empty: none.
        bmc_exporter: address and port of role bmc_exporter's exporter; empty: there is none.
    """

    scrape_interval_s: int
    alertmanager: str
    receivers: Sequence[Mapping[str, Any]] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    rule_overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    prometheus_version: str = ""
    tls_files: Sequence[str] = ()
    basic_auth: Mapping[str, str] = field(default_factory=dict)
    node_ca_file: str = ""
    node_basic_auth: Mapping[str, str] = field(default_factory=dict)
    bmc_exporter: str = ""


@dataclass
class Made:
    """Files by their path: what anyone may read, and secrets, which no diff may show."""

    files: dict[str, File] = field(default_factory=dict)
    secrets: dict[str, File] = field(default_factory=dict)

    def add(self, name: str, text: str) -> None:
        """Add a file that anyone may read."""
        path = f"{FOLDER}/{name}"
        self.files[path] = {"path": path, "content": text, "mode": "0644", "group": "root"}

    def add_secret(self, path: str, text: str) -> None:
        """Add a file that the daemons alone may read."""
        self.secrets[path] = {"path": path, "content": text, "mode": "0640", "group": GROUP}


def server_files(inventory: Inventory, settings: Settings, base: str, folder: Path | None = None) -> Made:
    """Return the files of Prometheus and Alertmanager.

    Args:
        inventory: checked; nodes on which role node_metrics is present become targets, whatever the limit.
        settings: the role's variables.
        base: the folder at which relative paths on the controller begin.
        folder: where the role's files are; None: found beside this collection.

    Raises:
        OSError: a file on the controller cannot be read.
        RulesError: an override or a threshold is of nothing that there is.
    """
    source = folder or rules.files_folder()
    made = Made()
    _add_rules(made, settings, source)
    nodes = targets.nodes_to_scrape(inventory, only_ours=True)
    for job, entries in targets.target_files(inventory.cluster, nodes).items():
        made.add(f"file_sd/{targets.FILES[job]}", targets.to_json(entries))
    if settings.bmc_exporter:
        made.add(f"file_sd/{targets.BMC_FILE}", targets.to_json(targets.bmc_targets(inventory)))
    for file in sorted((source / "consoles").glob("*.html")):
        made.add(f"consoles/{file.name}", file.read_text(encoding="utf-8"))
    access = _node_access(made, settings, base)
    config = scrape.prometheus_config(
        settings.scrape_interval_s, settings.alertmanager, [RUNS_TARGET], access, settings.bmc_exporter
    )
    made.add("prometheus.yml", _yaml(config))
    inhibit = yaml.safe_load((source / export.INHIBIT).read_text(encoding="utf-8"))["inhibit_rules"]
    told = alertmanager.configuration(settings.receivers, inhibit)
    made.add("alertmanager.yml", _yaml(told.document))
    for path, secret in told.secrets.items():
        made.add_secret(path, secret)
    _add_web(made, settings, base)
    return made


def export_files(inventory: Inventory, settings: Settings) -> Made:
    """Return what `railyard monitoring export` writes, for a Prometheus of the site on this host."""
    wanted = export.Wanted(
        overrides=settings.rule_overrides,
        thresholds=settings.thresholds,
        bmc_exporter=settings.bmc_exporter,
    )
    made = Made()
    for name, text in export.files(inventory, wanted).items():
        made.add(name, text)
    return made


def knows_keep_firing(version: str) -> bool:
    """Tell whether a Prometheus knows `keep_firing_for`, by its package's version, such as 2.42.0+ds-5."""
    numbers = version.rpartition(":")[2].split(".")[:2]
    try:
        return tuple(int(one) for one in numbers) >= KEEP_FIRING_SINCE
    except ValueError:
        return True  # not installed yet, or of an unknown form: promtool checks it


def _add_rules(made: Made, settings: Settings, source: Path) -> None:
    keep_firing = knows_keep_firing(settings.prometheus_version)
    texts = rules.site_rules(rules.rule_texts(source), settings.rule_overrides, keep_firing=keep_firing)
    own = rules.threshold_rules(settings.thresholds, source)
    if own is not None:
        texts[rules.THRESHOLDS_FILE] = own
    for name, text in texts.items():
        made.add(f"rules/{name}", text)


def _node_access(made: Made, settings: Settings, base: str) -> scrape.NodeAccess:
    """Return how the nodes' exporters are reached; what is needed for it becomes files."""
    ca_file = user = password_file = None
    if settings.node_ca_file:
        ca_file = "nodes-ca.pem"
        made.add(ca_file, Path(base, settings.node_ca_file).read_text(encoding="utf-8"))
    if settings.node_basic_auth:
        user, password_file = settings.node_basic_auth["user"], f"{SECRETS}/nodes-password"
        made.add_secret(password_file, settings.node_basic_auth["password"])
    return scrape.NodeAccess(ca_file, user, password_file)


def _add_web(made: Made, settings: Settings, base: str) -> None:
    web: dict[str, Any] = {}
    if settings.tls_files:
        certificate, key = (Path(base, one).read_text(encoding="utf-8") for one in settings.tls_files)
        made.add_secret(f"{SECRETS}/tls.crt", certificate)
        made.add_secret(f"{SECRETS}/tls.key", key)
        # Relative to web.yml, so that promtool checks the new ones.
        web["tls_server_config"] = {"cert_file": "secrets/tls.crt", "key_file": "secrets/tls.key"}
    if settings.basic_auth:
        web["basic_auth_users"] = dict(settings.basic_auth)
    if web:
        # It has hashes of passwords.
        made.add_secret(f"{FOLDER}/web.yml", _yaml(web))


def _yaml(document: Any) -> str:
    return "# Managed by Railyard (role monitoring): change the inventory, not this file.\n" + rules.dump(
        document
    )


def base_of(sources: Sequence[str]) -> str:
    """Return the folder of the first inventory source, at which relative paths begin."""
    source = os.path.abspath(sources[0]) if sources else os.getcwd()
    return source if os.path.isdir(source) else os.path.dirname(source)
