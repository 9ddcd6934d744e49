"""What a node's modules return is data: roles run here, with modules that answer as a hostile node's."""

from __future__ import annotations

import json
import sys

import pytest
import yaml
from support.programs import REPO, playbook, replace_plugins

PSID = "MT_0000000838"
MODULE = """\
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({{"plan": {{"type": "raw"}}, "folder": {{}}}}, supports_check_mode=True)
module.exit_json(**{})
"""


@pytest.fixture
def play(tmp_path):
    """Run tasks of a role, after `rdma_driver_info` has answered what it is given."""
    (tmp_path / "roles/apt_packages/tasks").mkdir(parents=True)
    (tmp_path / "roles/apt_packages/tasks/main.yml").write_text("[]\n")
    (tmp_path / "node/firmware").mkdir(parents=True)

    def run(tasks_from: str, answers: dict[str, dict[str, object]], variables: dict[str, object]) -> str:
        modules = {name: MODULE.format(answer) for name, answer in answers.items()}
        replace_plugins(tmp_path, "modules", modules)
        variables = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "__rdma_stack_firmware_folder": str(tmp_path / "node/firmware"),
            **variables,
        }
        tasks = [
            {"railyard.fabric.rdma_driver_info": {}, "register": "__rdma_stack_driver"},
            {"ansible.builtin.include_role": {"name": "rdma_stack", "tasks_from": tasks_from}},
        ]
        tasks.append({"ansible.builtin.debug": {"var": "stolen"}})
        (tmp_path / "play.yml").write_text(
            yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}])
        )
        roles = {
            "ANSIBLE_COLLECTIONS_PATH": str(tmp_path),
            "ANSIBLE_ROLES_PATH": f"{tmp_path / 'roles'}:{REPO / 'roles'}",
        }
        options = ("--check", "--diff", "-e", json.dumps(variables))
        done = playbook("play.yml", "gpu1,", *options, cwd=tmp_path, **roles)
        return done.stdout + done.stderr

    return run


@pytest.mark.minutes
def test_the_image_is_the_inventorys_whatever_path_the_node_names(play, tmp_path):
    (tmp_path / "secret").write_text("the controller's own\n")
    (tmp_path / "image").write_text("the image of the inventory\n")
    image = {"version": "28.43.2026", "file": str(tmp_path / "image"), "sha256": "ab" * 32}
    asked = {"pci": "0000:17:00.0", "psid": PSID, "version": "28.43.2026", "file": str(tmp_path / "secret")}
    stranger = {**asked, "psid": "../../etc/MT_1"}
    answers = {
        "rdma_driver_info": {"firmware_plan": [asked, stranger]},
        "rdma_firmware_info": {"burn": [], "refusals": []},
    }
    said = play("firmware", answers, {"rdma_stack_firmware_images": {PSID: image}})
    assert "the controller's own" not in said
    assert "+the image of the inventory" in said
    assert "MT_1" not in said
    assert "failed=0" in said


def test_a_provider_that_a_node_names_is_a_known_one(play, tmp_path):
    (tmp_path / "other.yml").write_text("stolen: the controller's own\n")
    up = "../" * len(REPO.joinpath("roles/rdma_stack/vars").parts)
    answers = {"rdma_driver_info": {"provider": f"{up}{tmp_path.relative_to('/')}/other"}}
    said = play("assert_provider", answers, {"rdma_stack_provider": "auto"})
    assert "the controller's own" not in said
    assert "gpu1: the node answered with an RDMA provider that there is not" in said
