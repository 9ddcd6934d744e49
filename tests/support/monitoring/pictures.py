# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the documents' pictures of the console page: a cluster of 64 nodes with a few faults, at two widths.

PYTHONPATH=collections:tools:tests .venv/bin/python -m support.monitoring.pictures
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from PIL import Image
from railyard.base import paths

from support import chromium, prometheus_tools
from support.monitoring import server
from support.monitoring.fake_cluster import Cluster, Place

FOLDER = paths.repo_root() / "docs/images"
SIZES = {"console.png": (1280, 760), "console-phone.png": (390, 800)}
FAULTS = {
    "no_link": Place(1, 1),
    "below_rate": Place(11, 3),
    "physical": Place(36, 5),
    "node_gone": Place(40),
    "xid_fatal": Place(50, 2),
}


def make() -> None:
    """Write the pictures, with few colours: they are part of the tree."""
    clusters = [Cluster(size=64, name="hall1", faults=FAULTS)]
    rules = {name: server.hurried(text) for name, text in server.delivered_rules().items()}
    with (
        server.exporters(clusters) as port,
        server.prometheus(
            prometheus_tools.find("prometheus"), server.scrape_config(clusters, port, 10), rules
        ) as running,
        tempfile.TemporaryDirectory() as place,
    ):
        for fault in ('railyard:rail_state{rail="rail5"} == 1', 'ALERTS{alertname="NodeMetricsGone"}'):
            running.wait_for(fault, limit_s=600)
        page = Path(place) / "page.html"
        page.write_bytes(running.page())
        for name, (width, height) in SIZES.items():
            chromium.picture(page, Path(place) / name, width, height)
            with Image.open(Path(place) / name) as picture:
                picture.convert("RGB").quantize(48).save(FOLDER / name, optimize=True)


if __name__ == "__main__":
    make()
