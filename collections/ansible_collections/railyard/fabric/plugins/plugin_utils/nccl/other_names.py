# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Name the variables that look like NCCL's settings, but are read by builds, images, tests or scripts."""

from __future__ import annotations

import re

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import catalogue

#: Of builds, images and scripts. NCCL's own makefile, CMake's and PyTorch's search for NCCL, NVIDIA's images.
_NAMES = re.compile(
    # Where nccl-tests, PyTorch's extensions, CMake and scripts find NCCL.
    r"NCCL_(?:HOME|ROOT(?:_DIR)?|DIR|PATH|PREFIX"
    # Where they, and TensorFlow's build, find nccl.h and libnccl, and how they link it.
    r"|INC|INCLUDE(?:_DIRS?)?|HDR_PATH|LIB|LIB_?DIR|LIB_PATH|LIBRARY|LIBRARIES|LD_LIBRARY_PATH|LINK_LIBRARY|STATIC"
    # The version, in builds, scripts and nccl.h.
    r"|VER|MAJOR|MINOR|PATCH|VERSION_CODE|SUFFIX"
    # The source that an image builds, or the package that it installs.
    r"|COMMIT|BRANCH|TAG|REPO|PACKAGE"
    # The file of communicator settings, in MLPerf's scripts for NeMo.
    r"|CFG_PATH)\Z"
)
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


def is_of_others(name: str) -> bool:
    """Tell whether a name is read by others than NCCL; one that may be meant for NCCL is not.

    A setting of NCCL or UCX is never one of these. A name with a lower-case letter is a variable of
    the script, unless it is a setting in other letters.
    """
    row = catalogue.find(name)
    if row is not None and row.use != "other":
        return False
    if _NAMES.match(name):
        return True
    if row is not None and not name.startswith("NCCL_TESTS_"):
        return False
    if any(pattern.match(name) for pattern in _PATTERNS):
        return True
    return name != name.upper() and catalogue.find(name.upper()) is None
