# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Map generations of NICs to the releases of the vendor's drivers, from the vendor's lists.

Lists that were read, in stored copies, on 2026-11-26:

- DOCA, "General Support", table of adapter cards: 2.9.0 to 2.9.3, 2.10.0, 3.0.0 and 3.1.0
  (docs.nvidia.com/doca/archive/<release>/General+Support). ConnectX-4 is in 2.9 and in none after it;
  ConnectX-4 Lx is in all of them; ConnectX-8 is in all from 2.10 on; ConnectX-9 and BlueField-4 are in none.
- DOCA 2.9.4, "Changes and New Features": 2.9 and its LTS branch are the last for ConnectX-4, and have no
  ConnectX-8.
- The same pages: BlueField-2 and ConnectX-7 are the last that MLNX_OFED supports, BlueField-3 needs
  DOCA-Host.
- MFT 4.35.0 (2 March 2026), "Supported Adapter Cards Firmware Versions", has ConnectX-9 with firmware 82.48,
  and MFT 4.34.1 LTS (15 December 2025) does not have it. The middle number counts releases: 46 is that of
  DOCA 3.1's firmware, so 48 is taken for that of DOCA 3.3's (derived).
- MLNX_OFED dropped ConnectX-3, ConnectX-3 Pro and Connect-IB in 5.1 (release notes of 5.3 and 4.9): 4.9 is
  their last.
"""

from __future__ import annotations

import typing as t

Release = tuple[int, int]


class Served(t.NamedTuple):
    """The releases that serve a generation; a generation without a row is served by every current release.

    Attributes:
        doca_last: The last release of DOCA that lists it; None where it is not known to be dropped.
        doca_absent_until: The newest release of DOCA whose list was read and lacks it, or None.
        doca_listed_from: The first release of DOCA that is known to serve it, if an earlier list lacks it.
        mlnx_ofed: Whether the current releases of MLNX_OFED (5.1 to 24.10) serve it.
        mlnx_ofed_legacy: Whether those before 5.1 do, which end with 4.9.
    """

    doca_last: Release | None = None
    doca_absent_until: Release | None = None
    doca_listed_from: Release | None = None
    mlnx_ofed: bool = True
    mlnx_ofed_legacy: bool = False


_CURRENT = Served()
_OLDEST = Served(doca_last=(0, 0), mlnx_ofed=False, mlnx_ofed_legacy=True)

SERVED = {
    "ConnectX-3": _OLDEST,
    "ConnectX-3 Pro": _OLDEST,
    "Connect-IB": _OLDEST,
    "ConnectX-4": Served(doca_last=(2, 9)),
    "ConnectX-8": Served(doca_absent_until=(2, 9), doca_listed_from=(2, 10), mlnx_ofed=False),
    "ConnectX-9": Served(doca_absent_until=(3, 1), doca_listed_from=(3, 3), mlnx_ofed=False),
    "BlueField-3": Served(mlnx_ofed=False),
    "BlueField-4": Served(doca_absent_until=(3, 1), mlnx_ofed=False),
}


def served_by(generation: str | None) -> Served:
    """Return the row of a generation; an unknown one counts as current."""
    return SERVED.get(generation or "", _CURRENT)


def name_release(release: Release) -> str:
    """Format a release like the vendor."""
    return f"{release[0]}.{release[1]}"
