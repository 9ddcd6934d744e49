"""`make release`: build what others install, into dist/.

- the collection, with roles and playbooks in it: `railyard.fabric.rail_network`, `railyard.fabric.site`
- the wheel, whose command brings its own copy of them
- a list of what is in both and of what they need (CycloneDX), and the checksums of all
- with `--offline`, an archive that installs the command where there is no network

Each is built from the files that git knows, so that two builds of a commit hold the same.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
COLLECTION = Path("collections/ansible_collections/railyard/fabric")
PINS = Path("requirements/python3.12.txt")
_PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s\\;]+)[^\\]*\\?")
_HASH = re.compile(r"--hash=sha256:(?P<digest>[0-9a-f]{64})")


class ReleaseError(Exception):
    """Nothing was built; the text says why, and what to do."""


def main(arguments: list[str]) -> int:
    """Build everything, or print why not and end with 2."""
    try:
        if set(arguments) - {"--offline"}:
            raise ReleaseError(f"{' '.join(arguments)}: the only option is --offline.")
        version = read_version(ROOT)
        refuse_changes(ROOT)
        with tempfile.TemporaryDirectory(prefix="railyard-release-") as scratch:
            built = build(ROOT, version, Path(scratch))
            if arguments:
                built.append(pack_offline(ROOT, version, built, Path(scratch)))
            publish(built, ROOT / "dist")
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 2
    for path in sorted((ROOT / "dist").iterdir()):
        print(f"dist/{path.name}: {path.stat().st_size:,} bytes")
    return 0


def read_version(root: Path) -> str:
    """Return the version that package and collection have in common.

    Raises:
        ReleaseError: they differ.
    """
    package = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    galaxy = yaml.safe_load((root / COLLECTION / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    if package != galaxy:
        raise ReleaseError(
            f"pyproject.toml has version {package}, {COLLECTION}/galaxy.yml has {galaxy}. "
            "Write the same in both."
        )
    return str(package)


def refuse_changes(root: Path) -> None:
    """Refuse to build what no commit holds.

    Raises:
        ReleaseError: there are changes, or this is no checkout.
    """
    changed = _output(["git", "status", "--porcelain"], root)
    if changed.strip():
        raise ReleaseError(
            f"these files differ from the last commit: {', '.join(_paths(changed))}. Commit them."
        )


def build(root: Path, version: str, scratch: Path) -> list[Path]:
    """Build all files of a release in a scratch folder and return their paths."""
    source, out = scratch / "source", scratch / "out"
    out.mkdir(parents=True)
    _export(root, source)
    stage = scratch / "collection"
    stage_collection(source, stage)
    _run(["ansible-galaxy", "collection", "build", "--output-path", str(out), str(stage)], scratch)
    _run(
        [
            *_PIP,
            "wheel",
            "--no-build-isolation",
            "--no-index",
            "--no-deps",
            "--wheel-dir",
            str(out),
            str(source),
        ],
        scratch,
    )
    bill = list_components(
        version, read_pins((source / PINS).read_text(encoding="utf-8")), sorted(out.iterdir())
    )
    (out / f"railyard-{version}.cdx.json").write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    return sorted(out.iterdir())


def stage_collection(source: Path, stage: Path) -> None:
    """Lay out the collection as users install it: the tree has roles and playbooks at its top level.

    Args:
        source: a checkout without anything that git does not know.
        stage: the folder to make.
    """
    shutil.copytree(source / COLLECTION, stage)
    shutil.copytree(source / "roles", stage / "roles")
    shutil.copytree(source / "playbooks", stage / "playbooks")
    # The only file that moves against those that it names.
    site = (source / "site.yml").read_text(encoding="utf-8")
    (stage / "playbooks" / "site.yml").write_text(
        site.replace("import_playbook: playbooks/", "import_playbook: "), encoding="utf-8"
    )


def read_pins(text: str) -> list[tuple[str, str, list[str]]]:
    """Return name, version and SHA-256 digests of each pinned package of a requirements file."""
    found: list[tuple[str, str, list[str]]] = []
    for line in text.splitlines():
        if pin := _PIN.match(line):
            found.append((pin["name"], pin["version"], []))
        elif found and (digest := _HASH.search(line)):
            found[-1][2].append(digest["digest"])
    return found


def list_components(
    version: str, pins: Iterable[tuple[str, str, list[str]]], files: Iterable[Path]
) -> dict[str, Any]:
    """Return a bill of materials (CycloneDX 1.5): the files of a release and the packages that they need.

    Its serial number follows from the files' digests, so that two builds of the same have the same.
    """
    built = [(path.name, digest(path)) for path in files]
    packages = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name.lower()}@{number}",
            "name": name,
            "version": number,
            "purl": f"pkg:pypi/{name.lower()}@{number}",
        }
        for name, number, _digests in pins
    ]
    own = [
        {
            "type": "file",
            "bom-ref": name,
            "name": name,
            "version": version,
            "hashes": [{"alg": "SHA-256", "content": sha256}],
        }
        for name, sha256 in built
    ]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, "".join(sha256 for _name, sha256 in built))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "railyard",
                "name": "railyard",
                "version": version,
            }
        },
        "components": [*own, *packages],
        "dependencies": [{"ref": "railyard", "dependsOn": [one["bom-ref"] for one in packages]}],
    }


def pack_offline(root: Path, version: str, built: Iterable[Path], scratch: Path) -> Path:
    """Return an archive of the wheel, the collection, and every package that they need, for this Python.

    The packages are those of the pins, with their digests checked; `install.sh` in the archive installs them.
    """
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    pins = root / ("requirements/python3.11.txt" if python == "3.11" else PINS)
    name = f"railyard-offline-{version}-python{python}-{platform.machine()}"
    folder = scratch / name
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    _run(
        [
            *_PIP,
            "download",
            "--require-hashes",
            "--only-binary=:all:",
            "--dest",
            str(wheels),
            "-r",
            str(pins),
        ],
        root,
    )
    for path in built:
        shutil.copy2(path, (wheels if path.suffix == ".whl" else folder) / path.name)
    shutil.copy2(root / "tools" / "install_offline.sh", folder / "install.sh")
    (folder / "python-version").write_text(f"{python}\n", encoding="utf-8")
    members = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = [f"{digest(path)}  {path.relative_to(folder)}" for path in members]
    (folder / "SHA256SUMS").write_text("\n".join(sums) + "\n", encoding="utf-8")
    target = scratch / f"{name}.tar"
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        archive.add(folder, name)
    return target


def publish(files: Iterable[Path], target: Path) -> None:
    """Replace the folder of the last release by these files and their checksums."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for path in files:
        shutil.copy2(path, target / path.name)
    sums = [f"{digest(path)}  {path.name}" for path in sorted(target.iterdir())]
    (target / "SHA256SUMS").write_text("\n".join(sums) + "\n", encoding="utf-8")


def digest(path: Path) -> str:
    """Return a file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _export(root: Path, target: Path) -> None:
    """Copy the files that git knows."""
    for name in _output(["git", "ls-files", "-z"], root).split("\0"):
        if name:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name, follow_symlinks=False)


def _paths(porcelain: str) -> Iterator[str]:
    return (line[3:] for line in porcelain.splitlines())


def _output(argv: list[str], folder: Path) -> str:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"`{' '.join(argv)}` failed in {folder}: {done.stderr.strip()}")
    return done.stdout


def _run(argv: list[str], folder: Path) -> None:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"`{' '.join(argv[:4])}` failed: {(done.stderr or done.stdout).strip()[-2000:]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
