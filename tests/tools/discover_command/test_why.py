"""Why a node could not be read: messages of OpenSSH, sudo, shells and Ansible, each to its reason."""

from __future__ import annotations

import pytest
from railyard.base.progress import Failure
from railyard.discover import why
from support.nodes.bare_cluster import ASKS_PASSWORD, CHANGED_KEY, TIMED_OUT

SSH = "Failed to connect to the host via ssh: "
PERMISSION = f"{SSH}me@gpu1: Permission denied "


# By their texts in OpenSSH 9.2 (sshconnect.c, sshconnect2.c, misc.c), sudo 1.9, sudo-rs 0.2
# (src/common/error.rs), dash, bash, and ansible-core 2.21.
@pytest.mark.parametrize(
    ("message", "what"),
    [
        (SSH + CHANGED_KEY, "its SSH host key changed"),
        (SSH + "Host key verification failed.", "its SSH host key is not known here yet"),
        (
            SSH + "No ED25519 host key is known for gpu1 and you have requested strict checking.\n"
            "Host key verification failed.",
            "its SSH host key is not known here yet",
        ),
        (
            SSH + "@       WARNING: REVOKED HOST KEY DETECTED!               @",
            "its SSH host key changed",
        ),
        (
            SSH + "Received disconnect from 192.0.2.1 port 22:2: Too many authentication failures",
            "SSH tried too many keys",
        ),
        (SSH + ASKS_PASSWORD, "it asks for a password"),
        (
            PERMISSION + "(publickey,gssapi-keyex,gssapi-with-mic,keyboard-interactive).",
            "it asks for a password",
        ),
        (PERMISSION + "(publickey).", "none of your SSH keys is accepted"),
        (SSH + "ssh: Could not resolve hostname gpu1: Name or service not known", "its name is not known"),
        (SSH + "ssh: connect to host gpu1 port 22: Connection refused", "nothing answers on its SSH port"),
        (SSH + "ssh: connect to host gpu1 port 22: No route to host", "there is no route to it"),
        (SSH + TIMED_OUT, "it does not answer"),
        (
            SSH + "Connection timed out during banner exchange",
            "its SSH server accepts the connection and then",
        ),
        (
            SSH + "kex_exchange_identification: Connection closed by remote host",
            "its SSH server ended the connection",
        ),
        ("Task failed: Missing sudo password", "sudo asks for a password"),
        ("Module result deserialization failed.\nsudo: a password is required", "sudo asks for a password"),
        ("sudo: interactive authentication is required", "sudo asks for a password"),
        ("sudo: a terminal is required to read the password; either use", "sudo asks for a password"),
        ("Task failed: Incorrect sudo password", "sudo did not accept the password"),
        ("me is not in the sudoers file.  This incident will be reported.", "its user may not use sudo"),
        ("Sorry, user me is not allowed to execute '/bin/sh' as root on gpu1.", "its user may not use sudo"),
        ("sudo: I'm sorry me. I'm afraid I can't do that", "its user may not use sudo"),
        ("stderr:\n/bin/sh: 1: sudo: not found", "sudo is not installed there"),
        ("stderr:\nbash: line 1: sudo: command not found", "sudo is not installed there"),
        ("The module interpreter '/usr/bin/python3' was not found.", "there is no Python"),
        ("stderr:\n/bin/sh: 1: /usr/bin/python3: not found", "there is no Python"),
        ("/bin/sh: /usr/bin/python3: No such file or directory", "there is no Python"),
        (
            "ansible-core requires a minimum of Python version 3.9. Current version: 3.6.8",
            "its Python is too old",
        ),
        ("Task failed: Timed out after 60 second(s).", "it hung at login or after it"),
        ("Timeout (12s) waiting for privilege escalation prompt: ", "it hung at login or after it"),
        ("something new\nand more", "it could not be read (something new / and more)"),
    ],
)
def test_each_message_has_its_reason_and_a_fix(message, what):
    failure = Failure("gpu1", "Read", "bare_node_info", message, "failed")
    said = why.explain(failure, "me@192.0.2.1", "192.0.2.1")
    assert said.startswith(what), said
    reason, fix = said.split(" Fix: ")
    assert reason.endswith(".")
    assert len(fix) > 10
    assert "{" not in said
    assert "\n" not in said


def test_a_long_or_hostile_message_is_short_and_harmless():
    failure = Failure("gpu1", "Read", "bare_node_info", "\x1b[2J" + "x" * 100_000 + "{where}", "failed")
    said = why.explain(failure, "me@192.0.2.1", "192.0.2.1")
    assert len(said) < 400
    assert "\x1b" not in said
