# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a vendor's repository is for a node, by the release and the architecture that its address names.

Pure: addresses and node in, sentences out. An address that names neither, as a site's own mirror may, is not
judged here: apt tries it. apt alone would not do: what is of another release installs, and breaks later.

How the vendors name them, as of November 2026:
- CUDA, developer.download.nvidia.com/compute/cuda/repos/DISTRIBUTION/ARCHITECTURE/: `debian12`, `debian13`,
  `ubuntu2204`, `ubuntu2404` (docs.nvidia.com/datacenter/tesla/driver-installation-guide/introduction.html,
  "Codename"); `x86_64` and, for servers with Arm CPUs, `sbsa`.
- DOCA, linux.mellanox.com/public/repo/doca/VERSION/DISTRIBUTION/ARCHITECTURE/: `ubuntu24.04`, `debian12.5`;
  `x86_64`, `arm64-sbsa` (addresses in public installation scripts, 2.8.0 to 3.2.0), `arm64-dpu` for the
  BlueField's own CPUs.
- MLNX_OFED, linux.mellanox.com/public/repo/mlnx_ofed/VERSION/DISTRIBUTION/ARCHITECTURE/: as DOCA's, with
  `arm64` (others' instructions for Grace; not seen itself).
"""

from __future__ import annotations

import re
import typing as t

# By what a part of an address says, dpkg's name of it. `arm64-dpu` is no server's.
_DPU = "BlueField's own CPUs"
_ARCHITECTURES = {
    "x86_64": "amd64",
    "amd64": "amd64",
    "sbsa": "arm64",
    "arm64-sbsa": "arm64",
    "aarch64": "arm64",
    "arm64": "arm64",
    "ppc64le": "ppc64el",
    "ppc64el": "ppc64el",
    "arm64-dpu": _DPU,
}
# What the vendors call an architecture: by a mark in the address.
_PATHS = (
    ("compute/cuda/repos", {"amd64": "x86_64", "arm64": "sbsa"}),
    ("/doca/", {"amd64": "x86_64", "arm64": "arm64-sbsa"}),
    ("/mlnx_ofed/", {"amd64": "x86_64", "arm64": "arm64"}),
)
# Where the RDMA vendor has a repository for each release of Ubuntu: its own folder for the version (of DOCA
# the three numbers of the release, as 3.2.0 of 3.2.0-046000) and the marks above.
_OWN = {
    "doca": (re.compile(r"([0-9]+\.[0-9]+\.[0-9]+)(?:-[0-9].*)?\Z"), "/doca/"),
    "mlnx_ofed": (re.compile(r"([0-9]+\.[0-9]+-[0-9.]+)\Z"), "/mlnx_ofed/"),
}
_OWN_ROOT = "https://linux.mellanox.com/public/repo"
_UBUNTU = re.compile(r"ubuntu-?([0-9]{2})\.?([0-9]{2})\Z")
# DOCA names a point release as well (`debian12.5`): no other distribution, and the node does not say its own.
_DEBIAN = re.compile(r"debian-?([0-9]{1,2})(?:\.[0-9]+)?\Z")
_OTHER = re.compile(
    r"(?:alinux|almalinux|amzn|anolis|azl|bclinux|centos|ctyunos|el|euleros|fedora|kylin|mariner|ol|"
    r"openeuler|opensuse|rhel|rocky|sles|suse|tencentos|uos)[0-9][0-9a-z.]*\Z"
)
_NAMES = {"debian": "Debian", "ubuntu": "Ubuntu"}
_CODENAMES = {
    "bullseye": ("debian", "11"),
    "bookworm": ("debian", "12"),
    "trixie": ("debian", "13"),
    "forky": ("debian", "14"),
    "focal": ("ubuntu", "20.04"),
    "jammy": ("ubuntu", "22.04"),
    "noble": ("ubuntu", "24.04"),
    "resolute": ("ubuntu", "26.04"),
}


class Node(t.NamedTuple):
    """What of a node a repository has to fit.

    Attributes:
        os_id: `ID` of os-release: `debian`, `ubuntu`; None where it does not say.
        os_version: `VERSION_ID`: `12`, `24.04`; None in a rolling release.
        architecture: As `dpkg --print-architecture` says it; None where there is no dpkg.
    """

    os_id: str | None
    os_version: str | None
    architecture: str | None


class _Named(t.NamedTuple):
    """What an address names; None for what it does not."""

    release: tuple[str, str] | None
    architecture: str | None
    architecture_word: str


def own_uris(provider: str, version: str, node: Node) -> list[str]:
    """Return where the RDMA vendor itself has the repository; none where that does not follow.

    Args:
        provider: `doca` or `mlnx_ofed`.
        version: Of the metapackage.
        node: The node; a Debian's folder may name a point release, which the node does not say.
    """
    pattern, mark = _OWN.get(provider, (None, ""))
    found = pattern.match(version) if pattern else None
    folder = dict(_PATHS).get(mark, {}).get(node.architecture or "")
    if found is None or folder is None or node.os_id != "ubuntu" or not node.os_version:
        return []
    return [f"{_OWN_ROOT}{mark}{found.group(1)}/ubuntu{node.os_version}/{folder}"]


def refuse(node: Node, uris: t.Iterable[str], suites: t.Iterable[str], variable: str) -> list[str]:
    """Say which of the addresses are not for the node; each sentence ends with what to do.

    Args:
        node: The node.
        uris: Where the repository is.
        suites: Its suites; one that ends with `/` goes on with the path.
        variable: Where the person wrote them.
    """
    found = []
    for uri in uris:
        for suite in suites:
            found += _contradictions(node, uri, suite, variable)
    return list(dict.fromkeys(found))


def _contradictions(node: Node, uri: str, suite: str, variable: str) -> list[str]:
    named = _read(uri, suite)
    place = uri if suite in ("./", "/") else f"{uri} {suite}"
    found = []
    if named.release and node.os_id and node.os_version and named.release != (node.os_id, node.os_version):
        here = _release_name((node.os_id, node.os_version))
        found.append(
            f"the repository {place} is for {_release_name(named.release)}, and the node runs {here}. "
            f"Fix: name the vendor's repository for {here} in {variable}"
        )
    if named.architecture and node.architecture and named.architecture != node.architecture:
        words = next((words for mark, words in _PATHS if mark in uri), {})
        path = words.get(node.architecture)
        instead = f", whose path has `{path}`," if path else ""
        found.append(
            f"the repository {place} is for {_architecture_name(named)}, and the node is "
            f"{node.architecture}. Fix: name the vendor's repository for {node.architecture}{instead} "
            f"in {variable}"
        )
    return found


def _read(uri: str, suite: str) -> _Named:
    """Return what an address names; where it names two, the last is the vendor's, below a site's own."""
    path = re.sub(r"\A[a-z+]+:(?://[^/]*)?", "", uri)
    release: tuple[str, str] | None = None
    architecture, word = None, ""
    # A suite that is no path is a release's codename: noble, bookworm-updates.
    parts = path.split("/") + (suite.split("/") if suite.endswith("/") else [])
    for part in parts:
        release = _release(part.lower()) or release
        if part.lower() in _ARCHITECTURES:
            architecture, word = _ARCHITECTURES[part.lower()], part
    if not suite.endswith("/"):
        release = _CODENAMES.get(suite.partition("-")[0], release)
    return _Named(release, architecture, word)


def _release(part: str) -> tuple[str, str] | None:
    """Return the distribution and version that a part of a path names."""
    ubuntu, debian = _UBUNTU.match(part), _DEBIAN.match(part)
    if ubuntu:
        return "ubuntu", f"{ubuntu.group(1)}.{ubuntu.group(2)}"
    if debian:
        return "debian", debian.group(1)
    return (part, "") if _OTHER.match(part) else None


def _release_name(release: tuple[str, str]) -> str:
    return f"{_NAMES.get(release[0], release[0])} {release[1]}".strip()


def _architecture_name(named: _Named) -> str:
    word, architecture = named.architecture_word, named.architecture
    return str(architecture) if word == architecture else f"{word} ({architecture})"
