# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""XIDs out of the kernel's ring: records as the kernel documents them, words as drivers write."""

from __future__ import annotations

import errno
import os

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import kernel_log

XID_79 = "NVRM: Xid (PCI:0000:89:00): 79, GPU has fallen off the bus."
XID_31 = "NVRM: Xid (PCI:0000:17:00): 31, pid=2280636, name=python, Ch 00000008, intr 00000000. MMU Fault"
ASKS = (
    "NVRM: Xid (PCI:0000:89:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
)
WELL = (
    "NVRM: Xid (PCI:0000:89:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
)
LOADED = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024"


def read(tmp_path, *lines, after=0):
    (tmp_path / "dev").mkdir(exist_ok=True)
    (tmp_path / "dev/kmsg").write_text("".join(f"{line}\n" for line in lines))
    return kernel_log.read(str(tmp_path), after)


def seen(*texts):
    records = (kernel_log.Record(place, float(place), text) for place, text in enumerate(texts))
    return {(one["pci"], one["xid"]): (one["count"], one["fatal"]) for one in kernel_log.sort_out(records)}


def test_records_are_read_with_their_numbers_and_times(tmp_path):
    log = read(
        tmp_path,
        "5,411,1500000,-;pci 0000:89:00.0: enabling device",
        " SUBSYSTEM=pci",
        f"3,412,2500000,-;{XID_79}",
        f" TAG=3,9,9,-;{XID_31}",
        f"3,413,3500000,-,caller=T7;{XID_79}",
        "a line of another kind",
    )
    assert (log.first, log.next, log.since_s) == (411, 414, 1.5)
    [one] = log.seen
    assert one == {
        "kind": "XID", "pci": "0000:89:00", "xid": 79, "fatal": False, "count": 2, "at_s": 3.5,
        "said": "GPU has fallen off the bus.",
    }  # fmt: skip


def test_only_what_is_new_counts(tmp_path):
    lines = [f"3,0,1,-;{XID_79}", f"3,1,2,-;{XID_31}"]
    assert [one["xid"] for one in read(tmp_path, *lines, after=1).seen] == [31]
    log = read(tmp_path, *lines, after=2)
    assert (log.seen, log.next) == ([], 2)


def test_forms_of_older_drivers_and_of_switches():
    assert seen(
        "NVRM: Xid (0000:03:00): 14, Channel 00000001",
        "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error",
        "NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_DOWN Fatal   XC0 i0 Link 08",
        "NVRM: Xid (PCI:0018:01:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 08",
        "NVRM: Xid (PCI:0000:66:00): abc, pid=2280636",
        "NVRM: GPU at PCI:0000:89:00: GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3f7",
    ) == {
        ("0000:03:00", 14): (1, False),
        ("0000:05:00", 20034): (1, True),
        ("0000:05:00", 12028): (1, False),
        ("0018:01:00", 149): (1, True),
        ("0018:01:00", 145): (1, False),
    }


def test_a_reset_and_a_driver_loaded_anew_end_what_was_wrong():
    both = [XID_31, XID_79, ASKS]
    assert set(seen(*both)) == {("0000:17:00", 31), ("0000:89:00", 79), ("0000:89:00", 154)}
    assert set(seen(*both, WELL)) == {("0000:17:00", 31)}
    assert seen(*both, LOADED) == {}
    assert set(seen(LOADED, XID_79)) == {("0000:89:00", 79)}


def test_a_storm_is_counted_and_not_kept():
    storm = [f"NVRM: Xid (PCI:0000:{place:02x}:00): {xid}, x" for place in range(32) for xid in range(20)]
    kept = kernel_log.sort_out(kernel_log.Record(0, 0.0, text) for text in storm * 2)
    assert len(kept) == 256
    [long] = kernel_log.sort_out([kernel_log.Record(0, 0.0, XID_79 + "x" * 9000)])
    assert len(long["said"]) == 160


def test_records_that_were_overwritten_while_it_was_read_are_passed_over(tmp_path, monkeypatch):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").touch()
    answers = [OSError(errno.EPIPE, "overwritten"), f"3,9,1,-;{XID_79}\n".encode(), BlockingIOError()]

    def answer(_handle, _size):
        one = answers.pop(0)
        if isinstance(one, OSError):
            raise one
        return one

    monkeypatch.setattr(os, "read", answer)
    assert [one["xid"] for one in kernel_log.read(str(tmp_path)).seen] == [79]


@pytest.mark.parametrize("spoil", [lambda path: None, lambda path: (path / "dev/kmsg").mkdir(parents=True)])
def test_a_log_that_cannot_be_read_is_an_error(tmp_path, spoil):
    spoil(tmp_path)
    with pytest.raises(kernel_log.LogError, match=r"^/dev/kmsg: "):
        kernel_log.read(str(tmp_path))
