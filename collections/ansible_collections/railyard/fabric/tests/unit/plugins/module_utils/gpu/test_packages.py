# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is installed for a node's GPUs, and where it came from: trees that are written by hand."""

from __future__ import annotations

import pytest
from support.nodes.gpu_node import (
    KERNEL,
    GpuNode,
)


@pytest.fixture
def node(tmp_path):
    return GpuNode(tmp_path)


def test_packages_and_holds(node):
    node.answers["dpkg-query"] = (
        "RAILYARD nvidia-kernel-dkms hold installed 535.183.01-1~deb12u1\n"
        "RAILYARD nvidia-smi install installed 535.183.01-1~deb12u1\n"
        "RAILYARD nvidia-driver unknown not-installed \n"
        "dpkg-query: no packages found matching nvlsm\n"
    )
    unknown = {"version": "535.183.01-1~deb12u1", "archive": None, "offered": None}
    assert node.facts()["packages"] == {
        "nvidia-kernel-dkms": {**unknown, "held": True},
        "nvidia-smi": {**unknown, "held": False},
    }
    # Without another vendor's archive, apt is not queried.
    assert ["apt-cache"] not in [argv[:1] for argv in node.asked]


def test_archives_of_others_are_distinguished_from_railyards(node):
    url = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/"
    node.write("etc/apt/sources.list", "deb https://example.org/debian bookworm main")
    node.write("etc/apt/sources.list.d/cuda.list", f"# a comment\ndeb [signed-by=/k] {url} /")
    node.write("etc/apt/sources.list.d/off.list", f"# deb {url} /")
    node.write("etc/apt/sources.list.d/no.sources", f"Enabled: no\nTypes: deb\nURIs: {url}\nSuites: /")
    node.write("etc/apt/sources.list.d/railyard-nvidia.sources", f"Types: deb\nURIs: {url}\nSuites: /")
    node.write(
        "etc/apt/sources.list.d/graphics.list",
        "deb https://ppa.launchpadcontent.net/graphics-drivers/ppa/ubuntu noble main\n"
        "deb https://example.org/other noble main",
    )
    vendor = {"kind": "vendor", "ours": False, "alone": True, "sites": ["developer.download.nvidia.com"]}
    ppa = {"kind": "ppa", "ours": False, "alone": False, "sites": ["ppa.launchpadcontent.net"]}
    assert node.facts()["archives"] == [
        {"file": "/etc/apt/sources.list.d/cuda.list", **vendor},
        {"file": "/etc/apt/sources.list.d/graphics.list", **ppa},
        {"file": "/etc/apt/sources.list.d/railyard-nvidia.sources", **vendor, "ours": True},
    ]


# As apt 2.6 prints it: the installed version with stars, each place with its priority.
POLICY = """\
nvidia-smi:
  Installed: 570.195.03-0ubuntu0~gpu22.04.1
  Candidate: 570.195.03-0ubuntu0~gpu22.04.1
  Version table:
 *** 570.195.03-0ubuntu0~gpu22.04.1 500
        500 https://ppa.launchpadcontent.net/graphics-drivers/ppa/ubuntu jammy/main amd64 Packages
        100 /var/lib/dpkg/status
     535.309.01-0+deb12u1 500
        500 http://deb.example.org/debian-security bookworm-security/non-free amd64 Packages
     535.261.03-1 500
        500 http://deb.example.org/debian bookworm/non-free amd64 Packages
libcuda1:
  Installed: 535.261.03-1
  Candidate: 535.261.03-1
  Version table:
     570.195.03-0ubuntu0~gpu22.04.1 -1
         -1 https://ppa.launchpadcontent.net/graphics-drivers/ppa/ubuntu jammy/main amd64 Packages
 *** 535.261.03-1 500
        500 http://deb.example.org/debian bookworm/non-free amd64 Packages
        500 https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64  Packages
        100 /var/lib/dpkg/status
nvidia-dkms-570:
  Installed: 570.195.03-0ubuntu0~gpu22.04.1
  Candidate: 570.195.03-0ubuntu0~gpu22.04.1
  Version table:
 *** 570.195.03-0ubuntu0~gpu22.04.1 500
        500 https://ppa.launchpadcontent.net/graphics-drivers/ppa/ubuntu jammy/main amd64 Packages
        100 /var/lib/dpkg/status
nvidia-modprobe:
  Installed: 570.1-1
  Candidate: 570.1-1
  Version table:
 *** 570.1-1 100
        100 /var/lib/dpkg/status
"""


def test_packages_of_others_archives_are_reported_with_what_the_distribution_has(node):
    names = ("nvidia-smi", "libcuda1", "nvidia-dkms-570", "nvidia-modprobe")
    node.answers["dpkg-query"] = "".join(f"RAILYARD {name} install installed 1\n" for name in names)
    node.answers["apt-cache"] = POLICY
    ppa = "deb https://ppa.launchpadcontent.net/graphics-drivers/ppa/ubuntu jammy main"
    node.write("etc/apt/sources.list.d/graphics.list", ppa)
    packages = node.facts()["packages"]
    assert {name: (one["archive"], one["offered"]) for name, one in packages.items()} == {
        "nvidia-smi": ("ppa", "535.309.01-0+deb12u1"),
        "libcuda1": (None, "535.261.03-1"),
        "nvidia-dkms-570": ("ppa", None),
        "nvidia-modprobe": (None, None),
    }


def test_files_of_the_run_installer_are_those_that_no_package_brought(node):
    node.write("usr/bin/nvidia-uninstall", "")
    node.write("usr/bin/nvidia-smi", "")
    node.write("var/log/nvidia-installer.log", "nvidia-installer log file")
    node.write("var/lib/dpkg/info/nvidia-smi.list", "/usr\n/usr/bin\n/usr/bin/nvidia-smi")
    assert node.facts()["run_installer"] == {
        "files": ["/usr/bin/nvidia-uninstall"],
        "log": "/var/log/nvidia-installer.log",
    }


def test_what_dkms_built(node):
    (node.root / "var/lib/dkms/nvidia-current/535.183.01" / KERNEL / "x86_64/module").mkdir(parents=True)
    (node.root / "var/lib/dkms/nvidia-current/535.183.01/build").mkdir()
    (node.root / "var/lib/dkms/nvidia-current" / f"kernel-{KERNEL}-x86_64").symlink_to(
        node.root / "var/lib/dkms/nvidia-current/535.183.01" / KERNEL
    )
    (node.root / "var/lib/dkms/zfs/2.1" / KERNEL / "x86_64/module").mkdir(parents=True)
    assert node.facts()["dkms"] == [{"module": "nvidia-current", "version": "535.183.01", "kernel": KERNEL}]


def test_the_architecture_is_dpkgs(node):
    assert node.facts()["architecture"] is None
    node.answers["dpkg"] = "arm64\n"
    assert node.facts()["architecture"] == "arm64"
    assert ["dpkg", "--print-architecture"] in node.asked
