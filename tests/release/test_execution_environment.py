"""The execution environment, built by ansible-builder from the offline archive and the lab's image."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
import release
from railyard.base.paths import repo_root
from railyard.lab import apt, topology
from railyard.lab.host import Host, probe
from railyard.lab.nodes import container_image

ROOT = repo_root()
IMAGE = "localhost/railyard-test-execution-environment"
pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(shutil.which("podman") is None, reason="no podman is here"),
    pytest.mark.skipif(
        sys.version_info[:2] != (3, 13), reason="the archive is for another Python than Debian 13's"
    ),
]


def pip(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "pip", "-q", *map(str, arguments)], check=True, timeout=600)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Build the image as docs/install.md says, without a package index, and remove it afterwards."""
    found, folder = probe(), tmp_path_factory.mktemp("tree")
    (folder / "tools").mkdir()
    shutil.copy(ROOT / "tools/execution-environment.yml", folder / "tools")
    dist, builder = folder / "dist", folder / "dist/builder"
    builder.mkdir(parents=True)
    version = release.read_version(ROOT)
    built = release.build(ROOT, version, tmp_path_factory.mktemp("scratch"))
    shutil.copy(release.pack_offline(ROOT, version, built, tmp_path_factory.mktemp("offline")), dist)
    pip(
        "download",
        "--no-deps",
        "--require-hashes",
        "-d",
        builder,
        "-r",
        ROOT / "tests/release/requirements.txt",
    )
    pip("install", "--no-deps", "--no-index", "--target", folder / "site", *builder.glob("*.whl"))
    image = topology.load(topology.default_file().with_name("topology-container.yml"), suite="trixie").image
    base = container_image.ensure(found, image, apt.read("trixie"), print)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder / 'site'}:{os.environ.get('PYTHONPATH', '')}",
        "BUILDAH_ISOLATION": "chroot",
    }
    command = [
        sys.executable, "-m", "ansible_builder", "build", "--tag", IMAGE, "--container-runtime", "podman",
        "--file", folder / "tools/execution-environment.yml", "--context", folder / "context",
        "--build-arg", f"EE_BASE_IMAGE={base}", "--extra-build-cli-args=--layers=false",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=1200, cwd=folder
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
        yield found
    finally:
        subprocess.run(found.podman("rmi", "--force", IMAGE), capture_output=True, check=False)


def run(host: Host, *command: str) -> str:
    """Run a command in the image, without a network."""
    limits = {"nofile": host.nofile, "nproc": host.nproc, "memlock": host.memlock_bytes}
    options = [f"--ulimit={name}={limit}:{limit}" for name, limit in limits.items()]
    inventory = f"--volume={ROOT / 'inventories/v100-pair'}:/inventory:ro"
    fixed = [
        "run",
        "--rm",
        "--network=none",
        "--no-hosts",
        "--runtime=crun",
        "--privileged",
        "--pids-limit=0",
    ]
    argv = host.podman(*fixed, *options, inventory, IMAGE, *command)
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_it_has_ansible_its_runner_and_the_collection_and_is_not_root(host: Host) -> None:
    assert "ansible [core" in run(host, "ansible", "--version")
    assert run(host, "ansible-runner", "--version").strip()[0].isdigit()
    assert "railyard.fabric" in run(host, "ansible-galaxy", "collection", "list")
    assert run(host, "id", "-u").strip() != "0"
    # What the build needed alone is gone, and with it pip's ban of the package index.
    assert run(host, "sh", "-c", "ls /tmp; echo $PIP_NO_INDEX").split() == []


def test_it_plans_an_inventory_and_checks_it_by_the_playbook_of_the_collection(host: Host) -> None:
    assert "10.0.1.1/24" in run(host, "railyard", "plan", "-i", "/inventory")
    checked = run(host, "ansible-playbook", "-i", "/inventory", "railyard.fabric.preflight")
    assert "failed=0" in checked
    assert "Check the inventory" in checked
