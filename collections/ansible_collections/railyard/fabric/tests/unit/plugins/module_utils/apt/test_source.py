# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose key it is, and what apt's words about a repository mean."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.apt import openpgp, source

# Made by gpg 2.2.40 for this test: an ed25519 key with a subkey. gpg says the fingerprint.
FINGERPRINT = "D6993C5502BE758BB0E7A09036CAA35F39507BC9"
KEY = """\
-----BEGIN PGP PUBLIC KEY BLOCK-----
Comment: made for a test

mDMEawISCxYJKwYBBAHaRw8BAQdAlb0LgXGmeAnfK9KY6OE90PlG5BYgjLl8tPkw
eCCtpaO0FFRlc3QgPHRAZXhhbXBsZS5jb20+iJAEExYIADgWIQTWmTxVAr51i7Dn
oJA2yqNfOVB7yQUCawISCwIbAwULCQgHAgYVCgkICwIEFgIDAQIeAQIXgAAKCRA2
yqNfOVB7ySq7AP9/QKlLoj/v4FZcBk5pAsztfzAtLqZogJuzosA6ertBowEA1H7K
WiOYoFGHSk2wmFBj+ey2MDPcDSpeAVGRZQlZHg24OARrAhILEgorBgEEAZdVAQUB
AQdARxsOH2nHyqV/11R7nbcSRYLQt8N3r2OVQNrV3DwcQHoDAQgHiHgEGBYIACAW
IQTWmTxVAr51i7DnoJA2yqNfOVB7yQUCawISCwIbDAAKCRA2yqNfOVB7yUWkAP42
h2jbSBA84wM766N8T67YRwzZS0BOAbaszG37V64EcAD/cEBy/pHE2/9tr4OAz0ZE
CRPRnbk77Q7xEFHW+usscwc=
=rkP7
-----END PGP PUBLIC KEY BLOCK-----
"""


PRIMARY = bytes([0x98, 51]) + base64.b64decode(KEY.splitlines()[3])[2:53]  # 0x98: old form, tag 6, one octet


def armoured(packets: bytes) -> str:
    text = base64.b64encode(packets).decode()
    return f"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{text}\n-----END PGP PUBLIC KEY BLOCK-----\n"


def test_what_is_written_is_the_key_as_gpg_exports_it_without_what_was_around():
    exported = KEY.replace("Comment: made for a test\n", "")
    assert openpgp.one_key(KEY) == (FINGERPRINT, exported)
    assert openpgp.one_key(f"\n{KEY}\n".replace("\n", "\r\n")) == (FINGERPRINT, exported)
    without_checksum = "".join(line for line in KEY.splitlines(True) if not line.startswith("="))
    assert openpgp.one_key(without_checksum) == (FINGERPRINT, exported)


# apt takes a line that begins with five dashes and BEGIN for the head of a block, and reads to the next END.
@pytest.mark.parametrize(
    "text",
    [
        KEY + KEY,
        KEY.replace(" BLOCK-----", "-----", 1) + KEY,
        KEY.replace("-----BEGIN PGP", "-----BEGIN  PGP") + KEY,
        KEY + KEY.replace("KEY BLOCK-----\n", "KEY BLOCK----- \n"),
        KEY.replace("\n", "\r") + "\n" + KEY,
        "The vendor's key:\n" + KEY,
        KEY + "mDMEawIS\n",
        KEY.replace("Comment: ", "-----BEGIN "),
        KEY.replace("mDME", "\nmDME"),
        KEY.replace("mDMEawISCxYJ", "mDMEawISCxYJ\n\n"),
        KEY.replace("=rkP7\n", "=rkP7\nmDME\n"),
        KEY.replace("=rkP7", "=rkP8"),
        armoured(PRIMARY + PRIMARY),
        armoured(PRIMARY[:-1]),
        armoured(b"\x98\x00" + PRIMARY),
        armoured(PRIMARY + bytes([0xC0 | 13, 225, 0, 0])),  # of partial length
        armoured(PRIMARY + bytes([0x80 | 13 << 2 | 3, 0])),  # of indeterminate length
        armoured(PRIMARY + bytes([0xC0 | 11, 1, 0])),  # literal data
        armoured(PRIMARY[:2] + b"\x06" + PRIMARY[3:]),  # version 6
        armoured(b""),
        "",
        "not a key",
        KEY.replace("mDME", "m!ME"),
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n",
    ],
)
def test_more_or_less_than_one_key_is_refused(text):
    with pytest.raises(openpgp.KeyFormatError):
        openpgp.one_key(text)
    assert "Fix: `gpg --export --armor FINGERPRINT`" in source.check_key(text, FINGERPRINT)[0]


def test_packets_of_the_new_form_are_read():
    body = b"\x04" + bytes(300)  # version 4; 301 bytes make a length of two octets
    packet = bytes([0xC0 | 6, 192 + ((301 - 192) >> 8), (301 - 192) & 0xFF]) + body
    # sha1sum over 99 01 2d and the body
    assert openpgp.one_key(armoured(packet))[0] == "950F60A5661BE3920B1596E49A676A9B8F42CE0D"


def test_key_is_taken_for_its_full_fingerprint_only():
    spaced = " ".join(FINGERPRINT[i : i + 4] for i in range(0, 40, 4)).lower()
    assert source.check_key(KEY, spaced) == []
    assert "no full fingerprint" in source.check_key(KEY, FINGERPRINT[-16:])[0]
    other = FINGERPRINT.replace("D", "E")
    assert f"has the fingerprint {FINGERPRINT}, not {other}" in source.check_key(KEY, other)[0]


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (
            "W: GPG error: https://m.example.com ./ InRelease: The following signatures couldn't be verified "
            "because the public key is not available: NO_PUBKEY A024F6F0E6D6A281\n"
            "E: The repository 'https://m.example.com ./ InRelease' is not signed.\n",
            "signed with another key",
        ),
        (
            "W: GPG error: x: Sub-process /usr/bin/sqv returned an error code (1), error message is: Missing "
            "key B188E2B695BD4743, which is needed to verify signature.\nE: The repository 'x' is "
            "not signed.\n",
            "signed with another key",
        ),
        (
            "E: Release file for file:/srv/./InRelease is expired (invalid since 1d 0h 0min 3s). Updates for "
            "this repository will not be applied.\n",
            "Release file has expired",
        ),
        ("E: Release file for x is not valid yet (invalid for another 3h).\n", "from the future"),
        ("E: The repository 'file:/srv ./ Release' is not signed.\n", "it is not signed"),
        (
            "E: The repository 'file:/srv ./ Release' does not have a Release file.\n",
            "no repository at this place",
        ),
        (
            "E: Failed to fetch http://127.0.0.1:9/./InRelease  Could not connect to 127.0.0.1:9 "
            "(127.0.0.1). - "
            "connect (111: Connection refused)\nE: The repository 'http://127.0.0.1:9 ./ Release' "
            "does not have a "
            "Release file.\n",
            "mirror does not answer",
        ),
        (
            "E: GPG error: x: The following signatures were invalid: BADSIG A024F6F0 T <t@x>\n",
            "signature does not fit",
        ),
        (
            "E: x: The following signatures were invalid: EXPKEYSIG A024F6F0 T <t@x>\n",
            "has expired or was revoked",
        ),
        (
            "E: Conflicting values set for option Signed-By regarding source file:/srv/ ./: /a.asc != \n"
            "E: The list of sources could not be read.\n",
            "another file names the same repository",
        ),
        ("E: Something new\n", "apt cannot use it: Something new"),
    ],
)
def test_apts_words_are_explained(text, meaning):
    said = source.explain(text)
    assert meaning in said
    assert ". Fix: " in said


def test_pinned_versions_must_be_there():
    pins = [
        {"packages": ["doca-ofed", "mlnx-*"], "version": "3.2.*"},
        {"packages": ["b"], "version": "1"},
        {"packages": ["any"], "release": "o=NVIDIA"},
    ]
    assert source.plain_names(pins) == ["doca-ofed", "b"]
    assert source.missing_versions(pins, {"doca-ofed": ["3.2.0-1"], "b": ["1"]}) == []
    said = source.missing_versions(pins, {"doca-ofed": ["3.1.0-1"]})
    assert said[0].startswith("it has doca-ofed in version 3.1.0-1, not 3.2.*")
    assert said[1].startswith("it has no package b.")
