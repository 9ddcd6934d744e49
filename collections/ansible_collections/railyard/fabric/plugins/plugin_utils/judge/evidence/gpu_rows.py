# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is a row of RDMA between GPUs' memories of the memory that its rail has to use? Pure."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import GPU_MEMORY
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.records.facts import Gpus
from ansible_collections.railyard.fabric.plugins.module_utils.records.pair_rows import PairRow
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.gpu_memory import nearest
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy


def unlike(row: PairRow, end: Bound, facts: Gpus | None, policy: Policy) -> Iterator[str]:
    """Yield why a row is not of the GPU's memory that its rail has to use; the first counts.

    Args:
        row: the row; one of another check is none of this.
        end: the rail's end.
        facts: what the node's facts say of its GPUs, None where that is garbled.
        policy: the merged policy, which says where the site's perftest is.
    """
    if row["check"] != GPU_MEMORY:
        return
    gpu, argvs = row.get("gpu"), row.get("argv", [])
    if gpu not in nearest(facts, end)[1]:
        yield f"it was the memory of GPU {gpu!r}, which is not the nearest to the rail's card"
    if not row.get("gpu_name"):
        yield f"perftest named no GPU: gpu_name is {row.get('gpu_name')!r}"
    program = os.path.join(policy["gpudirect_perftest_folder"], row["tool"])
    wanted = {f"--use_cuda_bus_id={gpu}", program}
    if not argvs or not all(wanted.issubset(argv) for argv in argvs):
        yield f"argv is {argvs!r}, which lacks {' or '.join(sorted(wanted))}"
