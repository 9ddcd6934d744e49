# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of GPUs says of well-known devices what their makers say."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.gpu import catalogue

# Product by device id as in pci.ids, and its architecture as in NVIDIA's data sheets.
PRODUCTS = [
    (0x102D, "Tesla K80", "Kepler"),
    (0x17FD, "Tesla M40", "Maxwell"),
    (0x15F9, "Tesla P100 SXM2 16GB", "Pascal"),
    (0x1B38, "Tesla P40", "Pascal"),
    (0x1DB1, "Tesla V100 SXM2 16GB", "Volta"),
    (0x1DB6, "Tesla V100 PCIe 32GB", "Volta"),
    (0x1DF6, "Tesla V100S PCIe 32GB", "Volta"),
    (0x1EB8, "Tesla T4", "Turing"),
    (0x20B2, "A100 SXM4 80GB", "Ampere"),
    (0x2235, "A40", "Ampere"),
    (0x26B9, "L40S", "Ada"),
    (0x27B8, "L4", "Ada"),
    (0x2330, "H100 SXM5 80GB", "Hopper"),
    (0x2335, "H200 SXM 141GB", "Hopper"),
    (0x2342, "GH200 120GB", "Hopper"),
    (0x2901, "B200", "Blackwell"),
    (0x2941, "GB200", "Blackwell"),
    (0x2BB5, "RTX PRO 6000 Blackwell Server Edition", "Blackwell"),
    (0x3182, "B300 SXM6 AC", "Blackwell"),
]


@pytest.mark.parametrize(("device", "product", "generation"), PRODUCTS)
def test_generation_of_a_product(device, product, generation):
    assert catalogue.generation_of(device) == generation, product


@pytest.mark.parametrize("device", [0x1AF1, 0x22A3, 0x3021, 0x0000, 0xFFFF])
def test_what_is_no_gpu_or_not_known_has_no_generation(device):
    assert catalogue.generation_of(device) is None


def test_devices_do_not_overlap_and_are_in_order():
    ends = [number for first, last, _name in catalogue._DEVICES for number in (first, last)]
    assert ends == sorted(ends)
    assert len(set(ends)) == len(ends)


def test_every_named_generation_has_its_data():
    assert {name for _first, _last, name in catalogue._DEVICES} == set(catalogue.GENERATIONS)


@pytest.mark.parametrize(
    ("generation", "flavours"),
    [("Volta", {"proprietary"}), ("Turing", {"open", "proprietary"}), ("Blackwell", {"open"})],
)
def test_modules_of_a_generation(generation, flavours):
    assert set(catalogue.flavours_of(generation)) == flavours


def test_grace_hopper_takes_the_open_modules_only_and_other_hoppers_both():
    assert catalogue.flavours_of("Hopper", 0x2342) == ("open",)
    assert set(catalogue.flavours_of("Hopper", 0x2330)) == {"open", "proprietary"}


@pytest.mark.parametrize("generation", ["Maxwell", "Pascal", "Volta"])
def test_what_ends_with_r580_and_cuda_12(generation):
    data = catalogue.GENERATIONS[generation]
    assert (data.last_branch, data.last_cuda_major) == (580, 12)
    assert "dma_buf" not in data.gpudirect


def test_hgx_b200_has_its_switches_behind_a_bridge_and_nvl72_in_other_trays():
    assert catalogue.switches_behind_bridge(0x2901)
    assert not catalogue.switches_behind_bridge(0x2941)
    assert not catalogue.switches_behind_bridge(0x2330)
