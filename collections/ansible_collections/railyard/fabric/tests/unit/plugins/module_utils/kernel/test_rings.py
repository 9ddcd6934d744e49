"""Rings of ports that answer as struct ethtool_ringparam of linux/ethtool.h lays it out."""

from __future__ import annotations

import errno
import struct

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import rings

GET, SET = 0x10, 0x11


class Card:
    """A port: the most that it has and what it has, each by rx, rx mini, rx jumbo, tx."""

    def __init__(self, most=(8192, 0, 0, 4096), now=(1024, 0, 0, 512)):
        self.most, self.now, self.rounds_to, self.set = most, now, None, 0

    def answer(self, netdev, question):
        if netdev != "ens6":
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        words = struct.unpack("=9I", question)
        if words[0] == SET:
            self.now, self.set = self.rounds_to or words[5:], self.set + 1
        return (words[0], *self.most, *self.now)


@pytest.fixture
def card(monkeypatch):
    made = Card()
    monkeypatch.setattr(rings, "_ask", made.answer)
    return made


def test_a_port_tells_its_rings_and_one_without_is_passed_over(card):
    assert rings.read(["ens6", "veth0"]) == {
        "rings": {"ens6": "rx 1024 tx 512"},
        "ring_most": {"ens6": "rx 8192 tx 4096"},
    }


@pytest.mark.parametrize(
    ("sizes", "held"),
    [
        ({"rx": "max", "tx": "max"}, "rx 8192 tx 4096"),
        ({"rx": "2048"}, "rx 2048 tx 512"),
        ({"tx": "4096"}, "rx 1024 tx 4096"),
    ],
)
def test_a_size_is_a_number_or_the_most_and_what_is_not_named_stays(card, sizes, held):
    state = rings.read(["ens6", "veth0"])
    assert rings.held(state, {"ens6": sizes, "veth0": sizes}) == {"ens6": held}
    rings.write("ens6", held)
    assert rings.read(["ens6"])["rings"]["ens6"] == held


@pytest.mark.parametrize("size", ["8193", "0", "-1", "many", "²"])
def test_a_size_that_the_port_cannot_have_is_refused_with_the_most(card, size):
    with pytest.raises(rings.RingError, match=r"ens6 cannot have a rx ring of .*from 1 to 8192"):
        rings.held(rings.read(["ens6"]), {"ens6": {"rx": size}})


def test_rings_of_other_kinds_keep_their_sizes(card):
    card.now = (1024, 7, 9, 512)
    rings.write("ens6", "rx 8192 tx 512")
    assert card.now == (8192, 7, 9, 512)


def test_what_a_driver_rounds_is_reported(card, capsys):
    card.rounds_to = (2048, 0, 0, 512)
    with pytest.raises(OSError, match=r"has made rx 2048 tx 512 of it"):
        rings.write("ens6", "rx 2000 tx 512")
    assert rings.main("ens6", ["rx", "2000"]) == 1
    assert "ethtool -G ens6 rx 2000: its driver has made" in capsys.readouterr().err


def test_the_program_sets_what_is_another_and_leaves_alone_what_is_so(card, capsys):
    assert rings.main("ens6", ["rx", "1024"]) == 0
    assert card.set == 0
    assert rings.main("ens6", ["rx", "max", "tx", "256"]) == 0
    assert (card.set, card.now) == (1, (8192, 0, 0, 256))
    assert rings.main("veth0", ["rx", "max"]) == 1
    assert "ethtool -G veth0 rx max: it has no rings" in capsys.readouterr().err


def test_the_real_kernel_answers():
    assert rings.read(["lo", "no_such"]) == {"rings": {}, "ring_most": {}}
