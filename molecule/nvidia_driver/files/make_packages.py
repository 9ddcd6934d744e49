"""Make stand-ins for NVIDIA packages and a flat repository: python3 make_packages.py debian|ppa FOLDER.

tests/drivers/repository.py has to lie beside it.
"""

import pathlib
import sys

from repository import Module, Package, build, index

VERSIONS = ["535.183.01-1", "535.261.03-1"]
KERNEL = "6.1.0-99-amd64"
# Debian's libcuda1 and the PPA's library both have this file, and neither declares a conflict.
LIBRARY = {"usr/lib/x86_64-linux-gnu/libcuda.so.1": b""}


def package(name, version, depends="", files=None):
    """Return a package of one architecture, as NVIDIA's are."""
    fields = {"Architecture": "amd64", **({"Depends": depends} if depends else {})}
    return Package(name, version, fields, files or {})


def ppa():
    """Return packages as those of Ubuntu's PPA of drivers: the branch in most names, a newer libcuda1."""
    version = "570.195.03-0ubuntu0~gpu22.04.1"
    return [
        package("nvidia-driver-570", version, "nvidia-dkms-570, xserver-xorg-video-nvidia-570"),
        package("nvidia-dkms-570", version, "libnvidia-compute-570"),
        package("libnvidia-compute-570", version, files=LIBRARY),
        package("xserver-xorg-video-nvidia-570", version),
        package("nvidia-smi", version),
        package("libcuda1", version),
    ]


def debian():
    """Return packages as Debian's, in two versions."""
    kernel = {f"lib/modules/{KERNEL}/{name}": b"" for name in ("build/include/stand-in", "modules.order")}
    packages = [
        package("linux-headers-amd64", "99.1", files=kernel),
        package("nvidia-persistenced", "535.171.04-1"),
    ]
    for version in VERSIONS:
        upstream = version.partition("-")[0]
        module = Module("nvidia-current", upstream, "nvidia-current", upstream, "NVIDIA")
        packages += [
            module.package("nvidia-kernel-dkms", version, "dkms, gcc", Architecture="amd64"),
            package("libcuda1", version, files=LIBRARY),
            package("nvidia-smi", version),
        ]
    return packages


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    debs = [build(one, folder) for one in {"debian": debian, "ppa": ppa}[sys.argv[1]]()]
    (folder / "Packages").write_text(index(folder, debs))
