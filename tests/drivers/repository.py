#!/usr/bin/env python3
"""Builds signed package repositories of small real packages, good ones and bad ones, in the vendors' layouts.

    tests/drivers/repository.py FOLDER     what the molecule scenario apt_source uses, under FOLDER

Needs dpkg-deb and gpg. Index and Release files are written here: no tool writes a bad repository.
"""

from __future__ import annotations

import argparse
import email.utils
import hashlib
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

MEBIBYTE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Package:
    """A package to build.

    Attributes:
        fields: More of its control file: Depends, Conflicts, Replaces, Provides.
        files: What it installs, by path without the first slash.
        scripts: Its maintainer scripts by name.
    """

    name: str
    version: str
    fields: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    scripts: dict[str, str] = field(default_factory=dict)


DKMS_CONF = """\
PACKAGE_NAME="{name}"
PACKAGE_VERSION="{version}"
BUILT_MODULE_NAME[0]="{module}"
DEST_MODULE_LOCATION[0]="/updates/dkms"
MAKE[0]="gcc -c -DKERNEL=$kernelver {module}.c -o {module}.ko"
CLEAN="true"
STRIP[0]="no"
AUTOINSTALL="yes"
"""
# What modinfo reads of a module.
SOURCE = """\
#define TAG(name, text) static const char name[] __attribute__((section(".modinfo"), used)) = text
TAG(version, "version={module_version}");
TAG(license, "license={license}");
#define TEXT(word) #word
#define TEXT_OF(word) TEXT(word)
TAG(vermagic, "vermagic=" TEXT_OF(KERNEL) " SMP preempt mod_unload modversions ");
"""
# Builds where headers are, and says nothing where none are, as the vendor's.
POSTINST = """\
#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
dkms add -m {name} -v {version}
for headers in /lib/modules/*/build/include; do
  [ -d "$headers" ] || continue
  kernel=$(basename "${{headers%/build/include}}")
  dkms install -m {name} -v {version} -k "$kernel" --force
done
"""
PRERM = """\
#!/bin/sh
set -e
# A version whose postinst failed is one that dkms does not know.
dkms remove -m {name} -v {version} --all || true
"""


@dataclass(frozen=True)
class Module:
    """A kernel module that DKMS builds: an object file that modinfo can read and no kernel would load.

    Attributes:
        name: Of DKMS' source.
        version: The same.
    """

    name: str
    version: str
    module: str
    module_version: str
    license: str

    def package(self, name: str, version: str, depends: str, **fields: str) -> Package:
        """Return the package that brings its source."""
        source, values = f"usr/src/{self.name}-{self.version}", vars(self)
        files = {
            f"{source}/dkms.conf": DKMS_CONF.format(**values).encode(),
            f"{source}/{self.module}.c": SOURCE.format(**values).encode(),
        }
        scripts = {"postinst": POSTINST.format(**values), "prerm": PRERM.format(**values)}
        return Package(name, version, {"Depends": depends, **fields}, files, scripts)


@dataclass(frozen=True)
class Layout:
    """Where a vendor has its index: the suite as apt's source names it, the component (none if flat)."""

    suite: str
    component: str = ""

    def index_folder(self) -> Path:
        """Return the folder of Packages, seen from the repository's root."""
        if not self.component:
            return Path(self.suite.strip("/") or ".")
        return Path("dists", self.suite, self.component, "binary-amd64")

    def release_folder(self) -> Path:
        """Return the folder of Release."""
        return Path("dists", self.suite) if self.component else self.index_folder()


# DOCA-Host: `deb .../public/repo/doca/VERSION/ubuntu22.04/x86_64/ ./`; MLNX_OFED the same below
# .../mlnx_ofed/;
# CUDA: `deb .../compute/cuda/repos/debian12/x86_64/ /`; the distribution: suite and component.
LAYOUTS = {
    "doca": Layout("./"),
    "mlnx_ofed": Layout("./"),
    "cuda": Layout("/"),
    "distribution": Layout("bookworm", "main"),
}


class Key:
    """A key made for one test, in a folder of its own."""

    def __init__(self, home: Path, name: str) -> None:
        """Make the key."""
        home.mkdir(parents=True, mode=0o700)
        self._gpg = [
            "gpg",
            "--homedir",
            str(home),
            "--batch",
            "--quiet",
            "--passphrase",
            "",
            "--pinentry-mode=loopback",
        ]
        self._run("--quick-generate-key", f"{name} <{name}@example.com>", "rsa2048", "sign", "never")
        listed = self._run("--with-colons", "--list-keys").decode()
        self.fingerprint = next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))
        self.armoured = self._run("--armor", "--export").decode()
        self._home = home

    def sign(self, release: Path) -> None:
        """Write InRelease and Release.gpg beside Release."""
        folder = release.parent
        self._run("--yes", "--clear-sign", "--output", str(folder / "InRelease"), str(release))
        self._run("--yes", "--armor", "--detach-sign", "--output", str(folder / "Release.gpg"), str(release))

    def forget(self) -> None:
        """Stop gpg's agent, which would outlive the test."""
        subprocess.run(["gpgconf", "--homedir", str(self._home), "--kill", "all"], check=False)

    def _run(self, *words: str) -> bytes:
        return subprocess.run([*self._gpg, *words], check=True, capture_output=True).stdout


def build(package: Package, folder: Path) -> Path:
    """Build the package with dpkg-deb into `folder`; return its file."""
    tree = folder / f".{package.name}_{package.version}"
    control = tree / "DEBIAN"
    control.mkdir(parents=True)
    lines = {
        "Package": package.name,
        "Version": package.version,
        "Architecture": "all",
        "Maintainer": "Nobody <nobody@example.com>",
        "Installed-Size": str(-(-sum(map(len, package.files.values())) // 1024)),
        **package.fields,
        "Description": "made for a test",
    }
    (control / "control").write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    for name, text in package.scripts.items():
        (control / name).write_text(text)
        (control / name).chmod(0o755)
    for name, content in package.files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)
    deb = folder / f"{package.name}_{package.version}_all.deb"
    argv = ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", str(tree), str(deb)]
    subprocess.run(argv, check=True, capture_output=True)
    shutil.rmtree(tree)
    return deb


def dkms_source(name: str, version: str) -> Package:
    """Return a package with the source of a kernel module, as the vendors ship it."""
    source = f"usr/src/{name}-{version}"
    module = name.replace("-", "_")
    conf = f'PACKAGE_NAME="{name}"\nPACKAGE_VERSION="{version}"\nBUILT_MODULE_NAME[0]="{module}"\n'
    conf += 'DEST_MODULE_LOCATION[0]="/updates/dkms"\nAUTOINSTALL="yes"\n'
    code = f'#include <linux/module.h>\nMODULE_LICENSE("GPL");\nMODULE_VERSION("{version}");\n'
    files = {
        f"{source}/dkms.conf": conf,
        f"{source}/Makefile": f"obj-m := {module}.o\n",
        f"{source}/{module}.c": code,
    }
    return Package(
        f"{name}-dkms", version, {"Depends": "dkms"}, {path: text.encode() for path, text in files.items()}
    )


def index(root: Path, debs: Iterable[Path]) -> str:
    """Return the text of Packages."""
    records = []
    for deb in sorted(debs):
        control = subprocess.run(
            ["dpkg-deb", "--field", str(deb)], check=True, capture_output=True
        ).stdout.decode()
        content = deb.read_bytes()
        records.append(
            f"{control.strip()}\nFilename: {deb.relative_to(root)}\nSize: {len(content)}\n"
            f"SHA256: {hashlib.sha256(content).hexdigest()}\n"
        )
    return "\n".join(records)


def publish(
    root: Path,
    layout: Layout,
    packages: Iterable[Package],
    key: Key | None,
    valid_until: datetime | None = None,
) -> None:
    """Make a repository in `root`.

    Args:
        root: Where the source's URI leads.
        layout: How its files are arranged.
        packages: What it holds.
        key: What signs it; none leaves it unsigned.
        valid_until: When its Release file expires; none for never, as the vendors' do.
    """
    pool = root / (layout.index_folder() if not layout.component else Path("pool"))
    pool.mkdir(parents=True, exist_ok=True)
    debs = [build(package, pool) for package in packages]
    folder = root / layout.index_folder()
    folder.mkdir(parents=True, exist_ok=True)
    base = root if layout.component else folder
    text = index(base, debs).encode()
    (folder / "Packages").write_bytes(text)
    release = root / layout.release_folder() / "Release"
    name = (folder / "Packages").relative_to(release.parent)
    now = datetime.now(UTC)
    lines = {
        "Origin": "Railyard test",
        "Suite": layout.suite,
        "Architectures": "amd64 all",
        "Date": email.utils.format_datetime(now - timedelta(days=3), usegmt=True),
    }
    if layout.component:
        lines |= {"Codename": layout.suite, "Components": layout.component}
    if valid_until is not None:
        lines["Valid-Until"] = email.utils.format_datetime(valid_until, usegmt=True)
    head = "".join(f"{field}: {value}\n" for field, value in lines.items())
    release.write_text(f"{head}SHA256:\n {hashlib.sha256(text).hexdigest()} {len(text)} {name}\n")
    if key is not None:
        key.sign(release)


def driver(version: str) -> list[Package]:
    """Return what stands for a vendor's driver: a package that pulls a library of exactly its version."""
    return [
        Package(
            "railyard-driver",
            version,
            {"Depends": f"railyard-library (= {version})"},
            {"opt/driver": version.encode()},
        ),
        Package("railyard-library", version, {}, {"opt/library": version.encode()}),
    ]


def scenario_packages() -> list[Package]:
    """Return the good repository's packages: versions, a conflict, one too big, one whose script fails."""
    return [
        *driver("1.0"),
        *driver("2.0"),
        Package("railyard-old-stack", "1.0", {}, {"opt/stack": b"old"}),
        Package(
            "railyard-new-stack",
            "1.0",
            {"Conflicts": "railyard-old-stack", "Replaces": "railyard-old-stack"},
            {"opt/stack": b"new"},
        ),
        # Its size is not in its control file, as with modules that are built on the node.
        Package("railyard-big", "1.0", {"Installed-Size": "1"}, {"opt/small/big": bytes(4 * MEBIBYTE_BYTES)}),
        Package("railyard-huge", "1.0", {"Installed-Size": str(1 << 34)}, {"opt/huge": b""}),
        Package("railyard-broken", "1.0", {"Depends": "railyard-driver (= 2.0)"}, {"opt/broken": b""},
                {"postinst": "#!/bin/sh\necho 'Failed to fetch the sources' >&2\nexit 1\n"}),
    ]  # fmt: skip


def make_all(folder: Path) -> None:
    """Make the repositories of the scenario, the keys, and the fingerprints in files beside them."""
    keys = {name: Key(folder / "gpg" / name, name) for name in ("vendor", "stranger")}
    for name, key in keys.items():
        (folder / f"{name}.asc").write_text(key.armoured)
        (folder / f"{name}.fingerprint").write_text(key.fingerprint)
    vendor, good = keys["vendor"], scenario_packages()
    for name, layout in LAYOUTS.items():
        publish(folder / "repositories" / name, layout, driver("1.0"), vendor)
    past = datetime.now(UTC) - timedelta(days=1)
    flat = LAYOUTS["doca"]
    publish(folder / "repositories/good", flat, good, vendor)
    publish(folder / "repositories/stranger", flat, driver("1.0"), keys["stranger"])
    publish(folder / "repositories/expired", flat, driver("1.0"), vendor, valid_until=past)
    publish(folder / "repositories/unsigned", flat, driver("1.0"), None)
    publish(folder / "repositories/changed", flat, driver("1.0"), vendor)
    release = folder / "repositories/changed/InRelease"
    release.write_text(release.read_text().replace("Origin: Railyard test", "Origin: Somebody else"))
    # What a mirror serves, and what it serves later: lists of the first name a file that the second has not.
    for when, version in (("earlier", "1.0"), ("later", "1.1")):
        publish(folder / "repositories" / when, flat, [Package("railyard-moved", version)], vendor)
    with tarfile.open(folder / "bundle.tar", "w") as bundle:
        bundle.add(folder / "repositories/doca", arcname=".")
    digest = hashlib.sha256((folder / "bundle.tar").read_bytes()).hexdigest()
    (folder / "bundle.sha256").write_text(digest)
    with tarfile.open(folder / "repositories.tar", "w") as archive:
        archive.add(folder / "repositories", arcname=".")
    for key in keys.values():
        key.forget()


def main(scenario: str, make: Callable[[Path], None]) -> None:
    """Make a molecule scenario's repositories in the folder that the command line names, anew."""
    parser = argparse.ArgumentParser(description=f"Make the repositories of molecule scenario {scenario}.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make(folder)


if __name__ == "__main__":
    main("apt_source", make_all)
