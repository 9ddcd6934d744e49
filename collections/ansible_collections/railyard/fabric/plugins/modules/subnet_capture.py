#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: subnet_capture
short_description: Keep what subnet_info returned as a folder on the controller
version_added: "0.4.0"
description:
  - Writes the files of a capture, which C(railyard fabric --from) reads.
  - Runs on the controller and opens no connection. What the node returned is checked first; it names no path.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  capture:
    description: C(capture) of what M(railyard.fabric.subnet_info) returned.
    type: dict
    required: true
  folder:
    description: The folder to write, on the controller. Files of an earlier capture in it are replaced.
    type: path
    required: true
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: none
"""

EXAMPLES = r"""
- name: Read the subnet
  railyard.fabric.subnet_info:
  register: subnet

- name: Keep what was read
  railyard.fabric.subnet_capture:
    capture: "{{ subnet.capture }}"
    folder: /tmp/capture
"""

RETURN = r"""
folder:
  description: The folder.
  returned: success
  type: str
  sample: /tmp/capture
"""
