"""`railyard lint-nccl`: its words, its JSON, its exit statuses."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import catalogue
from railyard.base import paths

INVENTORIES = paths.repo_root() / "inventories"


@pytest.fixture
def lint(monkeypatch: Any, tmp_path: Any, call: Any) -> Any:
    """Call the verb on a text; return its status, its output and its error output."""

    def on_text(text: str, *argv: str, name: str = "x.env") -> tuple[int, str, str]:
        (tmp_path / name).write_text(text)
        monkeypatch.chdir(tmp_path)
        return call("lint-nccl", name, *argv)

    return on_text


def test_a_finding_is_a_line_and_its_remedy(lint: Any) -> None:
    status, out, _ = lint("# x\nNCCL_IB_CUDA_SUPPORT=1\n")
    assert status == 1
    assert out.splitlines() == [
        "x.env:2: error: NCCL_IB_CUDA_SUPPORT=1: NCCL has not read it since 2.4.0: forced GPUDirect RDMA, "
        "which NCCL now uses wherever the topology allows it",
        "    fix: take it out; NCCL_NET_GDR_LEVEL replaces it (read by NCCL before 2.4.0)",
        "1 setting for NCCL 2.32.3: 1 error",
    ]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", 0),
        ("NCCL_DEBUG=WARN\n", 0),
        ("NCCL_DEBUG=INFO\n", 0),  # a warning
        ("NCCL_DEBUG=INF\n", 1),
        ("export NCCL_IB_HCA=$X\n", 3),
        ("export NCCL_IB_HCA=$X NCCL_DEBUG=INF\n", 1),
        ("{}\n", 2),
        ("NCCL_DEBUG=WARN\0\n", 2),
        ("x" * (1 << 20) + "=\n", 2),
        ('os.environ["NCCL_DEBUG"] = "INFO"\n', 3),  # Python: mentioned, and not read
        ("#!/bin/bash\npython x.py NCCL_DEBUG=INFO\n", 3),
        ("#!/bin/bash\necho hello\n", 0),
        ("apiVersion: v1\nx: NCCL_DEBUG=INFO\n", 3),
        ("apiVersion: v1\nx: y\n", 2),
        ("apiVersion: v1\n\tx: y\n", 2),
        ("FROM a\nENV NCCL_DEBUG=INF\n", 1),
    ],
)
def test_exit_statuses(lint: Any, text: str, status: int) -> None:
    assert lint(text)[0] == status


def test_bad_input_says_what_to_do(lint: Any) -> None:
    assert "no version of NCCL" in lint("", "--nccl", "new")[2]
    assert "x.yml" in lint("a: 1\n", name="x.yml")[2]
    assert "x.yml:2: it is not YAML" in lint("a:\n\tb: 1\n", name="x.yml")[2]
    assert "larger than 1 MiB" in lint("x" * (1 << 20) + "=")[2]
    assert "binary" in lint("NCCL_DEBUG=WARN\0")[2]
    status, out, err = lint("NCCL_DEBUG=WARN\n", "-i", "/no/such/inventory")
    assert (status, out) == (2, "")
    assert "/no/such/inventory" in err


def test_what_is_not_read_has_its_line_and_its_reason(lint: Any) -> None:
    status, out, _ = lint("#!/bin/bash\n\npython x.py NCCL_DEBUG=INFO\n", name="x.sh")
    assert status == 3
    assert out.splitlines() == [
        "x.sh:3: unknown: NCCL_DEBUG: NCCL_DEBUG is given to python, and whether that sets it is not known",
        "    fix: lint what the program really gets: srun -N1 env | railyard lint-nccl -",
        f"0 settings for NCCL {catalogue.NEWEST}: 1 unknown",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "NCCL_IB_GID_INDEX=3",
            ("ClusterMAX: 3", "NCCL 2.21 and newer finds the GID itself", "keep it where"),
        ),
        ("NCCL_IB_QPS_PER_CONNECTION=2", ("ClusterMAX: 2", "several tiers", "keep it where")),
    ],
)
def test_what_audits_ask_for_is_explained(lint: Any, text: str, words: tuple[str, ...]) -> None:
    status, out, _ = lint(f"{text}\n")
    assert status == 0
    assert ": note: " in out
    assert [one for one in words if one not in out] == []


def test_json(lint: Any) -> None:
    status, out, _ = lint("NCCL_IB_GID_INDEX=3\n", "--json", "--nccl", "2.20.5")
    result = json.loads(out)
    finding = result["findings"][0]
    assert status == 0
    assert (result["nccl"], result["nodes"], result["form"]) == ("2.20.5", None, "env file")
    assert result["settings"] == [{"line": 1, "name": "NCCL_IB_GID_INDEX", "value": "3"}]
    assert result["counts"] == {"error": 0, "warning": 0, "unknown": 0, "note": 1}
    assert finding.keys() == {
        "line", "variable", "value", "severity", "code", "why", "fix", "since", "until",
    }  # fmt: skip
    assert (finding["code"], finding["severity"]) == ("gid_index", "note")


def test_the_inventorys_rails_are_checked(lint: Any) -> None:
    inventory = str(INVENTORIES / "hgx-h100-roce")
    status, out, _ = lint("NCCL_IB_HCA==mlx5_0:1\n", "-i", inventory)
    assert status == 1
    assert "it names 1 device, and gpu[001-064] has 8 rails" in out
    assert out.endswith("1 setting for NCCL 2.32.3, against the rails of 64 nodes: 1 error\n")


@pytest.mark.parametrize(
    "layout", sorted(path.parts[-3] for path in INVENTORIES.glob("*/expected/nccl.conf"))
)
def test_nothing_is_wrong_with_what_the_role_writes(lint: Any, layout: str) -> None:
    text = (INVENTORIES / layout / "expected" / "nccl.conf").read_text()
    status, out, _ = lint(text, "-i", str(INVENTORIES / layout), name="nccl.conf")
    assert (status, ": error:" in out, ": warning:" in out) == (0, False, False), out


def test_standard_input(monkeypatch: Any, call: Any) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"PATH=/bin\nNCCL_IB_TC=300\n"))
    monkeypatch.setattr(sys, "stdin", stdin)
    status, out, _ = call("lint-nccl", "-")
    assert status == 1
    assert out.startswith("standard input:2: error: NCCL_IB_TC=300: 300 is not -1 to 255\n")
