# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The protocol by which two runners authenticate each other over the rail under test, and exchange messages.

The dialer sends its names and a nonce, the answerer proves the run's secret with both nonces, the dialer does
the same. The two nonces give a key; every later line has an HMAC over its direction, number and text, so that
a line from another host, from another run, or sent twice ends the connection. One JSON object per line.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
import select
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

PROTOCOL = 1
_LONGEST_LINE_BYTES = 4 << 20
# The longest message before authentication, which only has names.
_LONGEST_GREETING_BYTES = 8 << 10
# How soon a wait notices that the runner has to stop; each look costs CPU time of the node under test.
_SLICE_S = 1.0
# Lines are short; a partner whose kernel accepts none for this long has stopped reading.
_SEND_S = 10.0


class ChannelClosed(Exception):  # noqa: N818 - named for what has happened
    """The connection is over: the partner closed it or is silent, or a line is damaged."""


class SendTimeout(ChannelClosed):
    """The partner did not read in time, and the buffer of its kernel is full."""


class NotProtocol(ChannelClosed):
    """A line that no runner sends."""


class UnknownPeer(Exception):  # noqa: N818 - named for who answers
    """A peer that does not know the run's secret or does not use the protocol."""


class Cancelled(Exception):  # noqa: N818 - no error: it was requested
    """The runner has to stop while it waits."""


def raise_if_stopped(stop: threading.Event) -> None:
    """Raise `Cancelled` if the runner has to stop."""
    if stop.is_set():
        raise Cancelled()


class Terms(NamedTuple):
    """What both sides must agree on before they exchange messages."""

    run: str
    secret: str
    dialler: str
    answerer: str
    rail: str


class Channel:
    """A connection with an authenticated partner."""

    def __init__(self, sock: socket.socket, stop: threading.Event) -> None:
        self._sock = sock
        self._stop = stop
        self._pending = b""
        self._key: bytes | None = None
        self._sent = 0
        self._received = 0
        self._side = "dial"
        self.remote = str(sock.getpeername()[0])

    def send(self, message: Mapping[str, Any], within_s: float = _SEND_S) -> None:
        """Send one message.

        Raises:
            SendTimeout: the partner did not read all of it in time.
            ChannelClosed: the partner is gone.
        """
        text = json.dumps(message, separators=(",", ":"), sort_keys=True).encode()
        line = text
        if self._key is not None:
            line = self._seal(self._side, self._sent, text) + b" " + text
            self._sent += 1
        try:
            self._sock.settimeout(within_s)
            self._sock.sendall(line + b"\n")
            self._sock.settimeout(_SEND_S)
        except (socket.timeout, BlockingIOError) as error:  # noqa: UP041 - in 3.9 it is no TimeoutError
            raise SendTimeout(f"{self.remote} read nothing for {within_s:g} s") from error
        except OSError as error:
            raise ChannelClosed(f"could not send to {self.remote}: {error}") from error

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """Wait for one message.

        Raises:
            ChannelClosed: nothing came in time, the partner is gone, or the line is damaged or forged.
            Cancelled: the runner has to stop.
        """
        line = self._line(time.monotonic() + timeout_s, timeout_s)
        if self._key is not None:
            seal, _space, line = line.partition(b" ")
            other = "answer" if self._side == "dial" else "dial"
            if not hmac.compare_digest(seal, self._seal(other, self._received, line)):
                raise ChannelClosed(f"a line from {self.remote} has no valid HMAC of this run")
            self._received += 1
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise NotProtocol(f"a line from {self.remote} is not JSON: {line[:80]!r}") from error
        if not isinstance(message, dict):
            raise NotProtocol(f"a line from {self.remote} is not an object: {line[:80]!r}")
        return message

    def expect(self, kind: str, timeout_s: float) -> dict[str, Any]:
        """Wait for a message whose `t` is `kind`.

        Raises:
            ChannelClosed: as `receive`, and when another kind comes.
        """
        message = self.receive(timeout_s)
        if message.get("t") != kind:
            raise ChannelClosed("{} sent {!r} instead of {!r}".format(self.remote, message.get("t"), kind))
        return message

    def close(self) -> None:
        """Close the connection; the partner notices at once."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def seal_with(self, key: bytes, side: str) -> None:
        """Add an HMAC to every line from here on; `side` is `dial` or `answer`."""
        self._key = key
        self._side = side

    def _seal(self, side: str, number: int, text: bytes) -> bytes:
        if self._key is None:
            raise RuntimeError("a line needs an HMAC before there is a key")
        prefix = f"{side}:{number}:".encode()
        return hmac.new(self._key, prefix + text, hashlib.sha256).hexdigest().encode()

    def _line(self, deadline: float, timeout_s: float) -> bytes:
        longest = _LONGEST_GREETING_BYTES if self._key is None else _LONGEST_LINE_BYTES
        while b"\n" not in self._pending:
            raise_if_stopped(self._stop)
            left = deadline - time.monotonic()
            try:
                # Read after the deadline too: this process may have been the one that was delayed.
                if not select.select([self._sock], [], [], min(max(left, 0.0), _SLICE_S))[0]:
                    if left <= 0:
                        raise ChannelClosed(f"{self.remote} sent nothing for {timeout_s:.0f} s")
                    continue
                piece = self._sock.recv(min(1 << 16, longest - len(self._pending)))
            except (OSError, ValueError) as error:
                raise ChannelClosed(f"the connection to {self.remote} broke: {error}") from error
            if not piece:
                raise ChannelClosed(f"{self.remote} closed the connection")
            self._pending += piece
            if len(self._pending) >= longest and b"\n" not in self._pending:
                raise NotProtocol(f"{self.remote} sent a line that is too long")
        line, _newline, self._pending = self._pending.partition(b"\n")
        return line


def dial(channel: Channel, terms: Terms, purpose: Mapping[str, Any], timeout_s: float) -> None:
    """Authenticate to the answerer and have it authenticate; afterwards every line has an HMAC.

    Args:
        channel: a new connection.
        terms: the names that both must agree on.
        purpose: what the connection is for; the answerer reads it, and the proof covers it.
        timeout_s: how long each answer may take.

    Raises:
        UnknownPeer: the answer is not from the named node of this run.
        ChannelClosed: no answer came.
    """
    ours = secrets.token_hex(16)
    channel.send(
        {
            "railyard": PROTOCOL,
            "run": terms.run,
            "from": terms.dialler,
            "to": terms.answerer,
            "rail": terms.rail,
            "nonce": ours,
            "purpose": dict(purpose),
        }
    )
    answer = _receive_first(channel, timeout_s, "answers")
    if answer.get("railyard") != PROTOCOL:
        raise UnknownPeer(
            "speaks Railyard protocol {!r}, not {}".format(answer.get("railyard"), PROTOCOL)
            if "railyard" in answer
            else "does not speak Railyard's protocol"
        )
    theirs = str(answer.get("nonce", ""))
    if answer.get("from") != terms.answerer or answer.get("run") != terms.run:
        raise UnknownPeer("reports the name {!r} in run {!r}".format(answer.get("from"), answer.get("run")))
    if not _is_proof(answer.get("proof"), _proof(terms, "answer", ours, theirs, purpose)):
        # Sent before closing: silence could also mean a busy partner.
        with contextlib.suppress(ChannelClosed):
            channel.send({"proof": ""})
        raise UnknownPeer(f"does not know the secret of run {terms.run}")
    channel.send({"proof": _proof(terms, "dial", ours, theirs, purpose)})
    channel.seal_with(_session_key(terms, ours, theirs), "dial")


def answer(
    channel: Channel, run: str, secret: str, own_name: str, rails: Sequence[str], timeout_s: float
) -> dict[str, Any]:
    """Answer a caller: authenticate, have it authenticate; return its first message.

    `rails` are those of this address: one, or on the management network all without IP.

    Raises:
        UnknownPeer: the caller is not of this run or does not use the protocol.
        ChannelClosed: the caller disconnected or is silent.
    """
    call = _receive_first(channel, timeout_s, "calls")
    if call.get("railyard") != PROTOCOL:
        raise UnknownPeer(f"does not speak Railyard's protocol {PROTOCOL}")
    rail = str(call.get("rail"))
    # A caller for a rail of another address gets a proof that is not valid for that rail.
    terms = Terms(run, secret, str(call.get("from")), own_name, rail if rail in rails else rails[0])
    ours = secrets.token_hex(16)
    theirs = str(call.get("nonce", ""))
    purpose = call.get("purpose") or {}
    if not isinstance(purpose, dict) or any(isinstance(one, (dict, list)) for one in purpose.values()):
        raise UnknownPeer(f"calls for the unknown purpose {str(purpose)[:40]!r}")
    proof = _proof(terms, "answer", theirs, ours, purpose)
    own = {"railyard": PROTOCOL, "run": run, "from": own_name, "nonce": ours, "proof": proof}
    channel.send(own, timeout_s)
    if call.get("run") != run or call.get("to") != own_name or call.get("rail") != terms.rail:
        raise UnknownPeer(
            "calls for {!r} on {!r} in run {!r}".format(call.get("to"), call.get("rail"), call.get("run"))
        )
    reply = _receive_first(channel, timeout_s, "proves itself")
    if not _is_proof(reply.get("proof"), _proof(terms, "dial", theirs, ours, purpose)):
        raise UnknownPeer(f"does not know the secret of run {run}")
    channel.seal_with(_session_key(terms, theirs, ours), "answer")
    return call


def _receive_first(channel: Channel, timeout_s: float, does: str) -> dict[str, Any]:
    """Receive a message before authentication; anything but the protocol is from an unknown host.

    Silence is not: a dead host is silent, and so is a partner without CPU for some seconds, or one that
    hung up because this node was.
    """
    try:
        return channel.receive(timeout_s)
    except NotProtocol as error:
        raise UnknownPeer(f"{does} with something other than Railyard: {error}") from error


def _is_proof(said: object, proof: str) -> bool:
    # Bytes, since with text it raises TypeError for anything but ASCII.
    return hmac.compare_digest(str(said).encode("utf-8", "replace"), proof.encode())


def _proof(terms: Terms, side: str, dial_nonce: str, answer_nonce: str, purpose: Mapping[str, Any]) -> str:
    said = json.dumps(
        [side, terms.run, terms.dialler, terms.answerer, terms.rail, dial_nonce, answer_nonce, dict(purpose)],
        sort_keys=True,
    )
    return hmac.new(terms.secret.encode(), said.encode(), hashlib.sha256).hexdigest()


def _session_key(terms: Terms, dial_nonce: str, answer_nonce: str) -> bytes:
    said = f"key:{dial_nonce}:{answer_nonce}"
    return hmac.new(terms.secret.encode(), said.encode(), hashlib.sha256).digest()
