"""docs/first-day.md, "Two servers with cables", as a reader types it: a fresh checkout, the page's addresses.

The nodes are containers whose management network is the page's, with a user who has a password for sudo.
Each command is read from the page, so that a command that changes there is tried here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from e2e.support import ROOT, Cluster, edited, needs_root, run, write_lab

PAGE = ROOT / "docs" / "first-day.md"
ADDRESSES = {"gpuserver1": "192.168.1.73", "gpuserver2": "192.168.1.71"}
PASSWORD = "only-of-this-lab"
# Settings of the user who runs the tests.
OURS = ("ANSIBLE", "RAILYARD")
ADMIN = f"""
useradd --create-home --shell /bin/bash --groups sudo admin
echo admin:{PASSWORD} | chpasswd
install -d -m 700 -o admin -g admin ~admin/.ssh
install -m 600 -o admin -g admin ~railyard/.ssh/authorized_keys ~admin/.ssh/authorized_keys
"""


def section(title: str) -> str:
    """Return the page's text below a heading of the second level."""
    return PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]


def commands(text: str) -> list[str]:
    """Return the commands of the blocks of code in a text, each on one line."""
    blocks = re.findall(r"^ *```\n(.*?)^ *```$", text, flags=re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [re.sub(r" +", " ", line).strip() for line in lines if line.strip()]


SET_UP = commands(PAGE.read_text(encoding="utf-8").split("\n## ")[0])
TYPED = commands(section("Two servers with cables"))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that git knows or would add, without what tests and labs have left."""
    folder = tmp_path_factory.mktemp("first_day") / "railyard"
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    needs_root()
    made = Cluster(tmp_path_factory.mktemp("lab"), "firstday")
    write_lab(made, "192.168.1.", "container")
    for path in (made.topology, made.inventory / "hosts.yml"):
        with edited(path) as content:
            nodes = content["nodes"] if path == made.topology else content["gpu_nodes"]["hosts"]
            for name, address in ADDRESSES.items():
                nodes[name]["address" if path == made.topology else "ansible_host"] = address
    with made.up():
        for node in ADDRESSES:
            made.ssh(node, "sudo", "sh", "-ec", f"'{ADMIN}'")
            made.ssh(node, "sudo", "sh", "-ec", "'ip link set ens6 up; ip link set ens6d1 up'")
        yield made


class Reader:
    """Somebody at a terminal, in the checkout, with the virtual environment on."""

    def __init__(self, checkout: Path, lab: Cluster) -> None:
        ssh = ROOT / ".lab" / lab.lab_name / "ssh"
        # In the place of the reader's own key and of ~/.ssh/known_hosts after the first login by hand.
        way = f"-i {ssh}/id_ed25519 -o IdentitiesOnly=yes -o UserKnownHostsFile={ssh}/known_hosts"
        self.checkout = checkout
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(OURS)},
            "ANSIBLE_SSH_COMMON_ARGS": way, "COLUMNS": "120", "TERM": "xterm",
        }  # fmt: skip

    def types(self, command: str, timeout: int = 900) -> tuple[int, str]:
        """Run a command in a terminal and give sudo's password at its prompt; return status and output."""
        child = pexpect.spawn(
            "bash", ["-c", f". .venv/bin/activate && {command}"], cwd=str(self.checkout),
            env=self.environment, timeout=timeout, encoding="utf-8", dimensions=(40, 120),
        )  # fmt: skip
        output, asked = "", 0
        while child.expect(["BECOME password: ?", pexpect.EOF]) == 0:
            output += child.before
            asked += 1
            child.sendline(PASSWORD)
        output += child.before
        child.close()
        # What the line of progress rewrites is of no use to who reads why this failed.
        seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output)
        lines = dict.fromkeys(re.sub(r"^\d+:\d\d ", "", line).rstrip() for line in seen.splitlines())
        print(f"$ {command}", *lines, f"[{child.exitstatus}]", sep="\n")
        assert asked == (" -K" in command), "the password is asked for once, by whoever was given -K"
        assert PASSWORD not in output
        return child.exitstatus, "\n".join(lines)


@pytest.fixture(scope="module")
def reader(checkout: Path, lab: Cluster) -> Reader:
    assert SET_UP == ["make setup", ". .venv/bin/activate"]
    subprocess.run(["make", "setup"], cwd=checkout, timeout=600, check=True)
    return Reader(checkout, lab)


def test_two_servers_with_cables(reader: Reader) -> None:
    """Every command in its order; the inventory that is typed, not discovered, goes to another folder."""
    discover, typed, plan, check, site, reboot, again, verify = TYPED
    status, output = reader.types(discover)
    assert status == 0
    assert "2 nodes, 2 rails" in output
    status, output = reader.types(typed.replace("inventories/mine", "inventories/typed"))
    assert status == 0
    status, output = reader.types(plan)
    assert status == 0
    assert "gpuserver1" in output
    assert reader.types("railyard plan -i inventories/mine --svg plan.svg")[0] == 0
    status, output = reader.types(check)
    assert status == 0
    assert "+++ after: /etc/netplan/60-railyard-rails.yaml" in output
    status, output = reader.types(site)
    assert status == 0
    assert "2 of 2 nodes good: all" in output
    status, output = reader.types(reboot)
    assert status == 0
    assert "rebooted" not in output
    # The page has the command twice: after the reboot nothing is left to change.
    assert again == site
    status, output = reader.types(again)
    assert status == 0
    status, output = reader.types(verify)
    assert status == 0
    assert "End state:" in output
    assert ", 0 not," in output
