# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter bcrypt: hashes that another implementation's test vectors confirm, the same ones each time."""

from __future__ import annotations

import ctypes

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.railyard.fabric.plugins.filter import web_password

bcrypt = web_password.FilterModule().filters()["bcrypt"]


def test_the_hash_is_one_that_libcrypt_takes_for_this_password_alone():
    made = bcrypt("correct horse", "prometheus")
    library = ctypes.CDLL("libcrypt.so.1")
    library.crypt.restype = ctypes.c_char_p
    # How each program checks it: the hash is its own setting.
    assert library.crypt(b"correct horse", made.encode()) == made.encode()
    assert library.crypt(b"correct horse ", made.encode()) != made.encode()
    assert made.startswith("$2b$10$")
    assert len(made) == 60


def test_it_is_the_same_each_time_and_another_one_for_another_user():
    assert bcrypt("secret", "prometheus") == bcrypt("secret", "prometheus")
    assert bcrypt("secret", "prometheus")[:29] != bcrypt("secret", "scraper")[:29]


@pytest.mark.parametrize("password", ["", "x" * 73, "a\0b"])
def test_what_bcrypt_would_cut_off_is_refused(password):
    with pytest.raises(AnsibleFilterError, match="bcrypt takes 1 to 72"):
        bcrypt(password, "prometheus")


def test_without_bcrypt_the_fix_is_reported(monkeypatch):
    monkeypatch.setattr(ctypes.util, "find_library", lambda _name: "libnone.so.9")
    with pytest.raises(AnsibleFilterError, match=r"Fix: give password_hash, as `htpasswd -nB USER`"):
        bcrypt("secret", "prometheus")
