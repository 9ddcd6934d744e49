# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue's rows, and what NCCL makes of a value (src/misc/param.cc, src/graph/paths.cc of 2.30.7)."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import catalogue

ROWS = catalogue.VARIABLES.values()


def test_names_are_sorted_and_once():
    names = [row.name for row in ROWS]
    assert names == sorted(set(names))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_row_is_one_that_the_rules_can_read(row):
    assert row.use in ("system", "debugging", "internal", "other", "ucx")
    assert row.why or row.use == "internal", "what is told of a variable needs a reason"
    versions = [catalogue.release(one) for one in (row.since, row.until) if one]
    assert versions == sorted(versions)
    assert not row.instead or row.instead in catalogue.VARIABLES or row.instead.startswith("TORCH_")
    unread = catalogue.Variable("X", "system", row.values, row.case)
    # -1, -2 and so on are NCCL's own way to say that nothing is set.
    assert row.default.startswith("-") or catalogue.wrong_value(unread, row.default) is None


# Read off NCCL's tags: the first that has the name, and the first that no longer has it.
@pytest.mark.parametrize(
    ("name", "since", "until"),
    [
        ("NCCL_IB_HCA", "", ""),
        ("NCCL_IB_ROCE_VERSION_NUM", "2.21.5", ""),
        ("NCCL_IB_SPLIT_DATA_ON_QPS", "2.18.1", ""),
        ("NCCL_NET_GDR_LEVEL", "2.4.2", ""),
        ("NCCL_IB_CUDA_SUPPORT", "", "2.4.0"),
        ("NCCL_MNNVL", "2.20.3", "2.21.5"),
        ("NCCL_DEBUG_FILE", "", ""),
    ],
)
def test_versions(name, since, until):
    row = catalogue.find(name)
    assert (row.since, row.until) == (since, until)


def test_a_plugins_names_are_known_by_how_they_begin():
    assert catalogue.find("NCCL_FASTRAK_IFNAME").use == "other"
    assert catalogue.find("NCCL_FAST") is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [("NCCL_IB_HCAS", "NCCL_IB_HCA"), ("NCCL_DEUBG", "NCCL_DEBUG"), ("NCCL_TIMEOUT", None), ("NCCL_X", None)],
)
def test_a_misspelt_name(written, meant):
    assert catalogue.near(written) == meant


# strtoll with base 0: text is 0, what follows the digits is left, a leading 0 is octal, 0x is hexadecimal.
@pytest.mark.parametrize(
    ("value", "read", "rest"),
    [
        ("106", 106, ""),
        ("0x6a", 106, ""),
        ("010", 8, ""),
        ("08", 0, "8"),
        ("true", 0, "true"),
        ("1 # x", 1, " # x"),
    ],
)
def test_numbers(value, read, rest):
    assert catalogue.number(value) == (read, rest)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("NCCL_IB_DISABLE", ["0", "1", ""], {"true": "reads it as 0", "2": "is not 0 or 1"}),
        ("NCCL_IB_TC", ["0", "255", "-1"], {"256": "-1 to 255", "26x": "reads it as 26"}),
        ("NCCL_BUFFSIZE", ["1", "8388608"], {"0": "1 or more", "8M": "reads it as 8"}),
        ("NCCL_DEBUG", ["WARN", "info"], {"WARNING": "none of", "INFO ": "blanks"}),
        ("NCCL_NET_GDR_LEVEL", ["SYS", "PXB", "5"], {"sys": "case counts", "PCI": "no distance"}),
        ("NCCL_SOCKET_FAMILY", ["AF_INET6"], {"af_inet": "case counts"}),
        ("NCCL_DEBUG_SUBSYS", ["INIT,NET", "^ALL"], {"INIT,NETS": "NETS"}),
        ("NCCL_ALGO", ["Ring", "^Tree", "ring;allreduce:tree,nvls"], {"Rings": "Rings", "ring,": "nothing"}),
        ("NCCL_PROTO", ["LL,Simple"], {"LL64": "LL64"}),
        ("NCCL_IB_ADDR_RANGE", ["10.0.0.0/8", "fd00::/8"], {"10.0.0": "CIDR"}),
        ("NCCL_NETDEVS_POLICY", ["AUTO", "max:2"], {"MAX": "MAX:N"}),
        ("NCCL_CONF_FILE", ["/x"], {"~/x": "~"}),
        ("NCCL_SET_THREAD_NAME", ["1", "TRUE"], {"yes": "neither"}),
        ("NCCL_IB_HCA", ["=mlx5_0:1,mlx5_1:1:0:1"], {"mlx5_0, mlx5_1": "blank"}),
        ("UCX_IB_GID_INDEX", ["auto", "3"], {"-1": "none of"}),
    ],
)
def test_values(name, good, bad):
    row = catalogue.find(name)
    assert {value: catalogue.wrong_value(row, value) for value in good} == dict.fromkeys(good)
    for value, why in bad.items():
        assert why in catalogue.wrong_value(row, value)


# The numbers of before 2.5, as env.rst lists them; what is greater is SYS.
@pytest.mark.parametrize(
    ("value", "means"),
    [("0", "LOC"), ("1", "PIX"), ("2", "PXB"), ("3", "PHB"), ("4", "SYS"), ("5", "SYS"), ("NVL", "NVL")],
)
def test_levels(value, means):
    assert catalogue.level(value) == means
