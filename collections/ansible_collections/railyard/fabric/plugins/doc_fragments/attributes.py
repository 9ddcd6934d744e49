# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attributes that every module and action of the collection states in its documentation."""

from __future__ import annotations


class ModuleDocFragment:
    """What each attribute means; the module states its `support`, or takes it from a second fragment.

    `railyard.fabric.attributes.full`, beside `railyard.fabric.attributes`, is for modules that support all.
    """

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and tell what it would change without changing it.
  diff_mode:
    description: Tells in diff mode what is (or in check mode would be) different.
  idempotent:
    description: A second run with the same arguments and nothing changed in between reports no change.
"""

    FULL = r"""
options: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
"""
