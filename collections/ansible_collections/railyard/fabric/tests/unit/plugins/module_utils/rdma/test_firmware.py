# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which card gets which image, and which image is not the one that was promised."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.hca.mstflint import Flash, parse_query
from ansible_collections.railyard.fabric.plugins.module_utils.rdma import firmware as rdma_firmware
from ansible_collections.railyard.fabric.plugins.module_utils.rdma.hardware import Card

PSID = "MT_0000000838"
IMAGES = {PSID: {"version": "28.43.2026", "file": "firmware/cx7.bin", "sha256": "AB" * 32}}
# By hand, in the form of mstflint's own query (flint's display_image_info).
QUERY = f"""\
Image type:            FS4
FW Version:            28.43.2026
FW Version(Running):   28.39.1002
FW Release Date:       25.12.2024
Product Version:       28.43.2026
Rom Info:              type=UEFI version=14.36.16 cpu=AMD64,AARCH64
Description:           UID                GuidsNumber
Base GUID:             946dae0300f20aa0        8
Image VSD:             N/A
Device VSD:            N/A
PSID:                  {PSID}
Security Attributes:   secure-fw
"""


def card(function, firmware="28.39.1002", psid=PSID):
    return Card(f"0000:17:00.{function}", "15b3:1021", "ConnectX-7", "mlx5_core", firmware, psid)


def test_a_query_tells_flash_running_and_board():
    assert parse_query(QUERY) == Flash("28.43.2026", "28.39.1002", PSID)
    same = QUERY.replace("FW Version(Running):   28.39.1002\n", "")
    assert parse_query(same) == Flash("28.43.2026", "28.43.2026", PSID)
    assert parse_query("-E- Cannot open Device") == Flash(None, None, None)


def test_a_card_is_planned_once_and_by_its_board():
    (one,) = rdma_firmware.plan([card(0), card(1)], IMAGES)
    assert (one["pci"], one["running"], one["version"]) == ("0000:17:00.0", "28.39.1002", "28.43.2026")
    assert rdma_firmware.plan([card(0, firmware="28.43.2026")], IMAGES) == []
    assert rdma_firmware.plan([card(0, psid="DEL0000000027")], IMAGES) == []
    assert rdma_firmware.plan([card(0, firmware=None, psid=None)], IMAGES) == []


@pytest.mark.parametrize(
    ("may_write", "needs"), [(True, "reboot"), (False, "consent:rdma_stack_allow_firmware_update")]
)
def test_firmware_waits_for_confirmation_then_for_a_boot(may_write, needs):
    (one,) = rdma_firmware.waits(rdma_firmware.plan([card(0)], IMAGES), may_write)
    assert one["needs"] == needs
    assert one["what"] == "firmware 28.43.2026 of the card 0000:17:00.0"
    assert one["why"] == "it runs 28.39.1002"


@pytest.mark.parametrize("key", ["version", "file", "sha256"])
def test_an_image_is_described_in_full(key):
    image = {name: value for name, value in IMAGES[PSID].items() if name != key}
    (said,) = rdma_firmware.check_images({PSID: image})
    assert f"{PSID} has no {key}. Fix:" in said
    assert rdma_firmware.check_images(IMAGES) == []
    assert len(rdma_firmware.check_images({PSID: "cx7.bin"})) == 3


@pytest.mark.parametrize(
    ("sha256", "image", "flash", "said"),
    [
        ("ab" * 32, ("28.43.2026", PSID), PSID, None),
        ("cd" * 32, ("28.43.2026", PSID), PSID, "has the SHA-256 cdcd"),
        ("ab" * 32, ("28.43.2026", "MT_1"), PSID, "is for MT_1"),
        ("ab" * 32, ("28.43.2026", PSID), "MT_2", "the card is of PSID MT_2"),
        ("ab" * 32, ("28.44.1036", PSID), PSID, "has firmware 28.44.1036, not 28.43.2026"),
    ],
)
def test_an_image_that_is_not_the_promised_one_is_refused(sha256, image, flash, said):
    (one,) = rdma_firmware.plan([card(0)], IMAGES)
    version, psid = image
    found = rdma_firmware.refuse_image(one, sha256, Flash(version, version, psid), Flash("1", "1", flash))
    assert found is None if said is None else said in found
