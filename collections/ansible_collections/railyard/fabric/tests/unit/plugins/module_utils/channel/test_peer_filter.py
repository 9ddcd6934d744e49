# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that listens hears its partner alone, by real sockets on the loopback device."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel import peer_filter, rail_socket

PARTNER, STRANGER = "127.0.0.2", "127.0.0.3"
#: Answers each connection with one letter, at the address that it is given; `::` is for both families.
SERVER = """\
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
server = socket.create_server((sys.argv[1], 0), family=family, dualstack_ipv6=sys.argv[1] == "::")
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(b"x")
    print(connection.recv(1), flush=True)
"""


def can_borrow() -> bool:
    """Tell whether this machine lets a process have another's descriptor; some containers do not."""
    with subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE) as process:
        try:
            with peer_filter._borrowed(process.pid, 0):
                return True
        except OSError:
            return False
        finally:
            process.kill()


needs_kernel = pytest.mark.skipif(not can_borrow(), reason="pidfd_getfd is not allowed here")


@pytest.fixture(params=["127.0.0.1", "0.0.0.0", "::"])
def server(request) -> Iterator[tuple[subprocess.Popen[str], int]]:
    argv = [sys.executable, "-c", SERVER, request.param]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        yield process, int(process.stdout.readline())
        process.kill()


def answer(port: int, source: str, within_s: float) -> bytes | None:
    with socket.socket() as sock:
        sock.bind((source, 0))
        sock.settimeout(within_s)
        try:
            sock.connect(("127.0.0.1", port))
            letter = sock.recv(1)
            sock.sendall(b"y")
            return letter
        except TimeoutError:
            return None


@needs_kernel
def test_the_partner_is_heard_and_no_one_else(server):
    process, port = server
    assert answer(port, STRANGER, 60) == b"x"  # before
    assert peer_filter.confine(process.pid, PARTNER)
    assert answer(port, STRANGER, 1.5) is None
    assert answer(port, "127.0.0.1", 1.5) is None  # the node's own users
    assert answer(port, PARTNER, 60) == b"x"
    # What the partner sends on the connection that was accepted arrives too.
    assert [process.stdout.readline() for _each in range(2)] == ["b'y'\n"] * 2


@needs_kernel
@pytest.mark.parametrize(("peer", "heard"), [("::1", True), ("::2", False), ("127.0.0.1", False)])
def test_addresses_of_ipv6(peer, heard):
    argv = [sys.executable, "-c", SERVER, "::1"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            port = int(process.stdout.readline())
            assert peer_filter.confine(process.pid, peer)
            with socket.socket(socket.AF_INET6) as sock:
                sock.settimeout(60 if heard else 1.5)
                if heard:
                    sock.connect(("::1", port))
                    assert sock.recv(1) == b"x"
                else:
                    with pytest.raises(TimeoutError):
                        sock.connect(("::1", port))
        finally:
            process.kill()


def test_where_the_kernel_does_not_allow_it_that_is_reported(server, monkeypatch):
    process, port = server

    def refuse(_pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert not peer_filter.confine(process.pid, PARTNER)
    assert answer(port, STRANGER, 60) == b"x"


def test_a_program_without_sockets_is_not_called_confined():
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        assert not peer_filter.confine(process.pid, PARTNER)
        process.kill()


def test_who_called_is_identified_by_address(server):
    _process, port = server
    assert rail_socket.callers("127.0.0.1", port) == set()
    with socket.create_connection(("127.0.0.1", port), source_address=(STRANGER, 0)) as sock:
        assert sock.recv(1) == b"x"
        assert rail_socket.callers("127.0.0.1", port) == {sock.getsockname()}
