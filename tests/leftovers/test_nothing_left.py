"""After everything: no container, namespace, link or process of the labs that the tests use."""

from __future__ import annotations

import shutil
import subprocess

import pytest

LABS = ("lab", "molecule", "e2e")


def lines(*argv: str) -> list[str]:
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not here, so neither is a lab")
    return subprocess.run(argv, text=True, capture_output=True, check=True).stdout.splitlines()


def of_a_lab(text: str, prefix: str) -> bool:
    return any(f"{prefix}{lab}" in text for lab in LABS)


def test_no_container_is_left() -> None:
    names = lines("podman", "ps", "--all", "--format", "{{.Names}}")
    assert [name for name in names if of_a_lab(name, "railyard-")] == []


def test_no_namespace_is_left() -> None:
    assert [line for line in lines("ip", "netns", "list") if of_a_lab(line, "railyard-")] == []


def test_no_link_is_left() -> None:
    assert [line for line in lines("ip", "-brief", "link") if of_a_lab(line, "ry-")] == []


def test_no_process_is_left() -> None:
    assert [line for line in lines("ps", "-eo", "args") if of_a_lab(line, "/run/netns/railyard-")] == []
