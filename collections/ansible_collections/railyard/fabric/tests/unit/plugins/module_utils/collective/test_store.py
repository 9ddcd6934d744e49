"""The meeting place of a collective's processes: what is kept, who waits, and who is refused."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.collective import store

# Guards against hanging alone: the tests hold where any process sleeps for ten seconds at any moment.
LONG_S, SOON_S = 600.0, 60.0
SECRET = "0123456789abcdef" * 2


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def client(port):
    server = store.Server(["192.0.2.1", "127.0.0.1"], port, SECRET)
    # Of the rails the first is down here, the second at the other end.
    yield store.Client(["127.0.0.2", "127.0.0.1"], port, SECRET, SOON_S)
    server.close()


def test_who_waits_for_a_key_gets_it_once_another_sets_it(client, port):
    other = store.Client(["127.0.0.1"], port, SECRET, SOON_S)
    threading.Timer(0.2, lambda: other.set("node/b", b"\x00\xff")).start()
    begun = time.monotonic()
    assert client.get(["node/b"], LONG_S) == [b"\x00\xff"]
    assert time.monotonic() - begun < SOON_S
    assert client.get(["node/b", "node/c"], 0.1) == [b"\x00\xff", None]


def test_a_question_that_waits_keeps_no_other_thread(client):
    threading.Thread(target=client.get, args=(["never"], LONG_S), daemon=True).start()
    time.sleep(0.5)
    begun = time.monotonic()
    client.set("a", b"1")
    assert time.monotonic() - begun < SOON_S


def test_a_thread_that_asks_late_calls_at_each_address_all_the_same(client, port):
    late = store.Client(["127.0.0.2", "127.0.0.1"], port, SECRET, -1)
    assert late.count() == 0


def test_numbers_and_exchanges_are_torchs(client):
    assert (client.add("n", 2), client.add("n", 3), client.get(["n"], 0)) == (2, 5, [b"5"])
    # An empty expectation is a key that is not there; else the value stays and is returned.
    assert client.compare_set("k", b"", b"mine") == b"mine"
    assert client.compare_set("k", b"", b"yours") == b"mine"
    assert client.compare_set("k", b"mine", b"yours") == b"yours"
    assert (client.delete("k"), client.delete("k"), client.count()) == (True, False, 1)


def test_a_node_that_does_not_know_the_secret_is_heard_by_neither_side(client, port):
    with pytest.raises(store.StoreError, match="no node of this job"):
        store.Client(["127.0.0.1"], port, "another" * 6, 0.1).set("a", b"1")
    assert client.count() == 0

    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()

        def pose():
            caller, _address = stranger.accept()
            caller.sendall(b'{"nonce": "00"}\n')
            caller.recv(1000)
            caller.sendall(b'{"proof": "00"}\n')

        threading.Thread(target=pose, daemon=True).start()
        with pytest.raises(store.StoreError, match="does not know this job's secret"):
            store.Client(["127.0.0.1"], stranger.getsockname()[1], SECRET, 0.1).set("a", b"1")


def test_where_no_one_listens_it_is_called_until_the_time_is_up(port):
    begun = time.monotonic()
    with pytest.raises(store.StoreError, match=f"port {port}"):
        store.Client(["127.0.0.1"], port, SECRET, 0.5).count()
    assert 0.5 <= time.monotonic() - begun < SOON_S
