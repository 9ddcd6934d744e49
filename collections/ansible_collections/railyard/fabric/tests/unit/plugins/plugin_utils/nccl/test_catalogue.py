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
    assert row.use in ("system", "debugging", "internal", "other", "rccl", "ucx")
    assert row.why or row.use in ("internal", "rccl"), "what is told of a variable needs a reason"
    assert row.rccl or row.use != "rccl"
    assert not row.plugin or row.name.startswith(("NCCL_INSPECTOR_", "NCCL_PROFILE", "NCCL_TUNER_"))
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
        # Read off the libraries of 2.31.2 and 2.32.3 with `strings`.
        ("NCCL_IB_PKEY_VALUE", "2.31.2", ""),
        ("NCCL_IB_RAIL_POLICY", "2.32.3", ""),
        ("NCCL_IB_SORT_MERGE_NICS", "2.32.3", ""),
        ("NCCL_NET_GDR_MLOPART", "2.30.7", "2.32.3"),
        # In the library each is the end of other constants, without a NUL before it.
        ("NCCL_SOCKET_MAGIC", "2.30.7", ""),
        ("NCCL_PAT_ENABLE", "2.23.4", ""),
        # Read under another name by mistake until 2.16.5, whatever the documentation says.
        ("NCCL_ALLOC_P2P_NET_LL_BUFFERS", "2.16.5", ""),
        # Plugins are no part of the library.
        ("NCCL_INSPECTOR_ENABLE", "2.28.3", ""),
    ],
)
def test_versions(name, since, until):
    row = catalogue.find(name)
    assert (row.since, row.until) == (since, until)


def test_releases_are_those_that_there_are():
    assert (catalogue.OLDEST, catalogue.NEWEST) == ("2.3.5", "2.32.3")
    assert list(catalogue.RELEASES) == sorted(set(catalogue.RELEASES), key=catalogue.release)
    versions = {version for row in ROWS for version in (row.since, row.until) if version}
    # The documentation of some old ones names a version that has no tag.
    assert versions - set(catalogue.RELEASES) == {"2.3", "2.4.0", "2.5"}


@pytest.mark.parametrize(
    ("name", "use", "rccl"),
    [
        # RCCL's source at rocm-6.2.2: RCCL_PARAM(MscclEnabled, "MSCCL_ENABLE", 1).
        ("RCCL_MSCCL_ENABLE", "rccl", "6.2.2"),
        ("RCCL_TREES", "rccl", "6.2.2"),
        ("NCCL_IB_HCA", "system", "6.2.2"),
        # Named by the documentation of newer ones.
        ("RCCL_DDA_THRESHOLD", "rccl", "documentation"),
        ("NCCL_CHECK_MODE", "debugging", "documentation"),
        ("NCCL_IB_PKEY_VALUE", "system", ""),
    ],
)
def test_names_of_rccl(name, use, rccl):
    row = catalogue.find(name)
    assert (row.use, row.rccl) == (use, rccl)


def test_an_unknown_name_is_described_by_the_releases_that_do_not_read_it():
    assert catalogue.describe_unknown("NCCL_X").startswith("no NCCL from 2.3.5 to 2.32.3 reads it")
    assert catalogue.describe_unknown("nccl_debug") == "NCCL reads names in capitals alone"


def test_a_plugins_names_are_known_by_how_they_begin():
    assert catalogue.find("NCCL_FASTRAK_IFNAME").use == "other"
    assert catalogue.find("NCCL_FAST") is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [("NCCL_IB_HCAS", "NCCL_IB_HCA"), ("NCCL_DEUBG", "NCCL_DEBUG"), ("NCCL_TIMEOUT", None), ("NCCL_X", None)],
)
def test_a_misspelt_name(written, meant):
    assert catalogue.near(written) == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("NCCL_IB_HCAS", "NCCL_IB_HCA"),
        ("NCCL_IB_DISABL", "NCCL_IB_DISABLE"),
        ("NCCL_IBHCA", "NCCL_IB_HCA"),
        ("nccl_debug", "NCCL_DEBUG"),
        # Names that came with a later release, and are as near to one of before as a misspelt one.
        ("NCCL_XX_CHUNK_SIZE", None),
        ("NCCL_XIN_ENABLE", None),
        ("NCCL_IB_TC_X", None),
    ],
)
def test_a_misspelt_name_is_distinguished_from_one_that_may_be_new(written, meant):
    assert catalogue.misspelt(written) == meant


def test_new_releases_names_would_not_have_been_called_misspelt(monkeypatch):
    own = [row for row in ROWS if row.use in ("system", "debugging", "internal")]
    wrong = []
    for since in sorted({row.since for row in own if row.since}, key=catalogue.release):
        before = {
            row.name: row
            for row in own
            if not row.since or catalogue.release(row.since) < catalogue.release(since)
        }
        monkeypatch.setattr(catalogue, "VARIABLES", before)
        wrong += [row.name for row in own if row.since == since and catalogue.misspelt(row.name)]
    assert wrong == ["NCCL_THREAD_THRESHOLDS"]


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
        ("NCCL_IB_PKEY_VALUE", ["0x8001", "-1"], {"65536": "-1 to 65535"}),
        ("NCCL_DEBUG", ["WARN", "info", "ATTN"], {"WARNING": "none of", "INFO ": "blanks"}),
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
