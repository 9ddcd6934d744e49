# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of metrics, and the text format: what the strict reader of tests/support/metrics accepts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import link_errors
from ansible_collections.railyard.fabric.plugins.module_utils.metrics import catalogue, exposition
from ansible_collections.railyard.fabric.plugins.module_utils.metrics.exposition import Sample, render
from hypothesis import given
from hypothesis import strategies as st
from support.metrics.exposition_reader import parse, values

REPO = Path(__file__).parents[9]
#: Units that Prometheus calls base units, and what else a name may end with (naming practices of its docs).
BASE_UNITS = ("bytes", "seconds", "bytes_per_second")
OTHER_UNITS = re.compile(
    r"(^|_)(ms|us|ns|minutes|hours|days|kb|mb|gb|kib|mib|gib|bits?|gbps|mbps|percent)(_|$)"
)


@pytest.mark.parametrize("metric", catalogue.METRICS.values(), ids=lambda metric: metric.name)
def test_names_follow_the_naming_practices(metric):
    assert re.fullmatch(r"railyard_[a-z][a-z0-9_]*[a-z0-9]", metric.name)
    assert (metric.type == catalogue.COUNTER) == metric.name.endswith("_total")
    assert metric.type in (catalogue.GAUGE, catalogue.COUNTER)
    assert not OTHER_UNITS.search(metric.name.removeprefix("railyard_"))
    assert metric.help.endswith(".")
    for unit in re.findall(r"(?:bytes|seconds)", metric.help):
        if unit in metric.name:
            assert any(metric.name.removesuffix("_total").endswith(one) for one in BASE_UNITS)
    for label in metric.labels:
        assert re.fullmatch(r"[a-z][a-z_]*", label)
    assert metric.name.endswith("_info") <= metric.help.startswith("Always 1.")


def test_every_kind_of_error_of_the_drivers_table_is_in_the_catalogue():
    assert set(catalogue.ERROR_KINDS) == set(link_errors.KINDS.values()) - {link_errors.NOTICE} | {"flap"}


def test_the_text_of_a_file_written_by_hand():
    metrics = {
        "a_total": catalogue.Metric("a_total", "counter", ("rail", "kind"), "Errors \\ of\na rail."),
        "b": catalogue.Metric("b", "gauge", (), "A number."),
    }
    text = render(
        [
            Sample("b", {}, 0.5),
            Sample("a_total", {"kind": "flap", "rail": "rail0"}, 3),
            Sample("a_total", {"rail": "rail1", "kind": ""}, 2**63),
            Sample("a_total", {"rail": "rail0", "kind": "flap"}, 4),
        ],
        metrics,
    )
    assert text == (
        "# HELP a_total Errors \\\\ of\\na rail.\n# TYPE a_total counter\n"
        'a_total{rail="rail0",kind="flap"} 3\na_total{rail="rail1"} 9223372036854775808\n'
        "# HELP b A number.\n# TYPE b gauge\nb 0.5\n"
    )


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ('ens"6', 'ens\\"6'),
        ("ens\\6", "ens\\\\6"),
        ("ens\n6", "ens\\n6"),
        ('"} 1\nrailyard_quick_status 0\n#', '\\"} 1\\nrailyard_quick_status 0\\n#'),
        ("ens\udcff", "ens�"),
        ("x" * 1000, "x" * exposition.MOST_LABEL_CHARACTERS),
    ],
)
def test_a_hostile_netdev_breaks_no_line(name, shown):
    text = render([Sample("railyard_rail_netdev_info", {"rail": "rail0", "device": name}, 1)])
    assert f'railyard_rail_netdev_info{{rail="rail0",device="{shown}"}} 1\n' in text
    assert list(parse(text)) == ["railyard_rail_netdev_info"]


@given(st.lists(st.tuples(st.text(max_size=40), st.text(max_size=40), st.floats() | st.integers(0, 2**64))))
def test_any_label_and_number_gives_a_file_that_reads_back(rows):
    samples = [
        Sample("railyard_rail_error_counter_total", {"rail": rail, "counter": counter}, value)
        for rail, counter, value in rows
    ]
    text = render(samples)
    seen = {key: value for family in parse(text).values() for key, value in family.series.items()}
    finite = [one for one in rows if one[2] == one[2] and abs(one[2]) != float("inf")]
    wanted = {}
    for rail, counter, value in finite:
        pairs = {"rail": rail.replace("\0", ""), "counter": counter.replace("\0", "")}
        wanted.setdefault(frozenset((key, text) for key, text in pairs.items() if text), float(value))
    assert seen == wanted


def test_what_is_not_in_the_catalogue_is_a_defect():
    with pytest.raises(ValueError, match="not in the catalogue"):
        render([Sample("railyard_other", {}, 1)])
    with pytest.raises(ValueError, match="has no label node"):
        render([Sample("railyard_quick_status", {"node": "gpu001"}, 1)])


def test_a_hundred_thousand_series_are_bounded():
    many = [
        Sample(
            "railyard_rail_error_counter_total", {"rail": "rail0", "kind": "loss", "counter": str(one)}, one
        )
        for one in range(100_000)
    ]
    rails = [Sample("railyard_rail_info", {"rail": f"rail{one}"}, 1) for one in range(8)]
    text = render([*many, *rails])
    assert len(text) < 2000
    assert list(parse(text)) == ["railyard_rail_info"]
    assert exposition.left_out(text) == [
        "railyard_rail_error_counter_total: 100000 series are left out, the file may have 5000"
    ]
    # Two metrics that fit together stay, both.
    assert exposition.left_out(render([*many[:4992], *rails])) == []


def test_promtool_accepts_it():
    promtool = REPO / ".cache/prometheus/tree/usr/bin/promtool"
    if not promtool.exists():
        pytest.skip("promtool is not here: `tools/setup --check` fetches it where apt-get is there")
    samples = [
        Sample(metric.name, {label: f'a "{label}"\\' for label in metric.labels}, 1)
        for metric in catalogue.METRICS.values()
    ]
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=render(samples), capture_output=True, text=True, check=False
    )
    # It parses all of it; of the names it has one objection, to a metric that no rule uses.
    said = (checked.stdout + checked.stderr).splitlines()
    assert said == ["railyard_rail_error_counter_total metric name should not include type 'counter'"]


@pytest.mark.parametrize(
    "text",
    [
        "b 1",
        "b 1\n",
        "# TYPE b gauge\nb 1\n",
        "# HELP b x\n# TYPE b gauge\nb 1 1700000000000\n",
        "# HELP b x\n# TYPE b gauge\nb 1\nb 2\n",
        '# HELP b x\n# TYPE b gauge\nb{a="\\t"} 1\n',
        '# HELP b x\n# TYPE b gauge\nb{a="1",a="2"} 1\n',
        "# HELP b x\n# TYPE b gauge\nb one\n",
        "# HELP b x\n# TYPE b gauge\n# HELP c x\n# TYPE c gauge\nc 1\nb 1\n",
        "# HELP b x\n# TYPE b gauge\nb 1\n\nb 1\n",
    ],
)
def test_the_reader_of_these_tests_refuses_what_the_format_does_not_have(text):
    with pytest.raises(ValueError, match=r"line|no sample"):
        parse(text)


def test_the_reader_of_these_tests_reads_the_document_s_example():
    """From the format's document, with its escapes; without timestamps, which a textfile may not have."""
    text = (
        "# HELP msdos_file_access_time_seconds x\n# TYPE msdos_file_access_time_seconds gauge\n"
        'msdos_file_access_time_seconds{path="C:\\\\DIR\\\\FILE.TXT",'
        'error="Cannot find file:\\n\\"FILE.TXT\\""} 1.458255915e9\n'
    )
    assert values(text, "msdos_file_access_time_seconds") == {
        ('Cannot find file:\n"FILE.TXT"', "C:\\DIR\\FILE.TXT"): 1458255915.0
    }
