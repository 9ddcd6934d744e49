# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import rail_socket


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
