"""`make release` builds a wheel that works without a checkout and a collection with roles and playbooks."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import release
import wheel_tree
import yaml
from support.released import ROOT, build_release, run_wheel, unpack_wheel

#: By which Ansible would find the checkout's own.
_OWN_PLACES = ("PYTHONPATH", "ANSIBLE_CONFIG", "ANSIBLE_ROLES_PATH")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the files of a release of this working tree, by suffix."""
    return build_release(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def wheel(built, tmp_path_factory):
    """Return the folder that an installed wheel would be in."""
    return unpack_wheel(built[".whl"], tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def collection(built, tmp_path_factory):
    """Return the folder that an installed collection would be in."""
    folder = tmp_path_factory.mktemp("installed")
    installed = folder / "ansible_collections" / "railyard" / "fabric"
    installed.mkdir(parents=True)
    subprocess.run(["tar", "-xf", built[".gz"], "-C", installed], check=True)
    return folder


def test_the_command_of_a_wheel_plans_from_an_empty_folder(wheel, tmp_path):
    done = run_wheel(wheel, tmp_path, "plan", "-i", str(ROOT / "inventories/v100-pair"), "--json")
    assert done.returncode == 0, done.stderr
    rails = json.loads(done.stdout)["nodes"]["gpuserver1"]["rails"]
    assert [rail["address"] for rail in rails] == ["10.0.1.1/24", "10.0.0.1/24"]


def test_the_command_of_a_wheel_runs_its_own_playbooks_and_keeps_reports_where_it_is_called(wheel, tmp_path):
    done = run_wheel(wheel, tmp_path, "site", "-i", str(ROOT / "inventories/v100-pair"), "--", "--list-tasks")
    assert done.returncode == 0, done.stderr
    assert "Measure and judge the fabric" in done.stdout
    # `judge` says where it looked for a run that is not there.
    done = run_wheel(wheel, tmp_path, "judge", "nobody")
    assert done.returncode == 2
    assert str(tmp_path / "reports") in done.stderr


def test_a_wheel_installs_the_manual_page(wheel):
    (page,) = wheel.glob("railyard-*.data/data/share/man/man1/railyard.1")
    assert page.read_bytes() == (ROOT / "docs/railyard.1").read_bytes()


def test_the_lab_is_refused_by_a_wheel(wheel, tmp_path):
    done = run_wheel(wheel, tmp_path, "lab", "up")
    assert done.returncode == 2
    assert "clone the repository" in done.stderr
    listed = run_wheel(wheel, tmp_path, "--help").stdout
    assert "validate" in listed
    assert "built-in lab" not in listed


def test_a_wheel_holds_every_file_that_the_packages_have_beside_their_code(wheel):
    tracked = subprocess.run(
        ["git", "ls-files", "tools/railyard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = [name.removeprefix("tools/") for name in tracked.stdout.splitlines()]
    assert [name for name in names if not (wheel / name).is_file()] == []


def test_a_wheel_holds_no_tests_but_those_of_the_end_state(wheel):
    tree = wheel / "railyard" / wheel_tree.NAME
    assert (tree / "tests/end_state/test_rails.py").is_file()
    tests = {str(path.relative_to(tree).parent) for path in tree.rglob("test_*.py")}
    assert tests == {"tests/end_state"}


def test_a_collection_holds_each_role_and_playbook_once(collection):
    installed = collection / "ansible_collections/railyard/fabric"
    roles = {path.name for path in (ROOT / "roles").iterdir() if path.is_dir()}
    assert {path.name for path in (installed / "roles").iterdir()} == roles
    playbooks = {path.name for path in (ROOT / "playbooks").glob("*.yml")} | {"site.yml"}
    assert {path.name for path in (installed / "playbooks").glob("*.yml")} == playbooks
    for playbook in (installed / "playbooks").glob("*.yml"):
        for play in yaml.safe_load(playbook.read_text(encoding="utf-8")):
            if "import_playbook" in play:
                assert (playbook.parent / play["import_playbook"]).is_file(), playbook.name


def test_ansible_finds_the_roles_of_an_installed_collection(collection, tmp_path):
    (tmp_path / "hosts.yml").write_text("gpu_nodes: {hosts: {localhost: {ansible_connection: local}}}\n")
    (tmp_path / "own.yml").write_text(
        "- hosts: gpu_nodes\n  gather_facts: false\n  roles: [railyard.fabric.node_tuning]\n"
    )
    (tmp_path / "ansible.cfg").write_text("[defaults]\n")
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(collection)}
    environment = {name: value for name, value in environment.items() if name not in _OWN_PLACES}
    for playbook, task in (("own.yml", "Record the baseline"), ("railyard.fabric.site", "Tune the nodes")):
        done = subprocess.run(
            ["ansible-playbook", "-i", "hosts.yml", playbook, "--list-tasks"],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert task in done.stdout


def test_the_bill_of_materials_names_every_pinned_package_and_file(built):
    bill = json.loads(built[".json"].read_text(encoding="utf-8"))
    pins = (ROOT / release.PINS).read_text(encoding="utf-8")
    pinned = {line.split("==")[0] for line in pins.splitlines() if re.match(r"[A-Za-z0-9].*==", line)}
    found = {one["name"] for one in bill["components"] if one["type"] == "library"}
    assert found == pinned
    files = {one["name"] for one in bill["components"] if one["type"] == "file"}
    assert files == {built[".whl"].name, built[".gz"].name}


def test_versions_that_differ_are_refused(tmp_path):
    (tmp_path / release.COLLECTION).mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    (tmp_path / release.COLLECTION / "galaxy.yml").write_text("version: 0.1.0\n")
    with pytest.raises(release.ReleaseError, match=r"0\.2\.0.*0\.1\.0"):
        release.read_version(tmp_path)


def test_what_no_commit_holds_is_refused(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "new.txt").write_text("x")
    with pytest.raises(release.ReleaseError, match=r"new\.txt"):
        release.refuse_changes(tmp_path)


def make_archive(folder, python="3.99", wheel=b""):
    """Write an archive's folder, in which nothing can be installed."""
    (folder / "wheels").mkdir(parents=True)
    (folder / "wheels/railyard-1-py3-none-any.whl").write_bytes(wheel)
    (folder / "wheels/one.whl").write_text("1")
    (folder / "wheels/two.whl").write_text("2")
    (folder / "python-version").write_text(f"{python}\n")
    shutil.copy2(ROOT / "tools/install_offline.sh", folder / "install.sh")
    members = ["wheels/one.whl", "wheels/two.whl", "wheels/railyard-1-py3-none-any.whl", "python-version"]
    sums = [f"{release.digest(folder / name)}  {name}" for name in members]
    (folder / "SHA256SUMS").write_text("\n".join(sums) + "\n")


def install(folder, target="target", **how):
    """Install from an archive, by a caller whose current folder is beside it."""
    beside = folder.parent / "beside"
    beside.mkdir(exist_ok=True)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [str(folder / "install.sh"), target]
    return subprocess.run(
        command, cwd=beside, env=environment, capture_output=True, text=True, check=False, **how
    )


def test_an_offline_archive_with_a_changed_or_missing_member_installs_nothing(tmp_path):
    archive = tmp_path / "archive"
    make_archive(archive)
    (archive / "wheels/one.whl").write_text("changed")
    (archive / "wheels/two.whl").unlink()
    done = install(archive)
    assert done.returncode == 2
    assert "wheels/one.whl" in done.stderr
    assert "wheels/two.whl" in done.stderr
    assert "python-version" not in done.stderr
    assert not (tmp_path / "beside/target").exists()


@pytest.mark.parametrize("damage", [lambda sums: f"zz{sums[2:]}", lambda _sums: ""])
def test_checksums_that_cannot_be_read_are_refused_by_name(tmp_path, damage):
    archive = tmp_path / "archive"
    make_archive(archive)
    sums = archive / "SHA256SUMS"
    sums.write_text(damage(sums.read_text()))
    done = install(archive)
    assert done.returncode == 2
    assert "SHA256SUMS" in done.stderr.split("SHA256SUMS", 1)[1]


def test_a_failed_installation_restores_the_former_one(tmp_path):
    archive, former = tmp_path / "archive", tmp_path / "beside/target"
    make_archive(archive, ".".join(map(str, sys.version_info[:2])), b"no wheel")
    (former / "bin").mkdir(parents=True)
    (former / "pyvenv.cfg").touch()
    (former / "bin/railyard").write_text("former")
    done = install(archive)
    assert done.returncode == 1
    assert "is there again" in done.stderr
    assert (former / "bin/railyard").read_text() == "former"
    assert sorted(path.name for path in former.parent.iterdir()) == ["target"]


def test_another_virtual_environment_is_not_touched(tmp_path):
    archive, other = tmp_path / "archive", tmp_path / "beside/target"
    make_archive(archive, ".".join(map(str, sys.version_info[:2])))
    other.mkdir(parents=True)
    (other / "pyvenv.cfg").write_text("somebody's")
    done = install(archive)
    assert done.returncode == 2
    assert f"{other} is there and is no installation of Railyard" in done.stderr
    assert (other / "pyvenv.cfg").read_text() == "somebody's"


def test_help_installs_nothing(tmp_path):
    archive = tmp_path / "archive"
    make_archive(archive)
    done = install(archive, "--help")
    assert done.returncode == 2
    assert "./install.sh [FOLDER]" in done.stdout


def test_an_offline_archive_asks_for_the_python_that_it_was_made_for(tmp_path):
    make_archive(tmp_path / "archive")
    done = install(tmp_path / "archive")
    assert done.returncode == 2
    assert "Python 3.99" in done.stderr
