# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Permitted symbol errors against numbers that others publish, calculated by hand."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rules import symbol_errors

# As mlxlink prints them (Mellanox/mstflint mlxlink/modules, and captures of ports).
NDR_PLR = "Ethernet_Consortium_LL_50G_RS_FEC_PLR -(272,257+1)"
KP4_PLR, LL_PLR, KP4 = "RS-FEC - (544,514) + PLR", "LL-FEC - (271,257) + PLR", "Standard RS-FEC - RS(544,514)"
HOUR_S = 3600


@pytest.mark.parametrize(
    ("rate_gbps", "fec", "errors"),
    [
        # 10^-12: the 120 an hour that operators use for QDR is its data rate's, 32 Gbit/s: 115.
        (32, "No FEC", 115.2),
        (40, "No FEC", 144),
        (100, "Standard RS-FEC - RS(528,514)", 360),
        (100, "RS", 360),
        (100, None, 360),
        # NVIDIA's table, Symbol BER Error: 1e-13 of HDR and of NDR without PLR, 1e-14 of NDR with it.
        (200, KP4, 72),
        (200, LL_PLR, 72),
        (200, KP4_PLR, 72),
        (400, KP4, 144),
        (400, NDR_PLR, 14.4),
        (400, KP4_PLR, 14.4),
        # It has no row of XDR: what 802.3df asks of 800 Gbit/s.
        (800, "Interleaved_Standard_RS_FEC_PLR - (544,514)", 288),
        # Not known: the larger limit.
        (400, None, 144),
        (400, "", 144),
    ],
)
def test_an_hour_of_a_link(rate_gbps, fec, errors):
    assert symbol_errors.permitted(rate_gbps, fec, HOUR_S).errors == pytest.approx(errors)


def test_a_burst_is_permitted_in_any_time_and_a_longer_time_permits_more():
    assert symbol_errors.permitted(400, NDR_PLR, 1).errors == 10
    assert symbol_errors.permitted(400, None, 300).errors == pytest.approx(12)
    assert symbol_errors.permitted(400, None, 86400).errors == pytest.approx(3456)
    assert symbol_errors.permitted(400, None, -5).errors == 10


@pytest.mark.parametrize("rate_gbps", [None, 0, -1])
def test_without_a_rate_no_source_gives_a_number(rate_gbps):
    assert symbol_errors.permitted(rate_gbps, NDR_PLR, HOUR_S) is None


@pytest.mark.parametrize("rate_gbps", [0.1, 10, 25, 56, 100, 100.5, 200, 201, 400, 401, 800, 1600])
@pytest.mark.parametrize("fec", [None, "Off", NDR_PLR])
def test_every_rate_has_a_limit_with_a_source(rate_gbps, fec):
    found = symbol_errors.permitted(rate_gbps, fec, HOUR_S)
    assert found.source
    assert found.ratio in (1e-12, 1e-13, 1e-14)


def test_plr_never_permits_more():
    for rate_gbps in range(1, 1000):
        with_plr, without = (symbol_errors.permitted(rate_gbps, fec, HOUR_S) for fec in (NDR_PLR, KP4))
        assert with_plr.errors <= without.errors
