"""The collection as published ones are: it builds, installs, is documented; no address in it is made up."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from railyard.base import paths

COLLECTION = paths.repo_root() / "collections/ansible_collections/railyard/fabric"
MODULES = {path.stem: path.read_text() for path in (COLLECTION / "plugins/modules").glob("*.py")}


def call(program, *argv, **environment):
    command = [Path(sys.executable).parent / program, *argv]
    return subprocess.run(
        command, env={**os.environ, **environment}, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    call("ansible-galaxy", "collection", "build", COLLECTION, "--output-path", folder)
    (archive,) = folder.glob("railyard-fabric-*.tar.gz")
    return archive


def test_what_is_built_holds_what_a_controller_needs_and_no_more(built):
    with tarfile.open(built) as archive:
        names = archive.getnames()
    held = {name.split("/")[0] for name in names}
    made = {"FILES.json", "MANIFEST.json"}
    assert held == made | {"COPYING", "README.md", "changelogs", "meta", "plugins", "requirements.txt"}
    assert {f"plugins/modules/{name}.py" for name in MODULES} < set(names)
    assert not [name for name in names if "changelogs/fragments" in name or "__pycache__" in name]


def test_what_is_installed_is_found_by_ansible(built, tmp_path):
    (tmp_path / "ansible.cfg").touch()  # not this tree's, nor its collections
    env = {"ANSIBLE_COLLECTIONS_PATH": str(tmp_path), "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg")}
    call("ansible-galaxy", "collection", "install", "--offline", built, "-p", tmp_path, **env)
    assert "known_tags" in call("ansible-doc", "-t", "module", "railyard.fabric.preflight", **env)


def test_no_address_is_made_up():
    said = (COLLECTION / "galaxy.yml").read_text() + (COLLECTION / "README.md").read_text()
    assert not re.search(r"https?://", said)


def test_the_readme_names_every_module_with_its_short_description():
    readme = (COLLECTION / "README.md").read_text()
    for name, text in MODULES.items():
        short = re.search(r"^short_description: (.+)$", text, re.MULTILINE)[1]
        assert f"| `{name}` | {short} |" in readme


def test_the_action_group_is_all_steps_that_take_a_runs_folder():
    group = yaml.safe_load((COLLECTION / "meta/runtime.yml").read_text())["action_groups"]["measure"]
    takes = {name for name, text in MODULES.items() if name.startswith("fabric_") and "\n  folder:" in text}
    assert set(group) == takes


@pytest.mark.parametrize("kind", ["modules", "filter"])
def test_everything_says_since_when_it_is_there(kind):
    documented = [p for p in (COLLECTION / "plugins" / kind).iterdir() if p.suffix in {".py", ".yml"}]
    texts = {p.name: p.read_text() for p in documented if kind == "modules" or p.suffix == ".yml"}
    assert [
        name for name, text in texts.items() if not re.search(r"^ *version_added: ", text, re.MULTILINE)
    ] == []


def test_a_module_carries_no_more_than_it_uses() -> None:
    """`boot_kernel_info` reads a file of the boot loader; all parsers went with it once, 124 kB."""
    program = paths.repo_root() / "benchmarks" / "payload" / "measure.py"
    argv = [sys.executable, str(program), "railyard.fabric.boot_kernel_info"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (above,) = re.findall(r"^\| `boot_kernel_info` \| [0-9]+ \| ([0-9]+) \|$", done.stdout, re.MULTILINE)
    assert int(above) <= 40
