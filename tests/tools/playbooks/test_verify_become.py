"""`railyard verify` becomes root in the ways of `railyard site`; sudo is played, and wants a password."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pexpect
import pytest
import yaml
from ansible.parsing.vault import VaultLib, VaultSecret
from railyard.base import paths
from railyard.base.errors import UserError
from railyard.operate import ansible_args
from support.inventories.on_disk import write_groups

PASSWORD = "open-sesame-7319"
# As sudo -S: asks by the prompt of -p, reads a line, runs the rest; looks who else could read the password.
SUDO = f"""#!{sys.executable}
import glob, os, sys
words = sys.argv[1:]
if "-n" in words:
    sys.exit("sudo: a password is required")
sys.stderr.write(words[words.index("-p") + 1])
sys.stderr.flush()
password = sys.stdin.readline().rstrip("\\n")
if password != "{PASSWORD}":
    sys.exit("Sorry, try again.")
open(__file__ + ".passed", "w").close()
for path in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ"):
    try:
        seen = password.encode() in open(path, "rb").read()
    except OSError:
        continue
    if seen:
        open(__file__ + ".seen", "a").write(path + "\\n")
shell = words.index("/bin/sh")
os.execv("/bin/sh", words[shell:])
"""


@pytest.fixture
def inventory(tmp_path):
    sudo = tmp_path / "sudo"
    sudo.write_text(SUDO)
    sudo.chmod(0o755)
    host = {"ansible_connection": "local", "ansible_become_exe": str(sudo)}
    host["ansible_python_interpreter"] = sys.executable
    return write_groups(tmp_path / "mine", {"gpu1": host})


def verify(inventory: Path, *argv: str, answer: str | None = None) -> str:
    """Return what was printed, and how it ended."""
    program = Path(sys.executable).parent / "railyard"
    words = ["verify", "-i", str(inventory), "--", *argv, "-k", "test_memory_can_be_locked"]
    # The tests may run as root already.
    environment = {**os.environ, "ANSIBLE_BECOME_ALLOW_SAME_USER": "1"}
    child = pexpect.spawn(
        str(program), words, env=environment, cwd=str(paths.repo_root()), timeout=600, encoding="utf-8"
    )
    said = ""
    if answer is not None:
        child.expect("BECOME password: ")
        said += child.before
        child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    return f"{said}{child.before}[exit {child.exitstatus}]"


def was_read(said: str) -> bool:
    """Whether the node was read: this machine may or may not let its users lock memory."""
    return "End state:" in said and "could not be read" not in said


def test_a_typed_password_reaches_only_sudo(inventory):
    said = verify(inventory, "-K", answer=PASSWORD)
    assert was_read(said), said
    assert (inventory.parent / "sudo.passed").exists()
    assert not (inventory.parent / "sudo.seen").exists()


@pytest.mark.minutes
def test_a_password_in_the_vault_reaches_sudo(inventory):
    (inventory.parent / "key").write_text("key")
    secret = yaml.safe_dump({"ansible_become_password": PASSWORD})
    encrypted = VaultLib([("default", VaultSecret(b"key"))]).encrypt(secret)
    (inventory / "group_vars" / "all" / "secret.yml").write_bytes(encrypted)
    said = verify(inventory, f"--vault-password-file={inventory.parent}/key")
    assert was_read(said), said
    assert (inventory.parent / "sudo.passed").exists()
    (inventory.parent / "key").write_text("another")
    said = " ".join(verify(inventory, f"--vault-password-file={inventory.parent}/key").split())
    assert "Decryption failed" in said, said
    assert "[exit 2]" in said


@pytest.mark.minutes
def test_a_missing_password_is_reported_with_the_way_to_give_it(inventory):
    said = " ".join(verify(inventory).split())
    assert "could not be read: gpu1" in said, said
    assert "-- -K" in said, said
    assert "[exit 3]" in said


def test_ansibles_options_are_separated_from_pytests_arguments():
    argv = ["-K", "--limit", "gpu[1:2]", "-k", "not memory", "--become-method=su", "-x", "--lf", "-u", "me"]
    reach, rest = ansible_args.parse_reach(argv)
    assert rest == ["-k", "not memory", "-x", "--lf"]
    assert (reach.limit, [question for _, question in reach.prompts]) == ("gpu[1:2]", ["BECOME password"])
    assert sorted(reach.argv) == ["--ask-become-pass", "--become-method=su", "--limit=gpu[1:2]", "--user=me"]
    with pytest.raises(UserError, match="before `--`"):
        ansible_args.parse_reach(["-i", "other"])
