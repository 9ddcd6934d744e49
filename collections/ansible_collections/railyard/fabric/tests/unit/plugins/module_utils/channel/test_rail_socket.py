# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel import rail_socket
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.measure import udp_probe


def connection_closed_by_the_server() -> tuple[socket.socket, int]:
    """A real port in TIME_WAIT, made the way a killed server makes it; keep the client's end."""
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    client = socket.create_connection(("127.0.0.1", port))
    accepted, _peer = server.accept()
    accepted.close()
    assert client.recv(1) == b""
    client.close()
    server.close()
    return client, port


def test_a_port_with_a_dead_connection_is_passed_over() -> None:
    _client, port = connection_closed_by_the_server()
    with pytest.raises(OSError, match="in use"):
        socket.socket().bind(("127.0.0.1", port))  # as sockperf does, without SO_REUSEADDR
    chosen = rail_socket.past_closing("127.0.0.1", port)
    assert chosen > port
    with socket.socket() as free:
        free.bind(("127.0.0.1", chosen))


def test_a_port_that_somebody_listens_on_is_not_gone_around() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert rail_socket.past_closing("127.0.0.1", port) == port


def test_a_free_port_is_taken_as_it_is() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert rail_socket.past_closing("127.0.0.1", port) == port


@pytest.mark.skipif(os.geteuid() != 0, reason="SO_RCVBUFFORCE needs root")
def test_a_small_rmem_default_drops_no_jumbo_datagram(monkeypatch: pytest.MonkeyPatch) -> None:
    class Small(socket.socket):
        """A socket as net.core.rmem_default makes it where a site has set it low."""

        def __init__(self, *kind: Any) -> None:
            super().__init__(*kind)
            self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    play: Any = SimpleNamespace(own=Place("gpu001", "rail0", "lo", "127.0.0.1"))
    monkeypatch.setattr(udp_probe.socket, "socket", Small)
    with udp_probe._socket(play) as here, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
        for _number in range(40):
            there.sendto(bytes(8972), here.getsockname())
        here.setblocking(False)
        assert sum(len(here.recv(9000)) for _number in range(40)) == 40 * 8972
    with rail_socket.packet_socket("lo", 0x88B5) as ear:
        assert ear.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) > 1 << 20


def test_without_root_a_buffer_is_as_large_as_the_site_allows() -> None:
    asked = []

    def setsockopt(_level: int, name: int, _bytes: int) -> None:
        asked.append(name)
        if name != socket.SO_RCVBUF:
            raise PermissionError

    sock: Any = SimpleNamespace(setsockopt=setsockopt)
    rail_socket.enlarge_receive_buffer(sock)
    assert asked[-1] == socket.SO_RCVBUF
