# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two nodes that are to meet: what they are called and know, and a port for it."""

from __future__ import annotations

import socket

from ansible_collections.railyard.fabric.plugins.module_utils.channel.rendezvous import Terms

RUN, SECRET = "20261121T101500Z-3f2a", "0123456789abcdef" * 4
TERMS = Terms(RUN, SECRET, "gpu001", "gpu002", "rail0")
#: With a purpose, the first line of who calls.
CALL = {"railyard": 1, "run": RUN, "from": "gpu001", "to": "gpu002", "rail": "rail0", "nonce": "00"}


def free_port() -> int:
    """Return a TCP port of loopback that is free just now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
