# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the catalogue of NCCL's variables says of a site's own settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import site


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"nccl_refused": site.refused, "nccl_reasons": site.reasons}
