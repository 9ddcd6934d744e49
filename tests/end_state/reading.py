"""Reads nodes through testinfra: one command, so one SSH session, per node, several nodes at a time."""

from __future__ import annotations

import base64
import json
import re
import shlex
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import testinfra
from testinfra.utils.ansible_runner import AnsibleRunner

# Threads that wait for ssh; where each node costs an `ansible` process, the processor is the limit.
_SSH_AT_A_TIME = 32
_ANSIBLE_AT_A_TIME = 4
_MARK = "railyard-state "
# testinfra's own ssh reads these from the inventory as written; a template needs Ansible to render it.
_CONNECTION_VARIABLES = (
    "ansible_host",
    "ansible_port",
    "ansible_user",
    "ansible_ssh_private_key_file",
    "ansible_private_key_file",
    "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
)
_PASSWORD_VARIABLES = ("ansible_password", "ansible_ssh_pass", "ansible_ssh_password")


class NotReadError(Exception):
    """A node could not be read; the message says why."""


def read_all(names: Sequence[str], inventory: str | None, *, force_ansible: bool) -> dict[str, Any]:
    """Read nodes.

    Returns:
        Name → state as `node_state.py` prints it, or the `NotReadError` that came instead.
    """
    runner = AnsibleRunner.get_runner(inventory)
    variables = runner.inventory["_meta"].get("hostvars", {})  # read here, once: it is not made for threads
    through_ansible = {name: force_ansible or _needs_ansible(variables.get(name, {})) for name in names}
    at_a_time = _ANSIBLE_AT_A_TIME if any(through_ansible.values()) else _SSH_AT_A_TIME

    def read(name: str) -> Any:
        try:
            return _read(name, inventory, variables.get(name, {}), through_ansible[name])
        except NotReadError as error:
            return error

    with ThreadPoolExecutor(max_workers=at_a_time) as pool:
        return dict(zip(names, pool.map(read, names), strict=True))


def command(python: str) -> str:
    """Return the shell command that runs `node_state.py` on a node as root, by `sudo -n` where need be."""
    source = Path(__file__).with_name("node_state.py").read_text(encoding="utf-8")
    packed = base64.b64encode(zlib.compress(source.encode(), 9)).decode()
    program = f"import base64,zlib;exec(zlib.decompress(base64.b64decode('{packed}')))"
    become = "os.geteuid() and os.execvp('sudo',['sudo','-n',sys.executable,'-c',S])"
    return f"{python} -c {shlex.quote(f'import os,sys;S={program!r};{become};exec(S)')}"


def _read(name: str, inventory: str | None, variables: dict[str, Any], through_ansible: bool) -> Any:
    host = testinfra.get_host(f"ansible://{name}", ansible_inventory=inventory, force_ansible=through_ansible)
    python = str(variables.get("ansible_python_interpreter", "python3"))
    if not re.fullmatch(r"/?[\w./+-]+", python) or python.startswith("auto"):
        python = "python3"
    try:
        done = host.run(command(python))
    except (RuntimeError, AssertionError, OSError, ValueError, KeyError) as error:
        # testinfra raises RuntimeError for ssh's own 255, and others where `ansible` prints no result.
        raise NotReadError(_find_reason(str(error))) from error
    return parsed(done.stdout, done.stderr or done.stdout or f"exit status {done.rc} and no word")


def parsed(output: str, otherwise: str) -> Any:
    """Find the state in what `node_state.py` printed.

    Raises:
        NotReadError: it is not there; `otherwise` says why.
    """
    line = next((line for line in output.splitlines() if line.startswith(_MARK)), None)
    if line is None:
        raise NotReadError(_find_reason(otherwise))
    return json.loads(line[len(_MARK) :])


def read_before(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Take nodes as `railyard verify` read them by Ansible.

    Args:
        path: JSON: node → [output, why there may be none].
        names: the selected nodes.
    """
    told = json.loads(path.read_text(encoding="utf-8"))
    states: dict[str, Any] = {}
    for name in names:
        try:
            states[name] = parsed(*told.get(name, ("", "Ansible did not get to it")))
        except NotReadError as error:
            states[name] = error
    return states


def _needs_ansible(variables: dict[str, Any]) -> bool:
    if any(name in variables for name in _PASSWORD_VARIABLES):
        return True
    return any("{{" in str(variables.get(name, "")) for name in _CONNECTION_VARIABLES)


def _find_reason(text: str) -> str:
    """The message of ssh or sudo in testinfra's error, which has the whole command in it."""
    found = re.search(r"stderr=b?(['\"])(.*?)\1[,)]", text, flags=re.S)
    text = found[2].encode().decode("unicode_escape", "replace") if found else text
    if "a password is required" in text or "Missing sudo password" in text:
        text = "sudo asks for a password; give it as to site (-- -K), or let this user run sudo without one"
    return " ".join(text.split())[-400:] or "no answer"
