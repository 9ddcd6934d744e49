"""An exclusive Slurm allocation of idle nodes, held while they are measured and given back afterwards."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line

from railyard.base.errors import UserError

#: A scheduler that decides in intervals needs some seconds; nodes that are not free by then are not idle.
WAIT_S = 60
_GRANTED = re.compile(r"Granted job allocation ([0-9]+)")
# With --immediate salloc says the first of nodes that are busy, or behind a more urgent job
# (src/salloc/salloc.c); of nodes that were drained or went down in the meantime slurmctld says the others.
_NOT_NOW = ("Unable to allocate resources", "Requested node", "Required node")
_VARIABLE = "SLURM_JOB_ID"


class NotIdleError(Exception):
    """Slurm does not give these nodes now; the message has its words."""


def argv(nodes: Sequence[str], gpus: int, limit_s: float) -> list[str]:
    """Return the salloc that holds whole nodes.

    Account, partition, QOS and reservation are taken from SALLOC_ACCOUNT, SALLOC_PARTITION, SALLOC_QOS and
    SALLOC_RESERVATION, as salloc(1) has them.

    Args:
        nodes: names in Slurm.
        gpus: how many of each node; 0 where it has none.
        limit_s: after so long Slurm ends the job, whatever became of this program.
    """
    minutes = max(1, int(-(-limit_s // 60)))
    return [
        "salloc", "--no-shell", "--exclusive", f"--immediate={WAIT_S}", "--job-name=railyard-validate",
        f"--nodes={len(nodes)}", f"--nodelist={','.join(nodes)}", "--mem=0", f"--time={minutes}", "--no-kill",
        *([f"--gres=gpu:{gpus}"] if gpus else []),
    ]  # fmt: skip


@contextmanager
def held(nodes: Sequence[str], gpus: int, limit_s: float) -> Iterator[str]:
    """Hold nodes; SLURM_JOB_ID names the job for programs that start steps in it.

    Yields:
        The job's id.

    Raises:
        NotIdleError: a node is not free (any more).
        UserError: salloc is not here, hangs, or refuses for another reason.
    """
    job = _allocate(argv(nodes, gpus, limit_s))
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = job
    try:
        yield job
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before
        # Without an answer the job's own time limit ends it.
        subprocess.run(
            ["scancel", job], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )


def _allocate(words: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S + 60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"salloc: {error}", "run it on a machine of the Slurm cluster") from error
    said = done.stderr + done.stdout
    granted = _GRANTED.search(said)
    if done.returncode == 0 and granted:
        return granted[1]
    if granted:  # it was granted, and something else went wrong
        subprocess.run(["scancel", granted[1]], capture_output=True, timeout=60, check=False)
    told = clean_line(" ".join(said.split()))[:300] or f"salloc ended with {done.returncode}"
    if any(words in said for words in _NOT_NOW):
        raise NotIdleError(told)
    raise UserError(
        told,
        "see salloc(1): account, partition and QOS come from SALLOC_ACCOUNT, SALLOC_PARTITION and SALLOC_QOS",
    )
