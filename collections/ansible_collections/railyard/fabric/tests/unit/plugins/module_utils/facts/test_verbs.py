# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The MTU of RDMA ports through libibverbs. A small library stands in for it: whatever it does, we live."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import verbs
from ansible_collections.railyard.fabric.plugins.module_utils.facts.verbs import Mtu

# Two devices; what the second does when opened is the test's. The whole structure of the newest header is
# written (60 bytes), and what was taken is counted when it is returned.
FAKE_LIBRARY = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static const char *names[] = {"mlx5_0", "mlx5_1"};
static const char *opened;
static int held;
void **ibv_get_device_list(int *count) {
    void **list = calloc(3, sizeof(*list));
    list[0] = (void *)&names[0]; list[1] = (void *)&names[1];
    *count = 2; held++;
    return list;
}
void ibv_free_device_list(void **list) {
    free(list); held--;
    FILE *log = fopen(LOG, "w"); fprintf(log, "%d", held); fclose(log);
}
const char *ibv_get_device_name(void *device) { return *(const char **)device; }
void *ibv_open_device(void *device) {
    opened = *(const char **)device;
    puts("a driver library that prints"); fflush(stdout);
    fputs("and complains\n", stderr);
    if (!strcmp(opened, "mlx5_1")) { WHEN_OPENED; }
    held++;
    return malloc(1);
}
int ibv_close_device(void *context) { free(context); held--; return 0; }
int ibv_query_port(void *context, uint8_t port, void *attributes) {
    int head[3] = {4, 5, port == 2 ? 3 : 5};
    if (port > 2) return 22;
    memset(attributes, 0xff, 60);
    memcpy(attributes, head, sizeof(head));
    return 0;
}
"""
PORTS = [("mlx5_0", 1), ("mlx5_0", 2), ("mlx5_0", 3), ("mlx5_1", 1)]
FIRST = {("mlx5_0", 1): Mtu(4096, 4096), ("mlx5_0", 2): Mtu(1024, 4096)}


@pytest.fixture
def library(tmp_path):
    """Return a function that builds the library."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to build the stand-in for libibverbs with")

    def build(when_opened: str = "(void)0") -> str:
        source, built = tmp_path / "verbs.c", tmp_path / "libverbs.so"
        source.write_text(FAKE_LIBRARY.replace("WHEN_OPENED", when_opened))
        log = f'-DLOG="{tmp_path / "held"}"'
        subprocess.run([compiler, "-shared", "-fPIC", log, "-o", built, source], check=True)
        return str(built)

    return build


def test_each_port_is_queried_and_everything_is_released(library, tmp_path, capfd):
    found = verbs.query(PORTS, library())
    assert found == {**FIRST, ("mlx5_1", 1): Mtu(4096, 4096)}
    assert (tmp_path / "held").read_text() == "0"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("when_opened", ["return 0", "abort()", "*(volatile int *)0 = 1", "_exit(3)"])
def test_a_driver_library_that_fails_takes_nothing_else_away(library, when_opened, capfd):
    assert verbs.query(PORTS, library(when_opened)) == FIRST
    assert capfd.readouterr() == ("", "")


def test_a_device_that_hangs_is_given_up(library):
    start, built = time.monotonic(), library("sleep(600)")
    # Half a second is enough for the first, but where the processor is somebody else's.
    found = verbs.query(PORTS, built, limit_s=0.5) or verbs.query(PORTS, built, limit_s=20)
    assert found == FIRST
    assert time.monotonic() - start < 80
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.parametrize("name", ["libno-such-verbs.so.1", "libc.so.6"])
def test_without_the_library_or_its_functions_there_is_no_answer(name):
    assert verbs.query(PORTS, name) == {}


def test_without_ports_nothing_is_started(monkeypatch):
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a process was started for nothing"))
    assert verbs.query([]) == {}


def test_no_process_to_be_had(monkeypatch):
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert verbs.query(PORTS) == {}
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(
    ("code", "mtu_bytes"), [(1, 256), (2, 512), (3, 1024), (4, 2048), (5, 4096), (0, None), (6, None)]
)
def test_codes_of_enum_ibv_mtu(code, mtu_bytes):
    attributes = struct.pack("=iii", 1, 5, code) + bytes(48)
    assert verbs.decode(attributes) == Mtu(mtu_bytes, 4096)
