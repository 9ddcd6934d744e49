"""Case 14 of the design: a subnet that changes while it is read is never reported as healthy."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet.capture import parse
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from support import simulated
from support.simulated import Cluster

CLUSTER = Cluster(nodes=4, rails=2)
_HOOK = """\
if mkdir {mark} 2>/dev/null; then printf '%s\\n' {command} >{fifo}; sleep 0.3; fi
"""


@pytest.mark.parametrize("tool", ["ibnetdiscover", "iblinkinfo", "ibqueryerrors", "saquery"])
def test_a_link_that_is_lost_in_mid_reading_is_reported_or_makes_it_incomplete(
    tmp_path: Path, tool: str
) -> None:
    with simulated.simulate(CLUSTER.net(), tmp_path / "sim") as subnet:
        previous = parse(simulated.read(subnet))
        # Before this tool runs, once: a cable of a rail is pulled.
        wrapper = subnet.simulation.folder / "tools" / tool
        hook = _HOOK.format(
            mark=tmp_path / "pulled",
            command="'Unlink \"gpu003 mlx5_1\"[1]'",
            fifo=subnet.simulation.folder / "commands",
        )
        text = wrapper.read_text()
        wrapper.write_text(text.replace("#!/bin/sh\n", f"#!/bin/sh\n{hook}", 1))
        judgement = judge(parse(simulated.read(subnet)), CLUSTER.expected(), previous)
        after = judge(parse(simulated.read(subnet)), CLUSTER.expected(), previous)
    assert (tmp_path / "pulled").exists()
    assert after.status == 1
    links_were_read_before = tool in ("ibqueryerrors", "saquery")
    # What changes after all links were read is in the next reading.
    assert judgement.status != 0 or links_were_read_before
