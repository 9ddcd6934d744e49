"""`railyard monitoring`: files for a Prometheus that a site has, and promtool's word on them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from railyard.base import paths
from railyard.base.errors import UserError
from railyard.operate.commands import checked_inventory
from support import prometheus_tools
from support.inventories.on_disk import write_groups

INVENTORY = str(paths.repo_root() / "inventories/hgx-h100-roce")
NODES = 64


@pytest.fixture
def hosts(tmp_path):
    """Write an inventory of two nodes, with variables of group all."""

    def make(**variables):
        return str(write_groups(tmp_path / "small", **variables))

    return make


def test_targets_go_to_standard_output_or_into_a_file_that_others_read(call, tmp_path):
    status, out, err = call("monitoring", "targets", "-i", INVENTORY)
    assert (status, err) == (0, "")
    targets = json.loads(out)
    assert len(targets) == NODES
    assert targets[0] == {
        "targets": ["gpu001:9100"],
        "labels": {"cluster": "hgx-h100-roce", "node": "gpu001", "scalable_unit": "su1"},
    }
    file = tmp_path / "railyard_nodes.json"
    assert call("monitoring", "targets", "-i", INVENTORY, "-o", str(file))[0] == 0
    assert (file.read_text(), file.stat().st_mode & 0o777) == (out, 0o644)
    assert json.loads(call("monitoring", "targets", "-i", INVENTORY, "--gpus")[1]) == []


def test_a_wrong_inventory_writes_nothing(call, hosts, tmp_path):
    folder = hosts(node_metrics_listen="10.0.0.5")
    for verb in (("targets", "-o", str(tmp_path / "t.json")), ("export", "-o", str(tmp_path / "out"))):
        status, _out, err = call("monitoring", verb[0], "-i", folder, *verb[1:])
        assert status == 2
        assert "fabric.yml:" in err
        assert "network of rail rail0" in err
    assert sorted(one.name for one in tmp_path.iterdir()) == ["small"]


def test_the_export_has_every_file_that_its_readme_names(call, tmp_path):
    folder = tmp_path / "out"
    assert call("monitoring", "export", "-i", INVENTORY, "-o", str(folder))[0] == 0
    written = {str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()}
    assert {
        "rules/railyard.rails.yml", "file_sd/railyard_nodes.json", "file_sd/railyard_gpus.json",
        "file_sd/railyard_runs.json", "scrape.yml", "alertmanager-inhibit.yml", "README.md",
    } <= written  # fmt: skip
    readme = (folder / "README.md").read_text()
    listed = set(re.findall(r"^- `(.+)`$", readme, re.MULTILINE))
    assert listed == written - {"README.md"}
    jobs = yaml.safe_load((folder / "scrape.yml").read_text())["scrape_configs"]
    assert [job["job_name"] for job in jobs] == ["railyard-node", "railyard-gpu", "railyard-runs"]
    assert jobs[2]["honor_labels"] is True
    assert not [line for line in readme.splitlines() if "{" in line and "}" not in line]


def test_a_monitoring_host_is_no_node_for_other_commands(call, hosts):
    folder = hosts(groups={"monitoring": {"hosts": {"monitor1": {"ansible_host": "192.0.2.9"}}}})
    status, out, _err = call("plan", "-i", folder, "--json")
    assert (status, list(json.loads(out)["nodes"])) == (0, ["gpu1", "gpu2"])
    with pytest.raises(UserError, match="--limit monitor1 leaves no node"):
        checked_inventory([folder], "monitor1")


def test_a_second_export_changes_no_byte(call, tmp_path):
    call("monitoring", "export", "-i", INVENTORY, "-o", str(tmp_path))
    before = {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    call("monitoring", "export", "-i", INVENTORY, "-o", str(tmp_path))
    assert {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()} == before


def test_with_the_site_s_own_job_no_node_is_scraped_twice(call, tmp_path):
    argv = (
        "--job",
        "node|windows",
        "--runs-target",
        "192.0.2.9:9100",
        "--installed-at",
        "/srv/prometheus/ry",
    )
    assert call("monitoring", "export", "-i", INVENTORY, "-o", str(tmp_path), *argv)[0] == 0
    jobs = yaml.safe_load((tmp_path / "scrape.yml").read_text())["scrape_configs"]
    assert [job["job_name"] for job in jobs] == ["railyard-gpu", "railyard-runs"]
    assert jobs[0]["file_sd_configs"][0]["files"] == ["/srv/prometheus/ry/file_sd/railyard_gpus.json"]
    rules = "".join(one.read_text() for one in (tmp_path / "rules").glob("*.yml"))
    assert 'job="railyard-node"' not in rules
    assert 'up{job=~"node|windows"} == 0' in rules
    assert json.loads((tmp_path / "file_sd/railyard_runs.json").read_text())[0]["targets"] == [
        "192.0.2.9:9100"
    ]
    assert "no node is scraped twice" in (tmp_path / "README.md").read_text().replace("\n", " ")


def test_rules_for_the_operator_are_its_objects(call, tmp_path):
    argv = ("--format", "prometheusrule")
    assert call("monitoring", "export", "-i", INVENTORY, "-o", str(tmp_path), *argv)[0] == 0
    made = [yaml.safe_load(one.read_text()) for one in (tmp_path / "rules").glob("*.yml")]
    assert {one["kind"] for one in made} == {"PrometheusRule"}
    assert all(re.fullmatch(r"[a-z0-9-]+", one["metadata"]["name"]) for one in made)
    assert "kubectl apply" in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--format", "json"), "choose one of rules, prometheusrule"),
        (("--job", "(node"), "no regular expression"),
        (("--runs-target", "192.0.2.9"), "192.168.0.9:9100"),
        (("--installed-at", "prometheus"), "no absolute path"),
    ],
)
def test_a_wrong_option_is_named_and_nothing_is_written(call, tmp_path, argv, said):
    status, _out, err = call("monitoring", "export", "-i", INVENTORY, "-o", str(tmp_path / "out"), *argv)
    assert (status, said in err, (tmp_path / "out").exists()) == (2, True, False)


def on_path(monkeypatch, tool: Path):
    monkeypatch.setenv("PATH", str(tool.parent))


def test_promtool_checks_what_was_written(call, tmp_path, monkeypatch):
    on_path(monkeypatch, prometheus_tools.find("promtool"))
    status, out, err = call("monitoring", "export", "-i", INVENTORY, "-o", str(tmp_path))
    assert (status, err) == (0, "")
    assert "promtool check config: rules and jobs are good." in out


def test_without_promtool_that_is_reported_and_the_files_are_there(call, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    status, out, _err = call("monitoring", "export", "-i", INVENTORY, "-o", str(tmp_path / "out"))
    assert status == 0
    assert "promtool is not on this machine, so nothing was checked" in out
    assert (tmp_path / "out/README.md").exists()


def test_what_promtool_refuses_is_reported(call, tmp_path, monkeypatch):
    program = tmp_path / "bin/promtool"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'field keep_firing_for not found' >&2\nexit 1\n")
    program.chmod(0o755)
    on_path(monkeypatch, program)
    status, _out, err = call("monitoring", "export", "-i", INVENTORY, "-o", str(tmp_path / "out"))
    assert (status, "field keep_firing_for not found" in err, "fix: " in err) == (2, True, True)


@pytest.mark.parametrize("job", [None, "node"])
def test_the_lines_of_the_readme_make_a_configuration_that_prometheus_takes(call, tmp_path, job):
    """Follow the README by hand: the lines that it shows, and the jobs copied from scrape.yml."""
    promtool = prometheus_tools.find("promtool")
    folder = tmp_path / "railyard"
    argv = ("--installed-at", str(folder), *(("--job", job) if job else ()))
    call("monitoring", "export", "-i", INVENTORY, "-o", str(folder), *argv)
    blocks = re.findall(r"```yaml\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    config = yaml.safe_load(next(one for one in blocks if "rule_files" in one))
    config["scrape_configs"] = yaml.safe_load((folder / "scrape.yml").read_text())["scrape_configs"]
    if job:
        # The targets, and the labels for a job that keeps its own.
        own = [yaml.safe_load(one) for one in blocks if "file_sd_configs" in one or "relabel_configs" in one]
        assert len(own) == 2
        config["scrape_configs"] += [{"job_name": f"{job}{index}", **one} for index, one in enumerate(own)]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    done = subprocess.run(
        [promtool, "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rules found" in done.stdout
    amtool = prometheus_tools.find("amtool")
    document = yaml.safe_load((folder / "alertmanager-inhibit.yml").read_text())
    route = yaml.safe_load(next(one for one in blocks if "group_by" in one))
    route["route"]["receiver"] = "site"
    (tmp_path / "alertmanager.yml").write_text(
        yaml.safe_dump({**document, **route, "receivers": [{"name": "site"}]})
    )
    done = subprocess.run(
        [amtool, "check-config", tmp_path / "alertmanager.yml"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_operator_is_not_checked_by_promtool(call, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _name: "/nonexistent/promtool")
    status, out, _err = call(
        "monitoring", "export", "-i", INVENTORY, "-o", str(tmp_path), "--format", "prometheusrule"
    )
    assert (status, "The operator checks the rules" in out) == (0, True)
