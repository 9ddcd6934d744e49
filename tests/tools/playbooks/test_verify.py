"""`railyard verify`: what it hands on to the end-state tests, and what their outcomes add up to."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from end_state import expect, test_node
from railyard.operate import verify


def test_connection_templates_are_rendered_and_shell_words_are_only_text(tmp_path):
    from railyard.operate.verify import resolved

    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "hosts.yml").write_text(
        """
gpu_nodes:
  hosts:
    gpu1: {ansible_host: 192.0.2.1}
  vars:
    ansible_ssh_private_key_file: "{{ inventory_dir }}/id"
    ansible_ssh_common_args: -o UserKnownHostsFile={{ inventory_dir }}/known_hosts; touch /tmp/owned
    node_tuning_governor: ""
    rdma_stack_enabled: "no"
    rdma_stack_load_modules: "{{ rdma_stack_enabled }}"
    benchmark_tools_rdma: "{{ rdma_stack_provider == 'doca' }}"
"""
    )
    hosts, expected, needs_ansible = resolved([str(folder)])
    assert hosts["gpu1"]["ansible_ssh_private_key_file"] == f"{folder}/id"
    assert (
        "';'" in hosts["gpu1"]["ansible_ssh_common_args"]
        or "known_hosts;'" in hosts["gpu1"]["ansible_ssh_common_args"]
    )
    switches = ("rdma_stack_enabled", "rdma_stack_load_modules", "benchmark_tools_rdma")
    assert expected == {"gpu1": {"node_tuning_governor": "", **dict.fromkeys(switches, False)}}
    assert not needs_ansible


@pytest.mark.parametrize(
    ("variable", "value", "needed"),
    [
        ("ansible_become_method", "ansible.builtin.sudo", False),
        ("ansible_become_method", "su", True),
        ("ansible_become_user", "admin", True),
        ("ansible_become_password", "x", True),
        ("ansible_password", "x", True),
        ("ansible_ssh_user", "me", True),
        ("ansible_port", 2222, False),
    ],
)
def test_what_testinfras_ssh_does_not_know_is_left_to_ansible(tmp_path, variable, value, needed):
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"gpu_nodes": {"hosts": {"gpu1": {variable: value}}}}))
    assert verify.resolved([str(inventory)])[2] == needed


def node_with(
    governors: list[str], node_class: str = "hardware", wanted: str = "performance"
) -> SimpleNamespace:
    return SimpleNamespace(
        name="gpu7", node_class=node_class, governor=wanted, state={"governors": governors}
    )


def outcome_of(node: SimpleNamespace, counter: verify._Counter) -> str:
    """Ask a node for its governor as pytest would under `railyard verify`; return what is shown for it."""
    call = pytest.CallInfo.from_call(lambda: test_node.test_cpu_governor(node), "call")
    item = SimpleNamespace(callspec=SimpleNamespace(params={"node": node}))
    kind = (
        "passed"
        if call.excinfo is None
        else "skipped"
        if call.excinfo.errisinstance(pytest.skip.Exception)
        else "failed"
    )
    report = SimpleNamespace(
        when="call", longrepr="", passed=kind == "passed", failed=kind == "failed", skipped=kind == "skipped"
    )
    step = counter.pytest_runtest_makereport(item, call)
    next(step)
    with contextlib.suppress(StopIteration):
        step.send(report)
    return str(report.longrepr)


def test_a_hardware_node_without_cpufreq_is_not_known_and_no_pass(capsys):
    counter = verify._Counter()
    counter.passed = 40
    shown = outcome_of(node_with([]), counter)
    for word in ("gpu7", "cpufreq", "performance", "Fix: ", "node_tuning_governor: ''"):
        assert word in shown
    assert verify._conclude(pytest.ExitCode.TESTS_FAILED, counter) == verify.UNKNOWN
    assert "1 not known" in capsys.readouterr().out


def test_a_governor_that_can_be_read_or_is_not_configured_is_no_unknown():
    counter = verify._Counter()
    for node in (
        node_with(["performance"]),
        node_with([], "container"),
        node_with([], "virtual", "performance"),
        node_with([], wanted=""),
    ):
        outcome_of(node, counter)
    assert (counter.passed, counter.skipped, counter.failed, counter.unknown) == (1, 3, 0, [])
    assert verify._conclude(pytest.ExitCode.OK, counter) == verify.OK
    outcome_of(node_with(["powersave"]), counter)
    assert (counter.failed, counter.unknown) == (1, [])
    assert verify._conclude(pytest.ExitCode.TESTS_FAILED, counter) == verify.FAILED


def test_verify_hands_on_every_given_option() -> None:
    texts = [path.read_text(encoding="utf-8") for path in Path(expect.__file__).parent.glob("*.py")]
    asked = set(re.findall(r'\boptions\.get\(\s*"(\w+)"', "".join(texts)))
    assert "nccl_profile_net" in asked
    assert asked <= verify.variables_of_roles(verify.Loader()).keys()
