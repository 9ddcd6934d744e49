# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node says is text, whatever of Unicode it holds."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils import plain_text
from hypothesis import given
from hypothesis import strategies as st

#: Unicode's categories of what is no visible text, by their names in the standard.
NO_TEXT = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
EVERYTHING = [chr(code) for code in range(sys.maxunicode + 1)]


def test_of_all_of_unicode_only_visible_text_is_left():
    for char in EVERYTHING:
        shown = plain_text.clean(f"a{char}b")[1:-1]
        category = unicodedata.category(char)
        if char in "\n\t":
            assert shown == char
        elif char == "\r":
            assert shown == "\n"
        elif category in NO_TEXT:
            assert shown == "", hex(ord(char))
        elif category == "Zs":
            assert shown == " "
        else:
            assert shown in (char, "", " "), hex(ord(char))


def test_letters_marks_and_symbols_of_all_scripts_stay():
    text = "gpu001 rail0: 98.7 Gbit/s ✓ ✗ → µs °C é ñ ß Ω Я 漢字 한글 ไทย हिन्दी עברית العربية 🙂"
    assert plain_text.clean(text) == text
    left_out = [
        char
        for char in EVERYTHING
        if unicodedata.category(char) not in NO_TEXT | {"Zs"} and not plain_text.clean(char).strip()
    ]
    # Those that the standard calls default ignorable, and the blank of Braille.
    assert len(left_out) == 1 + 2 + 2 + 4 + 1 + 16 + 1 + 240 + 1


HIDDEN = (
    "\x1b\x07\x7f\x9b\x9d\u061c\u200b\u200d\u202e\u2066\u2028\u2029\u00ad\ufeff\ufe0f\u3164\ue000\ufdd0\uffff"
    "\U000e0041\U000e01ef\ud800"
)


@pytest.mark.parametrize("char", HIDDEN)
def test_what_hides_or_controls_is_gone(char):
    assert plain_text.clean(f"x{char}y") == "xy"


@given(st.text(st.characters(), max_size=40))
def test_cleaning_twice_is_cleaning_once_and_nothing_is_added(text):
    once = plain_text.clean(text)
    assert plain_text.clean(once) == once
    assert not {unicodedata.category(char) for char in once.replace("\n", "").replace("\t", "")} & NO_TEXT
    once.encode("utf-8")
    assert "\n" not in plain_text.clean_line(text)


@given(st.text(st.sampled_from("ab \n\r\t\x0b\x0c\x1c\x85\u2028✓"), max_size=60))
def test_no_quoted_line_begins_at_the_margin_or_is_pushed_there(text):
    for line in plain_text.quoted(text).split("\n"):
        assert line.startswith("  | ")
        assert " " * 9 not in line[4:].replace("\t", " ")
