#!/usr/bin/env python3
"""Builds repositories with stand-ins for the vendors' RDMA stacks, and for the kernel's packages.

    tests/drivers/rdma_repository.py FOLDER     what the molecule scenario rdma_provider uses, under FOLDER

Names, dependencies, DKMS source and unit are those of DOCA-Host and MLNX_OFED; the module is an object file
that modinfo can read and no kernel would load.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

from repository import LAYOUTS, Key, Module, Package, main, publish

KERNEL, NEXT_KERNEL = "6.8.0-60-generic", "6.8.0-61-generic"
# Version of the metapackage → of the kernel part, as the vendor numbers both.
RELEASES = {
    "3.1.0": "25.07.OFED.25.07.0.9.7.1",
    "3.2.0": "25.10.OFED.25.10.1.2.8.1",
    "3.3.0": "26.01.OFED.26.01.1.0.0.1",
    "24.10-3.2.5.0": "24.10.OFED.24.10.3.2.5.1",
}
# "Loads" what is installed into the tree that stands for the node's /sys.
UNIT = """\
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'modinfo -k {kernel} -F version mlx5_core > /opt/bus/sys/module/mlx5_core/version'
"""
HEADERS_POSTINST = """\
#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
hooks=/etc/kernel/header_postinst.d
[ ! -d "$hooks" ] || run-parts --exit-on-error --arg={kernel} "$hooks"
"""


def module_version(part: str) -> str:
    """Return the version that the modules say they have: `25.07.OFED.25.07.0.9.7.1` is 25.07-0.9.7."""
    numbers = part.split(".OFED.")[1].split(".")
    return f"{'.'.join(numbers[:2])}-{'.'.join(numbers[2:5])}"


def stack(meta: str, version: str, more: str = "") -> list[Package]:
    """Return a vendor's stack: metapackage, DKMS sources, and the tools that have the unit."""
    part = RELEASES[version]
    module = Module("mlnx-ofed-kernel", part, "mlx5_core", module_version(part), "Dual BSD/GPL")
    return [
        Package(meta, version, {"Depends": f"mlnx-ofed-kernel-dkms (= {part}-1){more}"}),
        module.package(
            "mlnx-ofed-kernel-dkms", f"{part}-1", f"dkms, gcc, mlnx-ofed-kernel-utils (= {part}-1)"
        ),
        Package(
            "mlnx-ofed-kernel-utils",
            f"{part}-1",
            {},
            {"lib/systemd/system/openibd.service": UNIT.format(kernel=KERNEL).encode()},
        ),
    ]


def kernel(release: str, version: str) -> list[Package]:
    """Return a kernel with its headers, and the metapackages of its flavour that bring both."""
    folder = f"lib/modules/{release}"
    return [
        Package(f"linux-image-{release}", version, {}, {f"{folder}/modules.order": b""}),
        Package(
            f"linux-headers-{release}",
            version,
            {},
            {f"{folder}/build/include/stand-in": b""},
            {"postinst": HEADERS_POSTINST.format(kernel=release)},
        ),
        Package("linux-image-railyard", version, {"Depends": f"linux-image-{release}"}),
        Package("linux-headers-railyard", version, {"Depends": f"linux-headers-{release}"}),
    ]


def make_all(folder: Path) -> None:
    """Make the repositories, the key, and its fingerprint in a file beside it."""
    key = Key(folder / "gpg", "vendor")
    (folder / "vendor.asc").write_text(key.armoured)
    (folder / "vendor.fingerprint").write_text(key.fingerprint)
    contents = {
        "doca": [
            *stack("doca-ofed", "3.1.0"),
            *stack("doca-ofed", "3.2.0"),
            *stack("doca-ofed", "3.3.0", ", mlnx-fw-updater"),
            Package("mlnx-fw-updater", "26.01-1.0.0.0", {}, {"opt/firmware": b"written"}),
        ],
        "mlnx_ofed": stack("mlnx-ofed-all", "24.10-3.2.5.0"),
        "kernel": kernel(KERNEL, "60.1"),
        "next_kernel": kernel(NEXT_KERNEL, "61.1"),
    }
    for name, packages in contents.items():
        publish(folder / "repositories" / name, LAYOUTS["doca"], packages, key)
    with tarfile.open(folder / "repositories.tar", "w") as archive:
        archive.add(folder / "repositories", arcname=".")
    key.forget()


if __name__ == "__main__":
    main("rdma_provider", make_all)
