# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Detect a packet filter on the node's input; its rules are not evaluated."""

from __future__ import annotations

import re
from collections.abc import Callable

Run = Callable[[list[str]], "tuple[int, str, str]"]
# A chain without rules and without a dropping policy, as in a new nftables.conf, filters nothing.
_NFT_INPUT = re.compile(r"type filter hook input [^\n]*?(?:policy drop;|\n\s*[^}\s])")
# ufw and firewalld use these; nft does not show the legacy tables, the kernel's other set.
_IPTABLES_INPUT = re.compile(r"^(?::INPUT DROP\b|-A INPUT )", re.MULTILINE)
_SEEN_BY = (
    (["nft", "list", "ruleset"], _NFT_INPUT),
    *(
        ([f"{tool}{set_}-save"], _IPTABLES_INPUT)
        for tool in ("iptables", "ip6tables")
        for set_ in ("", "-legacy")
    ),
)


def warnings(run: Run) -> list[str]:
    """Return one sentence when a filter is loaded, else nothing.

    Args:
        run: runs an argv list, returns exit status, standard output and error; 127 for a missing command.
    """
    seen = []
    for argv, rule in _SEEN_BY:
        status, out, _err = run(argv)
        if status == 0 and rule.search(out):
            seen.append(" ".join(argv))
    if not seen:
        return []
    return [
        f"a packet filter looks at what comes in on this node (see {'; '.join(seen)}): where it does not let "
        "the rails in, TCP, UDP and software RDMA on them fail (RoCE of an adapter passes it by)"
    ]
