"""The real driver from Debian's archive, by the role: installed, built against real headers, moved and back.

A container of a lab of its own has no kernel: DKMS builds for the one whose headers are installed, and
nothing is loaded. Takes minutes, three builds of them.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from e2e.support import Cluster, needs_root, write_lab

NODE = "gpuserver1"
PLAY = """\
- name: Install the driver
  hosts: gpu_nodes
  gather_facts: false
  become: true
  roles:
    - role: nvidia_driver
"""
# A V100 needs the proprietary modules; the container has no GPU, so the variable names it.
ASKED = {"nvidia_driver_enabled": True, "nvidia_driver_generations": ["Volta"]}
MODULES = ["nvidia-current"] + [f"nvidia-current-{part}" for part in ("drm", "modeset", "peermem", "uvm")]
# Fetching 100 MB and compiling the driver on two busy cores.
TIMEOUT_S = 1200


@dataclass
class Driver:
    """The node, and what the role printed on it."""

    cluster: Cluster
    playbook: Path

    def ask(self, **variables: object) -> subprocess.CompletedProcess[str]:
        """Run the role with more variables than `ASKED`."""
        asked = json.dumps({**ASKED, **variables})
        done = self.cluster.playbook(self.playbook, "-e", asked, timeout=TIMEOUT_S)
        print(done.stdout)
        return done

    def on_node(self, *command: str, check: bool = True) -> str:
        """Run a command on the node as root."""
        return self.cluster.ssh(NODE, "sudo", *command, check=check).strip()

    def versions(self) -> dict[str, str]:
        """Return what dpkg has installed of the driver, by package."""
        both = [line.split("\t") for line in self.on_node("dpkg-query", "--show").splitlines()]
        named = {name.partition(":")[0]: version for name, version in both}
        return {name: named[name] for name in named if "nvidia" in name or "libcuda" in name}

    def kernel(self) -> str:
        """Return the kernel whose headers are there; there is one."""
        [kernel] = self.on_node("ls", "/lib/modules").split()
        return kernel

    def modinfo(self, module: str, field: str) -> str:
        """Return what is written in a module that depmod knows."""
        return self.on_node("modinfo", "-k", self.kernel(), "-F", field, module)


def upstream(version: str) -> str:
    return version.partition("-")[0]


def changed(done: subprocess.CompletedProcess[str]) -> int:
    [count] = re.findall(rf"^{NODE} .*\bchanged=([0-9]+)", done.stdout, re.M)
    return int(count)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory):
    needs_root()
    cluster = Cluster(tmp_path_factory.mktemp("drivers"), "drivers")
    write_lab(cluster, "198.18.3.", "container", nodes=1)
    playbook = cluster.topology.with_name("driver.yml")
    playbook.write_text(PLAY, encoding="utf-8")
    made = Driver(cluster, playbook)
    with cluster.up():
        # The driver's areas, as README of the role asks for them.
        lists = made.on_node("find", "/etc/apt", "-name", "*.list").split()
        made.on_node("sed", "-i", "'s/ main$/ main contrib non-free non-free-firmware/'", *lists)
        yield made


@pytest.fixture(scope="module")
def newest(driver: Driver) -> dict[str, str]:
    """The driver as the archive has it; what dpkg says then."""
    done = driver.ask()
    assert done.returncode == 0, done.stdout
    return driver.versions()


@pytest.fixture(scope="module")
def older(driver: Driver, newest: dict[str, str]) -> dict[str, str]:
    """What pins the whole driver to an older version that the archive has as well."""
    here = newest["nvidia-kernel-dkms"]
    offered: dict[str, list[str]] = {}
    parts = [name for name, version in newest.items() if version == here]
    for line in driver.on_node("apt-cache", "madison", *parts).splitlines():
        name, version, _place = (cell.strip() for cell in line.split("|"))
        offered.setdefault(name, []).append(version)
    others = [version for version in offered["nvidia-kernel-dkms"] if version != here]
    if not others:
        pytest.skip(f"the archive has the driver in one version only, {here}")
    return {name: others[0] for name in parts if others[0] in offered[name]}


def test_dkms_builds_the_driver_that_dpkg_has(driver: Driver, newest: dict[str, str]) -> None:
    version = upstream(newest["nvidia-kernel-dkms"])
    assert [driver.modinfo(module, "version") for module in MODULES] == [version] * len(MODULES)
    assert driver.modinfo("nvidia-current", "vermagic").split()[0] == driver.kernel()
    assert driver.modinfo("nvidia-current", "license") == "NVIDIA"
    assert upstream(newest["libcuda1"]) == version


def test_it_is_loaded_nowhere_and_nothing_waits(driver: Driver, newest: dict[str, str]) -> None:
    assert newest
    assert not Path("/sys/module/nvidia").exists()
    waits = driver.on_node("ls", "/var/lib/railyard/waits", check=False)
    assert "nvidia_driver.json" not in waits


def test_debians_names_lead_from_what_the_role_loads_to_what_was_built(
    driver: Driver, newest: dict[str, str]
) -> None:
    assert newest
    for name in ("nvidia", "nvidia_uvm", "nvidia_peermem", "nvidia_modeset", "nvidia_drm"):
        said = driver.on_node("modprobe", "-n", "-v", "-S", driver.kernel(), name)
        assert "nvidia-current" in said, (name, said)


def test_a_second_run_changes_nothing_and_asks_little(driver: Driver, newest: dict[str, str]) -> None:
    before = driver.cluster.exec_requests(NODE)
    done = driver.ask()
    assert (done.returncode, changed(done)) == (0, 0), done.stdout
    # This test looked twice in between; a look does not count itself.
    assert driver.cluster.exec_requests(NODE) - before - 1 <= 3
    assert driver.versions() == newest


def test_a_part_alone_is_not_moved(driver: Driver, newest: dict[str, str], older: dict[str, str]) -> None:
    done = driver.ask(nvidia_driver_pins={"nvidia-kernel-dkms": older["nvidia-kernel-dkms"]})
    assert done.returncode != 0
    assert "Fix:" in done.stdout
    assert driver.versions() == newest


def test_the_whole_driver_is_rolled_back_and_moved_up_again(
    driver: Driver, newest: dict[str, str], older: dict[str, str]
) -> None:
    newer = {name: newest[name] for name in older}
    for pins in (older, newer):
        done = driver.ask(nvidia_driver_pins=pins)
        assert done.returncode == 0, done.stdout
        assert {name: driver.versions()[name] for name in pins} == pins
        version = upstream(pins["nvidia-kernel-dkms"])
        assert [driver.modinfo(module, "version") for module in MODULES] == [version] * len(MODULES)
        # What DKMS had built of the other version is gone with it.
        built = driver.on_node("dkms", "status")
        assert re.findall(r"nvidia-current/([0-9.]+)", built) == [version], built
    held = driver.on_node("apt-mark", "showhold").split()
    assert {"nvidia-kernel-dkms", "libcuda1"} <= set(held)
