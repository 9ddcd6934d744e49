"""Nothing in the roles is of x86 alone: DGX Spark, GB200 and GB300 are arm64."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.module_utils.apt import vendor_repository
from railyard.base import paths

ROLES = paths.repo_root() / "roles"
X86 = re.compile(r"x86[_-]64|amd64|i[36]86|\bavx|\bsse[0-9]|intel_iommu|amd_iommu")
#: Files that name x86, and arm64 beside it, or in a comment only.
BESIDE_ARM64 = {
    "node_tuning/files/railyard_bind.py",
    "nvidia_driver/vars/debian_12.yml",
    "nvidia_driver/vars/debian_13.yml",
    "nvidia_driver/vars/ubuntu_22.04.yml",
    "nvidia_driver/vars/ubuntu_24.04.yml",
}


def by_architecture(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the mappings of a document that have a part for amd64."""
    if isinstance(value, dict):
        if "amd64" in value:
            yield value
        for item in value.values():
            yield from by_architecture(item)
    elif isinstance(value, list):
        for item in value:
            yield from by_architecture(item)


def test_only_files_that_serve_both_name_an_architecture() -> None:
    files = [path for path in ROLES.rglob("*") if path.is_file() and path.suffix not in (".md", ".pyc")]
    named = {str(path.relative_to(ROLES)) for path in files if X86.search(path.read_text(encoding="utf-8"))}
    assert named == BESIDE_ARM64
    assert all(re.search("arm64|aarch64", (ROLES / one).read_text(encoding="utf-8")) for one in BESIDE_ARM64)


@pytest.mark.parametrize("file", sorted(one for one in BESIDE_ARM64 if one.endswith(".yml")))
def test_a_repository_for_amd64_has_one_for_arm64(file: str) -> None:
    found = list(by_architecture(yaml.safe_load((ROLES / file).read_text(encoding="utf-8"))))
    assert found
    for one in found:
        assert len(one["arm64"]) == len(one["amd64"])
        assert one["arm64"] != one["amd64"]


def test_vendors_folders_are_known_for_both() -> None:
    for _part, folders in vendor_repository._PATHS:
        assert set(folders) == {"amd64", "arm64"}
