# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One systemctl shows all units; what it prints otherwise is no state."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.state import units
from support.nodes.module import FakeModule

# As systemd 252 prints it: iperf3's unit as Debian brings it, a running one, one that does not exist.
SHOWN = """\
ActiveState=inactive
UnitFileState=disabled

ActiveState=active
UnitFileState=enabled

ActiveState=inactive
UnitFileState=
"""
NAMES = ("iperf3.service", "ssh.service", "none.service")


def show(text, names=NAMES, code=0):
    calls = []

    def run(argv):
        calls.append(argv)
        return code, text, "Failed to connect to bus"

    return units.show(FakeModule({}, run), list(names)), calls


def test_one_request_shows_each_unit():
    states, calls = show(SHOWN)
    assert states == {
        "iperf3.service": {"unit_file_state": "disabled", "active_state": "inactive"},
        "ssh.service": {"unit_file_state": "enabled", "active_state": "active"},
        "none.service": {"unit_file_state": "", "active_state": "inactive"},
    }
    assert calls == [["/usr/bin/systemctl", "show", "--property=UnitFileState,ActiveState", "--", *NAMES]]
    assert show("", names=[]) == ({}, [])


@pytest.mark.parametrize(
    ("text", "code"),
    [(SHOWN, 1), ("", 0), ("\n\n", 0), (SHOWN.partition("\n\n")[0], 0), (SHOWN + "\nA=b\n", 0)],
)
def test_what_is_not_a_state_of_each_is_an_error(text, code):
    with pytest.raises(units.UnitsError, match="Fix: "):
        show(text, code=code)
