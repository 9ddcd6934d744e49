"""A module built by DKMS through a kernel update and a real reboot: a virtual machine with a GRUB of its own.

The module is made for this test, in a signed repository, installed by the roles; the second kernel is
Debian's. The tests build on one another in the order of this file: an emulated machine is dear.
"""

from __future__ import annotations

import dataclasses
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from drivers import repository
from drivers.machine import Machine

pytestmark = pytest.mark.usefixtures("in_their_order")

MODULE, PACKAGE, VERSION = "railyard_probe", "railyard-probe", "1.0"

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


def built_for(machine: Machine, kernel: str) -> str:
    """The module's file for a kernel, as modprobe would find it; "" where it is not there."""
    said = machine.sh("modinfo", "-k", kernel, "-F", "filename", MODULE, check=False)
    return said if said.startswith("/") else ""


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


def test_the_roles_install_it_and_dkms_builds_it(machine: Machine, made: dict[str, str]) -> None:
    path = Path(made["made"]) / "install.yml"
    path.write_text(PLAYBOOK)
    status, said = machine.playbook(path, **made)
    assert status == 0, said
    assert built_for(machine, machine.first) == f"/lib/modules/{machine.first}/updates/dkms/{MODULE}.ko"
    machine.sh("modprobe", MODULE)
    assert machine.loaded(MODULE)


def test_an_update_whose_headers_are_missing_is_not_booted(machine: Machine) -> None:
    said = machine.install(f"linux-image-{machine.second}")
    print(said)
    # What there is to notice by anybody else: a line among many, and a kernel that is installed all the same.
    assert f"Setting up linux-image-{machine.second}" in said
    assert built_for(machine, machine.second) == ""
    boot_id = machine.boot_id()
    status, said = machine.reboot(railyard_reboot_kernels=[machine.second])
    assert status != 0
    assert (
        f"kernel {machine.second} boots next and lacks module {MODULE}, which kernel {machine.first} has"
        in said
    )
    assert f"install linux-headers-{machine.second}" in said
    assert machine.boot_id() == boot_id
    assert machine.loaded(MODULE)


def test_with_the_headers_dkms_builds_it_and_an_unannounced_kernel_still_is_not_booted(
    machine: Machine,
) -> None:
    print(machine.install(f"linux-headers-{machine.second}"))
    assert built_for(machine, machine.second) == f"/lib/modules/{machine.second}/updates/dkms/{MODULE}.ko"
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
    assert machine.loaded(MODULE)
    assert machine.sh("cat", f"/sys/module/{MODULE}/version") == VERSION


def test_a_restore_by_grub_reboot_is_predicted_as_well(machine: Machine) -> None:
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
    assert machine.loaded(MODULE)
