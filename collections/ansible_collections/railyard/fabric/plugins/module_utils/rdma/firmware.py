# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan firmware updates of NICs, and check the images. Pure.

An image is for one board, identified by its PSID (the kernel's `board_id`). The functions of a NIC share one
flash, so a NIC is planned once.
"""

from __future__ import annotations

import typing as t

from ..parsers.hca.mstflint import Flash
from .hardware import Card

_KEYS = ("version", "file", "sha256")


def check_images(images: t.Mapping[str, t.Any]) -> list[str]:
    """Return an error for each image whose description is incomplete.

    Args:
        images: PSID to `version`, `file` (on the controller) and `sha256`.
    """
    return [
        f"rdma_stack_firmware_images: {psid} has no {key}. Fix: give version, file and sha256"
        for psid, image in sorted(images.items())
        for key in _KEYS
        if not isinstance(image, dict) or not str(image.get(key) or "").strip()
    ]


def plan(cards: t.Iterable[Card], images: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the NICs that run another firmware than their board's image.

    Args:
        cards: The NICs on the bus, in the order of their addresses.
        images: As in `check_images`, without errors.
    """
    planned: dict[str, dict[str, t.Any]] = {}
    for card in cards:
        image = images.get(card.psid or "")
        slot = card.pci.rpartition(".")[0]
        if image is None or slot in planned or card.firmware in (None, str(image["version"])):
            continue
        planned[slot] = {
            "pci": card.pci,
            "psid": card.psid,
            "running": card.firmware,
            **{key: str(image[key]) for key in _KEYS},
        }
    return list(planned.values())


def waits(planned: t.Iterable[t.Mapping[str, t.Any]], may_write: bool) -> list[dict[str, str]]:
    """Return the updates that need an opt-in or a reset, in the format of the module `pending`.

    Args:
        planned: From `plan`.
        may_write: Whether firmware may be written; it runs after the NIC's next reset, for example a reboot.
    """
    return [
        {
            "what": f"firmware {one['version']} of the card {one['pci']}",
            "why": f"it runs {one['running']}",
            "needs": "reboot" if may_write else "consent:rdma_stack_allow_firmware_update",
        }
        for one in planned
    ]


def refuse_image(one: t.Mapping[str, t.Any], sha256: str, image: Flash, flash: Flash) -> str | None:
    """Return why an image must not be written, or None.

    Args:
        one: A planned NIC.
        sha256: The checksum of the image on the node.
        image: The content of the image.
        flash: The content of the NIC's flash.
    """
    if sha256 != one["sha256"].lower():
        return (
            f"the image {one['file']} has the SHA-256 {sha256}, not {one['sha256']}. Fix: fetch it again, or "
            "correct rdma_stack_firmware_images"
        )
    if flash.psid != one["psid"] or image.psid != one["psid"]:
        return (
            f"{one['pci']}: the card is of PSID {flash.psid}, the image {one['file']} is for {image.psid}, "
            f"the inventory says {one['psid']}. Fix: name the image of the card's own board"
        )
    if image.version != one["version"]:
        return (
            f"the image {one['file']} has firmware {image.version}, not {one['version']}. Fix: correct "
            "rdma_stack_firmware_images"
        )
    return None
