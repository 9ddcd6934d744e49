# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gallery of machines: each healthy one is good at every stage, each faulty one reported with its fault.

All of it is data in tests/machines; tests/machines/README.md says how to add a machine or a variant.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from pathlib import Path

import pytest
from support.machines import machine, pair, stages


def _marked(value, known_fault):
    """Mark what fails today because of a known finding; the mark has to go when it is fixed."""
    marks = [pytest.mark.xfail(reason=known_fault, strict=True)] if known_fault else []
    return pytest.param(*value, marks=marks, id="-".join(str(one) for one in value))


HEALTHY = [
    _marked((name, stage), pair.read(name).expected.known_faults.get(stage))
    for name in pair.names()
    for stage in machine.STAGES
    if stage != "roce_qos" or pair.read(name).expected.roce_qos == "set"
]
REFUSED = [name for name in pair.names() if pair.read(name).expected.roce_qos == "refused"]
SICK = [
    _marked((name, variant, place), cause.known_fault)
    for name in pair.names()
    for variant, one in pair.read(name).variants.items()
    for place, cause in enumerate(one.expect)
]


@pytest.fixture(scope="module")
def made():
    """Return what makes the pair of a machine or variant, each once."""
    # Some thousand small files for each: in memory, where the system has a folder for it.
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="railyard-machines-", dir=memory if memory.is_dir() else None))

    @functools.cache
    def make(name, variant):
        of = pair.read(name)
        folder = root / name / (variant or "healthy")
        folder.mkdir(parents=True)
        return (
            pair.Pair(of, folder, of.variants[variant], make(name, None))
            if variant
            else pair.Pair(of, folder)
        )

    @functools.cache
    def seen(name, variant, stage):
        return stages.OF[stage](make(name, variant))

    yield seen
    shutil.rmtree(root)


@pytest.mark.parametrize(("name", "stage"), HEALTHY)
def test_a_healthy_machine_is_good(made, name, stage):
    assert [one.text for one in made(name, None, stage)] == []


@pytest.mark.parametrize("name", REFUSED)
def test_qos_that_the_driver_cannot_do_is_refused_and_changes_nothing(made, name):
    found = made(name, None, "roce_qos")
    assert {one.outcome for one in found} == {"refused"}, found
    assert all(pair.read(name).expected.roce_qos_words in one.text for one in found)


@pytest.mark.parametrize(("name", "variant", "place"), SICK)
def test_a_faulty_machine_is_reported_with_its_fault(made, name, variant, place):
    of = pair.read(name).variants[variant]
    wanted = of.expect[place]
    found = made(name, variant, wanted.stage)
    fitting = [
        one
        for one in found
        if one.outcome == wanted.outcome
        and wanted.cause in (None, one.cause)
        and wanted.check in (None, one.check)
        and (wanted.words or "") in one.text
    ]
    assert not [one.text for one in found if "half-changed" in one.text]
    assert fitting, [(one.outcome, one.cause, one.check, one.text) for one in found][:20]


def test_every_machine_has_variants():
    few = [name for name in pair.names() if len(pair.read(name).variants) < 3]
    assert few == []
