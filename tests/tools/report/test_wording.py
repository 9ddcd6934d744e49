"""What the report calls things: every value has its label, every number its unit, on each document alike."""

from __future__ import annotations

import re

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import model, wording
from support.runs.fake_run import RUN
from support.runs.run_builder import build_run


@pytest.mark.parametrize(
    ("observed", "text"),
    [
        # The finding: a link's errors were reported as "10, errors 157".
        ({"errors": 157, "counters": 10}, "errors counted 157, error counters read 10"),
        ({"errors": 2, "hca.symbol_error": 2}, "errors counted 2, hca.symbol_error 2"),
        ({"bandwidth_gbps": 9.37, "retransmits": 3}, "bandwidth 9.37 Gbit/s, TCP segments retransmitted 3"),
        ({"path_mtu_bytes": 9000, "received": 4, "sent": 5},
         "path MTU 9000 bytes, probes received 4, probes sent 5"),
        ({"gid_index": 1, "gid_type": "RoCE v2"}, "GID index 1, GID type RoCE v2"),
        ({"rtt_average_us": 82.0, "loss_percent": 0}, "RTT average 82 µs, loss 0 %"),
        ({"latency_p50_us": 5.0}, "latency p50 5 µs"),
        ({"raw_ber": 2e-9, "rx_power_min_dbm": -1.5},
         "bit error ratio before FEC 2e-09, rx power min -1.50 dBm"),
        ({"bandwidth_bytes_per_s": 2.376e9, "iops": 9000}, "bandwidth 2.38 GB/s, IOPS 9000"),
        ({"bandwidth_bytes_per_s": 45.4e6}, "bandwidth 45.4 MB/s"),
        (None, ""),
    ],
)  # fmt: skip
def test_what_was_seen_has_labels_and_units(observed, text):
    assert wording.observed_text(observed) == text


@pytest.mark.parametrize("metric", ["errors", "bandwidth_gbps", "path_mtu_bytes", "replies"])
def test_what_was_expected_has_them_too(metric):
    label = wording.metric_name(metric)
    for floor, ceiling in (({metric: 1}, {metric: 1}), ({metric: 1}, {metric: 2}), ({metric: 1}, {})):
        assert wording.bounds_text(floor, ceiling).startswith(f"{label} ")


def test_bounds_of_a_drive_have_a_prefix_each():
    told = wording.bounds_text({"bandwidth_bytes_per_s": 9e8}, {"bandwidth_bytes_per_s": 8e9})
    assert told == "bandwidth 900 MB/s to 8 GB/s"


def test_no_number_of_a_run_is_without_its_label(tmp_path):
    read = model.read(build_run(tmp_path / "lab" / RUN, rdma=True))
    for item in read.measurements:
        for told in (*item.observed_text.split(", "), *item.bounds_text.split("; ")):
            assert re.match(r"[A-Za-z]|$", told), (item.check, told)
