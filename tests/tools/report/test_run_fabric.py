"""The InfiniBand fabric in a run's report: from `fabric.json` alone, and the same again."""

from __future__ import annotations

import copy
import json
import tarfile

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.documents import write_report
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder, RunFolderError
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import run_file
from railyard.report import rebuild
from support.programs import railyard
from support.record_schema import read, schema_of, strip_descriptions
from support.runs import run_fabric
from support.runs.fake_run import RUN
from support.runs.report_page import page_of
from support.runs.run_builder import build_run


@pytest.fixture
def folder(tmp_path):
    path = build_run(tmp_path / "lab" / RUN)
    (path / "fabric.json").write_text(json.dumps(run_fabric.sample()))
    return path


def test_the_page_shows_findings_paths_and_the_way_to_the_fabrics_page(folder):
    write_report(folder)
    page = page_of(folder)
    for words in (
        "1 link with too many errors: gpuserver1 rail0.",
        "gpuserver1 rail0 to leaf1 port 1, in 300 s",
        "And 3 more findings on the fabric's page.",
        "Path of gpuserver1 and gpuserver2, rail0 (RDMA write bandwidth, one-way RDMA write latency)",
        "gpuserver1 rail0 port 1 → leaf1 port 1",
        "200 Gbit/s",
        "SymbolErrorCounter +12 at leaf1 port 1; PortRcvErrors at its maximum at gpuserver1 rail0 port 1",
        "leaf1 port 2 → gpuserver2 rail0 port 1",
        "errors not known",
        "The path is not known: ibtracert: can't reach port.",
        "Of 1 further slow pair no path was read.",
        "With the fabric: exit status 1.",
    ):
        assert words in page.text, words
    links = [attributes.get("href") for tag, attributes in page.tags if tag == "a"]
    assert "../fabric/20261121T101530Z/index.html" in links
    assert "../fabric/20261121T101530Z/index.html#finding-2" in links
    assert "see <code>ibqueryerrors</code>. Clean" in (folder / "index.html").read_text()


def test_report_and_judge_show_it_again(folder, capsys):
    rebuild.report(str(folder), folder.parent.parent)
    first, printed = (folder / "index.html").read_bytes(), capsys.readouterr().out
    assert "✗ Fabric: 1 link with too many errors" in printed
    assert "SymbolErrorCounter +12 at leaf1 port 1" in printed
    assert "next: Likely a dirty cable" in printed
    rebuild.report(str(folder), folder.parent.parent)
    assert (folder / "index.html").read_bytes() == first
    capsys.readouterr()
    rebuild.judge(str(folder), folder.parent.parent, as_json=True)
    assert json.loads(capsys.readouterr().out)["fabric"] == run_fabric.sample()


def test_a_run_without_it_does_not_mention_it(tmp_path, capsys):
    path = build_run(tmp_path / "lab" / RUN)
    rebuild.report(str(path), tmp_path)
    assert "fabric.json" not in (path / "index.html").read_text()
    assert "The InfiniBand fabric" not in (path / "index.html").read_text()
    assert "Fabric:" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("way", "value"),
    [
        (("folder",), "../../elsewhere"),
        (("folder",), "javascript:alert(1)"),
        (("status",), 2),
        (("schema",), 2),
        (("more",), 1),
        (("paths", 0, "ways", 0, "links", 0, "rate_gbps"), -1.0),
        (("paths", 0, "ways", 0, "links", 0, "grown"), {}),
        (("findings", 0, "severity"), "bad"),
    ],
)
def test_a_file_that_is_not_valid_names_itself_and_the_way_out(folder, way, value):
    document = copy.deepcopy(run_fabric.sample())
    place = document
    for part in way[:-1]:
        place = place[part]
    place[way[-1]] = value
    (folder / "fabric.json").write_text(json.dumps(document))
    with pytest.raises(RunFolderError, match=r"fabric\.json: .*Remove the file to report the run"):
        run_file.load(RunFolder(folder))
    done = railyard("report", folder)
    assert (done.returncode, "fabric.json" in done.stderr) == (2, True)


def test_the_schema_is_the_record():
    document = read("fabric")
    assert strip_descriptions(document, document) == schema_of(run_file.RunFabric)


def test_a_bundle_has_nothing_of_it(folder, tmp_path):
    done = railyard("bundle", folder, "-o", tmp_path / "run.bundle.tar.gz")
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / "run.bundle.tar.gz") as archive:
        assert not [name for name in archive.getnames() if "fabric" in name]
