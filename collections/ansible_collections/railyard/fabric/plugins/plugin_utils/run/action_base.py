# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Functions that the actions of a run share. The work itself is in the pure modules beside this one."""

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
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import provenance
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

_COLLECTION = Path(__file__).resolve().parents[3]
_EXTRA = ("-e", "--extra-vars")
_MESSAGE_CHARACTERS = 400


def play_inventory(action: Any) -> Inventory:
    """Return the inventory of the running play, read raw: what `railyard plan` reads."""
    manager = action._task.get_variable_manager()._inventory
    return load.from_play(manager, action._loader)


def start_documents(
    inventory: Inventory, baseline: str | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Build plan.json and manifest.json of a new run.

    Args:
        inventory: validated.
        baseline: the digest of the baseline that the run is compared with, if any.

    Raises:
        PolicyError: the inventory's policy is not one.
    """
    rules = qos_notes.with_traffic_class(policy.merge(inventory.policy), inventory)
    document: dict[str, Any] = plain(plan.build_plan(inventory))
    document["nodes"] = {name: node for name, node in document["nodes"].items() if name in inventory.selected}
    document |= {provenance.BASELINE: baseline} if baseline else {}
    document[provenance.FINGERPRINT] = provenance.fingerprint(document, rules)
    limited = len(inventory.selected) < len(inventory.nodes)
    return document, {
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
        raise AnsibleActionFail(f"{path} is not a run folder: it has no manifest.json; check railyard_run")
    return folder


def shorten(message: object) -> str:
    """Return the end of a node's or connection's message as one printable line.

    ssh and the shell report the error last.
    """
    text = str(message)[-10 * _MESSAGE_CHARACTERS :]
    lines = (line.strip() for line in plain_text.clean(text).splitlines())
    return "; ".join(line for line in lines if line)[-_MESSAGE_CHARACTERS:]


def record_node_error(folder: RunFolder, node: str, error: Mapping[str, Any]) -> None:
    """Record in the run folder which error kept a node from taking part, for the judge.

    Args:
        folder: the run folder.
        node: the node's inventory name.
        error: `class`, `message` and `fix` as in a result row, in part the node's own text; an absent
            `fix` is the cause table's.

    A failure to record it is ignored: the caller reports the error, too.
    """
    texts = {key: shorten(error[key]) for key in ("class", "message", "fix") if error.get(key) is not None}
    row = {"schema": run_folder.SCHEMA, "run": folder.name, "node": node, "error": {**texts, "host": node}}
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
