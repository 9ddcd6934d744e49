# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role nvidia_driver decides on the controller: which driver, what blocks it, what to set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu import choice as gpu_driver_choice
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu import preflight, settings
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu import replace as gpu_driver_replace
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu.driver.work import Choice, Facts


def nvidia_driver_choice(facts: Facts, asked: Mapping[str, Any], layout: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choice; see nvidia_driver_choice.yml.

    Raises:
        AnsibleFilterError: A value is no number where one is needed.
    """
    try:
        return gpu_driver_choice.choose(facts, asked, layout)
    except ValueError as error:
        raise AnsibleFilterError(
            f"nvidia_driver_choice: {error}. Fix: nvidia_driver_branch is a number as 580, "
            'nvidia_driver_cuda a version as "12.8".'
        ) from error


def nvidia_driver_preflight(
    facts: Facts,
    choice: Choice,
    source: str,
    needed_bytes: Mapping[str, int],
    pins: Mapping[str, str],
    replace: bool = False,
    uninstall_run: bool = False,
    key_enrolled: bool = False,
) -> dict[str, Any]:
    """Return `refusals`, `findings`, `replace` and `foreign`; see nvidia_driver_preflight.yml."""
    return {
        "refusals": preflight.refusals(
            facts, choice, source, needed_bytes, pins, replace, uninstall_run, key_enrolled
        ),
        "findings": preflight.findings(facts, choice),
        "replace": gpu_driver_replace.plan(facts, choice, source, replace, uninstall_run),
        "foreign": gpu_driver_replace.left(facts, source),
    }


def nvidia_driver_outcome(facts: Facts, choice: Choice, own_kernel: bool = True) -> dict[str, Any]:
    """Return `unbuilt`, `differences` and `waits`; see nvidia_driver_outcome.yml."""
    return {
        "unbuilt": preflight.unbuilt_kernels(facts, choice, own_kernel),
        "differences": preflight.version_differences(facts, choice)
        + preflight.unsigned(facts, choice, own_kernel),
        "waits": preflight.waits(facts, own_kernel),
    }


def nvidia_gpu_settings(facts: Facts, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return `commands` and `waits`; see nvidia_gpu_settings.yml.

    Raises:
        AnsibleFilterError: The request cannot be set.
    """
    try:
        return settings.plan(facts, wanted)
    except settings.SettingsError as error:
        raise AnsibleFilterError(f"nvidia_gpu_settings: {error}") from error


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "nvidia_driver_choice": nvidia_driver_choice,
            "nvidia_driver_preflight": nvidia_driver_preflight,
            "nvidia_driver_outcome": nvidia_driver_outcome,
            "nvidia_gpu_settings": nvidia_gpu_settings,
        }
