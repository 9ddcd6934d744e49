# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action's choices are those that it has words for, in its documentation as well."""

from __future__ import annotations

import yaml
from ansible_collections.railyard.fabric.plugins.modules import node_summary as module
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import node_summary


def test_the_documented_facts_are_those_that_there_are_words_for():
    choices = yaml.safe_load(module.DOCUMENTATION)["options"]["fact"]["choices"]
    assert choices == sorted(node_summary.KINDS)
