"""32 nodes of 8 x 400G RoCE, as `new-inventory` writes them, through what site.yml does without a node.

All roles are enabled for one of the nodes: their arguments are checked, and so is what they refuse from the
inventory alone. What they would have a card's driver set is then set on a fabricated one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from railyard.new_inventory import command
from railyard.new_inventory.wanted import Wanted
from railyard.plan import view
from support import programs
from support.nodes.qos_node import QosNode
from support.programs import REPO

ROLES = sorted(path.name for path in (REPO / "roles").iterdir())
WANTED = Wanted(
    nodes="gpu[001-032]",
    rails=8,
    transport="roce",
    netdev="ens{rail}np0",
    rate_gbps=400,
    frontend="eno1",
    user="ops",
)
DOCA = """---
rdma_stack_provider: doca
rdma_stack_version: 3.2.0-046000
rdma_stack_source:
  uris: [https://mirror.example.com/doca/3.2.0/ubuntu24.04/x86_64]
  key_file: files/GPG-KEY-Mellanox.pub
  fingerprint: 0123456789ABCDEF0123456789ABCDEF01234567
"""
# These two stand for a source and packages that other roles name.
NOT_OF_THE_SITE = ("apt_source", "apt_packages", "slurm_drain")


def site_of(tmp_path: Path, provider: str) -> Path:
    folder = tmp_path / "mine"
    assert command.run(WANTED, folder) == 0
    written = yaml.safe_load((folder / "group_vars/all/rdma.yml").read_text())
    assert written == {"rdma_stack_provider": "inbox"}
    if provider == "doca":
        (folder / "group_vars/all/rdma.yml").write_text(DOCA)
    return folder


def play(folder: Path, tmp_path: Path) -> dict[str, object]:
    """Ask all roles on the controller; return what roce_qos and nccl_profile would have for the node."""
    tasks: list[dict[str, object]] = []
    for role in (role for role in ROLES if role not in NOT_OF_THE_SITE):
        own = REPO / "roles" / role
        entry = "preflight" if (own / "tasks/preflight.yml").exists() else "none"
        tasks.extend(
            {"ansible.builtin.import_role": {"name": role, "tasks_from": file}}
            for file in ("preflight.yml", "report.yml")
            if (own / "tasks" / file).exists()
        )
        options = yaml.safe_load((own / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]
        given = {
            name: f"{{{{ {name} }}}}" for name in yaml.safe_load((own / "defaults/main.yml").read_text())
        }
        tasks.append(
            {
                "ansible.builtin.validate_argument_spec": {
                    "argument_spec": options["options"],
                    "provided_arguments": given,
                },
                "vars": yaml.safe_load((own / "defaults/main.yml").read_text()) if entry == "none" else {},
            }
        )
    conf = f"{REPO}/roles/nccl_profile/templates/etc/nccl.conf.j2"
    told = {
        "not_asked": "{{ roce_qos_not_asked }}",
        "pin": "{{ __rdma_stack_pin }}",
        "nccl": f"{{{{ lookup('ansible.builtin.template', '{conf}') }}}}",
    }
    tasks.append(
        {
            "ansible.builtin.copy": {
                "content": "{{ told | to_json }}",
                "dest": f"{tmp_path}/told",
                "mode": "0644",
            },
            "vars": {
                "told": told,
                "__rdma_stack_vendor": {"packages": ["doca-ofed"]},
                "__nccl_profile_facts": {"rail_info": {"netdevs": [], "hcas": []}},
            },
        }
    )
    playbook = tmp_path / "play.yml"
    # Else Ansible takes the first interpreter of PATH, which may be a version manager's shim.
    here = {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    head = {"hosts": "gpu001", "connection": "local", "gather_facts": False, "vars": here}
    preflight = {"import_playbook": f"{REPO}/playbooks/preflight.yml"}
    playbook.write_text(yaml.safe_dump([preflight, {**head, "tasks": tasks}], sort_keys=False))
    done = programs.playbook(playbook, folder, HOME=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    return {**json.loads((tmp_path / "told").read_text()), "said": done.stdout}


@pytest.mark.minutes
@pytest.mark.parametrize("provider", ["inbox", "doca"])
def test_what_new_inventory_writes_is_refused_by_no_role(tmp_path, capsys, provider):
    folder = site_of(tmp_path, provider)
    assert view.run([str(folder)], as_json=False) == 0
    planned = capsys.readouterr().out
    told = play(folder, tmp_path)
    lines = str(told["nccl"]).splitlines()
    node = QosNode(tmp_path / "node", ("dcb", "ethtool"))
    if provider == "doca":
        node.vendor()
        assert "NCCL_IB_TC=106" not in lines
        assert {"packages": ["doca-ofed"], "version": "3.2.0-046000"} in told["pin"]
        # The CUDA repository's mft is newer, and not what this driver came with.
        [kept_out] = [one for one in told["pin"] if "mft" in one["packages"]]
        assert (kept_out["release"], kept_out["priority"]) == ("l=NVIDIA CUDA", -1)
        assert "ecn, traffic_class" not in planned + str(told["said"])
    else:
        # What the kernel's own mlx5 has: debugfs for the CNP, configfs for rdma_cm; neither ecn/ nor tc/.
        for number in range(2):
            for name in ("np_cnp_dscp", "np_cnp_prio"):
                node.tree.write(f"sys/kernel/debug/mlx5/0000:1{number}:00.0/cc_params/{name}", 0)
            node.tree.write(f"sys/kernel/config/rdma_cm/mlx5_{number}/ports/1/default_roce_tos", 0)
        assert "NCCL_IB_TC=106" in lines
        # Once for all nodes, and with what follows of it.
        for said in (planned, str(told["said"])):
            assert said.count("NCCL_IB_TC=106") == 1
            assert "ecn, traffic_class" in said
        assert "gpu[001-032]" in planned
    done = node.hold(not_asked=told["not_asked"])
    assert done["ports"][0]["settings"]["pfc"] == [0, 0, 0, 1, 0, 0, 0, 0]
    assert ("traffic_class" in done["ports"][0]["settings"]) == (provider == "doca")
