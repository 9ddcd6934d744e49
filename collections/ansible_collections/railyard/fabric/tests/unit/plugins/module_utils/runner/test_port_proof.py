# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ends that meet over management: each proves its port, and both refuse alike. And who is placed there."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rendezvous import Channel, ChannelClosed
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.measure import perftest_bw, rdma_port
from ansible_collections.railyard.fabric.plugins.module_utils.measure.rdma_port import RdmaPort
from ansible_collections.railyard.fabric.plugins.module_utils.runner import port_proof
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import work_order
from support.nodes.tool_session import RDMA_POLICY, PerftestSession

GUIDS = {"dgx01": "b83f:d203:00a1:0000", "dgx02": "b83f:d203:00a2:0000"}
PLACES = {
    name: Place(name, "rail0", "", f"192.168.0.{number}", management=True)
    for number, name in enumerate(GUIDS, 1)
}


def session_of(name: str, peer: str, boot_id: str) -> Any:
    """Return a meeting that has heard of its partner's boot."""
    context = SimpleNamespace(
        rails={"rail0": {"hca": "mlx5_0:1"}},
        boot_id=f"boot-{name}",
        waits=SimpleNamespace(answer_s=3.0),
        order={},
    )
    return SimpleNamespace(run_context=context, place=PLACES[name], peer=peer, hello={"boot_id": boot_id})


def expect(monkeypatch: pytest.MonkeyPatch, expected: dict[str, Any]) -> None:
    """Let the facts have these GUIDs."""
    rails = {name: {"rail0": {"port_guid": guid}} for name, guid in expected.items()}
    monkeypatch.setattr(work_order, "rails_of", lambda _order, node: rails[node])


def meet(monkeypatch: pytest.MonkeyPatch, seen: dict[str, Any], expected: dict[str, Any]) -> list[Any]:
    """Let two nodes exchange; `seen` is what each reads of its port, `expected` what its facts reported."""

    def find(place: Place, hca: str | None) -> RdmaPort:
        found = seen[place.host]
        if isinstance(found, MeasurementError):
            raise found
        return RdmaPort("mlx5_0", 1, None, None, None, found)

    expect(monkeypatch, expected)
    monkeypatch.setattr(rdma_port, "find", find)
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _address = server.accept()

    def one(name: str, peer: str, sock: socket.socket) -> Any:
        try:
            return port_proof.exchange(
                session_of(name, peer, f"boot-{peer}"), Channel(sock, threading.Event())
            )
        except MeasurementError as failure:
            return failure

    with near, far, ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(one, "dgx01", "dgx02", near), pool.submit(one, "dgx02", "dgx01", far)]
        return [end.result(10) for end in ends]


def test_both_learn_the_others_port(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = meet(monkeypatch, GUIDS, GUIDS)
    assert first == {"port_guid": GUIDS["dgx01"], "peer_port_guid": GUIDS["dgx02"]}
    assert second == {"port_guid": GUIDS["dgx02"], "peer_port_guid": GUIDS["dgx01"]}


@pytest.mark.parametrize(
    ("seen", "expected", "cause"),
    [
        ({**GUIDS, "dgx02": "b83f:d203:00ff:0000"}, GUIDS, "guid_differs"),
        ({**GUIDS, "dgx02": GUIDS["dgx01"]}, GUIDS, "guid_differs"),
        ({**GUIDS, "dgx02": None}, GUIDS, "guid_differs"),
        (GUIDS, {**GUIDS, "dgx02": None}, "guid_unknown"),
        ({**GUIDS, "dgx02": None}, {**GUIDS, "dgx02": None}, "guid_unknown"),
        ({**GUIDS, "dgx02": MeasurementError("hca_missing", "gone", "dgx02", "look")}, GUIDS, "hca_missing"),
    ],
)
def test_a_port_that_one_end_does_not_accept_is_refused_by_both(
    monkeypatch: pytest.MonkeyPatch, seen: dict[str, Any], expected: dict[str, Any], cause: str
) -> None:
    found = meet(monkeypatch, seen, expected)
    assert [one.error_class for one in found] == [cause, cause]
    assert {one.host for one in found} == {"dgx02"}
    assert {one.status for one in found} == {"unmeasured"}


def test_a_partner_of_another_boot_is_not_the_one_that_was_met(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = {"t": "port", "error": None, "node": "dgx02", "boot_id": "later", "port_guid": GUIDS["dgx02"]}
    monkeypatch.setattr(
        rdma_port, "find", lambda place, hca: RdmaPort("mlx5_0", 1, None, None, None, GUIDS["dgx01"])
    )

    class Partner:
        def __init__(self) -> None:
            self.said = [theirs, {"t": "port_seen", "error": None}]
            self.heard: list[dict[str, Any]] = []

        def send(self, message: dict[str, Any]) -> None:
            self.heard.append(message)

        def expect(self, kind: str, _timeout_s: float) -> dict[str, Any]:
            message = self.said.pop(0)
            if message["t"] != kind:
                raise ChannelClosed(kind)
            return message

    partner: Any = Partner()
    expect(monkeypatch, GUIDS)
    with pytest.raises(MeasurementError, match="later as boot_id"):
        port_proof.exchange(session_of("dgx01", "dgx02", "boot"), partner)
    assert partner.heard[-1]["error"]["class"] == "guid_differs"


def order(transport: str = "infiniband", **management: Any) -> dict[str, Any]:
    rails: list[dict[str, Any]] = [{"name": "rail0", "hca": "mlx5_0:1"}]
    if transport == "roce":
        rails[0].update(netdev="ens6", subnet="10.0.1.0/24")
    entry = {"name": "dgx01", "node_index": 1, "scalable_unit": None, "rail_overrides": {}, "fabric": 0}
    if management:
        entry["management"] = management
    return {"fabrics": [{"transport": transport, "mtu": 9000, "rails": rails}], "roster": [entry]}


@pytest.mark.parametrize("transport", ["infiniband", "efa"])
def test_the_order_says_where_a_node_without_ip_is_met_and_which_port_it_has(transport: str) -> None:
    said = order(transport, address="192.168.0.1", why_not=None, port_guids={"rail0": GUIDS["dgx01"]})
    rail = work_order.rails_of(said, "dgx01")["rail0"]
    assert (rail["ip"], rail["management"], rail["port_guid"]) == (None, "192.168.0.1", GUIDS["dgx01"])
    unknown = work_order.rails_of(order(address=None, why_not="no", port_guids={}), "dgx01")["rail0"]
    assert (unknown["management"], unknown["why_not"], unknown["port_guid"]) == (None, "no", None)
    # An order of an older controller says nothing: then nothing is known.
    assert work_order.rails_of(order(), "dgx01")["rail0"]["management"] is None


def test_a_rail_with_an_address_is_met_nowhere_else() -> None:
    said = order("roce", address="192.168.0.1", why_not=None, port_guids={})
    assert "management" not in work_order.rails_of(said, "dgx01")["rail0"]


def test_perftest_names_the_port_alone_and_meets_over_management() -> None:
    play = PerftestSession(port=RdmaPort("mlx5_0", 1, None, None, None, GUIDS["dgx01"]))
    play.own, play.peer_address = PLACES["dgx01"], "192.168.0.2"
    argv = perftest_bw.Bandwidth("ib_write_bw").command(
        play, ["-s", str(RDMA_POLICY["rdma_message_bytes"])], False
    )
    assert argv[:5] == ["ib_write_bw", "-d", "mlx5_0", "-i", "1"]
    assert "-x" not in argv
    assert argv[-3:] == ["--source_ip", "192.168.0.1", "192.168.0.2"]


def test_a_port_that_turned_to_ethernet_is_not_the_rails(tmp_path: Path) -> None:
    port = tmp_path / "class/infiniband/mlx5_0/ports/1"
    (port / "gids").mkdir(parents=True)
    (port / "link_layer").write_text("InfiniBand\n")
    (port / "gids/0").write_text("fe80:0000:0000:0000:b83f:d203:00a1:0000\n")
    reader = Reader(str(tmp_path))
    assert rdma_port.find(PLACES["dgx01"], "mlx5_0:1", reader).port_guid == GUIDS["dgx01"]
    (port / "link_layer").write_text("Ethernet\n")
    with pytest.raises(MeasurementError) as found:
        rdma_port.find(PLACES["dgx01"], "mlx5_0:1", reader)
    assert found.value.error_class == "link_layer_wrong"
