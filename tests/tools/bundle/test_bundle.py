"""`railyard bundle` of a fabricated site: nothing of the site is left, and the verdicts are the same."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import ipaddress
import json
import os
import re
import signal
import tarfile

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.registry import parse
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import provenance
from railyard.base.errors import UserError
from railyard.base.paths import repo_root
from railyard.bundle import command, files
from railyard.bundle.table import Table
from railyard.report import rebuild
from support.programs import railyard
from support.runs.fake_run import RUN, FakeRun, exchanged
from tools.report.test_run_schemas import wrong

NODES = ("acme-gpu-b07", "acme-gpu-b12")
PARSERS = (
    repo_root() / "collections/ansible_collections/railyard/fabric/tests/unit/plugins/module_utils/parsers"
)
PERFTEST = (PARSERS / "fixtures/perftest/write_bw_gbps_client.txt").read_text(encoding="utf-8")
LOG = """Serial Number : 1655022005478
GPU UUID : GPU-f4c353ff-b56c-c1de-bcb9-7dad861b589a, VBIOS 92.00.45.00.03
alice@acme-gpu-b07.moon.example: SHA256:pJ7sFZ1zYb2dT0m9qQx4oWcRk8hN3vLgE6uAiBtXyZw fw 22.39.1002
/home/alice/x 10.0.1.1:18619 b8:3f:d2:4a:00:01 Linux acme-gpu-b07 5.15.0.1-generic
"""
# What FakeRun says -> what a site says; the interfaces' parts of link-local addresses are made of the MACs.
SITE = {
    r"02:00:00:00:(..:..)": r"b8:3f:d2:4a:\1",
    r"fe80::(\d)": r"fe80::ba3f:d2ff:fe4a:\1",
    r"boot-(\d)": r"292cda61-9617-43b1-bf8c-cf9a79c6c67\1",
    r"gpuserver1": NODES[0],
    r"gpuserver2": NODES[1],
    r'"cluster": "lab"': '"cluster": "moonbase"',
    r'"argv": \["ansible-playbook"': '"argv": ["ansible-playbook", "-u", "deployer14", '
    '"-i", "/srv/acme/inventories/moonbase"',
    r'"node_guid": "[0-9a-f:]*"': '"node_guid": "b83f:d203:004a:0001"',
}
ORIGINALS = (
    *(
        "acme",
        "moon",
        "alice",
        "deployer14",
        "1655022005478",
        "f4c353ff",
        "292cda61",
        "pJ7sFZ1zYb2d",
        "/srv/",
        "0123456789abcdef",
    ),
    *("10.0.1.", "10.0.0.", "198.18.0.", "10:00:01:01", "10:00:01:02", "ffff:0a00:01"),
    *("d2:4a", "d2ff:fe4a", "d24a00", "004a:0001", "03004a0001"),
)


@pytest.fixture(scope="module")
def healthy():
    run = FakeRun(transport="roce", driver_class="hardware", node_class="hardware")
    for key in ("manifest", "plan", "order", "asked", "facts", "results"):
        text = json.dumps(getattr(run, key))
        for before, after in SITE.items():
            text = re.sub(before, after, text)
        setattr(run, key, json.loads(text))
    run.manifest["asked"] = requests.fingerprint(run.asked)
    assert run.status() == 0
    return run


def write(run, folder):
    """Write a run folder of a site, with node archives, a secret and a page."""
    (folder / "raw").mkdir(parents=True)
    run.manifest["archives"] = {}
    for node in NODES:
        path = folder / f"raw/{node}.tar.gz"
        with path.open("wb") as stream:
            command._archive(stream, [("m00005.client.txt", PERFTEST.encode()), ("runner.log", LOG.encode())])
        count = sum(row["host"] == node for row in run.results)
        run.manifest["archives"][node] = {"sha256": command._sha256(path), "rows": count}
    for name, document in (("manifest", run.manifest), ("plan", run.sealed()), ("work_order", run.order)):
        (folder / f"{name}.json").write_text(json.dumps(document, indent=1, sort_keys=True), encoding="utf-8")
    for name, rows in (("asked", run.asked), ("facts", run.facts), ("results", exchanged(run.results))):
        (folder / f"{name}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )
    (folder / ".secret").write_text("0123456789abcdef0123456789abcdef\n", encoding="ascii")
    (folder / "index.html").write_text("<p>acme", encoding="utf-8")
    return folder


@pytest.fixture
def site(tmp_path, healthy):
    return write(healthy.copy(), tmp_path / "moonbase" / RUN)


RAW = f"{RUN}/raw/node1.tar.gz m00005.client.txt"


def members(data):
    """Return every text of an archive, those of the archives in it too, by name."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for one in tar:
            content = tar.extractfile(one).read()
            if one.name.endswith(".gz"):
                found |= {f"{one.name} {name}": text for name, text in members(content).items()}
            else:
                found[one.name.removeprefix(f"{RUN}/")] = content.decode()
    return found


def bundled(folder, out):
    command.run(folder, out / "b.tar.gz", out / "table")
    return members((out / "b.tar.gz").read_bytes())


def test_nothing_of_the_site_is_left_and_the_raw_outputs_say_the_same(site, tmp_path, capsys):
    texts = bundled(site, tmp_path)
    everything = "\n".join(f"{name}\n{text}" for name, text in texts.items()).lower()
    assert [one for one in ORIGINALS if one.lower() in everything] == []
    kept = f"22.39.1002 5.15.0.1-generic 92.00.45.00.03 b8:3f:d2: rail0 ens6 mlx5_0 {RUN.lower()}"
    assert [one for one in kept.split() if one not in everything] == []
    assert parse("perftest", texts[RAW]) == parse("perftest", PERFTEST)
    assert {"BUNDLE.md", "verdicts.jsonl", "index.html"} - texts.keys() == {"index.html"}
    assert all(one in texts["BUNDLE.md"] for one in ("| node | 2 |", "calculated again"))
    assert "2 node" in capsys.readouterr().out
    assert "node\tnode1\tacme-gpu-b07\n" in (tmp_path / "table").read_text()
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("table", "b.tar.gz")} == {0o600}


def test_addresses_and_digests_hold_together(site, tmp_path):
    texts = bundled(site, tmp_path)
    manifest, plan = json.loads(texts["manifest.json"]), json.loads(texts["plan.json"])
    facts = json.loads(texts["facts.jsonl"].splitlines()[0])
    cidr = plan["nodes"]["node1"]["rails"][0]["address"]
    device, port = facts["netdevs"][0], facts["hcas"][0]
    groups = ipaddress.IPv4Address(cidr[:-3]).packed.hex(":", 2)
    assert (device["addresses"], port["gids"][1]["gid"][-len(groups) :]) == ([cidr], groups)
    decimal = ":".join(f"{int(one):02d}" for one in cidr[:-3].split("."))
    assert f"255:255:{decimal}\n" in texts[RAW]
    low = int(device["mac"][9:].replace(":", ""), 16)
    assert device["addresses6"] == [f"fe80::ba3f:d2ff:fe{low >> 16:02x}:{low & 0xFFFF:x}/64"]
    assert port["node_guid"].replace(":", "") == f"b83fd20300{low:06x}"
    assert (wrong("manifest", manifest), manifest["bundled"]) == ([], True)
    assert provenance.edited(manifest, plan) is None
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        node1 = tar.extractfile(f"{RUN}/raw/node1.tar.gz").read()
    assert manifest["archives"]["node1"]["sha256"] == hashlib.sha256(node1).hexdigest()


def dark(run):
    run.facts[0]["netdevs"][0].update(carrier=False, operstate="down")


def silent(run):
    run.results = [row for row in run.results if row["check"] != "rdma_latency"]


def edited(run):
    run.asked = run.asked[:-1]


@pytest.mark.parametrize("change", [lambda run: None, dark, silent, edited])
def test_the_judge_says_of_the_bundle_what_it_says_of_the_run(change, healthy, tmp_path, capsys):
    run = healthy.copy()
    change(run)
    folder = write(run, tmp_path / "moonbase" / RUN)
    bundled(folder, tmp_path)
    expected = rejudge.judge_folder(folder)
    assert (expected.exit_status == 0) == (change.__name__ == "<lambda>")
    capsys.readouterr()
    assert rebuild.judge(str(tmp_path / "b.tar.gz"), tmp_path) == expected.exit_status
    shown = capsys.readouterr().out
    assert [one for one in ("node1", "calculated again", *NODES) if one not in shown] == list(NODES)
    judged = rejudge.judge_folder(files.unpack(tmp_path / "b.tar.gz", tmp_path))
    words = ("id", "outcome", "cause_class")
    assert [[one[key] for key in words] for one in judged.verdicts] == [
        [one[key] for key in words] for one in expected.verdicts
    ]
    assert judged.incomplete == expected.incomplete


def test_a_run_that_cannot_be_judged_is_bundled(healthy, tmp_path):
    run = healthy.copy()
    run.asked = []
    assert "verdicts.jsonl" not in bundled(write(run, tmp_path / "moonbase" / RUN), tmp_path)


def test_the_same_run_is_the_same_bytes_and_nothing_is_overwritten(site, tmp_path):
    bundled(site, tmp_path)
    first = (tmp_path / "b.tar.gz").read_bytes()
    with pytest.raises(UserError, match="there already"):
        bundled(site, tmp_path)
    command.run(site, tmp_path / "c.tar.gz", None)
    assert (tmp_path / "c.tar.gz").read_bytes() == first


def left(tmp_path):
    return sorted(one.name for one in tmp_path.iterdir() if one.name != "moonbase")


def test_a_full_disk_leaves_nothing(site, tmp_path, monkeypatch):
    def full(_handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"b\.tar\.gz cannot be written: No space left"):
        command.run(site, tmp_path / "b.tar.gz", None)
    assert left(tmp_path) == []


def test_a_kill_leaves_no_archive_by_its_name(site, tmp_path):
    child = os.fork()
    if child == 0:
        os.fsync = lambda _handle: os.kill(os.getpid(), signal.SIGKILL)
        try:
            command.run(site, tmp_path / "b.tar.gz", None)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert not (tmp_path / "b.tar.gz").exists()


def huge(folder):
    with (folder / "notes.txt").open("wb") as stream:
        stream.truncate(files.MOST_BYTES + 1)


def afar(folder):
    text = (folder / "manifest.json").read_text().replace(RUN, "../../x")
    (folder / "manifest.json").write_text(text)


def packed(path, name, kind=tarfile.REGTYPE):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    with tarfile.open(path, "w:gz") as tar:
        tar.addfile(member)
    return path


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda folder: (folder / "notes.txt").symlink_to("/etc/passwd"), "notes.txt is no plain file"),
        (lambda folder: os.mkfifo(folder / "raw/x.txt"), "raw/x.txt is no plain file"),
        (huge, "notes.txt is larger than 256 MiB"),
        (afar, "manifest.json does not say of which run"),
        (lambda folder: packed(folder / "raw/x.tar.gz", "m.txt", tarfile.SYMTYPE), "m.txt in it is no plain"),
    ],
)
def test_a_hostile_folder_is_refused_by_name(harm, said, site, tmp_path):
    harm(site)
    with pytest.raises(UserError, match=f"{re.escape(said)}(.|\\n)*fix:"):
        command.run(site, tmp_path / "b.tar.gz", None)
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("wrongly", "said"),
    [
        (
            lambda text, made: text if text == LOG else made,
            r"left in raw/node1\.tar\.gz runner\.log, line 1;",
        ),
        (lambda _text, made: made.replace('"mtu": 9000', '"mtu": 1500'), "would change .* no bundle"),
    ],
)
def test_what_would_leave_an_original_or_change_a_verdict_is_refused(
    wrongly, said, site, tmp_path, monkeypatch
):
    replace = Table.replace
    monkeypatch.setattr(Table, "replace", lambda self, text: wrongly(text, replace(self, text)))
    with pytest.raises(UserError, match=said):
        command.run(site, tmp_path / "b.tar.gz", None)
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    "name", ["../x", f"{RUN}/../../x", "/etc/x", f"{RUN}/raw/../x", "other/manifest.json"]
)
def test_an_archive_that_reaches_out_is_no_bundle(name, tmp_path):
    with pytest.raises(UserError, match="which no run writes"):
        rebuild.judge(str(packed(tmp_path / "bad.tar.gz", name)), tmp_path)


@pytest.mark.parametrize("data", [b"", b"no archive", gzip.compress(b"\0" * 1024, mtime=0)])
def test_what_is_no_bundle_is_bad_input(data, tmp_path):
    bad = tmp_path / "bad.tar.gz"
    bad.write_bytes(data)
    with pytest.raises(UserError, match=r"no whole bundle|does not hold one run"):
        rebuild.judge(str(bad), tmp_path)


def test_the_verb_writes_and_wrong_arguments_are_bad_input(site, tmp_path):
    bundle = str(tmp_path / "b.tar.gz")
    assert [
        railyard(*words).returncode for words in (["bundle", str(site), "-o", bundle], ["judge", bundle])
    ] == [0, 0]
    for words in (["bundle", str(tmp_path)], ["report", bundle], ["bundle", str(site), "-o", "/no/b"]):
        done = railyard(*words)
        assert (done.returncode, "fix:" in done.stderr) == (2, True), done.stderr
