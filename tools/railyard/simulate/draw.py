"""Simulated numbers: what the tests of a schedule measure. It knows the faults, isolation does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.matrix import Tests

from railyard.simulate.cluster import RATE_GBPS, Cluster
from railyard.simulate.faults import Shares

#: What a good rail carries of its rate: headers take the rest.
_OF_RATE = 0.97
#: Each end of each rail is always better or worse than the others by this share.
_BIAS = 0.01
_LOG_NORMAL = 0.03
#: So many tests, anywhere, are so much slower for once; and so many do not come back.
_SLOW_TESTS, _SLOW_SHARE = 0.01, 0.8
_MISSING = 0.005


class Cables:
    """A simulated fabric that can be measured again and again; each test is drawn anew."""

    def __init__(self, cluster: Cluster, shares: Shares, seed: int) -> None:
        self._cluster, self._shares = cluster, shares
        self._random = np.random.default_rng(seed)
        size = len(cluster.nodes), len(cluster.rails)
        self._bias = self._random.uniform(1 - _BIAS, 1 + _BIAS, size)
        self._meetings = 0

    def measure(self, order: Mapping[str, Any]) -> Tests:
        """Return what the meetings of a test schedule measure: each of its rails in both directions."""
        place = {name: number for number, name in enumerate(self._cluster.nodes)}
        pairs = [(place[meeting.node], place[meeting.peer]) for meeting in rounds.meetings(order)]
        both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        number = np.arange(self._meetings, self._meetings + len(both))
        self._meetings += len(both)
        wanted = order.get("rails")
        rails = [rail for rail, name in enumerate(self._cluster.rails) if wanted is None or name in wanted]
        columns = []
        for rail in rails:
            share = self._shares.share_between(both[:, 0], both[:, 1], rail)
            for node, peer in ((0, 1), (1, 0)):
                sender, receiver = both[:, node], both[:, peer]
                gbps = self._noisy(share, self._bias[sender, rail] * self._bias[receiver, rail])
                columns.append((number, sender, receiver, np.full(len(both), rail), gbps))
        return Tests(*(np.concatenate(column) for column in zip(*columns, strict=True)))

    def _noisy(self, share: Any, bias: Any) -> Any:
        random, many = self._random, len(share)
        gbps = RATE_GBPS * _OF_RATE * share * bias * random.lognormal(0.0, _LOG_NORMAL, many)
        gbps = np.where(random.random(many) < _SLOW_TESTS, _SLOW_SHARE * gbps, gbps)
        # Nothing is left: the tool fails, or says 0.
        missing = np.where(share > 0, _MISSING, 0.5)
        return np.where(random.random(many) < missing, np.nan, gbps)
