"""A module built by DKMS through a kernel update and a real reboot: a virtual machine with a GRUB of its own.

The module is ours, out of a signed repository, installed by the roles; the second kernel is Debian's. The
tests build on one another in the order in which they stand: an emulated machine is dear.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from drivers import repository
from e2e.support import BIN, ROOT, Cluster, edited, needs_root, write_lab
from railyard.lab.nodes.vm import VmKind
from railyard.lab.topology import BASE_PACKAGES

NODE = "gpuserver1"
MODULE, PACKAGE, VERSION = "railyard_probe", "railyard-probe", "1.0"
# Emulated, one build with gcc or one initramfs takes minutes.
PATIENCE_S = 1200
LOOK_EVERY_S = 2

PLAYBOOK = """\
- name: Install the module's source
  hosts: gpu_nodes
  gather_facts: false
  become: true
  tasks:
    - name: Put the repository on the node
      ansible.builtin.unarchive:
        src: "{{ made }}/repository.tar"
        dest: /srv

    - name: Give apt the source
      ansible.builtin.include_role:
        name: apt_source
      vars:
        apt_source_name: probe
        apt_source_uris: ["file:/srv/repository"]
        apt_source_suites: [bookworm]
        apt_source_components: [main]
        apt_source_key_file: "{{ made }}/key.asc"
        apt_source_fingerprint: "{{ fingerprint }}"

    - name: Install it
      ansible.builtin.include_role:
        name: apt_packages
      vars:
        apt_packages_names: [railyard-probe-dkms]
"""


def source() -> repository.Package:
    """Return the package: what Debian's own DKMS packages do in their scripts, and a file that loads it."""
    package = repository.dkms_source(PACKAGE, VERSION)
    scripts = {
        "postinst": f"#!/bin/sh\nset -e\ndkms add -m {PACKAGE} -v {VERSION}\n"
        f"dkms install -m {PACKAGE} -v {VERSION}\n",
        "prerm": f"#!/bin/sh\nset -e\ndkms remove -m {PACKAGE} -v {VERSION} --all\n",
    }
    files = {**package.files, f"etc/modules-load.d/{PACKAGE}.conf": f"{MODULE}\n".encode()}
    return dataclasses.replace(package, scripts=scripts, files=files)


@dataclasses.dataclass
class Machine:
    """The node, and the kernels that it has in the course of the tests."""

    cluster: Cluster
    kind: VmKind
    first: str = ""

    @property
    def second(self) -> str:
        """The same kernel in Debian's flavour for clouds: small, and later in GRUB's order.

        It shares the headers that all flavours have in common, the greater part.
        """
        return self.first.removesuffix("amd64") + "cloud-amd64"

    def sh(self, *command: str, check: bool = True) -> str:
        """Run a command as root; a slow one is no failure."""
        return self.cluster.ssh(NODE, "sudo", *command, check=check, timeout=PATIENCE_S).strip()

    def install(self, package: str) -> str:
        """Install a package by hand, as anybody might."""
        apt = ("apt-get", "-qy", "--no-install-recommends", "install", package)
        return self.sh("DEBIAN_FRONTEND=noninteractive", *apt)

    def playbook(self, path: str | Path, **variables: object) -> tuple[int, str]:
        """Run a playbook with extra variables; return how it ended and what it said, in one line.

        Ended at once where the machine's console stands at a prompt.
        """
        argv = [BIN / "ansible-playbook", "-i", self.cluster.inventory, path, "-e", json.dumps(variables)]
        stands_at, deadline = self.kind.watch(NODE), time.monotonic() + PATIENCE_S
        with self.cluster.log.open("w+", encoding="utf-8") as log:
            with subprocess.Popen(
                [str(word) for word in argv],
                cwd=ROOT,
                env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            ) as process:
                while process.poll() is None and not stands_at() and time.monotonic() < deadline:
                    time.sleep(LOOK_EVERY_S)
                ended = process.poll()
                process.terminate()
            log.seek(0)
            said = log.read()
        print(said, self.kind.last_words(NODE))
        assert ended is not None, f"after {PATIENCE_S} s, or at {stands_at()!r}, {path} had not ended"
        return ended, " ".join(said.split())

    def reboot(self, **variables: object) -> tuple[int, str]:
        """Ask for a reboot, with consent."""
        return self.playbook(
            "playbooks/reboot.yml", railyard_allow_reboot=True, railyard_reboot_timeout_s=600, **variables
        )

    def boot_id(self) -> str:
        return self.sh("cat", "/proc/sys/kernel/random/boot_id")

    def loaded(self) -> bool:
        """Whether the module is loaded."""
        return any(line.split()[0] == MODULE for line in self.sh("cat", "/proc/modules").splitlines())

    def built_for(self, kernel: str) -> str:
        """The module's file for a kernel, as modprobe would find it; "" where it is not there."""
        said = self.sh("modinfo", "-k", kernel, "-F", "filename", MODULE, check=False)
        return said if said.startswith("/") else ""


def lab_of(folder: Path) -> Cluster:
    """Write topology and inventory of a lab of one machine, with what DKMS needs in its image."""
    made = Cluster(folder, "dkms")
    write_lab(made, "198.18.94.", "vm", nodes=1)
    with edited(made.topology) as topology:
        topology["nodes"][NODE] |= {"cpus": 2, "memory_mib": 1024}
        topology["image"]["packages"] = [*BASE_PACKAGES, "dkms", "linux-headers-amd64"]
        topology["image"]["boot_loader"] = True
    with edited(made.fabric_file) as variables:
        variables["fabric"] |= {"transport": "tcp", "cabling": "switched"}
        variables.pop("rdma_stack_provider")
        for rail in variables["fabric"]["rails"]:
            rail.pop("hca")
    return made


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    needs_root()
    cluster = lab_of(tmp_path_factory.mktemp("dkms"))
    with cluster.up(timeout=PATIENCE_S):
        made = Machine(cluster, VmKind(cluster.lab_name))
        made.first = made.sh("uname", "-r")
        yield made


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return where the signed repository lies, and its key's fingerprint."""
    folder = tmp_path_factory.mktemp("repository")
    key = repository.Key(folder / "gnupg", "vendor")
    try:
        repository.publish(folder / "repository", repository.LAYOUTS["distribution"], [source()], key)
        (folder / "key.asc").write_text(key.armoured)
    finally:
        key.forget()
    with tarfile.open(folder / "repository.tar", "w") as tar:
        tar.add(folder / "repository", "repository")
    return {"made": str(folder), "fingerprint": key.fingerprint}


@pytest.fixture(scope="module")
def failures_before(request: pytest.FixtureRequest) -> int:
    return request.session.testsfailed


@pytest.fixture(autouse=True)
def _in_their_order(request: pytest.FixtureRequest, failures_before: int) -> None:
    """Spare the machine what builds on a test that failed."""
    if request.session.testsfailed > failures_before:
        pytest.skip("a test that this one builds on has failed")


def test_the_roles_install_it_and_dkms_builds_it(machine: Machine, made: dict[str, str]) -> None:
    path = Path(made["made"]) / "install.yml"
    path.write_text(PLAYBOOK)
    status, said = machine.playbook(path, **made)
    assert status == 0, said
    assert machine.built_for(machine.first) == f"/lib/modules/{machine.first}/updates/dkms/{MODULE}.ko"
    machine.sh("modprobe", MODULE)
    assert machine.loaded()


def test_an_update_whose_headers_are_missing_is_not_booted(machine: Machine) -> None:
    said = machine.install(f"linux-image-{machine.second}")
    print(said)
    # What there is to notice by anybody else: a line among many, and a kernel that is installed all the same.
    assert f"Setting up linux-image-{machine.second}" in said
    assert machine.built_for(machine.second) == ""
    boot_id = machine.boot_id()
    status, said = machine.reboot(railyard_reboot_kernels=[machine.second])
    assert status != 0
    assert (
        f"kernel {machine.second} boots next and lacks module {MODULE}, which kernel {machine.first} has"
        in said
    )
    assert f"install linux-headers-{machine.second}" in said
    assert machine.boot_id() == boot_id
    assert machine.loaded()


def test_with_the_headers_dkms_builds_it_and_an_unannounced_kernel_still_is_not_booted(
    machine: Machine,
) -> None:
    print(machine.install(f"linux-headers-{machine.second}"))
    assert machine.built_for(machine.second) == f"/lib/modules/{machine.second}/updates/dkms/{MODULE}.ko"
    boot_id = machine.boot_id()
    status, said = machine.reboot()
    assert status != 0
    assert f"kernel {machine.second} boots next, and {machine.first} is expected" in said
    assert "lacks module" not in said
    assert machine.boot_id() == boot_id


def test_announced_it_boots_and_the_module_is_loaded(machine: Machine) -> None:
    boot_id = machine.boot_id()
    status, said = machine.reboot(railyard_reboot_kernels=[machine.second])
    assert status == 0, said
    assert f"kernel {machine.first} runs, {machine.second} boots next and has module {MODULE}" in said
    # GRUB has taken the kernel that was foretold.
    assert machine.sh("uname", "-r") == machine.second
    assert machine.boot_id() != boot_id
    assert machine.loaded()
    assert machine.sh("cat", f"/sys/module/{MODULE}/version") == VERSION


def test_the_way_back_by_grub_reboot_is_foretold_as_well(machine: Machine) -> None:
    entries = machine.sh("cat", "/boot/grub/grub.cfg").splitlines()
    titles = [
        line.split("'")[1] for line in entries if line.lstrip().startswith(("menuentry '", "submenu '"))
    ]
    submenu = next(title for title in titles if title.startswith("Advanced"))
    old = next(title for title in titles if title.endswith(f"with Linux {machine.first}"))
    machine.sh("grub-reboot", f"'{submenu}>{old}'")
    # Were the other kernel foretold, it would be refused: it is not announced.
    status, said = machine.reboot(railyard_reboot_kernels=[machine.first])
    assert status == 0, said
    assert f"kernel {machine.second} runs, {machine.first} boots next and has module {MODULE}" in said
    assert machine.sh("uname", "-r") == machine.first
    assert machine.loaded()
