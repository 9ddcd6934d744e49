# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions beside their minimums: what is below, what is fine, and what the table does not know."""

from __future__ import annotations

import datetime
import re

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import minimum_versions
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.minimum_versions import (
    BELOW,
    FINE,
    NOT_KNOWN,
    compare,
)

# "All driver versions prior to 580.159.03", "All versions prior to CUDA Toolkit 13.1", "0.0 to 4.5.2",
# "All versions prior to 39.8002": quoted from NVIDIA's bulletins 5821, 5747, 5755, 5857 and 5699.
CASES = [
    ("nvidia_driver", "580.159.02", BELOW),
    ("nvidia_driver", "580.159.03", FINE),
    # By number and not by letter: 95 is less than 159.
    ("nvidia_driver", "580.95.05", BELOW),
    ("nvidia_driver", "535.288.01", BELOW),
    ("nvidia_driver", "535.309.01", FINE),
    ("nvidia_driver", "570.211.01", FINE),
    ("nvidia_driver", "590.44.01", BELOW),
    ("nvidia_driver", "595.84", FINE),
    # No bulletin of 2026 lists R550, so it is not known whether it is fixed.
    ("nvidia_driver", "550.163.01", NOT_KNOWN),
    ("nvidia_driver", "600.10.01", NOT_KNOWN),
    ("cuda", "11.8.89", BELOW),
    ("cuda", "13.0.2", BELOW),
    ("cuda", "13.1", FINE),
    ("cuda", "13.1.0", FINE),
    ("dcgm", "4.5.2", BELOW),
    ("dcgm", "3.3.9", BELOW),
    ("dcgm", "4.5.3", FINE),
    ("dcgm_exporter", "4.8.1", BELOW),
    ("dcgm_exporter", "4.8.2", FINE),
    ("connectx_firmware", "28.39.1002", BELOW),
    ("connectx_firmware", "28.39.8002", FINE),
    ("connectx_firmware", "22.35.4030", BELOW),
    ("connectx_firmware", "40.46.3048", FINE),
    ("connectx_firmware", "12.28.2006", BELOW),
    # A release between the long-term ones, one after all of them, and a ConnectX-3.
    ("connectx_firmware", "28.41.1000", NOT_KNOWN),
    ("connectx_firmware", "28.48.1000", NOT_KNOWN),
    ("connectx_firmware", "2.42.5000", NOT_KNOWN),
    # As packages are versioned.
    ("nvidia_driver", "580.95.05-0ubuntu1", BELOW),
    ("dcgm", "1:4.5.3-1", FINE),
    ("cuda", "11.8.89~11.8.0-5~deb12u1", BELOW),
]


@pytest.mark.parametrize(("component", "version", "state"), CASES)
def test_a_version_is_below_fine_or_not_known(component: str, version: str, state: str) -> None:
    assert compare(component, version).state == state


@pytest.mark.parametrize(
    "version", [None, "", "N/A", "580", "580.x.1", "v580.95.05", "5" * 400, "28.39\n1002"]
)
@pytest.mark.parametrize("component", list(minimum_versions.COMPONENTS))
def test_what_is_not_understood_is_not_known(component: str, version: str | None) -> None:
    assert compare(component, version).state == NOT_KNOWN


def test_the_sentence_has_branch_bulletin_date_and_cve() -> None:
    text = compare("connectx_firmware", "28.39.1002").text
    for part in (
        "28.39.1002",
        "below 28.39.8002",
        "branch 39",
        "bulletin 5699",
        "2026-06-30",
        "CVE-2025-23350",
    ):
        assert part in text
    assert "535, 570, 580, 590, 595" in compare("nvidia_driver", "550.163.01").text


def test_packages_are_of_a_component_only_where_their_version_is() -> None:
    below = {
        "nvidia-headless-580-server": "580.95.05-0ubuntu0.24.04.1",
        "nvidia-driver": "535.261.03-1~deb12u1",
        "cuda-drivers-580": "580.95.05-1",
        "nvidia-cuda-toolkit": "11.8.89~11.8.0-5~deb12u1",
        "cuda-toolkit-12-8": "12.8.1-1",
        "datacenter-gpu-manager-4-cuda-all": "1:4.2.3-2",
        "datacenter-gpu-manager-exporter": "4.8.1-1",
    }
    others = {
        "nvidia-container-toolkit": "1.17.8-1",
        "nvidia-fs-dkms": "2.25.7",
        "dkms": "3.0.10",
        "nvlsm": "2025.10.14",
    }
    compared = minimum_versions.compare_packages({**below, **others})
    assert [one.state for one in compared] == [BELOW] * len(below)
    components = ["nvidia_driver", "nvidia_driver", "nvidia_driver", "cuda", "cuda", "dcgm", "dcgm_exporter"]
    assert [one.component for one in compared] == components


def test_facts_are_compared_once_each_and_foreign_cards_are_left_out() -> None:
    hca = {"driver": "mlx5_core", "firmware": "28.39.1002"}
    row = {
        "gpus": {"driver": "535.261.03"},
        "hcas": [
            hca,
            hca,
            {"driver": "bnxt_re", "firmware": "230.2.52.0"},
            {"driver": "mlx5_core", "firmware": None},
        ],
    }
    assert [(one.component, one.state) for one in minimum_versions.compare_facts(row)] == [
        ("nvidia_driver", BELOW),
        ("connectx_firmware", BELOW),
    ]
    for garbled in ({}, {"gpus": None, "hcas": None}, {"gpus": "x", "hcas": ["y", 3]}):
        assert minimum_versions.compare_facts(garbled) == []


def test_nodes_alike_are_one_line_and_the_worse_state_comes_first() -> None:
    old, new, other = (compare("nvidia_driver", one) for one in ("535.261.03", "535.309.01", "550.54.15"))
    found = minimum_versions.fold({"gpu1": [other, old], "gpu2": [old, old], "gpu3": [new]}, BELOW, NOT_KNOWN)
    assert found == [(old, "gpu[1-2]"), (other, "gpu1")]


def test_the_age_of_the_table_is_in_days_and_a_clock_that_is_wrong_is_no_age() -> None:
    read = minimum_versions.READ
    assert minimum_versions.describe_age(read + datetime.timedelta(days=1)) == f"table of {read}, 1 day old"
    assert (
        minimum_versions.describe_age(read + datetime.timedelta(days=100)) == f"table of {read}, 100 days old"
    )
    assert "clock" in minimum_versions.describe_age(read - datetime.timedelta(days=1))


def test_each_minimum_has_a_bulletin_with_date_and_cves_that_is_not_newer_than_the_table() -> None:
    for name, kind in minimum_versions.COMPONENTS.items():
        branches = [one["branch"] for one in kind["minimums"]]
        assert len(set(branches)) == len(branches) > 0
        assert (branches == [None]) == (kind["branch_at"] is None)
        for one in kind["minimums"]:
            bulletin = minimum_versions.BULLETINS[one["bulletin"]]
            assert bulletin["cves"], name
            assert all(re.fullmatch(r"CVE-[0-9]{4}-[0-9]+", cve) for cve in bulletin["cves"])
            assert datetime.date.fromisoformat(bulletin["released"]) <= minimum_versions.READ
            if one["branch"] is not None:
                assert one["version"].split(".")[0] == str(one["branch"])
