"""All that a monitoring host can be given, checked by the real promtool and amtool."""

from __future__ import annotations

import subprocess

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load
from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring import server
from support import prometheus_tools
from support.inventories.on_disk import make_hosts, write_groups

# Of the password `test`, from Prometheus' own documentation of basic auth.
HASH = "$2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay"
RECEIVERS = [
    {
        "name": "hook",
        "severities": ["critical"],
        "webhook": {"url": "http://192.0.2.20/", "bearer_token": "t0ken"},
    },
    {
        "name": "post",
        "mail": {
            "to": "ops@example.org",
            "from": "railyard@example.org",
            "smarthost": "mail.example.org:587",
            "username": "railyard",
            "password": "hunter2",
            "require_tls": False,
        },
    },
    {"name": "chat", "slack": {"channel": "#gpu", "api_url": "https://hooks.slack.example/services/T0"}},
]


@pytest.fixture
def made(tmp_path):
    """Make all files of a host, below a folder."""
    nodes = make_hosts("gpu1", "gpu2", "gpu3")
    # Without one of Railyard's exporters it is no target of Railyard's Prometheus.
    nodes["gpu3"] |= {"node_metrics_state": "ignored", "bmc_address": "192.0.2.103"}
    of_nodes = {"node_metrics_state": "present", "node_metrics_tls": "files", "monitoring_dcgm_port": 9400}
    inventory = write_groups(tmp_path / "big", nodes, **of_nodes)
    argv = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-subj", "/CN=x", "-keyout", tmp_path / "x.key", "-out", tmp_path / "x.crt",
    ]  # fmt: skip
    subprocess.run(argv, check=True, capture_output=True)
    settings = server.Settings(
        scrape_interval_s=15,
        alertmanager="127.0.0.1:9093",
        receivers=RECEIVERS,
        thresholds={"pause_ratio": 0.3},
        rule_overrides={"RailDown": {"severity": "warning"}, "RailCongestion": {"enabled": False}},
        tls_files=["../x.crt", "../x.key"],
        basic_auth={"admin": HASH},
        node_ca_file="../x.crt",
        node_basic_auth={"user": "prometheus", "password": "n0de"},
        bmc_exporter="127.0.0.1:9290",
    )
    return server.server_files(load.load([str(inventory)]), settings, str(inventory))


def test_the_real_programs_take_all_of_it(made, tmp_path):
    folder = tmp_path / "railyard"
    for file in (*made.files.values(), *made.secrets.values()):
        path = folder / file["path"].removeprefix(f"{server.FOLDER}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file["content"].replace(server.FOLDER, str(folder)))
    for program, *words in (
        ("promtool", "check", "config", "prometheus.yml"),
        ("promtool", "check", "web-config", "web.yml"),
        ("amtool", "check-config", "alertmanager.yml"),
    ):
        argv = [prometheus_tools.find(program), *words]
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stdout, done.stderr)


def test_secrets_are_in_files_of_their_own_alone(made):
    readable = "".join(file["content"] for file in made.files.values())
    for secret in ("t0ken", "hunter2", "n0de", "services/T0", HASH, "PRIVATE KEY"):
        assert secret not in readable
        assert [file for file in made.secrets.values() if secret in file["content"]]
    assert {(file["mode"], file["group"]) for file in made.secrets.values()} == {("0640", "prometheus")}


def test_targets_of_both_jobs_are_there(made):
    folder = f"{server.FOLDER}/file_sd"
    nodes = yaml.safe_load(made.files[f"{folder}/railyard_nodes.json"]["content"])
    assert [one["labels"]["__scheme__"] for one in nodes] == ["https", "https"]
    gpus = yaml.safe_load(made.files[f"{folder}/railyard_gpus.json"]["content"])
    assert [one["targets"] for one in gpus] == [["192.0.2.1:9400"], ["192.0.2.2:9400"]]
    # A BMC answers whatever its node runs.
    bmcs = yaml.safe_load(made.files[f"{folder}/railyard_bmc.json"]["content"])
    assert bmcs == [{"targets": ["192.0.2.103"], "labels": {"cluster": "big", "node": "gpu3"}}]
