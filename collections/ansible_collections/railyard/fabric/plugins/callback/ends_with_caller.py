# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible ends when the `railyard` that started it is killed by -9, and so could not end it."""

from __future__ import annotations

DOCUMENTATION = """
name: ends_with_caller
type: aggregate
short_description: End ansible-playbook when the process that started it is gone
version_added: 0.3.0
author: Railyard contributors (@railyard)
description:
  - ansible-runner has Ansible ignore the loss of its terminal. Without this, ansible-playbook would wait for
    ever for workers that have ended.
  - The C(railyard) command enables it; plain C(ansible-playbook) goes without.
requirements:
  - Linux
"""

import ctypes
import os
import signal
from typing import Any

from ansible.plugins.callback import CallbackBase

_PR_SET_PDEATHSIG = 1


class CallbackModule(CallbackBase):
    """Asks the kernel for a signal at the end of this process's parent."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "railyard.fabric.ends_with_caller"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **options: Any) -> None:
        """Begin, in Ansible's main process; its workers do not inherit it."""
        super().__init__(*args, **options)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() == 1:
            os.kill(os.getpid(), signal.SIGTERM)  # it was gone before
