# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What opensm's log reports about its start; without another source, recorded of opensm 3.3.23 on ibsim."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet.opensm_log import (
    OpensmStart,
    parse,
)

START = "Nov 27 21:26:26 639098 [7F6206C0] 0x01 -> "
REFUSED = """\
Nov 27 21:26:26 597823 [82627740] 0x03 -> OpenSM 3.3.23
Nov 27 21:26:26 602905 [82627740] 0x80 -> OpenSM 3.3.23
Nov 27 21:26:26 605659 [82627740] 0x02 -> osm_vendor_init: 1000 pending umads specified
Nov 27 21:26:26 612766 [82627740] 0x80 -> Entering DISCOVERING state
Nov 27 21:26:26 612917 [82627740] 0x02 -> osm_vendor_bind: Mgmt class 0x81 binding to port GUID 0x100001
Nov 27 21:26:26 631087 [7F6206C0] 0x80 -> Entering MASTER state
Nov 27 21:26:26 639098 [7F6206C0] 0x01 -> parse_part_conf: PARSE ERROR: line 2: bad PortGUID
Nov 27 21:26:26 639445 [7F6206C0] 0x01 -> osm_prtn_make_partitions: Partition configuration in error; \
retrying with default config
Nov 27 21:26:26 688864 [7F6206C0] 0x02 -> osm_ucast_mgr_process: minhop tables configured on all switches
Nov 27 21:26:26 691515 [7F6206C0] 0x02 -> SUBNET UP
"""


def test_a_refused_file_is_reported():
    assert parse(REFUSED) == OpensmStart(("PARSE ERROR: line 2: bad PortGUID",), True, "MASTER")


def test_a_sweep_after_the_other_repeats_the_error_once():
    assert parse(REFUSED + REFUSED).errors == ("PARSE ERROR: line 2: bad PortGUID",)


def test_a_good_start_has_no_error():
    good = "".join(line for line in REFUSED.splitlines(keepends=True) if " 0x01 " not in line)
    assert parse(good) == OpensmStart((), False, "MASTER")


def test_states_in_between_are_reported():
    text = "Nov 27 21:26:26 612766 [82627740] 0x80 -> Entering {} state\n"
    assert parse(text.format("DISCOVERING")).state == "DISCOVERING"
    assert parse(text.format("DISCOVERING") + text.format("STANDBY")).state == "STANDBY"
    # osm_sm_state_mgr.c writes this one with a hyphen.
    assert parse(text.format("NOT-ACTIVE")).state == "NOT-ACTIVE"


@pytest.mark.parametrize(
    "line",
    [
        # osm_prtn_config.c, mgroup_create
        START + 'mgroup_create: PARSE ERROR partition conf file line 3: mgid "x": gid is not multicast',
        START + "parse_part_conf: PARSE ERROR: line 1: no partition definition found",
        "Mar  5 01:02:03 000001 [A1] 0x01 -> parse_part_conf: PARSE ERROR: line 1: bad partition flags",
    ],
)
def test_other_forms_of_the_error_are_known(line):
    [error] = parse(line).errors
    assert error.startswith("PARSE ERROR")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\x00\x01",
        # SA's dump (osm_sa.c) has parse errors of its own, with a file's name.
        START + 'opensm_dump: PARSE ERROR: /var/log/sa.dump:12: cannot find "x" string',
        # A node may call itself anything; its description is no line of opensm's.
        START + "osm_report_notice: node 'PARSE ERROR: line 1: x'",
        START + "osm_report_notice: node 'Partition configuration in error; retrying with default config'",
        "PARSE ERROR: line 2: bad PortGUID",
        "Nov 27 21:26:26 6390",
    ],
)  # fmt: skip
def test_anything_else_is_no_error(text):
    assert parse(text) == OpensmStart((), False, None)
