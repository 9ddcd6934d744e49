# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ansible writes is text: control sequences that came from a node or an inventory are taken out.

On a terminal they would move the cursor and overwrite other lines; ansible-runner, which reads this output
for the `railyard` command, finds its events in it by such sequences and would take a node's for Ansible's.
"""

from __future__ import annotations

DOCUMENTATION = """
name: plain_output
type: aggregate
short_description: Take control sequences of nodes and inventories out of what Ansible writes
version_added: 0.3.0
author: Railyard contributors (@railyard)
description:
  - Whatever a module returns is written to the terminal by Ansible as it is. With this callback only
    Ansible's own colours stay.
  - It adds nothing to the output and goes with any stdout callback.
requirements:
  - Enabled in the configuration, as Railyard's ansible.cfg does (C(callbacks_enabled)).
"""

import functools
import re
from collections.abc import Callable
from typing import Any

from ansible.plugins.callback import CallbackBase
from ansible.utils.color import ANSIBLE_COLOR
from ansible.utils.display import Display
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean

# As ansible.utils.color.stringc writes them around what it colours.
_COLOUR = re.compile(r"(\x1b\[(?:0|[01];3[0-7])m)")


def plain(text: str) -> str:
    """Return a text without control sequences, but for Ansible's own colours where it uses any."""
    if not ANSIBLE_COLOR:
        return clean(text)
    return "".join(part if place % 2 else clean(part) for place, part in enumerate(_COLOUR.split(text)))


def _plainly(display: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(display)
    def write(self: Display, msg: str, *args: Any, **options: Any) -> Any:
        return display(self, plain(str(msg)), *args, **options)

    return write


class CallbackModule(CallbackBase):
    """Puts itself before the one method through which all of Ansible's output goes."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "railyard.fabric.plain_output"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **options: Any) -> None:
        """Begin; the workers, which are forked later, have it as well."""
        super().__init__(*args, **options)
        Display.display = _plainly(Display.display)
