"""Role continuous_validation: the units that it writes, as systemd reads them; nothing is installed here."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from support.programs import REPO, play_here, railyard

ROLE = REPO / "roles" / "continuous_validation"
PLAY = """
- hosts: localhost
  gather_facts: false
  vars_files: [ROLE/defaults/main.yml, ROLE/vars/main.yml, vars.json]
  tasks:
    - ansible.builtin.template:
        src: "ROLE/templates{{ item.path }}.j2"
        dest: "{{ playbook_dir }}/{{ item.path | basename }}"
        mode: "0644"
      loop: "{{ __continuous_validation_all }}"
    - ansible.builtin.copy:
        content: "{{ __continuous_validation_wanted | map(attribute='path') | join(' ') }}"
        dest: "{{ playbook_dir }}/wanted"
        mode: "0644"
"""
MINE = {
    "continuous_validation_command": "/bin/true",
    "continuous_validation_inventory": "/opt/inventories/mine",
    "continuous_validation_reports_dir": "/srv/reports",
}
# In check mode: a role that does not refuse must not write on this machine.
REFUSED = """
- hosts: localhost
  gather_facts: false
  check_mode: true
  tasks:
    - ansible.builtin.include_role: {name: ROLE, tasks_from: present}
"""


def written(folder, **variables):
    done = play_here(folder, PLAY.replace("ROLE", str(ROLE)), {**MINE, **variables})
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.name: path.read_text(encoding="utf-8") for path in folder.glob("railyard-*")}


def settings(unit):
    return dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and line[0] != "#")


def test_the_service_validates_idle_nodes_and_drains_no_node_by_default(tmp_path):
    units = written(tmp_path)
    service = settings(units["railyard-validate.service"])
    assert service["ExecStart"] == (
        "/bin/true validate --idle --limit-time 30m -i /opt/inventories/mine --reports-dir /srv/reports"
    )
    assert service["SuccessExitStatus"] == "1 3"
    assert "Environment" not in service
    timer = settings(units["railyard-validate.timer"])
    assert (timer["OnCalendar"], timer["RandomizedDelaySec"]) == ("Sun *-*-* 03:00:00", "1800")
    wanted = (tmp_path / "wanted").read_text(encoding="utf-8")
    assert not any(name in wanted for name in ("metrics", "prune"))


def test_a_share_is_written_so_that_systemd_reads_a_percent_sign(tmp_path):
    more = {"continuous_validation_drain": True, "monitoring_most_drained": "3%"}
    units = written(tmp_path, **more, continuous_validation_textfile_dir="/var/lib/textfiles")
    service = settings(units["railyard-validate.service"])
    assert service["ExecStart"].endswith(" --drain --most-drained 3%%")
    assert service["Environment"] == "RAILYARD_TEXTFILE_DIR=/var/lib/textfiles"


def test_metrics_have_a_timer_on_request(tmp_path):
    more = {"continuous_validation_metrics_interval_s": 60}
    units = written(tmp_path, **more, continuous_validation_textfile_dir="/var/lib/textfiles")
    service = settings(units["railyard-run-metrics.service"])
    assert service["ExecStart"] == (
        "/bin/true runs metrics --reports-dir /srv/reports -o /var/lib/textfiles/railyard_runs.prom"
    )
    assert settings(units["railyard-run-metrics.timer"])["OnUnitActiveSec"] == "60"
    assert "railyard-run-metrics.timer" in (tmp_path / "wanted").read_text(encoding="utf-8")


def test_old_runs_are_removed_each_day_on_request_alone(tmp_path):
    units = written(tmp_path, continuous_validation_prune_keep=50, continuous_validation_prune_days=30)
    starts = settings(units["railyard-prune-runs.service"])["ExecStart"]
    assert starts == "/bin/true runs prune --keep 50 --days 30 --reports-dir /srv/reports"
    # The command takes them as they are.
    done = railyard(*starts.split()[1:-1], str(tmp_path / "none"))
    assert (done.returncode, "0 run folders removed" in done.stdout) == (0, True), done.stderr
    assert settings(units["railyard-prune-runs.timer"])["OnCalendar"] == "daily"
    wanted = (tmp_path / "wanted").read_text(encoding="utf-8")
    assert "railyard-prune-runs.service" in wanted
    assert "railyard-prune-runs.timer" in wanted


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_takes_the_units(tmp_path):
    more = {"continuous_validation_metrics_interval_s": 60, "continuous_validation_prune_keep": 9}
    written(tmp_path, continuous_validation_drain=True, **more)
    units = sorted(tmp_path.glob("railyard-*"))
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, timeout=60, check=False
    )
    assert [line for line in done.stderr.splitlines() if "railyard-" in line] == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"continuous_validation_inventory": "inventories/mine"},
        {"continuous_validation_command": "/bin/true; rm -r"},
        {"continuous_validation_limit_time": "soon"},
        {"continuous_validation_limit_time": "0m"},
        {"continuous_validation_most_drained": "half"},
        {"continuous_validation_metrics_interval_s": 5},
        {"continuous_validation_prune_keep": -1},
        {"continuous_validation_prune_keep": 9, "continuous_validation_prune_days": 0},
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_written(tmp_path, wrong):
    done = play_here(tmp_path, REFUSED.replace("ROLE", str(ROLE)), {**MINE, **wrong})
    assert done.returncode == 2
    assert "cannot be used on localhost" in done.stdout.replace("\n", " ")
