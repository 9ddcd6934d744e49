"""Make stand-ins for NVIDIA packages and a flat repository: python3 make_packages.py debian|ppa FOLDER."""

import hashlib
import pathlib
import subprocess
import sys
import tempfile

VERSIONS = ["535.183.01-1", "535.261.03-1"]
KERNEL = "6.1.0-99-amd64"
DKMS_CONF = """\
PACKAGE_NAME="nvidia-current"
PACKAGE_VERSION="{upstream}"
BUILT_MODULE_NAME[0]="nvidia-current"
DEST_MODULE_LOCATION[0]="/updates/dkms"
MAKE[0]="gcc -c -DKERNEL=$kernelver nvidia-current.c -o nvidia-current.ko"
CLEAN="true"
STRIP[0]="no"
AUTOINSTALL="yes"
"""
# What modinfo reads of a module.
SOURCE = """\
#define TAG(name, text) static const char name[] __attribute__((section(".modinfo"), used)) = text
TAG(version, "version={upstream}");
TAG(license, "license=NVIDIA");
#define TEXT(word) #word
#define TEXT_OF(word) TEXT(word)
TAG(vermagic, "vermagic=" TEXT_OF(KERNEL) " SMP preempt mod_unload modversions ");
"""
POSTINST = """\
#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
dkms add -m nvidia-current -v {upstream}
for build in /lib/modules/*/build; do
  [ -d "$build" ] || continue
  kernel=$(basename "$(dirname "$build")")
  dkms install -m nvidia-current -v {upstream} -k "$kernel" --force
done
"""
PRERM = """\
#!/bin/sh
set -e
# A version whose postinst failed is one that dkms does not know.
dkms remove -m nvidia-current -v {upstream} --all || true
"""


def build(folder, name, version, depends="", files=None, scripts=None):
    """Make one package."""
    with tempfile.TemporaryDirectory() as root:
        tree = pathlib.Path(root)
        tree.chmod(0o755)
        control = tree / "DEBIAN/control"
        control.parent.mkdir()
        control.write_text(
            f"Package: {name}\nVersion: {version}\nArchitecture: amd64\n"
            "Maintainer: Railyard <railyard@example.org>\n"
            + (f"Depends: {depends}\n" if depends else "")
            + f"Description: stand-in for {name}\n"
        )
        for path, text in (files or {}).items():
            file = tree / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        for script, text in (scripts or {}).items():
            file = tree / "DEBIAN" / script
            file.write_text(text)
            file.chmod(0o755)
        deb = folder / f"{name}_{version}_amd64.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root, str(deb)], check=True)
    return deb


def ppa(folder):
    """Make packages as those of Ubuntu's PPA of drivers: the branch in most names, a newer libcuda1."""
    version = "570.195.03-0ubuntu0~gpu22.04.1"
    # Debian's libcuda1 has this file as well, and neither declares a conflict.
    library = {"usr/lib/x86_64-linux-gnu/libcuda.so.1": ""}
    return [
        build(folder, "nvidia-driver-570", version, depends="nvidia-dkms-570, xserver-xorg-video-nvidia-570"),
        build(folder, "nvidia-dkms-570", version, depends="libnvidia-compute-570"),
        build(folder, "libnvidia-compute-570", version, files=library),
        build(folder, "xserver-xorg-video-nvidia-570", version),
        build(folder, "nvidia-smi", version),
        build(folder, "libcuda1", version),
    ]


def debian(folder):
    """Make packages as Debian's, in two versions."""
    debs = [
        build(
            folder,
            "linux-headers-amd64",
            "99.1",
            files={
                f"lib/modules/{KERNEL}/build/include/stand-in": "",
                f"lib/modules/{KERNEL}/modules.order": "",
            },
        ),
        build(folder, "nvidia-persistenced", "535.171.04-1"),
    ]
    for version in VERSIONS:
        upstream = version.partition("-")[0]
        debs.append(
            build(
                folder,
                "nvidia-kernel-dkms",
                version,
                depends="dkms, gcc",
                files={
                    f"usr/src/nvidia-current-{upstream}/dkms.conf": DKMS_CONF.format(upstream=upstream),
                    f"usr/src/nvidia-current-{upstream}/nvidia-current.c": SOURCE.format(upstream=upstream),
                },
                scripts={
                    "postinst": POSTINST.format(upstream=upstream),
                    "prerm": PRERM.format(upstream=upstream),
                },
            )
        )
        library = {"usr/lib/x86_64-linux-gnu/libcuda.so.1": ""}
        debs += [build(folder, "libcuda1", version, files=library), build(folder, "nvidia-smi", version)]
    return debs


def main():
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for deb in {"debian": debian, "ppa": ppa}[sys.argv[1]](folder):
        argv = ["dpkg-deb", "--field", str(deb)]
        control = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()
        size_bytes = deb.stat().st_size
        entries.append(f"{control}\nFilename: ./{deb.name}\nSize: {size_bytes}\nSHA256: {digest}\n")
    (folder / "Packages").write_text("\n".join(entries))


if __name__ == "__main__":
    main()
