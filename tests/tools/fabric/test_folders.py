"""The folders of readings: which earlier one is compared, and that they are no runs."""

from __future__ import annotations

import json

from ansible_collections.railyard.fabric.plugins.module_utils.records import subnet_json
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import history
from railyard.fabric import folders
from support.fake_subnets import NOON_S, Net


def store(cluster, reading):
    folder = folders.make_folder(cluster, reading.taken_at_s)
    (folder / "reading.json").write_text(json.dumps(subnet_json.dump(reading)))
    return folder


def test_only_what_was_taken_before_is_earlier_the_newest_first(tmp_path):
    reading = Net().reading()
    for minutes in (2, 0, 1):
        store(tmp_path, reading._replace(taken_at_s=NOON_S + 60 * minutes))
    earlier = folders.load_earlier(tmp_path, NOON_S + 120)
    assert [one.taken_at_s for one in earlier.readings] == [NOON_S + 60, NOON_S]
    assert earlier.notes == ()


def test_the_previous_reading_is_one_of_the_same_subnet():
    reading, net = Net().reading(), Net()
    other = reading._replace(
        devices={f"{guid[:-8]}ffff{guid[-4:]}": device for guid, device in reading.devices.items()}
    )
    assert folders.find_previous(net.reading(), [other, reading]) is reading
    assert folders.find_previous(net.reading(), [other]) is None


def test_an_adapter_that_moved_is_no_common_subnet():
    net = Net()
    reading = net.reading()
    adapter = net.adapter(0, 0)
    alone = reading._replace(devices={adapter: reading.devices[adapter]})
    assert folders.find_previous(reading, [alone]) is None


def test_two_readings_of_one_second_are_two_folders(tmp_path):
    names = [folders.make_folder(tmp_path, NOON_S).name for _time in range(3)]
    assert names == [names[0], f"{names[0]}-2", f"{names[0]}-3"]


def test_the_list_of_runs_does_not_name_them(tmp_path):
    store(tmp_path, Net().reading())
    assert history.read_cluster(tmp_path).skipped == []
    (tmp_path / "other").mkdir()
    assert history.read_cluster(tmp_path).skipped == ["other is not the name of a run"]
