"""TCP against RDMA in the report: the same on terminal, page and Markdown, and only proven numbers."""

from __future__ import annotations

import io
import json
import re
from xml.etree import ElementTree as Xml

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import model, wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.documents import write_report
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.grouping import group
from railyard.base import terminal
from rich.console import Console
from support.runs.fake_run import RUN
from support.runs.report_page import page_of
from support.runs.run_builder import build_run

HEADING = "TCP against RDMA"


def unproven(row):
    """A program named ib_write_bw that prints a fine table over plain TCP: no packet of the HCA moved."""
    if row["check"].startswith("rdma"):
        row.update(proof="unproven", proof_reason="hw_sent_pkts did not move")
        for counter in row["counters"]:
            if counter.startswith("hw_"):
                row["counters"][counter] = [5, 5]
    return row


@pytest.fixture
def rdma(tmp_path):
    folder = build_run(tmp_path / "lab" / RUN, rdma=True)
    write_report(folder)
    return folder


def written(tmp_path, change):
    folder = build_run(tmp_path / "lab" / RUN, rdma=True, change_result=change)
    write_report(folder)
    return folder


def shown(folder) -> str:
    """What the end of a run says on a terminal."""
    text = io.StringIO()
    terminal.summary(model.read(folder), Console(file=text, highlight=False, soft_wrap=True, width=300))
    return text.getvalue()


def section(folder) -> str:
    """The page's part of the comparison, as text."""
    return page_of(folder).text.split(HEADING, 1)[1].split("Bandwidth\n", 1)[0]


def markdown(folder) -> str:
    return (folder / "report.md").read_text(encoding="utf-8")


def test_the_run_that_the_builder_makes_is_good(rdma):
    read = model.read(rdma)
    assert [problem.cause for problem in read.problems] == []
    assert read.exit_status == 0


def test_all_three_tell_the_same(rdma):
    told = model.read(rdma).compared.sentence
    # 9.6 over 9.34 to 9.4 Gbit/s, 21 over 5 µs.
    assert re.match(
        r"RDMA is 1\.0[23] times faster than TCP in bandwidth and 4\.20 times faster in latency", told
    )
    assert told.endswith(
        "this is software RDMA in emulated or virtual machines, so it does not predict hardware."
    )
    assert told in " ".join(shown(rdma).split())
    assert told in page_of(rdma).text
    assert told in markdown(rdma)
    for text in (shown(rdma), page_of(rdma).text, markdown(rdma)):
        assert HEADING in text
        # 10 Gbit/s are declared: 9.6 of it for each way, 18 of twice as much for both.
        assert "9.60 (96.0 %)" in text
        assert "18.0 (90.0 %)" in text
        assert "64-byte messages" in text
        assert "one way" in text


def test_the_table_on_the_terminal_is_last_but_for_the_answer(rdma):
    lines = shown(rdma).splitlines()
    start = lines.index(HEADING)
    assert max(map(len, lines[start : lines.index("", start)])) <= 100
    assert next(line for line in lines[lines.index("", start) :] if line).startswith(
        "✓ 2 of 2 nodes good: all 72 checks measured and confirmed "
    )
    assert len([line for line in lines[:start] if "gpuserver1 →" in line]) == 0


def test_every_number_of_the_chart_is_in_the_table(rdma):
    page = (rdma / "index.html").read_text(encoding="utf-8")
    [part] = re.findall(rf"<h2[^>]*>{HEADING}</h2>.*?</section>", page, flags=re.S)
    [chart] = re.findall(r'<svg class="chart".*?</svg>', part, flags=re.S)
    [table] = re.findall(r"<table.*?</table>", part, flags=re.S)
    numbers = re.findall(r"(?:TCP|RDMA) ([\d.]+) (?:Gbit/s|µs)", chart)
    assert len(numbers) == 2 * (8 + 4)
    assert [number for number in numbers if number not in table] == []


def test_the_rate_of_a_port_is_not_drawn_as_measured_bandwidth(rdma):
    page = (rdma / "index.html").read_text(encoding="utf-8")
    charts = "".join(re.findall(r'<svg class="chart".*?</svg>', page, flags=re.S))
    assert "RDMA write bandwidth" in charts
    assert "RDMA port" not in charts
    assert "RDMA port" in page


def test_rdma_that_is_not_proven_has_no_number(tmp_path):
    folder = written(tmp_path, unproven)
    read = model.read(folder)
    assert read.exit_status == 3
    assert {row["bandwidth_gbps"]["rdma"] for row in read.compared.rows} == {None}
    for text in (" ".join(shown(folder).split()), section(folder), markdown(folder)):
        assert "RDMA was planned, but cannot be compared with TCP" in text
        assert "not measured" in text
        assert "times faster" not in text
    # Neither table nor chart show what the wrapper printed.
    assert "9.60" not in section(folder)
    assert "RDMA not measured" in section(folder)
    assert "TCP 9." in section(folder)


def test_tcp_alone_has_no_such_section(tmp_path):
    folder = build_run(tmp_path / "lab" / RUN)
    write_report(folder)
    for text in (shown(folder), page_of(folder).text, markdown(folder)):
        assert HEADING not in text
        assert "RDMA was not planned" in text


def test_each_end_tells_what_it_ran_over(rdma):
    bandwidth, latency = (
        re.search(rf"### {title}\n.*?(?=\n### )", markdown(rdma), flags=re.S)[0]
        for title in ("RDMA write bandwidth", "One-way RDMA write latency")
    )
    for place, hca in (("gpuserver1, rail1", "rxe1:1"), ("gpuserver2, rail0", "rxe0:1")):
        row = f"| {place} | {hca} | 1 (RoCE v2) | 4096 bytes | {{}} | not pinned; no NUMA node is known |"
        # Each end is listed once, in however many tests of a table it was.
        assert bandwidth.count(row.format("4 | 65536 bytes")) == 1
        assert latency.count(row.format("1 | 64 bytes")) == 1
    text = page_of(rdma).text
    for column in ("HCA", "GID index (type)", "Active MTU", "QPs", "Message size", "NUMA"):
        assert column in text


def test_a_pinned_end_names_its_node(tmp_path):
    def pinned(row):
        if row["check"].startswith("rdma"):
            row.update(numa_node=1, pinned=row["host"] == "gpuserver1")
        return row

    text = page_of(written(tmp_path, pinned)).text
    assert "pinned to node 1" in text
    assert "not pinned; the HCA is at node 1" in text


def test_an_end_names_the_gpu_whose_memory_it_used():
    from ansible_collections.railyard.fabric.plugins.plugin_utils.present.rails_used import conditions

    row = {"id": "m00001", "check": "rdma_gpu_bandwidth", "hca": "mlx5_0:1", "gpu": "0000:17:00.0"}
    used = conditions([{**row, "gpu_name": "NVIDIA H100"}])["m00001"][0]
    assert used.hca == "mlx5_0:1, GPU 0000:17:00.0 (NVIDIA H100)"


def test_link_errors_name_the_cable(tmp_path):
    def worn(row):
        if (row["rail"], row["host"], row["check"]) == ("rail1", "gpuserver2", "rdma_bandwidth"):
            row["link_errors"] = {**row["link_errors"], "hca.symbol_error": [2, 40]}
        return row

    folder = written(tmp_path, worn)
    for text in (shown(folder), page_of(folder).text, markdown(folder)):
        assert "cable of gpuserver2 rail1 (ens6d1) to gpuserver1 (ens6d1)" in text
    case = Xml.parse(folder / "junit.xml").getroot().find(".//testsuite[@name='link_errors']//failure/..")
    assert case.get("name").startswith("cable of gpuserver2 rail1 (ens6d1)")


def test_a_switched_cable_ends_at_its_switch():
    from ansible_collections.railyard.fabric.plugins.plugin_utils.present.rails_used import cables

    def node(number, **fields):
        rail = {"name": "rail0", "netdev": None, "address": f"10.0.0.{number}/24", **fields}
        return {"rails": [rail]}

    plan = {"cabling": "switched", "nodes": {"gpu1": node(1), "gpu2": node(2, leaf="leaf7")}}
    facts = [{"node": "gpu1", "netdevs": [{"netdev": "ens3", "addresses": ["10.0.0.1/24"]}]}]
    assert cables(plan, facts) == {
        ("gpu1", "rail0"): "cable of gpu1 rail0 (ens3) to its switch",
        ("gpu2", "rail0"): "cable of gpu2 rail0 to leaf leaf7",
    }
    verdicts = [
        {"outcome": "fail", "check": check, "node": "gpu1", "rail": "rail0", "cause": check}
        for check in ("link_errors", "mtu")
    ]
    told = {problem.cause: problem.places_text for problem in group(verdicts, cables(plan, facts))}
    assert told == {"link_errors": "cable of gpu1 rail0 (ens3) to its switch", "mtu": "gpu1, rail0"}


def test_both_rates_are_beside_a_rail(rdma):
    picture = (
        (rdma / "index.html").read_text(encoding="utf-8").split('class="picture"', 1)[1].split("</svg>")[0]
    )
    rates = re.findall(r"TCP ([\d.]+) Gbit/s, . RDMA ([\d.]+) Gbit/s", picture)
    assert len(rates) == 4
    assert {rate for _tcp, rate in rates} == {"9.60"}


def test_a_single_rate_names_its_tool_where_both_were_planned(tmp_path):
    folder = written(tmp_path, unproven)
    picture = (
        (folder / "index.html").read_text(encoding="utf-8").split('class="picture"', 1)[1].split("</svg>")[0]
    )
    rates = re.findall(r">([^<]*Gbit/s[^<]*)<", picture)
    assert len(rates) == 4
    for rate in rates:
        assert re.search(r"TCP [\d.]+ Gbit/s", rate)
        assert "RDMA write bandwidth" in rate


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.000368, "0.000368"),
        (0.0451, "0.0451"),
        (0.05, "0.050"),
        (0.193, "0.193"),
        (0, "0"),
        (1e-12, "1e-12"),
        (2.2045, "2.20"),
        (38.2057, "38.2"),
        (360.4, "360"),
    ],
)
def test_no_number_above_0_is_shown_as_0(value, text):
    assert wording.number(value) == text


def test_what_another_run_left_in_the_folder_says_nothing_of_this_one(rdma):
    """Rows of a run before it, as a copied file brings them: this run's verdicts do not rest on them."""
    before = model.read(rdma)
    for name, change in (
        ("results.jsonl", {"hca": "mlx5_7:1", "gid_index": 77}),
        ("facts.jsonl", {"os": {"id": "plan9", "version": "4"}, "hcas": [], "netdevs": []}),
    ):
        rows = [json.loads(line) for line in (rdma / name).read_text(encoding="utf-8").splitlines()]
        stale = [json.dumps({**row, "run": "20250101T000000Z-0000", **change}) + "\n" for row in rows]
        with (rdma / name).open("a", encoding="utf-8") as handle:
            handle.writelines(stale)
    after = model.read(rdma)
    assert after.nodes == before.nodes
    assert [one.conditions for one in after.tables] == [one.conditions for one in before.tables]
    assert any(one.conditions for one in after.tables)
    assert any("not planned, ignored: a row of run '20250101T000000Z-0000'" in note for note in after.notes)
