# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which limits root may give here, tried on this process, whose end undoes it.

The capability alone does not tell (user namespaces), and pam_limits with a limit that a login cannot have
keeps everybody out.
"""

from __future__ import annotations

import resource


def memlock_unlimited_possible() -> bool:
    """Return whether the hard limit on locked memory may be raised."""
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (OSError, ValueError):
        return False
    return True


def nofile_possible(wanted: int | None) -> int:
    """Return `wanted` open files, or the hard limit that there is where so many cannot be had."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if wanted is not None:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        except (OSError, ValueError):
            return hard
        return wanted
    return hard
