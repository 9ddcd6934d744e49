"""A saved baseline: from a passing run alone, beside the inventory; no forgery of it improves a word."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.action import fabric_open
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import own_orders
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import orders
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import baseline, provenance
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from railyard.base.errors import UserError
from railyard.bundle import command
from railyard.report import baseline as saving
from support.inventories.on_disk import make_hosts, write_groups
from support.programs import railyard
from support.runs.fake_run import NODES, RUN, fabric
from support.runs.run_builder import build_run
from tools.report.test_run_schemas import wrong

OTHER = "20261121T091500Z-0001"


def slow(row):
    """A ping that takes four times as long; of software it fails when it does so three times."""
    if row["check"] != "ping_rtt" or row["end"] != "client":
        return row
    times = {name: value * 4 for name, value in row["metrics"].items() if name.endswith("_us")}
    return row | {"metrics": row["metrics"] | times}


def later(row, attempt):
    """A row of another attempt, with counters of its own."""

    def spans(of):
        return {name: [count + attempt * 10**13 for count in span] for name, span in of["counters"].items()}

    other_end = row["other_end"] | {"counters": spans(row["other_end"])}
    return row | {"attempt": attempt, "counters": spans(row), "other_end": other_end}


@pytest.fixture
def inventory(tmp_path):
    return write_groups(tmp_path / "lab", make_hosts(*NODES), fabric=fabric())


@pytest.fixture
def saved(tmp_path, inventory):
    run = build_run(tmp_path / "reports/lab" / RUN, rdma=True)
    assert saving.save(str(run), [str(inventory)], tmp_path) == 0
    return inventory / "baseline.json"


def with_baseline(folder: Path, kept: Path) -> Path:
    """Give a run folder a baseline, as `fabric_open` would have."""
    text = kept.read_text(encoding="utf-8")
    sha256 = baseline.digest(text)
    manifest, plan = (json.loads((folder / f"{name}.json").read_text()) for name in ("manifest", "plan"))
    plan |= {provenance.BASELINE: sha256}
    plan[provenance.FINGERPRINT] = provenance.fingerprint(plan, manifest["policy"])
    manifest[baseline.STATED] = {"run": json.loads(text)["run"], "sha256": sha256}
    for name, document in (("manifest", manifest), ("plan", plan)):
        (folder / f"{name}.json").write_text(json.dumps(document))
    shutil.copy(kept, folder)
    return folder


def read_outcomes(folder: Path) -> dict[str, str]:
    return {one["id"]: one["outcome"] for one in rejudge.judge_folder(folder).verdicts}


def test_what_is_saved_keeps_its_schema_and_passes_its_own_run(saved, tmp_path):
    document = json.loads(saved.read_text())
    assert wrong("baseline", document) == []
    assert (document["run"], document["cluster"]) == (RUN, "lab")
    checks = {one["like"]["check"]: one for one in document["classes"]}
    assert {"tcp_latency", "rdma_latency", "ping_rtt", "tcp_bandwidth_bi"} <= checks.keys()
    assert "tcp_bandwidth" not in checks, "its rate is declared: it has an authority"
    one = checks["rdma_latency"]
    assert (one["metric"], one["spread"]) == ("latency_p50_us", {"least": 5.0, "median": 5.0, "most": 5.0})
    assert len(one["links"]) == 4, "two rails, both ways"
    run = build_run(tmp_path / "again/lab" / OTHER, rdma=True)
    before = read_outcomes(run)
    after = read_outcomes(with_baseline(run, saved))
    turned = {(before[key], after[key]) for key in after if after[key] != before[key]}
    assert turned == {("recorded", "pass")}
    judged = rejudge.judge_folder(run)
    assert judged.exit_status == 0
    told = [one["basis"] for one in judged.verdicts if before[one["id"]] != one["outcome"]]
    assert all(basis.startswith(f"baseline {RUN}: ") for basis in told)
    assert rejudge.rejudge(run) == 0
    verdicts = [json.loads(line) for line in (run / "verdicts.jsonl").open()]
    assert [wrong("verdict", one) for one in verdicts] == [[]] * len(verdicts)


def forged(document):
    for one in document["classes"]:
        for link in one["links"]:
            link["value"] *= 4
    return document


def without(name, key):
    def change(folder):
        document = json.loads((folder / name).read_text())
        del document[key]
        (folder / name).write_text(json.dumps(document))

    return change


def rewritten(folder):
    path = folder / "baseline.json"
    path.write_text(run_folder.pretty(forged(json.loads(path.read_text()))))


def all_but_the_fingerprint(folder):
    (folder / "baseline.json").unlink()
    without("manifest.json", "baseline")(folder)
    without("plan.json", "baseline_sha256")(folder)


@pytest.mark.parametrize(
    "forge",
    [
        rewritten,
        lambda folder: (folder / "baseline.json").unlink(),
        lambda folder: (folder / "baseline.json").write_text("{}"),
        lambda folder: (folder / "baseline.json").write_text("{"),
        without("manifest.json", "baseline"),
        without("plan.json", "baseline_sha256"),
        all_but_the_fingerprint,
    ],
)
def test_no_forgery_improves_an_outcome(saved, tmp_path, forge):
    """Each ping of the run takes four times what the baseline says, three times over."""
    run = build_run(tmp_path / "again/lab" / OTHER, rdma=True, change_result=slow)
    rows = [json.loads(line) for line in (run / "results.jsonl").open()]
    repeated = [later(row, attempt) for row in rows if row["check"] == "ping_rtt" for attempt in (2, 3)]
    with (run / "results.jsonl").open("a") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in repeated)
    assert rejudge.judge_folder(run).exit_status == 0
    before = read_outcomes(with_baseline(run, saved))
    failed = [key for key, word in before.items() if word == "fail"]
    assert len(failed) == 4
    assert rejudge.judge_folder(run).exit_status == 1
    forge(run)
    judged = rejudge.judge_folder(run)
    after = {one["id"]: one for one in judged.verdicts}
    assert {after[key]["outcome"] for key in failed} == {"unmeasured"}
    assert {after[key]["cause_class"] for key in failed} == {"baseline_lost"}
    assert judged.exit_status == 3
    order = ("pass", "recorded", "not_applicable", "unmeasured", "fail")
    assert [key for key in after if order.index(after[key]["outcome"]) < order.index(before[key]) < 3] == []


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"change_result": lambda row: None if row["check"] == "ping_rtt" else row}, 3, "not all planned"),
        ({"end": {}}, 3, "no end record"),
        ({"change_fact": lambda row: row | {"netdevs": [one | {"carrier": False} for one in row["netdevs"]]}},
         1, "not all planned tests"),
    ],
)  # fmt: skip
def test_a_run_that_did_not_pass_is_no_baseline(tmp_path, inventory, saved, change, status, said):
    before = saved.read_bytes()
    run = build_run(tmp_path / "bad/lab" / OTHER, **change)
    with pytest.raises(UserError, match=said) as refused:
        saving.save(str(run), [str(inventory)], tmp_path)
    assert refused.value.exit_status == status
    assert saved.read_bytes() == before


def test_another_clusters_run_is_refused(tmp_path, inventory):
    run = build_run(tmp_path / "reports/theirs" / OTHER)
    for sources in ([str(inventory)], ["gpu1,gpu2,"]):
        with pytest.raises(UserError, match="is of cluster theirs"):
            saving.save(str(run), sources, tmp_path)


def test_the_next_run_keeps_a_copy_and_its_nodes_measure_again_by_it(saved, inventory, tmp_path):
    loaded = load.load([str(inventory)])
    assert load.validate(loaded) == [], "Ansible takes the file for no inventory"
    folder = fabric_open._new(str(tmp_path / "new"), None, loaded)
    manifest, plan = folder.manifest(), folder.plan()
    assert manifest["baseline"] == {"run": RUN, "sha256": baseline.digest(saved.read_text())}
    assert provenance.edited(manifest, plan) is None
    assert (
        baseline.kept(folder, manifest, plan).figures == baseline.read(json.loads(saved.read_text())).figures
    )
    run = with_baseline(build_run(tmp_path / "again/lab" / OTHER, rdma=True), saved)
    folder = run_folder.RunFolder(run)
    folder.secret()
    own_orders.keep(
        folder, folder.plan(), folder.rows(run_folder.FACTS)[0], folder.document("work_order.json")
    )
    order = orders.Orders(folder).build("gpuserver1")
    ways = ("gpuserver1 gpuserver2", "gpuserver2 gpuserver1")
    links = {f"{way} {rail}" for way in ways for rail in ("rail0", "rail1")}
    assert order["bounds"]["ping_rtt"].keys() == links


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("{}", "it is incomplete"),
        ('{"schema": 1, "run": "x", "cluster": "lab", "classes": []}', "its schema or run is not known"),
        (f'{{"schema": 1, "run": "{RUN}", "cluster": "theirs", "classes": []}}', "it is of cluster 'theirs'"),
    ],
)
def test_what_is_no_baseline_is_refused_before_a_run_begins(inventory, tmp_path, text, said):
    (inventory / "baseline.json").write_text(text)
    with pytest.raises(run_folder.RunFolderError, match=said):
        fabric_open._new(str(tmp_path / "new"), None, load.load([str(inventory)]))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"value": 0}, {"value": -1}, {"value": "5"}, {"value": True}, {"value": None}, {"node": ["gpu1"]},
        {"rail": "rail0"},
    ],
)  # fmt: skip
def test_a_figure_that_is_none_loses_them_all(saved, change):
    document = json.loads(saved.read_text())
    [one] = [one for one in document["classes"] if one["like"]["check"] == "rdma_latency"]
    one["links"][-1] |= change
    assert baseline.read(document).lost


def test_the_command_line(tmp_path, inventory):
    run = build_run(tmp_path / "reports/lab" / RUN, rdma=True)
    done = railyard("baseline", "save", run, "-i", inventory)
    assert (done.returncode, done.stderr) == (0, "")
    assert str(inventory / "baseline.json") in done.stdout
    assert railyard("plan", "-i", inventory).returncode == 0
    assert railyard("baseline", "save", tmp_path, "-i", inventory).returncode == 2
    (inventory / "baseline.json").write_text("{}", encoding="utf-8")
    done = railyard("validate", "-i", inventory, "--reports-dir", tmp_path / "new")
    assert (done.returncode, (tmp_path / "new").exists()) == (2, False)
    assert "is no baseline of lab" in done.stderr


def test_a_bundle_takes_its_baseline_along(saved, tmp_path):
    run = with_baseline(build_run(tmp_path / "again/lab" / OTHER, rdma=True), saved)
    archive = tmp_path / "run.bundle.tar.gz"
    assert command.run(run, archive, None) == 0
    with tarfile.open(archive) as bundle:
        (member,) = [name for name in bundle.getnames() if name.endswith(baseline.FILE)]
        assert "gpuserver" not in bundle.extractfile(member).read().decode()
    (tmp_path / "unpacked").mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path / "unpacked"], check=True)
    assert read_outcomes(tmp_path / "unpacked" / Path(member).parent) == read_outcomes(run)
