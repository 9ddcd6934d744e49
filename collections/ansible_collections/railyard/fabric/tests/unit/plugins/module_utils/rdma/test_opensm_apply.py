# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A partition file put in place, proven or taken back. The real opensm is in tests/infiniband."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rdma import opensm_apply
from ansible_collections.railyard.fabric.plugins.module_utils.rdma.opensm_partitions import (
    HEADER,
    PartitionsError,
    make_tables,
    read_intent,
    render,
)
from support.pkeys import write_table

START = "Nov 27 21:26:26 612766 [82627740] 0x{} -> {}\n"
PORTS = {"gpu1": {"rail0": "0x11", "rail1": "0x12"}, "gpu2": {"rail0": "0x21", "rail1": "0x22"}}
INTENT = read_intent(
    {0x7FFF: {"members": "all"}, 0x10: {"members": ["gpu2"]}}, PORTS, ["0x11", "0x12"], False
)
TEXT = render(INTENT)
OLD = "# the site's\nDefault=0x7fff : ALL=full ;\n"


class Subnet:
    """Two subnets with an opensm each, whose file is really a folder of the test's."""

    def __init__(self, folder, refuse=None, state="MASTER", effect=True):
        self.path = folder / "partitions.conf"
        self.logs = [folder / f"opensm.{guid}.log" for guid in INTENT.managers]
        self.refuse, self.state, self.effect = refuse, state, effect
        self.starts, self.asked, self.clock = [], [], 0.0
        self.lost: set[str] = set()
        self.silent, self.fail, self.refuse_all = set(), "", False
        self.open = {guid: frozenset({0xFFFF}) for guid in make_tables(INTENT)}
        self.tables = dict(self.open)
        for log in self.logs:
            # An error of an earlier start, which was corrected since.
            log.write_text(START.format("01", "parse_part_conf: PARSE ERROR: line 9: bad PortGUID"))

    def restart(self):
        text = self.path.read_text() if self.path.exists() else None
        self.starts.append(text)
        if self.fail:
            return self.fail
        for log in self.logs:
            with log.open("a") as handle:
                handle.write(START.format("80", f"Entering {self.state} state"))
                if self.refuse and (text == TEXT or self.refuse_all):
                    handle.write(START.format("01", f"parse_part_conf: {self.refuse}"))
                    handle.write(
                        START.format("01", "osm_prtn_make_partitions: Partition configuration in error; x")
                    )
        self.tables = make_tables(INTENT) if text == TEXT and not self.refuse and self.effect else self.open
        return ""

    def ask(self, argv):
        self.asked.append(argv)
        device, guid = argv[argv.index("-C") + 1], argv[-1]
        other_subnet = (device == "mlx5_0") != (guid[-1] == "1")
        if not other_subnet and guid in self.lost:
            self.lost.remove(guid)
            return None
        if other_subnet or guid in self.silent or argv[:1] != ["smpquery"]:
            return None
        return write_table(sorted(self.tables[guid]))

    def sleep(self, seconds):
        self.clock += seconds

    def apply(self, limit_s=30):
        ports = tuple(
            opensm_apply.LocalPort(guid, f"mlx5_{rail}", 1) for rail, guid in enumerate(INTENT.managers)
        )
        opensm = opensm_apply.Opensm(
            ports, tuple(map(str, self.logs)), self.restart, self.ask, lambda: self.clock, self.sleep
        )
        return opensm_apply.apply(str(self.path), TEXT, INTENT, opensm, limit_s)


def test_a_file_takes_effect_and_a_second_run_changes_nothing(tmp_path):
    subnet = Subnet(tmp_path)
    assert subnet.apply() == opensm_apply.Applied(True, ())
    assert subnet.starts == [TEXT]
    # Over the port of the same rail first.
    assert all((argv[2] == "mlx5_0") == (argv[-1][-1] == "1") for argv in subnet.asked)
    assert subnet.apply() == opensm_apply.Applied(False, ())
    assert subnet.starts == [TEXT]


@pytest.mark.parametrize("before", [None, OLD])
def test_a_refused_file_goes_and_the_old_one_is_in_effect_again(tmp_path, before):
    subnet = Subnet(tmp_path, refuse="PARSE ERROR: line 3: bad PortGUID")
    if before is not None:
        subnet.path.write_text(before)
    with pytest.raises(PartitionsError) as error:
        subnet.apply()
    assert "PARSE ERROR: line 3: bad PortGUID" in str(error.value)
    # That of the earlier start is not this one's.
    assert "line 9" not in str(error.value)
    assert ("The old file is back" if before else "The file is gone again") in str(error.value)
    assert subnet.starts == [TEXT, before]
    assert (subnet.path.read_text() if subnet.path.exists() else None) == before


def test_an_old_file_that_opensm_refuses_as_well_is_reported(tmp_path):
    subnet = Subnet(tmp_path, refuse="PARSE ERROR: line 3: bad PortGUID")
    subnet.path.write_text(OLD)
    subnet.refuse_all = True
    with pytest.raises(PartitionsError, match="opensm refuses it as well"):
        subnet.apply()


def test_a_file_that_was_there_and_is_refused_stays(tmp_path):
    subnet = Subnet(tmp_path, refuse="PARSE ERROR: line 3: bad PortGUID")
    subnet.path.write_text(TEXT)
    with pytest.raises(PartitionsError, match="the one that was there"):
        subnet.apply()
    assert subnet.path.read_text() == TEXT


def test_a_run_that_was_cut_off_is_made_good(tmp_path):
    subnet = Subnet(tmp_path)
    subnet.path.write_text(TEXT)  # written, but no opensm has read it
    assert subnet.apply() == opensm_apply.Applied(True, ())


def test_tables_that_stay_as_they_were_are_a_failure_with_names(tmp_path):
    subnet = Subnet(tmp_path, state="STANDBY", effect=False)
    with pytest.raises(PartitionsError) as error:
        subnet.apply()
    assert "gpu2 rail1 (0x0000000000000022) has 0x7fff full, and is to have 0x0010 full" in str(error.value)
    assert "gpu1" not in str(error.value)
    assert "another subnet manager rules" in str(error.value)
    assert subnet.path.read_text() == TEXT
    assert subnet.clock <= 34


def test_a_port_that_is_off_is_named_and_keeps_no_one_waiting(tmp_path):
    subnet = Subnet(tmp_path)
    subnet.silent = {"0x0000000000000021"}
    assert subnet.apply() == opensm_apply.Applied(True, ("gpu2 rail0 (0x0000000000000021)",))
    assert subnet.clock < 10
    assert subnet.apply().changed is False


def test_a_lost_request_is_repeated(tmp_path):
    subnet = Subnet(tmp_path)
    subnet.apply()
    subnet.lost = {"0x0000000000000021", "0x0000000000000012"}
    assert subnet.apply() == opensm_apply.Applied(False, ())


def test_a_subnet_that_cannot_be_read_is_no_success(tmp_path):
    subnet = Subnet(tmp_path)
    subnet.silent = set(make_tables(INTENT))
    with pytest.raises(PartitionsError, match="no port's P_Key table could be read"):
        subnet.apply()


def test_an_opensm_that_never_becomes_master_is_no_success(tmp_path):
    subnet = Subnet(tmp_path, state="DISCOVERING")
    with pytest.raises(PartitionsError, match="has not become master or standby"):
        subnet.apply()


def test_an_opensm_that_does_not_start_gets_its_old_file_back(tmp_path):
    subnet = Subnet(tmp_path)
    subnet.path.write_text(OLD)
    subnet.fail = "systemctl restart opensm.service: no such unit"
    with pytest.raises(PartitionsError, match=r"no such unit.*The old file is back, but systemctl"):
        subnet.apply()
    assert subnet.path.read_text() == OLD


def test_a_log_that_was_rotated_is_read_from_its_beginning(tmp_path):
    log = tmp_path / "opensm.log"
    log.write_text("old\n" * 10)
    mark = opensm_apply.mark_log(str(log))
    with log.open("a") as handle:
        handle.write("new\n")
    assert opensm_apply.read_since(str(log), mark) == "new\n"
    log.rename(tmp_path / "opensm.log.1")
    log.write_text("rotated\n" * 10)
    assert opensm_apply.read_since(str(log), mark) == "rotated\n" * 10
    log.write_text("cut\n")  # `-e` of opensm: the same inode, but from the beginning
    assert opensm_apply.read_since(str(log), opensm_apply.mark_log(str(log))._replace(size=99)) == "cut\n"
    assert opensm_apply.read_since(str(tmp_path / "none"), opensm_apply.Mark(0, 0)) == ""


def test_the_record_keeps_what_was_there_before_railyard(tmp_path):
    first = opensm_apply.make_record(OLD, TEXT, None)
    assert first["before"] == OLD
    assert opensm_apply.make_record(TEXT, HEADER + "next\n", first)["before"] == OLD
    # What Railyard wrote is no original, with a record or without.
    assert opensm_apply.make_record(TEXT, TEXT, None)["before"] is None
    # What the site has written since is.
    assert opensm_apply.make_record("# by hand\n", TEXT, first)["before"] == "# by hand\n"


def test_a_record_that_cannot_be_read_is_an_error(tmp_path):
    path = tmp_path / "record.json"
    assert opensm_apply.load_record(str(path)) is None
    for text in ("{", "[]", '{"schema": 2, "before": null}', '{"schema": 1, "before": 7}'):
        path.write_text(text)
        with pytest.raises(PartitionsError, match="Fix: "):
            opensm_apply.load_record(str(path))
