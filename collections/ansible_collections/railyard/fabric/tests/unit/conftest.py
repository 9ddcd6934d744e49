# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypothesis without its limit of 200 ms for an example: a machine that is busy is no failure of a test."""

from hypothesis import settings

settings.register_profile("unit", deadline=None)
settings.load_profile("unit")
