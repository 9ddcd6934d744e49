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
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.measure import udp_probe
from support.nodes.meeting import free_port


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


PLACE = Place("gpu002", "rail0", "lo", "127.0.0.1")


def test_a_taken_port_and_a_missing_address_are_distinguished() -> None:
    port = free_port()
    with rail_socket.listen(PLACE, port):
        with pytest.raises(MeasurementError) as taken:
            rail_socket.listen(PLACE, port)
        assert taken.value.error_class == "port_taken"
        with pytest.raises(MeasurementError) as missing:
            rail_socket.listen(PLACE._replace(address="192.0.2.1"), port)
        assert missing.value.error_class == "no_address"
        with pytest.raises(MeasurementError) as gone:
            rail_socket.listen(PLACE._replace(netdev="nope0", address="192.0.2.1"), port)
        assert gone.value.error_class == "no_netdev"
        assert gone.value.status == "unmeasured"


def test_a_listener_is_seen_without_a_connection() -> None:
    port = free_port()
    with rail_socket.listen(PLACE, port):
        assert rail_socket.is_listening("127.0.0.1", port)
        assert not rail_socket.is_listening("127.0.0.1", free_port())
        assert not rail_socket.is_listening("127.0.0.2", port)
        assert not rail_socket.is_connected("127.0.0.1", port)
        with socket.create_connection(("127.0.0.1", port)):
            assert rail_socket.is_connected("127.0.0.1", port)


def test_the_kernels_table_is_read_by_words_of_32_bits() -> None:
    head = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    )
    rest = "00000000:00000000 00:00000000 00000000     0        0 14363 1 0"
    four = f"   0: 0200090A:48A8 00000000:0000 0A {rest}\n"
    row = next(rail_socket.parse_tcp_table(head + four))
    assert (socket.inet_ntoa(row.local), row.local_port, row.state, row.inode) == (
        "10.9.0.2",
        18600,
        "0A",
        14363,
    )
    six = four.replace("0200090A", "0100FDFD000000000000000001000000").replace(
        "00000000:0000 0A", "00000000000000000000000000000000:0000 01"
    )
    row = next(rail_socket.parse_tcp_table(head + six))
    assert socket.inet_ntop(socket.AF_INET6, row.local) == "fdfd:1::1"
    assert row.state == "01"
