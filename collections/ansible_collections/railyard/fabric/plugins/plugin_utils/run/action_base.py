# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Actions of a run: what they share. The work itself is in the pure modules beside this one."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible import __version__ as ansible_core_version
from ansible.errors import AnsibleActionFail
from ansible_collections.railyard.fabric.plugins.plugin_utils import plain_text
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load, plan, qos_notes
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.load import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import provenance
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

_COLLECTION = Path(__file__).resolve().parents[3]
_EXTRA = ("-e", "--extra-vars")
_SAID_CHARACTERS = 400


def play_inventory(action: Any) -> Inventory:
    """Return the inventory of the running play, read raw: what `railyard plan` reads."""
    manager = action._task.get_variable_manager()._inventory
    return load.from_play(manager, action._loader)


def opening(inventory: Inventory, baseline: str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return plan.json of a new run, and what its manifest says of how it is made.

    Args:
        inventory: validated.
        baseline: the digest of what the run is held against, if anything.

    Raises:
        PolicyError: the inventory's policy is not one.
    """
    rules = qos_notes.with_traffic_class(policy.merge(inventory.policy), inventory)
    whole: dict[str, Any] = plain(plan.build_plan(inventory))
    whole["nodes"] = {name: node for name, node in whole["nodes"].items() if name in inventory.selected}
    whole |= {provenance.BASELINE: baseline} if baseline else {}
    whole[provenance.FINGERPRINT] = provenance.fingerprint(whole, rules)
    limited = len(inventory.selected) < len(inventory.nodes)
    return whole, {
        "inventory": [Path(source).name for source in inventory.sources],
        "versions": {
            "railyard": _own_version(),
            "ansible_core": ansible_core_version,
            "python": platform.python_version(),
        },
        "policy": rules,
        "argv": command_line(),
        "limit": sorted(inventory.selected) if limited else None,
    }


def open_folder(path: str) -> RunFolder:
    """Return a run folder that exists.

    Raises:
        AnsibleActionFail: there is none.
    """
    folder = RunFolder(path)
    if not (folder.path / "manifest.json").is_file():
        raise AnsibleActionFail(f"{path} is no run folder: it has no manifest.json; check railyard_run")
    return folder


def said(words: object) -> str:
    """Return what a node or a connection said, on one line that is fit to be shown: the end of it.

    ssh and the shell say last what went wrong.
    """
    text = str(words)[-10 * _SAID_CHARACTERS :]
    lines = (line.strip() for line in plain_text.clean(text).splitlines())
    return "; ".join(line for line in lines if line)[-_SAID_CHARACTERS:]


def note_obstacle(folder: RunFolder, node: str, error: Mapping[str, Any]) -> None:
    """Keep in the run folder what kept the controller from asking a node, for the judge to say.

    Args:
        folder: the run folder.
        node: the node's inventory name.
        error: `class`, `message` and `fix` as in a result row, some of it in the node's own words; an absent
            `fix` is the cause table's.

    It is no failure of its own where that cannot be kept: the caller says what went wrong all the same.
    """
    told = {key: said(error[key]) for key in ("class", "message", "fix") if error.get(key) is not None}
    row = {"schema": run_folder.SCHEMA, "run": folder.name, "node": node, "error": {**told, "host": node}}
    with suppress(run_folder.RunFolderError):
        folder.append_new(run_folder.OBSTACLES, [row])


def safe_argv(argv: Sequence[str]) -> list[str]:
    """Return a command line without the values of extra variables, which may be secrets.

    Railyard's own variables stay; a file of variables (`@FILE`) is a name and stays as well.
    """
    safe: list[str] = []
    for before, word in zip(["", *argv], argv, strict=False):
        option = re.match(r"--extra-vars=|-e(?=.)", word, re.DOTALL)
        if before in _EXTRA:
            safe.append(_hidden(word))
        elif option:
            safe.append(option[0] + _hidden(word[option.end() :]))
        else:
            safe.append(word)
    return safe


def command_line() -> list[str]:
    """Return the command that runs this play, safe to keep."""
    return safe_argv([Path(sys.argv[0]).name, *sys.argv[1:]])


def plain(value: Any) -> Any:
    """Return a value without Ansible's tags, ready for JSON."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, (list, tuple)) else load.plain(value)


def _hidden(word: str) -> str:
    if word.startswith(("@", "railyard_")) and " " not in word:
        return word
    names = re.findall(r"(?:^|\s)([A-Za-z_][A-Za-z0-9_]*)=", word)
    return " ".join(f"{name}=(not kept)" for name in names) or "(not kept)"


def _own_version() -> str | None:
    try:
        found = re.search(
            r"^version:\s*(\S+)", (_COLLECTION / "galaxy.yml").read_text(encoding="utf-8"), re.M
        )
    except OSError:
        return None
    return found.group(1) if found else None
