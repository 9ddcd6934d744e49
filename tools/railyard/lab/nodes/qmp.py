"""QEMU's control socket: one question, one answer (QMP, JSON lines)."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

from railyard.lab.process import LabError


class QmpError(LabError):
    """QEMU does not answer, or not with the requested data."""


def ask(path: Path, command: str, arguments: dict[str, Any] | None = None, timeout_s: float = 10) -> Any:
    """Ask a running QEMU to do something and return what it answers.

    Args:
        path: its socket.
        command: QMP's name of the command.
        arguments: the command's arguments.
        timeout_s: seconds to wait for each part of the answer.

    Raises:
        QmpError: QEMU does not listen, does not answer in time, or refuses.
    """
    question: dict[str, Any] = {"execute": command}
    if arguments:
        question["arguments"] = arguments
    try:
        # A socket's path may have 107 bytes at most, a checkout's may have more.
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(timeout_s)
                connection.connect(f"/proc/self/fd/{folder}/{path.name}")
                with connection.makefile("rwb") as stream:
                    _answer(stream.readline())  # the greeting
                    for each in ({"execute": "qmp_capabilities"}, question):
                        stream.write(json.dumps(each).encode() + b"\n")
                        stream.flush()
                        answer = _answer(stream.readline())
                        while "event" in answer:
                            answer = _answer(stream.readline())
        finally:
            os.close(folder)
    except (OSError, ValueError) as error:
        raise QmpError(f"{path}: QEMU does not answer {command}: {error}") from error
    if "error" in answer:
        raise QmpError(f"{path}: QEMU refuses {command}: {answer['error'].get('desc')}")
    return answer["return"]


def _answer(line: bytes) -> dict[str, Any]:
    if not line:
        raise ValueError("it closed the connection")
    answer = json.loads(line)
    if not isinstance(answer, dict):
        raise ValueError(f"not an object: {line!r}")
    return answer
