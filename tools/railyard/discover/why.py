"""Why a node could not be read, in plain words, and what to do: from what SSH, sudo and Ansible wrote.

The texts looked for are those of OpenSSH (sshconnect.c, clientloop.c), sudo and sudo-rs, ansible-core 2.19 to
2.21 (plugins/connection/ssh.py, plugins/become, plugins/action, executor/task_executor.py) and POSIX shells.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line

from railyard.base.progress import Failure

_SHOWN_CHARACTERS = 160
_PYTHON = "install Python 3.9 or newer there, or name it with -e ansible_python_interpreter=PATH"
_REACH = "check that the node is up, and that `ssh {where} true` works"


@dataclass(frozen=True)
class Reason:
    """Why a node was not read, and what to do; `{where}` in the fix is what to give to `ssh`."""

    what: str
    fix: str


#: What a message has to contain; the first match decides, the most specific come first.
_REASONS = tuple(
    (re.compile(text, re.IGNORECASE | re.DOTALL), Reason(what, fix))
    for text, what, fix in (
        (
            r"REMOTE HOST IDENTIFICATION HAS CHANGED|host key for .* has changed|REVOKED HOST KEY",
            "its SSH host key changed",
            "make sure that it was reinstalled; then `ssh-keygen -R {address}` and log in once by hand",
        ),
        (
            r"Host key verification failed|No .* host key is known for",
            "its SSH host key is not known here yet",
            "log in once with `ssh {where}`, and compare the key that it shows",
        ),
        (
            r"Too many authentication failures",
            "SSH tried too many keys",
            "name the key for this node in ~/.ssh/config (IdentityFile, IdentitiesOnly yes)",
        ),
        (
            r"Permission denied \([^)]*(password|keyboard-interactive)",
            "it asks for a password: none of your SSH keys is accepted",
            "`ssh-copy-id {where}`, or name another user with -u",
        ),
        (
            r"Permission denied \(|No supported authentication methods",
            "none of your SSH keys is accepted",
            "put your public key on the node, or name another user with -u",
        ),
        (
            r"Could not resolve hostname",
            "its name is not known",
            "add it to DNS or ~/.ssh/config, or give its address with --hosts-from",
        ),
        (
            r"Connection refused",
            "nothing answers on its SSH port",
            "start sshd there, or set its port in ~/.ssh/config",
        ),
        (r"No route to host|Network is unreachable", "there is no route to it", _REACH),
        (
            r"timed out during banner exchange",
            "its SSH server accepts the connection and then says nothing",
            _REACH,
        ),
        (
            r"Incorrect \w+ password|Sorry, try again",
            "sudo did not accept the password",
            "call the command again, and type what sudo takes on that node",
        ),
        (
            r"Missing \w+ password|a password is required|interactive authentication is required"
            r"|a terminal is required to read the password|no tty present",
            "sudo asks for a password",
            "call the command again with -K",
        ),
        (
            r"is not in the sudoers file|is not allowed to (run sudo|execute)|may not run sudo"
            r"|I'm sorry .{1,64}\. I'm afraid I can't do that",
            "its user may not use sudo",
            "allow it in /etc/sudoers.d, or log in as another user with -u",
        ),
        (
            r"sudo: (command )?not found|sudo: No such file or directory",
            "sudo is not installed there",
            "install sudo on the node, or log in as root with -u root",
        ),
        (
            r"python[0-9.]*: (command )?not found|python[0-9.]*: No such file or directory"
            r"|interpreter .* was not found|no python interpreters? (was )?found",
            "there is no Python at /usr/bin/python3",
            _PYTHON,
        ),
        (
            r"requires a minimum of Python version|SyntaxError: |future feature annotations is not defined",
            "its Python is too old",
            _PYTHON,
        ),
        (
            r"No space left on device|Read-only file system",
            "its file system is full or read-only",
            "make room on the node",
        ),
        (
            r"Timed out after \d+ second|expected time frame|waiting for privilege escalation",
            "it hung at login or after it",
            "look at its load and at hanging mounts or drivers (`ssh {where} dmesg`); --limit-s waits longer",
        ),
        (r"Connection timed out|Operation timed out|Host is down", "it does not answer", _REACH),
        (
            r"Connection closed|Connection reset|Broken pipe|kex_exchange",
            "its SSH server ended the connection",
            _REACH,
        ),
    )
)


def explain(failure: Failure, where: str, address: str) -> str:
    """Return why a node was not read and what to do, on one line.

    Args:
        failure: what Ansible reported.
        where: what the user gives to `ssh` for this node, as user@gpu1.
        address: what stands for the node in known_hosts.
    """
    for pattern, reason in _REASONS:
        if pattern.search(failure.message):
            return line(reason.what, reason.fix, where, address)
    shown = clean_line(failure.message).removeprefix("Failed to connect to the host via ssh: ")
    shown = shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}…"
    return line(f"it could not be read ({shown})", _REACH, where, address)


def line(what: str, fix: str, where: str = "", address: str = "") -> str:
    """Write a reason and its fix as one sentence each."""
    return f"{what}. Fix: {fix.replace('{where}', where).replace('{address}', address)}"
