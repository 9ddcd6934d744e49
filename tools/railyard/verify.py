"""`railyard verify`: the end state of the nodes, read by testinfra and not by what configured them."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from railyard import paths
from railyard.ansible import ansible_environment
from railyard.errors import BAD_INPUT, UserError
from railyard.operate import checked_inventory

from ansible_collections.railyard.fabric.plugins.plugin_utils.plan import build_plan  # isort: skip

OK, FAILED, UNKNOWN = 0, 1, 3
_CONNECTION = (
    "ansible_connection",
    "ansible_host",
    "ansible_port",
    "ansible_user",
    "ansible_ssh_private_key_file",
    "ansible_private_key_file",
    "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
    "ansible_python_interpreter",
)
_PASSWORDS = ("ansible_password", "ansible_ssh_pass", "ansible_ssh_password")
_ARGUMENTS = ("ansible_ssh_common_args", "ansible_ssh_extra_args")
# The roles' variables that change what a node should be; the end state's tests know their defaults.
_OPTIONS = (
    "benchmark_tools_rdma",
    "nccl_profile_net",
    "nccl_profile_rails",
    "nccl_profile_settings",
    "nccl_profile_socket_netdev",
    "nccl_profile_transport",
    "node_tuning_governor",
    "node_tuning_memlock_unlimited",
    "node_tuning_node_class",
    "node_tuning_state",
    "rdma_stack_enabled",
    "rdma_stack_load_modules",
)


class _Counter:
    """A pytest plugin that counts what came out, a node that did not answer apart."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self.unreachable: set[str] = set()
        self.unknown: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Tell a node that could not be read, or that does not tell, from a test that failed on it."""
        report = yield
        if call.excinfo is not None and call.excinfo.typename == "UnreachableError":
            self.unreachable.add(item.callspec.params["node"].name)  # type: ignore[attr-defined]
            # Its own words are all there is to see; a traceback through our reader would bury them.
            report.longrepr = f"{call.excinfo.value}"
        elif call.excinfo is not None and call.excinfo.typename == "UnknownError":
            self.unknown.append(str(call.excinfo.value))
            report.longrepr = f"{call.excinfo.value}"
        elif report.failed:
            self.failed += 1
        elif report.when == "call":
            self.passed += report.passed
            self.skipped += report.skipped
        return report


def verify(sources: Sequence[str], arguments: Sequence[str]) -> int:
    """Run the end-state tests on the nodes of an inventory.

    Args:
        sources: what stood behind `-i`.
        arguments: what stood after `--`, for pytest.

    Returns:
        0 all passed, 1 something failed, 3 nothing was tested, a node could not be read or does not tell.

    Raises:
        UserError: bad input; no node was asked anything.
    """
    inventory = checked_inventory(sources, None)
    os.environ.update(ansible_environment())
    with tempfile.TemporaryDirectory(prefix="railyard-verify-") as private:
        hosts, expected, through_ansible = resolved(sources)
        plan_file, hosts_file = Path(private, "plan.json"), Path(private, "hosts.json")
        plan_file.write_text(json.dumps(build_plan(inventory)), encoding="utf-8")
        hosts_file.write_text(json.dumps({"gpu_nodes": {"hosts": hosts}}), encoding="utf-8")
        os.environ["RAILYARD_PLAN"] = str(plan_file)
        os.environ["RAILYARD_EXPECT"] = json.dumps(expected)
        # With passwords the original inventory stays: they shall not be written to a file, however private.
        shown = (
            [str(Path(sources[0]).absolute()), "--force-ansible"] if through_ansible else [str(hosts_file)]
        )
        if through_ansible and len(sources) > 1:
            raise UserError(
                "verify takes one inventory where its nodes need passwords", "use keys, or one -i"
            )
        root = paths.repo_root()
        counter = _Counter()
        status = pytest.main(
            [
                "-c",
                str(root / "pyproject.toml"),
                f"--rootdir={root}",
                "-p",
                "no:cacheprovider",
                "--quiet",
                "-rs",
                "--no-header",
                "--tb=short",
                "--ansible-inventory",
                *shown,
                str(root / "tests" / "end_state"),
                *arguments,
            ],
            plugins=[counter],
        )
    return _conclude(int(status), counter)


def _conclude(status: int, counter: _Counter) -> int:
    if status == pytest.ExitCode.USAGE_ERROR:
        return BAD_INPUT
    told = [f"{counter.passed} as planned", f"{counter.failed} not"]
    told += [f"{len(counter.unknown)} not known"] if counter.unknown else []
    told += [f"{counter.skipped} not asked"] if counter.skipped else []
    if counter.unreachable:
        from railyard.report.grouping import fold_names

        told.append(f"could not be read: {fold_names(sorted(counter.unreachable))}")
    print(f"End state: {', '.join(told)}.")
    if counter.failed:
        return FAILED
    if (
        counter.unreachable
        or counter.unknown
        or not counter.passed
        or status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    ):
        if not counter.passed:
            print("Nothing was tested, so nothing is verified.")
        return UNKNOWN
    return OK


def resolved(sources: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """Render what an inventory says of reaching its nodes: testinfra reads variables as they stand.

    Returns:
        Node → connection variables, all literal; node → the roles' variables that it sets; whether a password
        is needed, so that testinfra has to go through Ansible.
    """
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader
    from ansible.template import Templar
    from ansible.vars.manager import VariableManager

    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[_absolute(source) for source in sources])
    manager = VariableManager(loader=loader, inventory=inventory)
    hosts: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    passwords = False
    for host in inventory.get_hosts("gpu_nodes"):
        variables = manager.get_vars(host=host, include_hostvars=False)
        passwords = passwords or any(name in variables for name in _PASSWORDS)
        templar = Templar(loader=loader, variables=variables)
        rendered = {
            name: templar.template(variables[name]) for name in (*_CONNECTION, *_OPTIONS) if name in variables
        }
        hosts[host.name] = {name: _plain(name, rendered[name]) for name in _CONNECTION if name in rendered}
        expected[host.name] = {name: rendered[name] for name in _OPTIONS if name in rendered}
    return hosts, expected, passwords


def _plain(name: str, value: Any) -> Any:
    if name in _ARGUMENTS:
        # testinfra puts these into a command line for a shell: words only, nothing for the shell to act on.
        return shlex.join(shlex.split(str(value)))
    return value if isinstance(value, int) else str(value)


def _absolute(source: str) -> str:
    return source if "," in source else str(Path(source).absolute())
