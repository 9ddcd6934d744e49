# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How two runners make sure of each other over the rail under test, and speak afterwards.

The dialler sends its names and a nonce, the answerer proves the run's secret over both nonces, the
dialler does the same. From the two nonces comes a key; every later line carries an HMAC over its
direction, number and text, so that a line from somebody else, from another run, or sent twice ends the
conversation. One JSON object a line.
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
# Who has not proven himself says who he is, and no more.
_LONGEST_GREETING_BYTES = 8 << 10
# How soon a wait notices that the runner is to stop; each turn costs the node that is being measured.
_SLICE_S = 1.0
# A line is short; a partner whose kernel takes none of it for so long reads nothing any more.
_SEND_S = 10.0


class ChannelClosed(Exception):  # noqa: N818 - named for what has happened
    """The conversation is over: the partner closed it, fell silent or the line is damaged."""


class SendTimeout(ChannelClosed):
    """The partner did not take a line in time: it reads nothing, and what its kernel holds for it is full."""


class UnknownPeer(Exception):  # noqa: N818 - named for who answers
    """Who answers (or calls) does not know the run's secret or does not speak the protocol."""


class Cancelled(Exception):  # noqa: N818 - no error: it was asked for
    """The runner was told to stop while it waited."""


def raise_if_stopped(stop: threading.Event) -> None:
    """Wait no longer, nor begin anything, where the runner was told to stop."""
    if stop.is_set():
        raise Cancelled()


class Terms(NamedTuple):
    """What both sides must agree on before a word is exchanged."""

    run: str
    secret: str
    dialler: str
    answerer: str
    rail: str


class Channel:
    """A conversation with a partner that has proven the run's secret."""

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
            SendTimeout: the partner did not take all of it in time; what it has of it is of no use.
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
            raise SendTimeout(f"{self.remote} took no line for {within_s:g} s") from error
        except OSError as error:
            raise ChannelClosed(f"could not send to {self.remote}: {error}") from error

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """Wait for one message.

        Raises:
            ChannelClosed: nothing came in time, the partner is gone, or the line is damaged or another's.
            Cancelled: the runner was told to stop.
        """
        line = self._line(time.monotonic() + timeout_s, timeout_s)
        if self._key is not None:
            seal, _space, line = line.partition(b" ")
            other = "answer" if self._side == "dial" else "dial"
            if not hmac.compare_digest(seal, self._seal(other, self._received, line)):
                raise ChannelClosed(f"a line from {self.remote} does not carry the run's seal")
            self._received += 1
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ChannelClosed(f"a line from {self.remote} is not JSON: {line[:80]!r}") from error
        if not isinstance(message, dict):
            raise ChannelClosed(f"a line from {self.remote} is no object: {line[:80]!r}")
        return message

    def expect(self, kind: str, timeout_s: float) -> dict[str, Any]:
        """Wait for a message whose `t` is `kind`.

        Raises:
            ChannelClosed: as `receive`, and when another kind comes.
        """
        message = self.receive(timeout_s)
        if message.get("t") != kind:
            raise ChannelClosed("{} sent {!r} where {!r} was due".format(self.remote, message.get("t"), kind))
        return message

    def close(self) -> None:
        """End the conversation; the partner notices at once."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def seal_with(self, key: bytes, side: str) -> None:
        """Carry a seal on every line from here on; `side` is `dial` or `answer`."""
        self._key = key
        self._side = side

    def _seal(self, side: str, number: int, text: bytes) -> bytes:
        if self._key is None:
            raise RuntimeError("a line is sealed before the key is agreed")
        prefix = f"{side}:{number}:".encode()
        return hmac.new(self._key, prefix + text, hashlib.sha256).hexdigest().encode()

    def _line(self, deadline: float, timeout_s: float) -> bytes:
        longest = _LONGEST_GREETING_BYTES if self._key is None else _LONGEST_LINE_BYTES
        while b"\n" not in self._pending:
            raise_if_stopped(self._stop)
            left = deadline - time.monotonic()
            try:
                # What has come is heard after the deadline too: it was this end that was held up.
                if not select.select([self._sock], [], [], min(max(left, 0.0), _SLICE_S))[0]:
                    if left <= 0:
                        raise ChannelClosed(f"{self.remote} said nothing for {timeout_s:.0f} s")
                    continue
                piece = self._sock.recv(min(1 << 16, longest - len(self._pending)))
            except (OSError, ValueError) as error:
                raise ChannelClosed(f"the connection to {self.remote} broke: {error}") from error
            if not piece:
                raise ChannelClosed(f"{self.remote} closed the connection")
            self._pending += piece
            if len(self._pending) >= longest and b"\n" not in self._pending:
                raise ChannelClosed(f"{self.remote} sent a line without end")
        line, _newline, self._pending = self._pending.partition(b"\n")
        return line


def dial(channel: Channel, terms: Terms, purpose: Mapping[str, Any], timeout_s: float) -> None:
    """Prove the secret to the answerer and have it prove itself; the channel is sealed afterwards.

    Args:
        channel: a fresh connection.
        terms: the names that both must agree on.
        purpose: what the call is for; the answerer reads it, and it is covered by the proof.
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
    answer = _words(channel, timeout_s, "answers")
    if answer.get("railyard") != PROTOCOL:
        raise UnknownPeer(
            "speaks Railyard protocol {!r}, not {}".format(answer.get("railyard"), PROTOCOL)
            if "railyard" in answer
            else "does not speak Railyard's protocol"
        )
    theirs = str(answer.get("nonce", ""))
    if answer.get("from") != terms.answerer or answer.get("run") != terms.run:
        raise UnknownPeer("says it is {!r} in run {!r}".format(answer.get("from"), answer.get("run")))
    if not _is_proof(answer.get("proof"), _proof(terms, "answer", ours, theirs, purpose)):
        # Said, and not only hung up: who falls silent may be a busy partner.
        with contextlib.suppress(ChannelClosed):
            channel.send({"proof": ""})
        raise UnknownPeer(f"does not know the secret of run {terms.run}")
    channel.send({"proof": _proof(terms, "dial", ours, theirs, purpose)})
    channel.seal_with(_session_key(terms, ours, theirs), "dial")


def answer(
    channel: Channel, run: str, secret: str, own_name: str, rails: Sequence[str], timeout_s: float
) -> dict[str, Any]:
    """Answer a call: prove the secret, have the caller prove it; return the caller's first message.

    `rails` are those that are met at this address: one, or all without IP on the management network.

    Raises:
        UnknownPeer: the caller is not of this run or does not speak the protocol.
        ChannelClosed: the caller went away or fell silent.
    """
    call = _words(channel, timeout_s, "calls")
    if call.get("railyard") != PROTOCOL:
        raise UnknownPeer(f"does not speak Railyard's protocol {PROTOCOL}")
    rail = str(call.get("rail"))
    # Who calls for a rail that is not met here gets a proof that is no good for that rail.
    terms = Terms(run, secret, str(call.get("from")), own_name, rail if rail in rails else rails[0])
    ours = secrets.token_hex(16)
    theirs = str(call.get("nonce", ""))
    purpose = call.get("purpose") or {}
    if not isinstance(purpose, dict) or any(isinstance(one, (dict, list)) for one in purpose.values()):
        raise UnknownPeer(f"calls for the purpose {str(purpose)[:40]!r}, which is none")
    proof = _proof(terms, "answer", theirs, ours, purpose)
    own = {"railyard": PROTOCOL, "run": run, "from": own_name, "nonce": ours, "proof": proof}
    channel.send(own, timeout_s)
    if call.get("run") != run or call.get("to") != own_name or call.get("rail") != terms.rail:
        raise UnknownPeer(
            "calls for {!r} on {!r} in run {!r}".format(call.get("to"), call.get("rail"), call.get("run"))
        )
    reply = _words(channel, timeout_s, "proves itself")
    if not _is_proof(reply.get("proof"), _proof(terms, "dial", theirs, ours, purpose)):
        raise UnknownPeer(f"does not know the secret of run {run}")
    channel.seal_with(_session_key(terms, theirs, ours), "answer")
    return call


def _words(channel: Channel, timeout_s: float, does: str) -> dict[str, Any]:
    """Return what somebody says who has not proven himself yet; words that are not ours are a stranger's.

    Silence is not: a dead host is silent, and so is a partner whose processor was taken away for some
    seconds, or who hung up because ours was.
    """
    try:
        return channel.receive(timeout_s)
    except ChannelClosed as error:
        if any(what in str(error) for what in ("not JSON", "no object", "without end")):
            raise UnknownPeer(f"{does} with something else than Railyard: {error}") from error
        raise


def _is_proof(said: object, proof: str) -> bool:
    # Bytes: of text it compares ASCII alone, and raises TypeError for the rest.
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
