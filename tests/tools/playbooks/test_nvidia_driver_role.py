"""Role nvidia_driver: what its variables make of a node's facts, by ansible-playbook on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.programs import of_role, play_on_hosts

PLAY = """\
- hosts: all
  connection: local
  gather_facts: false
  vars_files: [ROLE/defaults/main.yml, ROLE/vars/main.yml]
  tasks:
    - ansible.builtin.assert:
        that: shown == expected
        fail_msg: "{{ shown | to_json }}"
      vars:
        # A play's vars_files, the role's defaults here, count more than a host's variables.
        nvidia_driver_persistence: "{{ persistence | default(true) }}"
        nvidia_driver_node_class: "{{ node_class | default('virtual') }}"
        shown:
          wanted: "{{ __nvidia_driver_wanted | map(attribute='path') | map('basename') }}"
          state: "{{ __nvidia_driver_persistence_state }}"
          text: "{{ lookup('ansible.builtin.template', 'ROLE/templates/' ~ template) }}"
"""
MODULES = "etc/modules-load.d/railyard-nvidia.conf.j2"
DROP_IN = "etc/systemd/system/nvidia-persistenced.service.d/60-railyard-persistence.conf.j2"
MODPROBE_FILE, MODULES_FILE = "railyard-nvidia.conf", "railyard-nvidia.conf"
HEAD = "# Managed by Railyard (role nvidia_driver): change the inventory, not this file.\n"
PEERMEM = "# How an HCA reaches GPU memory: asked.\nnvidia-peermem\n"
UMAD = "# How the Fabric Manager reaches the NVSwitches, which are behind a ConnectX-7 bridge.\nib_umad\n"


def choice(path: str = "none", modules: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what the role chose, as far as these files go."""
    return {
        "flavour": "open",
        "gpudirect": {"path": path, "why": "asked"},
        "switch_modules": list(modules),
    }


def gpu(persistence: bool | None) -> dict[str, Any]:
    """Return a GPU of gpu_info, as far as persistence mode goes."""
    return {"pci": "0000:17:00.0", "settings": {"persistence": persistence}}


def facts(*gpus: dict[str, Any], runs: bool = False, command: str | None = None) -> dict[str, Any]:
    """Return what gpu_info returned, as far as these variables go."""
    return {
        "gpus": list(gpus),
        "persistence_daemon": runs,
        "services": {"nvidia-persistenced": {"active": runs, "at_boot": True}},
        "persistence_exec_start": command,
    }


def host(
    template: str, text: str, wanted: list[str], state: str = "started", **variables: Any
) -> dict[str, Any]:
    """Return a host's variables."""
    return {
        "fabric": {"transport": "tcp"},
        "template": template,
        "expected": {"wanted": wanted, "text": text, "state": state},
        "__nvidia_driver_layout": {},
        "__nvidia_driver_choice": choice(),
        "__nvidia_driver_files": {},
        "__nvidia_driver_gathered": {"gpu_info": facts()},
        **variables,
    }


def persistent(
    state: str, wanted: list[str], text: str, now: dict[str, Any], **variables: Any
) -> dict[str, Any]:
    """Return a host with the persistence daemon's state."""
    gathered = {"gpu_info": now}
    return host(DROP_IN, text, wanted, state, __nvidia_driver_gathered=gathered, **variables)


UBUNTUS = "/usr/bin/nvidia-persistenced --user nvidia-persistenced --verbose"
DROPPED = (
    "# The packaged unit starts the daemon with --no-persistence-mode, which leaves persistence mode off.\n"
    f"[Service]\nExecStart=\nExecStart={UBUNTUS}\n"
)
NOTHING_DROPPED = DROPPED.replace(UBUNTUS, "")
BOTH = [MODPROBE_FILE, "60-railyard-persistence.conf"]
HOSTS = {
    "plain": host(MODULES, HEAD, [MODPROBE_FILE]),
    "peermem": host(
        MODULES,
        HEAD + PEERMEM,
        [MODPROBE_FILE, MODULES_FILE],
        __nvidia_driver_choice=choice("nvidia_peermem"),
    ),
    "hgx_b200_over_tcp": host(
        MODULES,
        HEAD + UMAD,
        [MODPROBE_FILE, MODULES_FILE],
        __nvidia_driver_choice=choice("dma_buf", ("ib_umad",)),
    ),
    "hgx_b200_with_peermem": host(
        MODULES,
        HEAD + PEERMEM + UMAD,
        [MODPROBE_FILE, MODULES_FILE],
        __nvidia_driver_choice=choice("nvidia_peermem", ("ib_umad",)),
    ),
    # The daemon runs, and Ubuntu's unit keeps the mode off.
    "ubuntu_off": persistent(
        "restarted", BOTH, HEAD + DROPPED, facts(gpu(False), runs=True, command=UBUNTUS)
    ),
    "ubuntu_on": persistent("started", BOTH, HEAD + DROPPED, facts(gpu(True), runs=True, command=UBUNTUS)),
    "ubuntu_written_now": persistent(
        "restarted",
        BOTH,
        HEAD + DROPPED,
        facts(gpu(None), runs=True, command=UBUNTUS),
        __nvidia_driver_files={
            "changed_files": [
                "/etc/systemd/system/nvidia-persistenced.service.d/60-railyard-persistence.conf"
            ]
        },
    ),
    "ubuntu_not_wanted": persistent(
        "stopped",
        [MODPROBE_FILE],
        HEAD + DROPPED,
        facts(gpu(True), runs=True, command=UBUNTUS),
        persistence=False,
    ),
    "ubuntu_container": persistent(
        "started",
        [MODPROBE_FILE],
        HEAD + DROPPED,
        facts(command=UBUNTUS),
        node_class="container",
    ),
    "debian_stopped": persistent(
        "started",
        [MODPROBE_FILE],
        HEAD + NOTHING_DROPPED,
        facts(gpu(False)),
        persistence="true",
    ),
    "nobody_says": persistent(
        "started", [MODPROBE_FILE], HEAD + NOTHING_DROPPED, facts(gpu(None), runs=True)
    ),
}


def test_the_files_follow_from_what_was_chosen(tmp_path: Path) -> None:
    done = play_on_hosts(tmp_path, of_role(PLAY, "nvidia_driver"), HOSTS)
    assert done.returncode == 0, done.stdout + done.stderr
