"""The preflight playbook by plain ansible-playbook: passes, or fails once with everything; no connection."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from support import programs
from support.inventories.on_disk import FABRIC, make_hosts, write_groups
from support.programs import REPO

ROCE = {
    **FABRIC,
    "transport": "roce",
    "rails": [{"name": "rail0", "netdev": "ens6", "hca": "mlx5_0:1", "subnet": "10.0.0.0/16"}],
}


def run(folder: Path, *argv: str, playbook: str = "playbooks/preflight.yml", **environment: str):
    return programs.playbook(playbook, folder / "hosts.yml", *argv, **environment)


@pytest.fixture
def inventory(tmp_path):
    def make(fabric=FABRIC, hosts=None):
        return write_groups(tmp_path, hosts, fabric=fabric)

    return make


@pytest.mark.parametrize("factor", ["0", "slow", "nan", "101", "true"])
def test_a_factor_of_time_limits_that_is_none_is_refused(inventory, factor):
    done = run(inventory(), "-e", f"railyard_time_factor={factor}")
    assert done.returncode != 0
    assert f"railyard_time_factor must be a number from 1 to 100, not '{factor}'" in " ".join(
        done.stdout.split()
    )


def test_a_factor_of_time_limits_may_have_a_fraction(inventory):
    assert run(inventory(), "-e", "railyard_time_factor=2.5").returncode == 0


def test_a_sound_inventory_passes_without_a_connection(inventory):
    # 192.0.2.0/24 is for documentation: a connection there would hang or fail.
    folder = inventory()
    # Localhost, which is in no inventory, has no inventory_dir: a play on it would fail with these.
    settings = {
        "ansible_ssh_private_key_file": "{{ inventory_dir }}/id",
        "ansible_user": "{{ inventory_file }}",
    }
    (folder / "group_vars" / "all" / "connection.yml").write_text(yaml.safe_dump(settings))
    done = run(folder, "--check", "--limit", "gpu2")
    assert done.returncode == 0, done.stdout
    assert "changed=0" in done.stdout


def test_all_problems_come_at_once_and_the_play_ends(inventory):
    done = run(
        inventory({**FABRIC, "transport": "iwarp", "mtux": 1}, {"gpu1": {"node_index": -1}, "gpu2": {}})
    )
    assert done.returncode != 0
    for part in ("fabric.transport", "fabric.mtux", "node_index", "fabric.yml:", "3 problem"):
        assert part in done.stdout + done.stderr
    assert done.stdout.count("FAILED!") == 1


def test_the_plan_is_not_made_of_extra_variables(inventory):
    done = run(inventory(), "-e", '{"fabric": {}}', "-e", '{"node_index": 4}')
    told = done.stdout + done.stderr
    assert done.returncode != 0
    for name in ("fabric", "node_index"):
        assert re.search(rf"\b{name}\b.*extra variable|extra variable.*\b{name}\b", told), told


def test_an_extra_variable_that_is_nearly_one_of_railyards_is_named(inventory, tmp_path):
    (tmp_path / "more.yml").write_text("scalable-unit: 1\n")
    done = run(inventory(), "-e", "nodeindex=3", "-e", f"@{tmp_path}/more.yml", "-e", "site_index=4")
    told = done.stdout + done.stderr
    assert done.returncode == 2, told
    assert "2 problems in" in told
    assert "-e: nodeindex: nothing reads a variable of this name. Fix: did you mean node_index?" in told
    assert "did you mean scalable_unit?" in told


def test_a_misspelt_variable_of_a_role_is_named_wherever_it_is(inventory):
    hosts = make_hosts()
    hosts["gpu1"]["node_tunning_profile"] = hosts["gpu2"]["node_tuning_profile"] = "none"
    extra = ["-e", "rail_network_takeover=true", "-e", "apt_packages_extra=1"]
    done = run(inventory(hosts=hosts), *extra, "-e", '{"railyard_own_variables": ["apt_packages_extra"]}')
    told = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, told
    assert "2 problems in" in told
    assert (
        "-e: rail_network_takeover: role rail_network has no variable of this name. Fix: did you mean" in told
    )
    assert "host gpu1: node_tunning_profile: nothing reads a variable of this name" in told


def test_a_fabric_that_the_play_changes_is_refused(inventory, tmp_path):
    playbook = tmp_path / "play.yml"
    task = {"name": "Preflight", "railyard.fabric.preflight": None, "run_once": True}
    play = {
        "name": "P",
        "hosts": "gpu_nodes",
        "gather_facts": False,
        "vars": {"node_index": 77},
        "tasks": [task],
    }
    playbook.write_text(yaml.safe_dump([play], sort_keys=False))
    done = run(inventory(), playbook=str(playbook))
    assert done.returncode != 0
    assert "another value" in done.stdout + done.stderr


def test_no_nodes_is_a_failure(inventory):
    done = run(inventory(hosts={}))
    assert done.returncode != 0
    assert "gpu_nodes" in done.stdout + done.stderr


def test_hosts_outside_the_group_are_no_nodes(inventory):
    folder = inventory()
    (folder / "hosts.yml").write_text(yaml.safe_dump({"others": {"hosts": {"bastion": {}}}}))
    done = run(folder)
    assert done.returncode != 0
    assert "no host in group gpu_nodes" in done.stdout + done.stderr


def test_qos_refuses_what_no_packet_can_carry_without_a_connection(inventory):
    wrong = {"dscp": 64, "cnp_dscp": -1, "priority": 8, "cnp_priority": -1}
    hosts = {
        f"gpu{number}": {"ansible_host": f"192.0.2.{number}", f"roce_qos_{name}": value}
        for number, (name, value) in enumerate(wrong.items(), start=1)
    }
    done = run(inventory(ROCE, hosts), "-e", "railyard_network_batch=100%", playbook="playbooks/qos.yml")
    assert done.returncode == 2, done.stdout  # failed; an unreachable node would be 4
    refused = r"fatal: \[(gpu\d)\]: FAILED!.*?write DSCPs from\s+0 to 63 and priorities from 0 to 7"
    assert sorted(re.findall(refused, done.stdout, re.S)) == list(hosts), done.stdout


@pytest.mark.parametrize("step", ["qos", "tuning"])
def test_a_canary_that_fails_is_the_only_node_that_is_tried(inventory, step):
    folder = inventory(ROCE, make_hosts("gpu1", "gpu2", "gpu3", "gpu4"))
    done = run(folder, "-e", "ansible_ssh_timeout=1", playbook=f"playbooks/{step}.yml")
    assert done.returncode == 4, done.stdout  # unreachable
    assert re.findall(r"fatal: \[(\w+)\]: UNREACHABLE!", done.stdout) == ["gpu1"], done.stdout


@pytest.mark.parametrize("checked", [False, True], ids=["alone", "provision"])
def test_what_qos_cannot_set_is_reported_once_for_all_nodes(inventory, checked):
    folder = inventory(ROCE, make_hosts("gpu1", "gpu2", "gpu3", "gpu4"))
    argv = ["-e", f"railyard_inventory_checked={checked}", "-e", "ansible_ssh_timeout=1"]
    output = run(folder, *argv, playbook="playbooks/qos.yml").stdout
    assert output.count("QoS of RoCE:") == 1, output
    assert "gpu[1-4]:\n  ecn, traffic_class not requested from the driver" in output
    assert "not checked" not in output


def test_a_wrong_variable_of_a_role_is_refused_before_any_node_is_touched(inventory):
    hosts = make_hosts("gpu1", "gpu2", "gpu3", "gpu4")
    hosts["gpu4"]["nccl_profile_forms"] = ["conf", "slurmd"]
    for name in ("gpu1", "gpu3"):
        hosts[name]["node_tuning_profile"] = "fast"
    # Of a role that playbooks/tuning.yml, below, does not run.
    hosts["gpu2"]["roce_qos_rails"] = 3
    folder = inventory(hosts=hosts)
    done = run(folder, "-e", "rdma_stack_source=[]", playbook="playbooks/provision.yml")
    told = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, told
    assert "UNREACHABLE" not in told
    assert "4 problems in the inventory; no node was touched" in told
    for words in (
        "role rdma_stack, host gpu[1-4]: argument 'rdma_stack_source' is of type",
        "role node_tuning, host gpu[1,3]: value of node_tuning_profile must be one of: training, powersave, "
        "none, got: fast. Fix: see the variables in roles/node_tuning/README.md",
        "role nccl_profile, host gpu4: value of nccl_profile_forms must be one or more of: conf, env",
        "role roce_qos, host gpu2: Elements value for option 'roce_qos_rails' is of type",
    ):
        assert words in told, told
    # 4: unreachable, since nothing of the role that it runs is wrong there.
    for limit, status in (("gpu2", 4), ("gpu1", 2)):
        done = run(folder, "--limit", limit, "-e", "ansible_ssh_timeout=1", playbook="playbooks/tuning.yml")
        assert done.returncode == status, done.stdout


def test_a_variable_of_a_role_that_cannot_be_rendered_is_named(inventory):
    hosts = make_hosts()
    hosts["gpu1"]["node_tuning_governor"] = "{{ governer }}"
    # A play that comes later may gather it.
    hosts["gpu2"]["node_tuning_governor"] = "{{ ansible_facts['later'] }}"
    done = run(inventory(hosts=hosts), playbook="playbooks/tuning.yml")
    told = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, told
    assert "1 problem in" in told
    assert (
        "role node_tuning, host gpu1: node_tuning_governor cannot be rendered: 'governer' is undefined"
        in told
    )


STEPS = ("drivers", "network", "qos", "tuning", "nccl", "tools", "monitoring", "validate")


def test_a_step_of_its_own_refuses_a_wrong_inventory_before_any_node_is_touched(inventory):
    # A node that were connected to would be unreachable, and the exit status 4.
    done = run(
        inventory({**FABRIC, "mtux": 1}),
        *("-e", "railyard_network_batch=1"),
        playbook="playbooks/network.yml",
    )
    told = done.stdout + done.stderr
    assert done.returncode == 2, told
    assert "fabric.mtux" in told
    assert "no node was touched" in told
    assert "UNREACHABLE" not in told
    assert done.stdout.count("FAILED!") == 1


def test_every_step_checks_the_inventory_first_and_asks_no_node_before(inventory):
    playbooks = [f"playbooks/{step}.yml" for step in STEPS]
    listed = run(inventory(), *playbooks[1:], "--list-tasks", playbook=playbooks[0])
    assert listed.returncode == 0, listed.stderr
    first = re.findall(r"^playbook: (\S+)\n.*?tasks:\n +(.*?)\t", listed.stdout, re.M | re.S)
    assert first == [(playbook, "Check the inventory") for playbook in playbooks], listed.stdout
    for playbook in playbooks:
        [play, *_] = yaml.safe_load((REPO / playbook).read_text())
        assert "import_playbook" in play or play["gather_facts"] is False, playbook


def test_a_tag_of_no_play_is_refused_beside_all_else(inventory):
    argv = ["--tags", "network,netwrok,rail_network,valid", "--skip-tags", "drivrs"]
    done = run(inventory({**FABRIC, "mtux": 1}), *argv, playbook="site.yml")
    told = done.stdout + done.stderr
    assert done.returncode == 2, told
    for words in (
        "--tags: netwrok: no play has this tag. Fix: did you mean network?",
        "--tags: rail_network: no play has this tag.",
        "There are: drivers, network, qos,",
        "did you mean validate?",
        "--skip-tags: drivrs: no play",
        "fabric.mtux",
    ):
        assert words in told, told
    assert "UNREACHABLE" not in told


@pytest.mark.minutes
def test_every_tag_of_a_play_and_those_of_others_are_taken(inventory):
    listed = run(inventory(), "--list-tags", playbook="site.yml").stdout
    tags = {tag for found in re.findall(r"TAGS: \[([^\]]+)", listed) for tag in re.split(r",\s*", found)}
    argv = ["--tags", ",".join(sorted(tags)) + ",mine,untagged", "--skip-tags", "molecule-notest,notest"]
    done = run(inventory(), *argv, "-e", '{"railyard_own_tags": ["mine"]}')
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"network", "validate"} < tags


def test_provisioning_checks_the_inventory_once(inventory, tmp_path):
    env = {"ANSIBLE_DISPLAY_SKIPPED_HOSTS": "true"}
    # What runs is what always does.
    argv = ["--tags", "always", "-e", "railyard_network_batch=100%"]
    done = run(inventory(), *argv, playbook="playbooks/provision.yml", **env)
    assert done.returncode == 0, done.stdout + done.stderr
    checks = re.findall(r"TASK \[Check the inventory.*\n(\w+):", done.stdout)
    assert checks.count("ok") == 1, done.stdout
    # All but validate; monitoring has a play for the nodes and one for the hosts that monitor.
    assert checks.count("skipping") == len(STEPS), done.stdout


@pytest.mark.minutes
@pytest.mark.parametrize(
    ("playbook", "argv", "status"),
    [
        ("site.yml", [], 2),
        ("playbooks/validate.yml", ["--limit", "gpu_nodes[0:19]"], 2),
        ("playbooks/preflight.yml", ["-e", "railyard_measures=true", "--tags", "network"], 0),
        ("playbooks/preflight.yml", ["-e", "railyard_measures=true", "-e", "railyard_allow_long=yes"], 0),
    ],
)
def test_a_measurement_of_hours_needs_the_users_confirmation(inventory, playbook, argv, status):
    rails = [{"name": f"rail{k}", "netdev": f"ens{k}", "subnet": f"10.{k}.0.0/24"} for k in range(8)]
    hosts = make_hosts(*(f"gpu{number:03d}" for number in range(1, 33)))
    folder = inventory({**FABRIC, "rails": rails}, hosts)
    # Every pair with every test: by default what is measured fits the time that there is.
    policy = {"fabric_policy": {"pattern": "all_pairs"}}
    (folder / "group_vars" / "all" / "policy.yml").write_text(yaml.safe_dump(policy))
    done = run(folder, *argv, playbook=playbook)
    told = done.stdout + done.stderr
    assert done.returncode == status, told
    assert "UNREACHABLE" not in told
    if status == 2:
        assert "Measuring takes about" in told
        assert "Fix: -e railyard_allow_long=true" in told


def test_a_pattern_by_leaves_wants_leaves(inventory):
    done = run(inventory(), "-e", "railyard_pattern=per_leaf", playbook="playbooks/sweep.yml")
    told = done.stdout + done.stderr
    assert done.returncode == 2, told
    assert "UNREACHABLE" not in told
    assert "pattern per_leaf goes by leaves, and not each rail of gpu1, gpu2 has one" in told
