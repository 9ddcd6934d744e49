"""`railyard verify`: the end state of the nodes, read by testinfra and not by what configured them."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.plan import build_plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.reader import Loader, TrustingManager
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import fold_names, quoted

from railyard.base import paths
from railyard.base.errors import BAD_INPUT, UserError
from railyard.base.progress import Line, Progress
from railyard.base.signals import Interrupts
from railyard.operate import ansible_args
from railyard.operate.ansible import AnsibleRun, absolute, ansible_environment
from railyard.operate.commands import checked_inventory

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
# What does not change how testinfra's ssh reaches a node, or becomes root there.
_HARMLESS = {
    "ansible_become": (True, False),
    "ansible_become_method": ("sudo", "ansible.builtin.sudo"),
    "ansible_become_user": ("root",),
}
_ARGUMENTS = ("ansible_ssh_common_args", "ansible_ssh_extra_args")
# Their variables say what a node should be; the tests know the defaults.
_ROLES = ("benchmark_tools", "nccl_profile", "node_tuning", "rdma_stack", "roce_qos")


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
            report.longrepr = quoted(f"{call.excinfo.value}")
        elif call.excinfo is not None and call.excinfo.typename == "UnknownError":
            self.unknown.append(str(call.excinfo.value))
            report.longrepr = quoted(f"{call.excinfo.value}")
        elif report.failed:
            self.failed += 1
        elif report.when == "call":
            self.passed += report.passed
            self.skipped += report.skipped
        return report


@dataclass
class _States(Progress):
    """Keeps what the nodes answered: what each printed, and why that may not be its state."""

    told: dict[str, tuple[str, str]] = field(default_factory=dict)

    def feed(self, event: Mapping[str, Any]) -> list[Line]:
        """Take one event and return the lines that it is worth."""
        data = event.get("event_data") or {}
        if event.get("event") in ("runner_on_ok", "runner_on_failed", "runner_on_unreachable"):
            result = data.get("res") or {}
            why = result.get("stderr") or result.get("stdout") or result.get("msg") or "no word"
            self.told[str(data.get("host"))] = (str(result.get("stdout") or ""), str(why))
        return super().feed(event)


def verify(
    sources: Sequence[str],
    arguments: Sequence[str],
    hand_over: Callable[[dict[str, Any]], None] | None = None,
) -> int:
    """Run the end-state tests on the nodes of an inventory.

    Args:
        sources: the values of `-i`.
        arguments: the arguments after `--`: connection options for Ansible, the rest for pytest.
        hand_over: gets the result, as `--json` prints it.

    Returns:
        0 all passed, 1 something failed, 3 nothing was tested, a node could not be read or does not tell.

    Raises:
        UserError: bad input; no node was contacted.
    """
    reach, for_pytest = ansible_args.parse_reach(arguments)
    inventory = checked_inventory(sources, reach.limit)
    passwords = ansible_args.ask_passwords(reach)
    by_ansible = any(not word.startswith("--limit=") for word in reach.argv) or any(
        name.startswith("ANSIBLE_") and name not in ansible_environment() for name in os.environ
    )
    os.environ.update(ansible_environment())
    with tempfile.TemporaryDirectory(prefix="railyard-verify-") as private:
        hosts, options, needs_ansible = resolved(sources)
        plan_file, hosts_file = Path(private, "plan.json"), Path(private, "hosts.json")
        plan_file.write_text(json.dumps(build_plan(inventory)), encoding="utf-8")
        hosts_file.write_text(json.dumps({"gpu_nodes": {"hosts": hosts}}), encoding="utf-8")
        os.environ["RAILYARD_PLAN"] = str(plan_file)
        os.environ["RAILYARD_EXPECT"] = json.dumps(options)
        os.environ.pop("RAILYARD_READ", None)
        root = paths.repo_root()
        if by_ansible or needs_ansible:
            told = _read_by_ansible(root / "tests" / "end_state" / "read.yml", sources, reach.argv, passwords)
            read_file = Path(private, "read.json")
            read_file.write_text(json.dumps(told), encoding="utf-8")
            os.environ["RAILYARD_READ"] = str(read_file)
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
                str(hosts_file),
                str(root / "tests" / "end_state"),
                *for_pytest,
            ],
            plugins=[counter],
        )
    ended = _conclude(int(status), counter)
    if hand_over and ended != BAD_INPUT:
        hand_over(
            {
                "exit_status": ended,
                "as_planned": counter.passed,
                "not_as_planned": counter.failed,
                "unknown": len(counter.unknown),
                "not_checked": counter.skipped,
                "unreachable": sorted(counter.unreachable),
            }
        )
    return ended


def _read_by_ansible(
    playbook: Path, sources: Sequence[str], argv: Sequence[str], passwords: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """Return node → what it printed, and why that may not be its state."""
    states = _States()
    with Interrupts() as interrupts:
        outcome = AnsibleRun(
            playbook,
            sources,
            argv,
            stops_asked=lambda: interrupts.count,
            passwords=passwords,
            progress=states,
        ).run()
    if outcome.interrupted:
        raise KeyboardInterrupt
    if not states.told:
        raise UserError("\n".join(["Ansible did not get to any node:", *map(quoted, states.messages)]))
    return states.told


def _conclude(status: int, counter: _Counter) -> int:
    if status == pytest.ExitCode.USAGE_ERROR:
        return BAD_INPUT
    told = [f"{counter.passed} as planned", f"{counter.failed} not"]
    told += [f"{len(counter.unknown)} not known"] if counter.unknown else []
    told += [f"{counter.skipped} not asked"] if counter.skipped else []
    if counter.unreachable:
        told.append(f"could not be read: {fold_names(sorted(counter.unreachable))}")
    print(f"End state: {', '.join(told)}.")
    if counter.failed:
        return FAILED
    if not counter.passed:
        print("Nothing was tested, so nothing is verified.")
    is_known = counter.passed and not counter.unreachable and not counter.unknown
    return OK if is_known and status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) else UNKNOWN


def resolved(sources: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """Render an inventory's connection variables: testinfra does not evaluate templates.

    Returns:
        Node → connection variables, all literal; node → the roles' variables that it sets; whether Ansible
        alone reaches a node as `railyard site` does: testinfra's ssh knows no password, nor any way but sudo.

    Raises:
        UserError: a variable cannot be rendered.
    """
    from ansible.errors import AnsibleError
    from ansible.module_utils.parsing.convert_bool import boolean
    from ansible.template import Templar
    from ansible.vars.manager import VariableManager

    loader = Loader()
    inventory = TrustingManager(loader=loader, sources=[absolute(source) for source in sources])
    manager = VariableManager(loader=loader, inventory=inventory)
    # Variables of Ansible itself, and facts, which no inventory has.
    magic = {*manager.get_vars(include_hostvars=False), "ansible_facts", "ansible_local"}
    # Variables of the inventory may refer to defaults.
    defaults: dict[str, Any] = {}
    for role in _ROLES:
        defaults |= loader.load_from_file(str(paths.repo_root() / "roles" / role / "defaults" / "main.yml"))
    kinds = variables_of_roles(loader)
    hosts: dict[str, Any] = {}
    options: dict[str, Any] = {}
    needs_ansible = False
    for host in inventory.get_hosts("gpu_nodes"):
        variables = manager.get_vars(host=host, include_hostvars=False)
        ways = {name for name in variables if name.startswith("ansible_")} - magic - set(_CONNECTION)
        needs_ansible |= any(variables[name] not in _HARMLESS.get(name, ()) for name in ways)
        templar = Templar(loader=loader, variables={**defaults, **variables})
        rendered = {}
        for name in (*_CONNECTION, *kinds):
            if name in variables:
                try:
                    rendered[name] = templar.template(variables[name])
                except AnsibleError as error:
                    if name in kinds:
                        raise UserError(f"{host.name}: {name} cannot be rendered: {error}") from error
                    needs_ansible = True  # which knows more, such as other hosts' variables
        hosts[host.name] = {name: _plain(name, rendered[name]) for name in _CONNECTION if name in rendered}
        options[host.name] = {
            name: boolean(rendered[name], strict=False) if kind == "bool" else rendered[name]
            for name, kind in kinds.items()
            if name in rendered
        }
    return hosts, options, needs_ansible or loader.met_encrypted


def variables_of_roles(loader: Loader) -> dict[str, str]:
    """Return the type of each variable of the roles that the end-state tests look at."""
    kinds: dict[str, str] = {}
    for role in _ROLES:
        specs = loader.load_from_file(str(paths.repo_root() / "roles" / role / "meta" / "argument_specs.yml"))
        options = specs["argument_specs"]["main"]["options"]
        kinds |= {name: option["type"] for name, option in options.items()}
    return kinds


def _plain(name: str, value: Any) -> Any:
    if name in _ARGUMENTS:
        # testinfra puts these into a command line for a shell: words only, nothing for the shell to act on.
        return shlex.join(shlex.split(str(value)))
    return value if isinstance(value, int) else str(value)
