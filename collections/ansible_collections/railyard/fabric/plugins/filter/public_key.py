# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A repository's key as it is written for apt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.railyard.fabric.plugins.module_utils.apt import openpgp, source


def one_public_key(text: str, origin: str) -> str:
    """Return the one key of a text, armoured anew; see one_public_key.yml.

    Raises:
        AnsibleFilterError: there is none, or more than it; with the fix.
    """
    try:
        return openpgp.one_key(text)[1]
    except openpgp.KeyFormatError as error:
        raise AnsibleFilterError(f"{origin}: {source.unusable_key(error)}") from None


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"one_public_key": one_public_key}
