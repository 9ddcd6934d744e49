# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run programs to their end as a user does: railyard, ansible-playbook and others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from railyard.base import paths

from support import railyard_server

REPO = paths.repo_root()
_COLLECTION = Path("ansible_collections/railyard/fabric")
BIN = Path(sys.executable).parent
Done = subprocess.CompletedProcess[str]


def run(argv: list[Any], **options: Any) -> Done:
    """Run a program without a terminal; return how it ended and what it printed."""
    options = {"stdin": subprocess.DEVNULL, "timeout": 600, **options}
    return subprocess.run([*map(str, argv)], capture_output=True, text=True, check=False, **options)


def wait_until(holds: Callable[[], object], limit_s: float = 60, pause_s: float = 0.05) -> bool:
    """Wait until something holds; return whether it does, at the latest when the time is over."""
    deadline = time.monotonic() + limit_s
    while not (held := bool(holds())) and time.monotonic() < deadline:
        time.sleep(pause_s)
    return held


def railyard(
    *argv: str | Path, cwd: Path = REPO, address_space_bytes: int | None = None, **environment: str
) -> Done:
    """Run the railyard command in a process of its own, which a server forks that has loaded it."""
    program, words, variables = BIN / "railyard", [*map(str, argv)], {**os.environ, **environment}
    if railyard_server.can_run(variables):
        ended, *printed = railyard_server.run(program, words, cwd, variables, address_space_bytes)
        return Done([str(program), *words], ended.exit_status, *printed)
    return railyard_anew(*argv, cwd=cwd, **environment)


def railyard_anew(*argv: str | Path, cwd: Path = REPO, **environment: str) -> Done:
    """Run the railyard command as a shell does: with a new interpreter, which loads it."""
    return run([BIN / "railyard", *argv], cwd=cwd, env={**os.environ, **environment})


def playbook(
    play: str | Path, inventory: str | Path, *options: str, cwd: Path = REPO, **environment: str
) -> Done:
    """Run ansible-playbook with this repository's configuration."""
    configuration = {"ANSIBLE_CONFIG": str(REPO / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    environment = {**os.environ, **configuration, **environment}
    return run([BIN / "ansible-playbook", "-i", inventory, play, *options], cwd=cwd, env=environment)


def play_on_hosts(folder: Path, play: str, hosts: Mapping[str, Mapping[str, Any]], *options: str) -> Done:
    """Write a play, and hosts with their variables, into a folder, and run it."""
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    (folder / "play.yml").write_text(play)
    return playbook(folder / "play.yml", folder / "hosts.json", *options)


def play_here(folder: Path, play: str, variables: Mapping[str, Any], **environment: str) -> Done:
    """Write a play and its variables into a folder, and run it on this machine."""
    (folder / "play.yml").write_text(play)
    (folder / "vars.json").write_text(json.dumps(variables))
    # Not what discovery takes: a version manager's shim of a Python that is not on.
    options = (
        "-c",
        "local",
        "-e",
        f"@{folder}/vars.json",
        "-e",
        f"ansible_python_interpreter={sys.executable}",
    )
    return playbook(folder / "play.yml", "localhost,", *options, HOME=str(folder), **environment)


def replace_plugins(folder: Path, kind: str, texts: Mapping[str, str]) -> None:
    """Make the collection in a folder, of links to this one, with other plugins of one type, by name."""
    source, target = REPO / "collections" / _COLLECTION, folder / _COLLECTION
    own = {"__pycache__", *(f"{name}.py" for name in texts)}
    for part, but in (("", {"plugins"}), ("plugins", {kind}), (f"plugins/{kind}", own)):
        (target / part).mkdir(parents=True)
        for path in (source / part).iterdir():
            if path.name not in but:
                (target / part / path.name).symlink_to(path)
    for name, text in texts.items():
        (target / "plugins" / kind / f"{name}.py").write_text(text)


def of_role(play: str, role: str) -> str:
    """Return a play in which ROLE stands for the folder of a role."""
    return play.replace("ROLE", str(REPO / "roles" / role))
