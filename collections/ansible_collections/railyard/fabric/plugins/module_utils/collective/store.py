# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the processes of a collective find each other: keys and values, held by the first node.

torch's `TCPStore` listens on all networks of a node without authentication. This one listens on given
addresses, and both sides have to know the job's secret.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import itertools
import json
import secrets
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

# What a line may hold: an address book of all ranks fits many times.
_LONGEST_BYTES = 1 << 20
_GREETING_S = 5.0
_PAUSE_S = 0.2


class StoreError(Exception):
    """The store was not reached, or its other end does not know the secret."""


class Server:
    """Holds the keys until it is closed.

    Args:
        addresses: where it listens, bare IP addresses; one that the node does not have is left out.
        port: the TCP port.
        secret: the job's, which callers have to know.

    Raises:
        OSError: it can listen at none of them.
    """

    def __init__(self, addresses: Sequence[str], port: int, secret: str) -> None:
        self._secret = secret.encode()
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()
        self._sockets: list[socket.socket] = []
        why_not = OSError("no address is given")
        for address in addresses:
            listener = socket.socket(
                socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM
            )
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((address, port))
                listener.listen(1024)
            except OSError as error:
                why_not = error
                listener.close()
                continue
            self._sockets.append(listener)
            threading.Thread(target=self._serve, args=(listener,), daemon=True, name="store").start()
        if not self._sockets:
            raise why_not

    def close(self) -> None:
        """Take no more callers; those that are there end with the process."""
        for listener in self._sockets:
            listener.close()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                caller, _address = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._attend, args=(caller,), daemon=True).start()

    def _attend(self, caller: socket.socket) -> None:
        with caller, contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            caller.settimeout(_GREETING_S)
            caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            lines = caller.makefile("rb")
            mine = secrets.token_hex(16)
            _say(caller, {"nonce": mine})
            said = _hear(lines)
            theirs = str(said["nonce"])
            if not hmac.compare_digest(str(said["proof"]), _proof(self._secret, "caller", mine, theirs)):
                return
            _say(caller, {"proof": _proof(self._secret, "store", mine, theirs)})
            caller.settimeout(None)
            while True:
                _say(caller, {"said": self._do(_hear(lines))})

    def _do(self, asked: Mapping[str, Any]) -> Any:
        do, keys = asked["do"], [str(key) for key in asked["keys"]]
        with self._changed:
            if do == "get":
                self._changed.wait_for(
                    lambda: all(key in self._values for key in keys), timeout=float(asked["wait_s"])
                )
                return [_text(self._values.get(key)) for key in keys]
            if do == "count":
                return len(self._values)
            if do == "delete":
                return self._values.pop(keys[0], None) is not None
            before = self._values.get(keys[0])
            if do == "add":
                value = b"%d" % (int(before or 0) + int(asked["amount"]))
            elif do == "set" or _text(before) == asked.get("expected"):
                value = base64.b64decode(asked["value"])
            else:
                return _text(before)
            self._values[keys[0]] = value
            self._changed.notify_all()
            return _text(value)


class Client:
    """Speaks with the store; each thread by a connection of its own, since a question may wait.

    Args:
        addresses: the store's, tried one after the other, since a rail may be down.
        port: its TCP port.
        secret: the job's.
        wait_s: so long it is called before it counts as not there.
    """

    def __init__(self, addresses: Sequence[str], port: int, secret: str, wait_s: float) -> None:
        self._addresses = list(addresses)
        self._port = port
        self._secret = secret.encode()
        self._deadline = time.monotonic() + wait_s
        self._mine = threading.local()

    def set(self, key: str, value: bytes) -> None:
        """Set a key."""
        self._ask("set", [key], value=_text(value))

    def get(self, keys: Sequence[str], wait_s: float) -> list[bytes | None]:
        """Wait for keys; one that has not come in time is None."""
        said = self._ask("get", keys, wait_s=wait_s)
        return [None if value is None else base64.b64decode(value) for value in said]

    def add(self, key: str, amount: int) -> int:
        """Add to a number, which is 0 at first; return what it is then."""
        return int(base64.b64decode(self._ask("add", [key], amount=amount)))

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        """Set a key where it is as expected (empty: not there), and return what it is then."""
        said = self._ask("swap", [key], expected=_text(expected) or None, value=_text(desired))
        return base64.b64decode(said) if said is not None else expected

    def delete(self, key: str) -> bool:
        """Delete a key; tell whether it was there."""
        return bool(self._ask("delete", [key]))

    def count(self) -> int:
        """Return how many keys there are."""
        return int(self._ask("count", []))

    def _ask(self, do: str, keys: Sequence[str], **more: Any) -> Any:
        if not hasattr(self._mine, "connection"):
            self._mine.connection = self._call()
        connection, lines = self._mine.connection
        try:
            _say(connection, {"do": do, "keys": list(keys), **more})
            return _hear(lines)["said"]
        except (OSError, ValueError, KeyError) as error:
            raise StoreError(f"the first node is gone: {error}") from error

    def _call(self) -> tuple[socket.socket, BinaryIO]:
        for tried, address in enumerate(itertools.cycle(self._addresses), 1):
            try:
                connection = socket.create_connection((address, self._port), timeout=_GREETING_S)
                return self._greet(connection, address)
            except (OSError, ValueError, KeyError) as error:
                # Each was called once: a thread may ask long after the others have come.
                if tried >= len(self._addresses) and time.monotonic() > self._deadline:
                    where = " or ".join(self._addresses)
                    raise StoreError(
                        f"no node of this job answers at {where}, port {self._port}: {error}"
                    ) from error
            time.sleep(_PAUSE_S)
        raise StoreError("no address is given")

    def _greet(self, connection: socket.socket, address: str) -> tuple[socket.socket, BinaryIO]:
        lines = connection.makefile("rb")
        theirs, mine = str(_hear(lines)["nonce"]), secrets.token_hex(16)
        _say(connection, {"nonce": mine, "proof": _proof(self._secret, "caller", theirs, mine)})
        if not hmac.compare_digest(str(_hear(lines)["proof"]), _proof(self._secret, "store", theirs, mine)):
            raise StoreError(f"who answers at {address} does not know this job's secret")
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, lines


def _proof(secret: bytes, who: str, store: str, caller: str) -> str:
    return hmac.new(secret, f"{who}:{store}:{caller}".encode(), hashlib.sha256).hexdigest()


def _say(connection: socket.socket, words: Mapping[str, Any]) -> None:
    connection.sendall(json.dumps(words, separators=(",", ":")).encode() + b"\n")


def _hear(lines: BinaryIO) -> dict[str, Any]:
    line = lines.readline(_LONGEST_BYTES)
    if not line.endswith(b"\n"):
        raise OSError("it hung up")
    words = json.loads(line)
    if not isinstance(words, dict):
        raise ValueError("the message is not an object")
    return words


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode("ascii")
