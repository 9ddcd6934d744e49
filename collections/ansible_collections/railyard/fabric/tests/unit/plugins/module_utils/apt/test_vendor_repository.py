# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A repository of another release or architecture is refused by name; what names neither is not judged."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.apt.vendor_repository import (
    Node,
    own_uris,
    refuse,
)

DEBIAN_12 = Node("debian", "12", "amd64")
NOBLE = Node("ubuntu", "24.04", "amd64")
GRACE = Node("ubuntu", "24.04", "arm64")
CUDA = "https://developer.download.nvidia.com/compute/cuda/repos"
DOCA = "https://linux.mellanox.com/public/repo/doca/3.2.0"
OFED = "https://linux.mellanox.com/public/repo/mlnx_ofed/24.10-3.2.5.0"


def problems(node, uri, suite="./"):
    return refuse(node, [uri], [suite], "site_source")


@pytest.mark.parametrize(
    ("node", "uri", "suite"),
    [
        (DEBIAN_12, f"{CUDA}/debian12/x86_64/", "./"),
        (DEBIAN_12, f"{DOCA}/debian12.5/x86_64", "./"),
        (NOBLE, f"{CUDA}/ubuntu2404/x86_64", "/"),
        (NOBLE, CUDA, "ubuntu2404/x86_64/"),
        (GRACE, f"{CUDA}/ubuntu2404/sbsa/", "./"),
        (GRACE, f"{DOCA}/ubuntu24.04/arm64-sbsa/", "./"),
        (GRACE, f"{OFED}/ubuntu24.04/arm64", "./"),
        (NOBLE, "https://mirror.example.com/ubuntu", "noble-updates"),
        # Its own name, or another's, or only a word that begins as one does.
        (DEBIAN_12, "https://ubuntu2404.example.com/mirror", "./"),
        (DEBIAN_12, "https://sbsa/doca", "./"),
        (DEBIAN_12, "file:/srv/ubuntu2404-and-debian12/doca", "./"),
        (NOBLE, "https://mirror.example.com/el/solid/olive", "stable"),
        # A site's own folder above the vendor's.
        (NOBLE, "file:/srv/debian12/aarch64/cuda/ubuntu2404/x86_64", "./"),
        # What the node does not report is not compared.
        (Node(None, None, None), f"{CUDA}/ubuntu2404/sbsa", "./"),
        (Node("debian", None, "amd64"), f"{CUDA}/debian12/x86_64", "./"),
    ],
)
def test_what_fits_or_names_nothing_passes(node, uri, suite):
    assert problems(node, uri, suite) == []


@pytest.mark.parametrize(
    ("node", "uri", "suite", "said"),
    [
        (DEBIAN_12, f"{CUDA}/ubuntu2404/x86_64/", "./", "is for Ubuntu 24.04, and the node runs Debian 12."),
        (DEBIAN_12, f"{CUDA}/debian13/x86_64/", "./", "is for Debian 13, and the node runs Debian 12."),
        (NOBLE, f"{DOCA}/ubuntu22.04/x86_64", "./", "is for Ubuntu 22.04, and the node runs Ubuntu 24.04."),
        (NOBLE, f"{DOCA}/rhel9.4/x86_64", "./", "is for rhel9.4, and the node runs Ubuntu 24.04."),
        (NOBLE, CUDA, "ubuntu2204/x86_64/", "is for Ubuntu 22.04, and"),
        (NOBLE, "https://mirror.example.com/ubuntu", "jammy-updates", "is for Ubuntu 22.04, and"),
        (NOBLE, f"{CUDA}/ubuntu2404/sbsa/", "./", "is for sbsa (arm64), and the node is amd64."),
        (NOBLE, f"{CUDA}/ubuntu2404/sbsa/", "./", "for amd64, whose path has `x86_64`, in site_source"),
        (GRACE, f"{CUDA}/ubuntu2404/x86_64/", "./", "for arm64, whose path has `sbsa`, in site_source"),
        (
            GRACE,
            f"{DOCA}/ubuntu24.04/x86_64/",
            "./",
            "for arm64, whose path has `arm64-sbsa`, in site_source",
        ),
        (GRACE, f"{OFED}/ubuntu24.04/x86_64/", "./", "for arm64, whose path has `arm64`, in site_source"),
        (GRACE, f"{DOCA}/ubuntu24.04/arm64-dpu/", "./", "is for arm64-dpu (BlueField's own CPUs), and"),
        (
            GRACE,
            "file:/srv/mirror/amd64",
            "./",
            "is for amd64, and the node is arm64. Fix: name the vendor's",
        ),
    ],
)
def test_what_does_not_fit_is_named_with_what_does(node, uri, suite, said):
    (problem,) = problems(node, uri, suite)
    assert said in problem
    assert problem.startswith(f"the repository {uri}")
    assert " Fix: " in problem


def test_each_contradiction_is_reported_once():
    uris = [f"{CUDA}/ubuntu2404/sbsa/", f"{CUDA}/debian12/x86_64/"]
    found = refuse(DEBIAN_12, uris, ["./", "/"], "site_source")
    assert len(found) == 2
    assert all(uris[0] in problem for problem in found)


@pytest.mark.parametrize(
    ("provider", "version", "node", "uri"),
    [
        ("doca", "3.2.0-046000", NOBLE, f"{DOCA}/ubuntu24.04/x86_64"),
        ("doca", "3.2.0-046000", GRACE, f"{DOCA}/ubuntu24.04/arm64-sbsa"),
        (
            "doca",
            "2.9.5-0.1.8",
            NOBLE,
            "https://linux.mellanox.com/public/repo/doca/2.9.5/ubuntu24.04/x86_64",
        ),
        ("mlnx_ofed", "24.10-3.2.5.0", NOBLE, f"{OFED}/ubuntu24.04/x86_64"),
        # A Debian's folder may name a point release, which the node does not say.
        ("doca", "3.2.0-046000", DEBIAN_12, None),
        ("doca", "", NOBLE, None),
        ("doca", "../..", NOBLE, None),
        ("inbox", "3.2.0-046000", NOBLE, None),
        ("doca", "3.2.0-046000", Node("ubuntu", "24.04", "riscv64"), None),
        ("doca", "3.2.0-046000", Node("ubuntu", None, "amd64"), None),
    ],
)
def test_the_vendors_own_address_follows_from_version_and_node(provider, version, node, uri):
    found = own_uris(provider, version, node)
    assert found == ([uri] if uri else [])
    assert refuse(node, found, ["./"], "site_source") == []
