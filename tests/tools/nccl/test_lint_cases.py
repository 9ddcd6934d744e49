"""Test `railyard lint-nccl` on files whose right answer is known; each was answered wrongly once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import env_file
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.fabric import Node
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.lint import lint
from railyard.base import paths

CASES = paths.repo_root() / "tests" / "tools" / "nccl" / "cases"
_NODE = Node("gpu1", "roce", (("rail0", "mlx5_0:1", "ens0", True), ("rail1", "mlx5_1:1", "ens1", True)), None)


@pytest.fixture
def check(call: Any) -> Any:
    """Call the verb on a case; return its exit status and its findings."""

    def on_case(name: str) -> tuple[int, list[tuple[int, str, str, str]]]:
        status, out, _ = call("lint-nccl", str(CASES / name), "--json")
        keys = ("line", "severity", "code", "variable")
        return status, [tuple(one[key] for key in keys) for one in json.loads(out)["findings"]]

    return on_case


def test_bash_takes_the_quotes_of_a_default_away(check: Any) -> None:
    name = "lint_default_in_quotes.txt"
    settings = env_file.read((CASES / name).read_text(), name).settings
    assert [(one.name, one.value) for one in settings] == [
        ("NCCL_IB_DISABLE", "1"),
        ("NCCL_DEBUG", "WARN"),
        ("NCCL_NET", "IB"),
    ]
    _status, found = check(name)
    # NCCL_NET=IB leaves TCP out: with RDMA off NCCL has no network at all, and does not start.
    assert found == [(2, "error", "contradiction", "NCCL_IB_DISABLE")]


def test_no_branch_counts_as_the_only_one(check: Any) -> None:
    name = "lint_branch_values.txt"
    status, found = check(name)
    assert (status, {severity for _line, severity, _code, _name in found}) == (3, {"unknown"})
    findings = lint(env_file.read((CASES / name).read_text(), name), [_NODE])
    # One branch has these rails, the other has not.
    assert {one.severity for one in findings} == {"unknown"}
    assert {one.variable for one in findings} == {"NCCL_IB_HCA"}


def test_what_a_function_keeps_to_itself_is_no_setting(check: Any) -> None:
    assert check("lint_local_variables.txt") == (0, [])


def test_names_of_builds_are_no_errors(check: Any) -> None:
    assert check("lint_build_names.txt") == (0, [])


def test_command_substitutions_are_read(check: Any) -> None:
    assert check("lint_command_substitution.txt") == (
        1,
        [(2, "error", "unknown", "NCCL_IB_DISABL"), (2, "error", "no_p2p", "NCCL_P2P_DISABLE")],
    )


def test_options_in_a_variable_are_read(check: Any) -> None:
    assert check("lint_options_by_variable.txt") == (1, [(3, "error", "no_p2p", "NCCL_P2P_DISABLE")])


def test_environment_and_command_of_a_pod_are_read(check: Any) -> None:
    assert check("lint_yaml_nothing_read.txt") == (
        1,
        [
            (8, "warning", "no_rdma", "NCCL_IB_DISABLE"),
            (13, "error", "no_p2p", "NCCL_P2P_DISABLE"),
        ],
    )
