# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes without an inventory, reached by Ansible's real SSH plugin: `ssh` and `sudo` are stand-ins on PATH.

`ssh` counts what it is called for and either fails as OpenSSH does, or runs the command here. The module on
the node is a stand-in too, which answers what a test gives each node.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.discover.nodes import made_up, wire
from support.programs import BIN, REPO, Done, railyard, replace_plugins

# What OpenSSH 9.2 prints; the host key's warning is shortened in its middle (sshconnect.c, warn_changed_key).
CHANGED_KEY = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Offending ED25519 key in /home/me/.ssh/known_hosts:7
Host key for gpu has changed and you have requested strict checking.
Host key verification failed.
"""
TIMED_OUT = "ssh: connect to host gpu port 22: Connection timed out\n"
ASKS_PASSWORD = "me@gpu: Permission denied (publickey,password).\n"

# Ansible gives the host and one command last. The options before them are its own.
_SSH = """\
#!/bin/sh
for word in "$@"; do host=$command command=$word; done
case " $* " in *" -O "*|*" -G "*) exit 1;; esac
echo "$host" >> "{folder}/requests"
[ -f "{folder}/ssh/$host" ] && {{ cat "{folder}/ssh/$host" >&2; exit 255; }}
[ -f "{folder}/path/$host" ] && PATH=$(cat "{folder}/path/$host")
[ -f "{folder}/hangs/$host" ] && cd "{folder}/hangs" && exec sleep 600
[ -f "{folder}/no_python/$host" ] && command=$(printf %s "$command" | sed s,/usr/bin/python3,/no/python3,)
inside=$(cat "{folder}/inside/$host" 2>/dev/null)
export BARE_HOST="$host" SSH_CONNECTION="192.0.2.254 40000 $host 22"
exec $inside sh -c "$command"
"""
_SUDO = """\
#!/bin/sh
[ -f "{folder}/sudo/$BARE_HOST" ] && {{ cat "{folder}/sudo/$BARE_HOST" >&2; exit 1; }}
while [ "$1" != /bin/sh ]; do shift; done
exec "$@"
"""
_MODULE = """\
import json, os
from ansible.module_utils.basic import AnsibleModule

kinds = {{"start_beacons": "bool", "collect_beacons": "bool", "link_up": "bool", "longest_s": "int"}}
spec = {{name: {{"type": kind}} for name, kind in kinds.items()}}
spec.update(key={{"required": True}}, run={{}}, secret={{"no_log": True}})
module = AnsibleModule(spec, supports_check_mode=True)
with open("{folder}/answers/" + module.params["key"].replace("/", "_") + ".json") as stream:
    answer = json.load(stream)
with open("{folder}/arguments", "a") as stream:
    stream.write(json.dumps(module.params) + "\\n")
if module.params["collect_beacons"]:
    module.exit_json(beacons=answer["beacons"])
module.exit_json(bare_node={{**answer, "beacons": None}})
"""


class BareCluster:
    """Stand-ins for nodes, in a folder of their own.

    Args:
        folder: empty.
        real_module: the nodes have the module itself, in network namespaces, say.
    """

    def __init__(self, folder: Path, *, real_module: bool = False) -> None:
        self.folder = folder
        self._real_module = real_module
        for name in ("answers", "ssh", "hangs", "path", "sudo", "no_python", "inside", "bin", "home"):
            (folder / name).mkdir()
        for name, text in (("ssh", _SSH), ("sudo", _SUDO)):
            self._program(folder / "bin" / name, text)
        if not real_module:
            module = {"bare_node_info": _MODULE.format(folder=folder)}
            replace_plugins(folder / "collections", "modules", module)

    def add_nodes(self, keys: Sequence[str], hostnames: Sequence[str] = ()) -> None:
        """Add nodes of two rails, whose ports hear each other's beacons on each rail."""
        rails = [{"netdev": f"ens{slot}np0", "pci": f"0000:{slot}8:00.0"} for slot in (1, 2)]
        nodes = [
            {**made_up(f"n{at}", copy.deepcopy(rails)), "key": key, "hostname": hostname}
            for at, (key, hostname) in enumerate(zip(keys, hostnames or keys, strict=True), start=1)
        ]
        wire(nodes, [[(key, rail["netdev"]) for key in keys] for rail in rails])
        for node in nodes:
            self.add(node)

    def add(self, answer: dict[str, Any], key: str | None = None) -> None:
        """Add a node that answers so."""
        path = self.folder / "answers" / f"{key or answer['key']}.json"
        path.write_text(json.dumps(answer))

    def put_inside(self, host: str, *argv: str) -> None:
        """Have commands on a host run behind this one, as `ip netns exec NAME`."""
        (self.folder / "inside" / host).write_text(" ".join(argv))

    def fail_ssh(self, host: str, text: str) -> None:
        """Have SSH to a host end with 255 after it printed this."""
        (self.folder / "ssh" / host).write_text(text)

    def hang(self, host: str) -> None:
        """Have every command on a host hang."""
        (self.folder / "hangs" / host).touch()

    def refuse_sudo(self, host: str, text: str) -> None:
        """Have sudo on a host fail after it printed this."""
        (self.folder / "sudo" / host).write_text(text)

    def take_sudo(self, host: str) -> None:
        """Take sudo off a host."""
        (self.folder / "path" / host).write_text("/bin:/usr/bin")

    def take_python(self, host: str) -> None:
        """Take Python off a host."""
        (self.folder / "no_python" / host).touch()

    def requests(self) -> list[str]:
        """Return the host of each SSH request."""
        path = self.folder / "requests"
        return path.read_text().split() if path.exists() else []

    def running(self) -> list[str]:
        """Return the command lines of processes that hang on these hosts still."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdecimal() and os.readlink(entry / "cwd") == str(self.folder / "hangs"):
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found

    def arguments(self) -> list[dict[str, Any]]:
        """Return the arguments of each call of the module."""
        path = self.folder / "arguments"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def discover(self, *argv: str | Path) -> Done:
        """Run `railyard discover` among these nodes."""
        return railyard("discover", *argv, **self._environment())

    def begin(self, *argv: str | Path) -> subprocess.Popen[str]:
        """Begin `railyard discover` among these nodes."""
        words = [BIN / "railyard", "discover", *argv]
        environment = {**os.environ, **self._environment()}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        return subprocess.Popen([*map(str, words)], cwd=REPO, env=environment, text=True, **pipes)

    def _environment(self) -> dict[str, str]:
        search = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        found = {"PATH": search, "HOME": str(self.folder / "home")}
        if not self._real_module:
            found["ANSIBLE_COLLECTIONS_PATH"] = str(self.folder / "collections")
        return found

    def _program(self, path: Path, text: str) -> None:
        path.write_text(text.format(folder=self.folder))
        path.chmod(0o755)
