# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Name the variables that look like NCCL's settings, but are read by builds, images, tests or scripts."""

from __future__ import annotations

import re

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import catalogue

#: Name -> who reads it. NCCL's own makefile, CMake's and PyTorch's search for NCCL, and NVIDIA's images.
OTHER_NAMES = {
    "NCCL_VERSION": "the version in NVIDIA's CUDA images, and of builds",
    "NCCL_VER": "the version that a script installs",
    "NCCL_HOME": "where builds find NCCL (nccl-tests, PyTorch's extensions)",
    "NCCL_ROOT": "where CMake finds NCCL",
    "NCCL_ROOT_DIR": "where CMake and PyTorch find NCCL",
    "NCCL_DIR": "where builds find NCCL",
    "NCCL_PATH": "where builds find NCCL",
    "NCCL_PREFIX": "where builds find NCCL",
    "NCCL_INSTALL_PATH": "where builds find NCCL (Horovod, TensorFlow)",
    "NCCL_INSTALL_DIR": "where a script installs NCCL",
    "NCCL_SRC_DIR": "where a script builds NCCL",
    "NCCL_INCLUDE": "where builds find nccl.h",
    "NCCL_INCLUDE_DIR": "where CMake and PyTorch find nccl.h",
    "NCCL_INCLUDE_DIRS": "where CMake finds nccl.h",
    "NCCL_INC": "where builds find nccl.h",
    "NCCL_HDR_PATH": "where TensorFlow's build finds nccl.h",
    "NCCL_LIB": "where builds find libnccl",
    "NCCL_LIB_DIR": "where CMake and PyTorch find libnccl",
    "NCCL_LIBDIR": "where builds find libnccl",
    "NCCL_LIBRARY": "where CMake finds libnccl",
    "NCCL_LIBRARIES": "where CMake finds libnccl",
    "NCCL_LIB_PATH": "where builds find libnccl",
    "NCCL_LD_LIBRARY_PATH": "where a script finds libnccl",
    "NCCL_LINK_LIBRARY": "how CMake links libnccl",
    "NCCL_LIB_VERSION": "the version in NVIDIA's CUDA images",
    "NCCL_MAJOR": "the version, in builds and nccl.h",
    "NCCL_MINOR": "the version, in builds and nccl.h",
    "NCCL_PATCH": "the version, in builds and nccl.h",
    "NCCL_VERSION_CODE": "the version, in nccl.h",
    "NCCL_SUFFIX": "the version, in nccl.h",
    "NCCL_COMMIT": "the source that an image builds",
    "NCCL_BRANCH": "the source that an image builds",
    "NCCL_TAG": "the source that an image builds",
    "NCCL_REPO": "the source that an image builds",
    "NCCL_CUDA_VERSION": "the version that a script installs",
    "NCCL_NET_OFI_VERSION": "the version of aws-ofi-nccl that an image builds",
    "NCCL_OFI_VERSION": "the version of aws-ofi-nccl that an image builds",
    "NCCL_CFG_PATH": "the file of communicator settings, in MLPerf's scripts for NeMo",
    "NCCL_STATIC": "how builds link libnccl",
    "NCCL_PACKAGE": "the package that an image installs",
}
_PATTERNS = (
    # Test suites and the scripts around them: NCCL_TESTS_VERSION, NCCL_TEST_PATH, NCCL_BENCHMARK_BIN.
    re.compile(
        r"NCCL_(?:TESTS?|BENCH(?:MARK)?S?|SRC|SOURCE|BUILD|INSTALL|PKG|DOWNLOAD|GIT|GITHUB|PLUGINS?_(?:DIR|PATH|VERSION))(?:_[A-Z0-9_]+)?\Z"
    ),
    # What kind of name it is shows at its end.
    re.compile(
        r"NCCL_[A-Z0-9_]*(?:VERSION|_VER|_URL|_COMMIT|_SHA|_SHA256|_BRANCH|_IMAGE|_HOME|_ROOT|_BIN|_CONTAINER|_TARBALL|_ARCHIVE)\Z"
    ),
    # NVIDIA's CUDA images: NV_LIBNCCL_PACKAGE, NV_LIBNCCL_DEV_PACKAGE_VERSION.
    re.compile(r"NV_LIBNCCL\w*\Z"),
)


def reader_of(name: str) -> str | None:
    """Return who reads a name that is not NCCL's, None where it may be meant for NCCL.

    A setting of NCCL or UCX is never one of these. A name with a lower-case letter is a variable of
    the script, unless it is a setting in other letters.
    """
    row = catalogue.find(name)
    if row is not None and row.use != "other":
        return None
    if name in OTHER_NAMES:
        return OTHER_NAMES[name]
    if row is not None and not name.startswith("NCCL_TESTS_"):
        return None
    if any(pattern.match(name) for pattern in _PATTERNS):
        return "a build, an image or a test suite"
    if name != name.upper() and catalogue.find(name.upper()) is None:
        return "the script itself"
    return None
