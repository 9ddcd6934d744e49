# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Error counters since the last look: what grew, what began anew, what tells nothing."""

from __future__ import annotations

import os

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.quick import last_look
from ansible_collections.railyard.fabric.plugins.module_utils.quick.last_look import Last, LookError, Seen

CRC, FLAPS, SYMBOLS = "netdev.rx_crc_errors", "netdev.carrier_changes", "hca.symbol_error"
AGAIN, MARKED = "hw.out_of_sequence", "hw.np_cnp_sent"


def look(values, netdev="ens6", hca="mlx5_0:1", boot="one"):
    return Last(boot, 60.0, {"rail0": Seen(netdev, hca, values)})


@pytest.mark.parametrize(
    ("before", "after", "wrong", "told"),
    [
        ({CRC: 5}, {CRC: 5}, {}, {}),
        ({CRC: 5}, {CRC: 6}, {CRC: 1}, {}),
        ({CRC: 5, FLAPS: 2}, {CRC: 5, FLAPS: 4}, {FLAPS: 2}, {}),
        # Ten symbol errors may be one burst, which a link may have.
        ({CRC: 0, SYMBOLS: 3}, {CRC: 0, SYMBOLS: 13}, {}, {SYMBOLS: 10}),
        ({CRC: 0, SYMBOLS: 3}, {CRC: 0, SYMBOLS: 14}, {SYMBOLS: 11}, {}),
        ({CRC: 0, AGAIN: 1, MARKED: 1}, {CRC: 0, AGAIN: 9, MARKED: 9}, {}, {AGAIN: 8}),
        # The driver was loaded again: what there is came since.
        ({CRC: 5}, {CRC: 2}, {CRC: 2}, {}),
        ({CRC: 5}, {CRC: 0}, {}, {}),
    ],
)
def test_growth_is_judged_by_the_kind_of_its_counter(before, after, wrong, told):
    assert last_look.grown(look(before), look(after), "rail0") == (wrong, [], told, False)


@pytest.mark.parametrize(
    ("rate_gbps", "after_s", "by", "is_wrong"),
    [
        # At 40 Gbit/s 10^-12 permits 144 an hour, at 400 Gbit/s 10^-13 the same.
        (40, 3600, 144, False),
        (40, 3600, 145, True),
        (400, 3600, 144, False),
        (400, 3600, 145, True),
        (400, 300, 12, False),
        (400, 300, 13, True),
        # A burst may come at once.
        (400, 1, 10, False),
        (400, 1, 11, True),
        # Nothing is known of the rate.
        (None, 3600, 10, False),
        (None, 3600, 11, True),
    ],
)
def test_symbol_errors_may_grow_by_what_the_link_may_have_in_that_time(rate_gbps, after_s, by, is_wrong):
    before = look({CRC: 0, SYMBOLS: 3})
    after = look({CRC: 0, SYMBOLS: 3 + by})._replace(uptime_s=before.uptime_s + after_s)
    found = last_look.grown(before, after, "rail0", rate_gbps)
    assert (found.wrong, found.told) == (({SYMBOLS: by}, {}) if is_wrong else ({}, {SYMBOLS: by}))


@pytest.mark.parametrize(
    ("last", "now"),
    [
        (None, look({CRC: 9})),
        (look({CRC: 5}, boot="zero"), look({CRC: 9})),
        (look({CRC: 5}, netdev="ens7"), look({CRC: 9})),
        (look({CRC: 5}, hca="mlx5_1:1"), look({CRC: 9})),
    ],
)
def test_a_first_look_of_a_boot_or_a_port_fails_nothing(last, now):
    assert last_look.grown(last, now, "rail0") == ({}, [], {}, True)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, {AGAIN: 1}, "no error counters of its link"),
        ({CRC: 1, FLAPS: 1}, {CRC: 1}, f"{FLAPS} no longer exists"),
        ({CRC: 1, "hca.link_downed": 255}, {CRC: 1, "hca.link_downed": 255}, "at its maximum, 255"),
    ],
)
def test_what_tells_nothing_is_no_good(before, after, said):
    assert said in " ".join(last_look.grown(look(before), look(after), "rail0").unknown)


def test_the_link_of_efa_is_the_clouds_and_its_own_counters_are_enough():
    before, after = {"hw.rx_drops": 3}, {"hw.rx_drops": 5}
    found = last_look.grown(look(before, netdev=""), look(after, netdev=""), "rail0")
    assert (found.wrong, found.unknown, found.told) == ({}, [], {"hw.rx_drops": 2})


def test_a_look_is_kept_as_it_was(tmp_path):
    kept = look({CRC: 5}, hca=None)
    assert last_look.load(str(tmp_path), "local") is None
    last_look.store(str(tmp_path), "local", kept)
    assert last_look.load(str(tmp_path), "local") == kept
    assert last_look.load(str(tmp_path), "slurm") is None


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"schema": 1, "boot_id": "one", "uptime_s": 1, "rails": []}',
        '{"schema": 1, "boot_id": "one", "uptime_s": NaN, "rails": {}}',
        '{"schema": 2, "boot_id": "one", "uptime_s": 1, "rails": {}}',
        '{"schema": 1, "boot_id": "one", "uptime_s": 1,'
        ' "rails": {"rail0": {"netdev": "a", "hca": null, "values": {"x": "1"}}}}',
        " " * (1 << 20) + "{}",
    ],
)  # fmt: skip
def test_what_is_no_look_is_reported(tmp_path, text):
    (tmp_path / "local.json").write_text(text)
    with pytest.raises(LookError, match="is not a record of a check"):
        last_look.load(str(tmp_path), "local")


def test_a_full_disk_is_reported_and_the_look_before_stays(tmp_path, monkeypatch):
    last_look.store(str(tmp_path), "local", look({CRC: 5}))

    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LookError, match="No space left on device"):
        last_look.store(str(tmp_path), "local", look({CRC: 6}))
    assert last_look.load(str(tmp_path), "local") == look({CRC: 5})


def test_two_at_once_are_one_after_the_other_or_reported(tmp_path):
    second = last_look.alone(str(tmp_path), "local", wait_s=0.2)
    with (
        last_look.alone(str(tmp_path), "local"),
        pytest.raises(LookError, match="another check as local"),
        second,
    ):
        pass
    with last_look.alone(str(tmp_path), "local", wait_s=0), last_look.alone(str(tmp_path), "slurm", wait_s=0):
        pass


@pytest.mark.parametrize("name", ["", "Local", "../local", "a" * 33, "1", "a.b"])
def test_who_looks_has_a_name_that_is_a_file_s(name):
    with pytest.raises(ValueError, match="is not a name"):
        last_look.check_name(name)
