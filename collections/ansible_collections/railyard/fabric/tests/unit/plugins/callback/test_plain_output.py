# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.callback import plain_output

SAID = "\x1b[0;32mok: [gpu1]\x1b[0m\x1b[2J\x1b[8mhidden\x9bK\rover\x1b]0;title\x07"


@pytest.mark.parametrize(
    ("colours", "shown"),
    [
        (True, "\x1b[0;32mok: [gpu1]\x1b[0mhiddenK\nover]0;title"),
        (False, "ok: [gpu1]hiddenK\nover]0;title"),
    ],
)
def test_only_ansibles_own_colours_reach_the_terminal(monkeypatch, colours, shown):
    monkeypatch.setattr(plain_output, "ANSIBLE_COLOR", colours)
    assert plain_output.plain(SAID) == shown
