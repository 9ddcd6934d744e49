# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuse a wrong inventory before any node is touched; documented in plugins/modules/preflight.py."""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ansible import constants
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.utils.display import Display
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import cost
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import minimum_versions, policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import (
    load,
    role_names,
    role_variables,
    wanted_versions,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import nodes as node_checks
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory, Problem
from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring import checks as monitoring_checks
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documented_action import DocumentedAction

display = Display()

# What the plan is made of: it has to come from the inventory, where `railyard plan` reads it too.
_INVENTORY_ONLY = ("fabric", "node_index", "scalable_unit", "rail_overrides")
#: By how much the time limits of tasks are longer than usual, and the most that makes sense.
_TIME_FACTOR, _MOST_TIME_FACTOR = "railyard_time_factor", 100
# The tag of the play that measures.
_MEASURES = "validate"
# Roles that run on another group than the nodes'.
_OF_MONITORS = ("monitoring", "bmc_exporter")
_TAGS_OF_ANSIBLE = ("all", "always", "never", "tagged", "untagged")


def check_extra_variables(extra: Mapping[str, Any]) -> list[Problem]:
    """Refuse as extra variables what the plan is made of, and what is nearly called so.

    Neither the plan nor another run would see it.
    """
    fix = "write it into the inventory (group_vars/all/fabric.yml, or the host's variables)"
    seen = "given as an extra variable, which `railyard plan` cannot see"
    found = [(name, seen, fix) for name in _INVENTORY_ONLY if name in extra]
    misspelt = [
        *node_checks.check_misspelt("-e", extra, load.VARIABLES),
        *role_names.check("-e", extra, extra.get(role_names.OWN)),
    ]
    found += [(one.variable, one.message, one.fix) for one in misspelt]
    return [Problem("-e", None, None, f"{name}: {message}", fix) for name, message, fix in found]


def check_tags(known: Sequence[str], run: Sequence[str], skipped: Sequence[str]) -> list[Problem]:
    """Refuse unknown tags: Ansible would silently run nothing, or run what was to be skipped.

    Args:
        known: the existing tags.
        run: the tags of --tags.
        skipped: the tags of --skip-tags, where foreign tags are common (molecule's `notest`).
    """
    problems = []
    for option, tags in (("--tags", run), ("--skip-tags", skipped)):
        for tag in tags:
            near = difflib.get_close_matches(tag, known, n=1)
            if tag not in (*known, *_TAGS_OF_ANSIBLE) and (near or option == "--tags"):
                hint = f"did you mean {near[0]}? " if near else ""
                fix = f"{hint}There are: {', '.join(known)}; tags of your own go into railyard_own_tags"
                problems.append(Problem(option, None, None, f"{tag}: no play has this tag", fix))
    return problems


def check_time_factor(value: object) -> list[Problem]:
    """Refuse an invalid factor of time limits: 0 would mean no limit at all, and text is read as 0."""
    try:
        good = not isinstance(value, bool) and 1 <= float(str(value)) <= _MOST_TIME_FACTOR
    except ValueError:
        good = False
    if good:
        return []
    message = f"{_TIME_FACTOR} must be a number from 1 to {_MOST_TIME_FACTOR}, not {value!r}"
    fix = "leave it out for the usual limits, or set 2 for nodes that are twice as slow as usual"
    return [Problem(_TIME_FACTOR, None, None, message, fix)]


def check_what_the_play_sees(inventory: Inventory, name: str, seen: Mapping[str, Any]) -> list[Problem]:
    """Compare a host's variables in the play with the inventory: vars or set_fact may override it."""
    nodes = {node.name: node for node in inventory.nodes}
    if name not in nodes:
        return []
    fix = "set it only in the inventory, not by vars, vars_files, set_fact or group_vars beside a playbook"
    return [
        Problem(key, name, None, f"{key}: the play sees another value than the inventory holds", fix)
        for key in _INVENTORY_ONLY
        if load.plain(seen.get(key)) != getattr(nodes[name], key)
    ]


def will_measure(run: Sequence[str], skipped: Sequence[str]) -> bool:
    """Tell whether the tags of this call include the play that measures."""
    return bool({_MEASURES, "all", "tagged"} & set(run)) and not {_MEASURES, "all", "tagged"} & set(skipped)


def check_cost(found: cost.Cost, allowed: object) -> list[Problem]:
    """Refuse a long measurement without a confirmation."""
    refusal = found.refusal()
    if refusal is None or boolean(allowed, strict=False):
        return []
    return [Problem(cost.CONSENT, None, None, refusal, cost.FIX)]


def _report_versions(wanted: Mapping[str, Sequence[minimum_versions.Comparison]]) -> None:
    """Warn about requested versions below their minimum; list those without a known minimum."""
    states = (minimum_versions.BELOW, minimum_versions.NOT_KNOWN)
    table = minimum_versions.describe_age(datetime.datetime.now(datetime.UTC).date())
    for one, hosts in minimum_versions.fold(wanted, *states):
        text = f"{hosts} asks for a version that is {one.state}: {one.text} ({table})"
        if one.state == minimum_versions.BELOW:
            display.warning(text)
        else:
            display.display(text)


class ActionModule(DocumentedAction):
    """Validate the inventory of the running play, all hosts at once."""

    _requires_connection = False
    _VALID_ARGS = frozenset({"known_tags", "measures", "roles"})

    def act(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return `nodes` and `problems`, failed when there are any; see the module's RETURN."""
        manager = self._task.get_variable_manager()
        inventory = load.from_play(manager._inventory, self._loader)
        inventory.policy = policy.apply_run_variables(inventory.policy, task_vars)
        problems = check_extra_variables(manager.extra_vars)
        if not problems:
            problems = check_what_the_play_sees(
                inventory, str(task_vars.get("inventory_hostname", "")), task_vars
            )
        problems += load.validate(inventory)
        problems += check_time_factor(self._templar.template(task_vars.get(_TIME_FACTOR, 1)))
        given = (task_vars.get("ansible_run_tags") or (), task_vars.get("ansible_skip_tags") or ())
        if args["known_tags"]:
            problems += check_tags(args["known_tags"], *given)
        if not problems:
            problems += monitoring_checks.check(inventory)
        if not problems:
            nodes = [one.name for one in inventory.selected_nodes()]
            problems += self._check_roles([one for one in args["roles"] if one not in _OF_MONITORS], nodes)
            monitors = [one.name for one in inventory.monitors]
            problems += self._check_roles([one for one in args["roles"] if one in _OF_MONITORS], monitors)
        if args["measures"] and not problems and not self._task.check_mode and will_measure(*given):
            problems += self._check_cost(inventory, task_vars.get(cost.CONSENT, False))
        count = len(inventory.selected)
        result = {"nodes": count, "problems": [dataclasses.asdict(one) for one in problems]}
        if not problems:
            return {**result, "msg": f"The inventory is sound: {count} nodes."}
        lines = [f"{wording.count(len(problems), 'problem')} in the inventory; no node was touched:"]
        lines += [f"{number}. {problem.text()}" for number, problem in enumerate(problems, start=1)]
        return {**result, "failed": True, "msg": "\n".join(lines)}

    def _check_roles(self, names: Sequence[str], hosts: Sequence[str]) -> list[Problem]:
        """Check the variables of roles for each host, as the role does where it is run alone."""
        manager, play = self._task.get_variable_manager(), self._task.get_play()
        base = self._loader.get_basedir()
        # As Ansible looks for them, and where the playbooks of this project have them.
        beside = [os.path.join(base, "roles"), os.path.join(base, os.pardir, "roles")]
        folders = [*beside, *constants.DEFAULT_ROLES_PATH]

        def load_yaml(path: str) -> Any:
            return self._loader.load_from_file(path, trusted_as_template=True) or {}

        def variables_of(host: str) -> dict[str, Any]:
            # Without the play, for which Ansible would make lists of all its hosts for each of them.
            of_host = manager.get_vars(host=manager._inventory.get_host(host))
            return {**of_host, **play.get_vars(), **manager.extra_vars}

        def render(values: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
            templar = self._templar.copy_with_new_env(available_variables=variables)
            found: dict[str, Any] = templar.template(values)
            return found

        wanted: dict[str, list[minimum_versions.Comparison]] = {}

        def seen(host: str, name: str, value: Any) -> None:
            wanted.setdefault(host, []).extend(wanted_versions.compare_variable(name, value))

        roles = [role_variables.read_role(name, folders, load_yaml) for name in names]
        problems = role_variables.check_roles(roles, hosts, variables_of, render, seen)
        _report_versions(wanted)
        return problems

    def _check_cost(self, inventory: Inventory, allowed: object) -> list[Problem]:
        """Tell what measuring takes; refuse what takes long, and nodes that cannot meet as they should."""
        try:
            found = cost.estimate_inventory(inventory)
        except policy.PolicyError as error:
            fix = f"{policy.RUN_VARIABLES['pattern']} and fabric_policy.pattern say who meets"
            return [Problem("fabric_policy", None, None, str(error), fix)]
        display.display(found.text())
        return check_cost(found, allowed)
