# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Unfolding names, against ClusterShell, which folds them."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import nodeset
from ClusterShell.NodeSet import NodeSet
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("gpuserver1", ["gpuserver1"]),
        ("gpu[001-003,7]", ["gpu001", "gpu002", "gpu003", "gpu7"]),
        ("gpu[9-11]", ["gpu9", "gpu10", "gpu11"]),
        ("gpu[09-11]", ["gpu09", "gpu10", "gpu11"]),
        ("gpu[0-8/4]", ["gpu0", "gpu4", "gpu8"]),
        ("rack[1-2]-gpu[1-2]", ["rack1-gpu1", "rack1-gpu2", "rack2-gpu1", "rack2-gpu2"]),
        ("b,a[1-2],b", ["b", "a1", "a2"]),
        ("gpu[1-2].example.org, login", ["gpu1.example.org", "gpu2.example.org", "login"]),
    ],
)
def test_expand(text, names):
    assert nodeset.expand(text) == names


@pytest.mark.parametrize(
    "text", ["gpu[1-2", "gpu1]", "gpu[[1]]", "gpu[a-b]", "gpu[3-1]", "a,,b", "gpu[]", "gpu[1-]", "a b"]
)
def test_bad_text_is_refused(text):
    with pytest.raises(ValueError, match=r"in |stands"):
        nodeset.expand(text)


def test_an_absurd_range_stops():
    with pytest.raises(ValueError, match="more than"):
        nodeset.expand("gpu[1-999999999]")


@given(
    st.sets(st.integers(0, 2000), min_size=1, max_size=40), st.sampled_from(["{}", "gpu{:04d}", "r1-gpu{}.x"])
)
def test_it_undoes_what_the_controller_folds(numbers, pattern):
    names = {f"n{pattern.format(number)}" for number in numbers}
    assert set(nodeset.expand(str(NodeSet.fromlist(sorted(names))))) == names
