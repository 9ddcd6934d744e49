"""Role rdma_stack: its vendor unit restarted, on trees of files, with programs that stand for the node's."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.programs import REPO, of_role, play_on_hosts

RESTART = """\
- hosts: all
  connection: local
  gather_facts: false
  environment:
    PATH: "{{ tree }}/bin:{{ lookup('env', 'PATH') }}"
    TREE: "{{ tree }}"
  vars_files: [ROLE/defaults/main.yml, ROLE/vars/main.yml, node.yml]
  tasks:
    - ansible.builtin.include_tasks: ROLE/tasks/vendor_gather.yml
    - ansible.builtin.include_tasks: ROLE/tasks/vendor_peermem.yml
      when: __rdma_stack_driver.peermem.wanted and __rdma_stack_driver.peermem.unfit | length > 0
    - ansible.builtin.include_tasks: ROLE/tasks/vendor_restart.yml
"""
# After the role's own, which would count more than a play's variables. What waits is never written: that
# file would be this machine's.
NODE = """\
ansible_python_interpreter: "{{ ansible_playbook_python }}"
role_path: ROLE
fabric: {transport: roce}
rdma_stack_provider: doca
rdma_stack_enabled: true
rdma_stack_rails: []
rdma_stack_allow_restart: true
slurm_drain_wait_s: 1
__rdma_stack_root: "{{ tree }}"
__rdma_stack_found: {files: []}
__rdma_stack_pending: "{{ __rdma_stack_driver.waiting }}"
"""
KERNEL = "6.8.0-60-generic"
MODULES = f"lib/modules/{KERNEL}"
# Stands for systemctl, rmmod, modprobe and dkms; writes down how it was called.
PROGRAM = """\
import os, pathlib, shutil, sys, time
tree = pathlib.Path(os.environ["TREE"])
name, words = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
modules = tree / "sys/module"
peermem = tree / "MODULES/updates/dkms/nvidia-peermem.ko"
if name == "systemctl":
    if words[0] == "show":
        print("LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled")
    if words[0] not in ("restart", "stop"):
        sys.exit(0)
if name == "modinfo":
    print((tree / "depends").read_text() if (tree / "depends").exists() else "nvidia,ib_uverbs")
    sys.exit(0)
with (tree / "calls").open("a") as calls:
    calls.write(f"{name} {' '.join(words)}\\n")
if name == "rmmod":
    for one in words:
        shutil.rmtree(modules / one)
        for holders in modules.glob("*/holders"):
            if (holders / one).exists():
                (holders / one).unlink()
                counter = holders.parent / "refcnt"
                counter.write_text(f"{int(counter.read_text()) - 1}\\n")
if name == "modprobe":
    if (tree / "rejects").exists():
        sys.exit("modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument")
    for one in words[1:]:
        (modules / one).mkdir()
if name == "dkms" and words[0] == "build" and (tree / "dkms2").exists():
    (tree / "dkms2").unlink()
    print("Error! This module/version has already been built on: KERNEL", file=sys.stderr)
    sys.exit(3)
if name == "dkms" and words[0] == "install" and not (tree / "idle").exists():
    peermem.touch()
    os.utime(peermem, (time.time() + 60, time.time() + 60))
    (tree / "depends").write_text("nvidia,ib_uverbs")
"""
# Loaded modules by name: how many users, and what uses them. As lsmod shows an idle node.
IDLE: dict[str, tuple[int, list[str]]] = {
    "mlx5_core": (1, ["mlx5_ib"]),
    "mlx5_ib": (0, []),
    "ib_core": (3, ["ib_uverbs", "ib_umad", "mlx5_ib"]),
    "ib_uverbs": (1, ["mlx5_ib"]),
    "ib_umad": (0, []),
}


def with_module(name: str, users: int, below: str) -> dict[str, tuple[int, list[str]]]:
    """Return the idle node with one more module on top of another."""
    count, on_top = IDLE[below]
    return {**IDLE, below: (count + 1, [*on_top, name]), name: (users, [])}


PEERMEM = with_module("nvidia_peermem", 0, "ib_uverbs")
RESTARTED = ["systemctl restart openibd.service"]
UNLOADED = ["rmmod nvidia_peermem"]
RELOADED = ["modprobe -a nvidia_peermem"]
BUILD = f"-m nvidia -v 580.95.05 -k {KERNEL}"
REBUILT = [f"dkms build --force {BUILD}", f"dkms install --force {BUILD}"]
DRAINED, RESUMED = "Railyard: restart of openibd.service", "RESUME"


class Case(NamedTuple):
    """A node, and what comes of it: what is called, the calls of Slurm, the role's message if it fails."""

    loaded: dict[str, tuple[int, list[str]]]
    marks: tuple[str, ...] = ()
    called: list[str] = RESTARTED
    asked: list[str] = [DRAINED, RESUMED]  # noqa: RUF012 - nothing changes it
    fails: str = ""


def refused(loaded: dict[str, tuple[int, list[str]]], *marks: str, why: str) -> Case:
    """Return the case of a node that the role leaves as it is, and does not drain."""
    return Case(loaded, marks, [], [], why)


AROUND = [*UNLOADED, *RESTARTED, *RELOADED]
CASES = {
    "idle": Case(IDLE),
    "peermem": Case(PEERMEM, (), AROUND),
    "peermem_that_does_not_load": Case(
        PEERMEM,
        ("rejects",),
        AROUND,
        [DRAINED],
        "does not load now: modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument",
    ),
    "storage_mounted": refused(
        with_module("nvme_rdma", 2, "ib_core"),
        why="nothing was unloaded: nvme_rdma (NVMe over RDMA) is used, 2 times besides the modules",
    ),
    "storage_unused": Case(with_module("rpcrdma", 0, "ib_core"), (), ["rmmod rpcrdma", *RESTARTED]),
    "lustre": refused(
        with_module("ko2iblnd", 1, "ib_core"),
        why="ko2iblnd (Lustre) is used, 1 time besides the modules that depend on it",
    ),
    "unknown": refused(
        with_module("bnxt_re", 0, "ib_core"), why="bnxt_re depends on the RDMA stack and is unknown"
    ),
    "a_process": Case(
        {**IDLE, "ib_uverbs": (3, ["mlx5_ib"])},
        called=[],
        fails="ib_uverbs is used, 2 times besides the modules that depend on it. Fix: end what uses it",
    ),
    "peermem_older_than_the_stack": Case(PEERMEM, ("older",), [*REBUILT, *AROUND]),
    "peermem_built_without_the_stack": Case(PEERMEM, ("without",), [*REBUILT, *AROUND]),
    "dkms_of_ubuntu_22": Case(
        PEERMEM, ("older", "dkms2"), [REBUILT[0], f"dkms remove {BUILD}", REBUILT[1], *AROUND]
    ),
    "a_build_that_changes_nothing": Case(
        PEERMEM,
        ("older", "idle"),
        REBUILT,
        [],
        f"does not fit the RDMA stack yet: {KERNEL}: it is older than the RDMA stack of this kernel",
    ),
    "peermem_of_nobody": refused(
        PEERMEM, "older", "prebuilt", why="and DKMS did not build it. Fix: a driver that DKMS builds"
    ),
    # Nothing loads nvidia-peermem there: DMA-BUF is the way to GPU memory.
    "dma_buf": Case(IDLE, ("older",)),
}


def make_tree(tree: Path, loaded: dict[str, Any], marks: tuple[str, ...]) -> Path:
    """Write a node: its modules, a card, DKMS' build of nvidia-peermem and the vendor's stack."""
    for name, (users, on_top) in loaded.items():
        (tree / "sys/module" / name / "holders").mkdir(parents=True)
        (tree / "sys/module" / name / "refcnt").write_text(f"{users}\n")
        for other in on_top:
            (tree / "sys/module" / name / "holders" / other).touch()
    card = tree / "sys/bus/pci/devices/0000:17:00.0"
    (card / "infiniband/mlx5_0").mkdir(parents=True)
    for name, text in {"vendor": "0x15b3", "device": "0x1021", "class": "0x020700"}.items():
        (card / name).write_text(f"{text}\n")
    (card / "infiniband/mlx5_0/fw_ver").write_text("28.43.2026\n")
    for folder in ("proc/sys/kernel", "etc", f"{MODULES}/updates/dkms", "bin"):
        (tree / folder).mkdir(parents=True)
    (tree / "proc/sys/kernel/osrelease").write_text(f"{KERNEL}\n")
    (tree / "etc/os-release").write_text("ID=ubuntu\nVERSION_ID=24.04\n")
    names = ("nvidia-peermem", "ib_core", "ib_uverbs", "mlx5_core")
    (tree / MODULES / "modules.dep").write_text("".join(f"updates/dkms/{name}.ko:\n" for name in names))
    for place, name in enumerate(names):
        file = tree / MODULES / "updates/dkms" / f"{name}.ko"
        file.touch()
        older = name == "nvidia-peermem" and "older" in marks
        os.utime(file, (2_000 - place - (1_000 if older else 0),) * 2)
    if "prebuilt" not in marks:
        built = tree / "var/lib/dkms/nvidia/580.95.05" / KERNEL / "x86_64/module"
        built.mkdir(parents=True)
        (built / "nvidia-peermem.ko").touch()
    if "without" in marks:
        (tree / "depends").write_text("nvidia")
    for mark in marks:
        (tree / mark).touch()
    program = PROGRAM.replace("MODULES", MODULES).replace("KERNEL", KERNEL)
    for name in ("systemctl", "rmmod", "modprobe", "modinfo", "dkms"):
        (tree / "bin" / name).write_text(f"#!{sys.executable}\n{program}")
    scontrol = (REPO / "tests/support/nodes/fake_scontrol.py").read_text().partition("\n")[2]
    (tree / "bin/scontrol").write_text(f"#!{sys.executable}\n{scontrol}")
    (tree / "bin/scontrol.json").write_text("{}")
    for file in (tree / "bin").iterdir():
        file.chmod(0o755)
    return tree


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """All cases in one run, each a node of its own."""
    folder = tmp_path_factory.mktemp("nodes")
    hosts = {
        name: {"tree": str(make_tree(folder / name, case.loaded, case.marks))} for name, case in CASES.items()
    }
    (folder / "node.yml").write_text(of_role(NODE, "rdma_stack"))
    run = play_on_hosts(folder, of_role(RESTART, "rdma_stack"), hosts)
    print(run.stdout, run.stderr)
    return folder, run.stdout


@pytest.mark.parametrize("name", CASES)
def test_the_unit_is_restarted_only_where_it_comes_to_an_end(done: tuple[Path, str], name: str) -> None:
    folder, said = done
    _loaded, _marks, called, asked, fails = CASES[name]
    calls = folder / name / "calls"
    assert (calls.read_text().splitlines() if calls.exists() else []) == called
    state = json.loads((folder / name / "bin/scontrol.json").read_text())
    updates = [call[-1].partition("=")[2] for call in state.get("calls", []) if call[0] == "update"]
    assert updates == asked
    (recap,) = [line for line in said.splitlines() if line.startswith(f"{name} ") and "ok=" in line]
    assert ("failed=0" in recap) == (not fails), recap
    assert not fails or fails in " ".join(said.split())


UNITS = """\
- hosts: all
  connection: local
  gather_facts: false
  vars_files: [ROLE/defaults/main.yml, ROLE/vars/main.yml]
  tasks:
    - ansible.builtin.assert:
        that: shown == expected
        fail_msg: "{{ shown | to_json }}"
      vars:
        rdma_stack_provider: "{{ provider }}"
        rdma_stack_enabled: true
        __rdma_stack_found: {files: "{{ there }}"}
        __rdma_stack_ports: ["0x0002c9030002fb06", "0x0002c9030002fb07"]
        shown:
          unit: "{{ __rdma_stack_subnet_manager.unit }}"
          masked: "{{ __rdma_stack_subnet_manager.masked }}"
          others: "{{ __rdma_stack_subnet_manager_others }}"
          instances: "{{ __rdma_stack_subnet_manager_instances }}"
          files: "{{ __rdma_stack_subnet_manager.files | map(attribute='path') | map('basename') }}"
          first: "{{ lookup('ansible.builtin.template', template) }}"
        template: "ROLE/templates/{{ __rdma_stack_subnet_manager.files[0].path }}.j2"
"""
PORTS = ["0x0002c9030002fb06", "0x0002c9030002fb07"]
HEAD = "# Managed by Railyard (role rdma_stack): change the inventory, not this file.\n"
OWN_UNIT = {
    "unit": "opensm.service",
    "masked": None,
    "others": [],
    "instances": [f"opensm@{port}.service" for port in PORTS],
    "files": ["60-railyard-opensm.conf"],
    "first": HEAD
    + "# The package serves all ports, those of Ethernet as well. These are the rails', one opensm each.\n"
    f'[Service]\nEnvironmentFile=\nEnvironment="PORTS={" ".join(PORTS)}"\n',
}
VENDORS_UNIT = {
    "unit": "railyard-opensm.target",
    "masked": "opensmd.service",
    "others": ["opensmd.service"],
    "instances": [f"railyard-opensm@{port}.service" for port in PORTS],
    "files": ["railyard-opensm.target", "railyard-opensm@.service"],
    "first": HEAD + "# The vendor's own unit serves one port. These are the rails', one opensm each.\n"
    "[Unit]\nDescription=Subnet managers of the rails\n"
    + "".join(f"Wants=railyard-opensm@{port}.service\n" for port in PORTS)
    + "\n[Install]\nWantedBy=multi-user.target\n",
}
PROVIDERS = {
    "inbox": ("inbox", {}, OWN_UNIT),
    "soft_roce": ("soft_roce", {}, OWN_UNIT),
    "doca": ("doca", {}, VENDORS_UNIT),
    "mlnx_ofed": ("mlnx_ofed", {}, VENDORS_UNIT),
    "auto_inbox": ("auto", {"provider": "inbox"}, OWN_UNIT),
    "auto_doca": ("auto", {"provider": "doca"}, VENDORS_UNIT),
    # What the other provider left is stopped: two on one port end each other.
    "from_inbox": ("doca", {}, {**VENDORS_UNIT, "others": ["opensmd.service", "opensm.service"]}),
    "to_inbox": ("inbox", {}, {**OWN_UNIT, "others": ["railyard-opensm.target"]}),
}


LEFT = {
    "from_inbox": "/etc/systemd/system/opensm.service.d/60-railyard-opensm.conf",
    "to_inbox": "/etc/systemd/system/railyard-opensm.target",
}


def run_play(tmp_path: Path, play: str, hosts: dict[str, dict[str, Any]]) -> None:
    """Run a play on hosts with these variables; nothing of it may fail."""
    run = play_on_hosts(tmp_path, of_role(play, "rdma_stack"), hosts)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_subnet_managers_unit_is_the_providers(tmp_path: Path) -> None:
    hosts = {
        name: {
            "provider": provider,
            "expected": unit,
            "fabric": {"transport": "infiniband"},
            "__rdma_stack_driver": driver,
            "there": [{"path": LEFT[name]}] if name in LEFT else [],
        }
        for name, (provider, driver, unit) in PROVIDERS.items()
    }
    run_play(tmp_path, UNITS, hosts)


SETTLED = """\
- hosts: all
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: rdma_stack
        tasks_from: assert_provider.yml # for the role's variables
        public: true
    - ansible.builtin.assert:
        that:
          - (__rdma_stack_is_settled | bool) == settled
          - rdma_stack_plan.files | map(attribute='content') | list == files
          - (rdma_stack_plan.note | length == 0) == (rdma_stack_enabled | bool)
          - "'/var/lib/railyard/soft_roce.json' in rdma_stack_plan.unwanted"
        fail_msg: "{{ __rdma_stack_is_settled }}, {{ rdma_stack_plan }}"
"""
SEEN = {"rdma_stack_is_settled": True}
ROCE, TCP, MODULES_FILE = (
    {"fabric": {"transport": "roce"}},
    {"fabric": {"transport": "tcp"}},
    f"{HEAD}ib_uverbs\nib_umad\nrdma_ucm\n",
)
CONTAINER = {"rdma_stack_node_class": "container"}
# By name: what the host has, whether the role then asks the node nothing, and the files that are compared.
HOSTS: dict[str, tuple[dict[str, Any], bool, list[str]]] = {
    "inbox": (ROCE, False, [MODULES_FILE]),
    "inbox_seen": ({**ROCE, **SEEN}, True, [MODULES_FILE]),
    "inbox_in_a_container": ({"fabric": {**ROCE["fabric"], "node_class": "container"}}, False, []),
    # Where RDMA is not configured, what another run left has to be removed; a container never had anything.
    "tcp": (TCP, False, []),
    "tcp_seen": ({**TCP, **SEEN}, True, []),
    "tcp_in_a_container": ({**TCP, **CONTAINER}, True, []),
    # More than packages and files.
    "soft_roce_seen": ({**ROCE, **SEEN, "rdma_stack_provider": "soft_roce"}, False, []),
    "names_seen": ({**ROCE, **SEEN, "rdma_stack_device_names": "kernel"}, False, []),
    "auto_seen": ({**ROCE, **SEEN, "rdma_stack_provider": "auto"}, False, []),
    # What is refused is refused.
    "refused": ({**TCP, **CONTAINER, **SEEN, "rdma_stack_subnet_manager": "gpu9"}, False, []),
}


def test_the_node_is_not_read_again_where_the_plan_has_just_found_all_as_wanted(tmp_path: Path) -> None:
    hosts = {
        name: {
            "rdma_stack_rails": [],
            "rdma_stack_soft_roce_devices": [],
            **given,
            "settled": settled,
            "files": files,
        }
        for name, (given, settled, files) in HOSTS.items()
    }
    run_play(tmp_path, SETTLED, hosts)
