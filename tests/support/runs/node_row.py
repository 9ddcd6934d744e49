"""What every row of a test of one node by itself has; its tool adds metrics, counters and its own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.runs.fake_run import RUN

_NOTHING = (
    *("tool_version", "netdev", "hca", "address", "gid_index", "gid_type", "message_bytes", "qps"),
    *("mtu_bytes", "active_mtu_bytes", "error", "proof_reason"),
)
_ASKED = ("id", "check", "tool", "node", "peer", "rail", "direction", "round", "subject")


def node_row(
    line: Mapping[str, Any], window_s: tuple[float, float], argv: list[str] | None = None
) -> dict[str, Any]:
    return {
        **dict.fromkeys(_NOTHING),
        **{key: line[key] for key in _ASKED},
        "schema": 1,
        "run": RUN,
        "end": "client",
        "host": line["node"],
        "group": None,
        "started": "2026-11-21T10:15:40.000Z",
        "window_s": list(window_s),
        "status": "measured",
        "counters": {},
        "proof": "proven",
        "argv": [argv or [line["tool"]]],
        "exit_status": 0,
        "raw": {"file": f"raw/{line['node']}.tar.gz", "name": f"{line['id']}.client.txt"},
    }
