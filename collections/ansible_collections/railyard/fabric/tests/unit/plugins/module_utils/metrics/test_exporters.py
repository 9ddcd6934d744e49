# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node_exporter a node has, and what is refused, on trees of /proc that were written by hand."""

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.metrics import exporters
from ansible_collections.railyard.fabric.plugins.module_utils.metrics.exporters import (
    ExporterError,
    Wanted,
    choose,
)
from support.nodes.files import write

# As Linux 6.1 prints them, on a little-endian machine: 198.51.100.11:9100, 127.0.0.1:9100, 0.0.0.0:9100.
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
MANAGEMENT, LOOPBACK, ANY = "0B6433C6:238C", "0100007F:238C", "00000000:238C"
ANY6 = "00000000000000000000000000000000:238C"
WANTED = Wanted("198.51.100.11", 9100, ["10.0.0.1/24", "2001:db8::1/64"])


def tcp(*rows: tuple[str, str, int]) -> str:
    rest = "00000000:00000000 00:00000000 00000000     0        0"
    lines = (
        f"   {number}: {local} 00000000:0000 {state} {rest} {inode} 1 0"
        for number, (local, state, inode) in enumerate(rows)
    )
    return HEAD + "\n".join(lines) + "\n"


class Node:
    def __init__(self, root):
        self.root = root
        write(root, "etc/os-release", 'ID=debian\nVERSION_ID="12"\n')
        write(root, "etc/passwd", "root:x:0:0:root:/root:/bin/bash\n")
        self.listen()

    def listen(self, *rows, name="tcp"):
        write(self.root, f"proc/net/{name}", tcp(*rows))

    def process(self, pid, argv, unit="site.service", inodes=()):
        write(self.root, f"proc/{pid}/cmdline", "\0".join(argv) + "\0")
        write(self.root, f"proc/{pid}/cgroup", f"0::/system.slice/{unit}\n")
        folder = self.root / f"proc/{pid}/fd"
        folder.mkdir(parents=True)
        for number, inode in enumerate(inodes):
            os.symlink(f"socket:[{inode}]", folder / str(number))

    def choose(self, wanted=WANTED):
        return choose(str(self.root), wanted)


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_a_node_without_any_gets_railyards(node):
    # A listener on the same port of another address, and a connection that is no listener, do no harm.
    node.listen((LOOPBACK, "0A", 7), (MANAGEMENT, "01", 8))
    assert node.choose() == {
        "own": True, "textfile_folder": "/var/lib/prometheus/node-exporter", "socket": True, "notes": [],
        "has_user": False,
    }  # fmt: skip
    write(node.root, "etc/passwd", "prometheus:x:105:112:Prometheus daemon:/var/lib/prometheus:/bin/sh\n")
    assert node.choose()["has_user"]


@pytest.mark.parametrize(
    ("release", "takes"),
    [
        ('ID=ubuntu\nVERSION_ID="22.04"\n', False), ('ID=ubuntu\nVERSION_ID="24.04"\n', True),
        ("ID=debian\nVERSION_ID=11\n", False), ("ID=debian\n", True), ("", True),
    ],
)  # fmt: skip
def test_old_releases_take_no_socket(node, release, takes):
    """node_exporter 1.3.1 of Ubuntu 22.04 has no --web.systemd-socket; 1.5.0 brought it."""
    write(node.root, "etc/os-release", release)
    assert node.choose()["socket"] == takes


@pytest.mark.parametrize(
    ("argv", "folder"),
    [
        (["/usr/local/bin/node_exporter", "--collector.textfile.directory=/srv/text"], "/srv/text"),
        (["/opt/node_exporter", "--collector.textfile.directory", "/srv/text", "--web.x"], "/srv/text"),
        (["node_exporter", "-collector.textfile.directory=/srv/text"], "/srv/text"),
        (
            ["/node_exporter", "--collector.textfile.directory=/x", "--collector.textfile.directory=/srv/y"],
            "/srv/y",
        ),
        (["/usr/bin/prometheus-node-exporter"], "/var/lib/prometheus/node-exporter"),
    ],
)  # fmt: skip
def test_an_exporter_that_runs_is_kept(node, argv, folder):
    (node.root / folder.lstrip("/")).mkdir(parents=True)
    node.process(77, argv, inodes=[9])
    node.listen((ANY, "0A", 9))
    found = node.choose()
    assert (found["own"], found["textfile_folder"]) == (False, folder)
    assert (
        found["notes"][0]
        == f"node_exporter runs already, site.service (pid 77): it is kept as it is, and reads {folder}"
    )
    assert "It can be reached on the rails' addresses" in found["notes"]


def test_what_is_worth_knowing_of_one_that_is_kept(node):
    (node.root / "srv/text").mkdir(parents=True)
    node.process(77, ["/usr/local/bin/node_exporter", "--collector.textfile.directory=/srv/text"], inodes=[9])
    # 127.0.0.1:9105
    node.listen(("0100007F:2391", "0A", 9))
    notes = node.choose(WANTED._replace(secured=True))["notes"]
    assert notes[1:] == [
        "It listens on port 9105: set node_metrics_port: 9105 for Prometheus",
        "node_metrics_tls and node_metrics_basic_auth do not change it",
    ]


def test_the_folder_that_the_inventory_names_goes_first(node):
    for folder in ("srv/text", "srv/other"):
        (node.root / folder).mkdir(parents=True)
    node.process(77, ["/usr/local/bin/node_exporter", "--collector.textfile.directory=/srv/text"])
    assert node.choose(WANTED._replace(textfile_folder="/srv/other"))["textfile_folder"] == "/srv/other"
    with pytest.raises(ExporterError, match="/srv/none is no folder"):
        node.choose(WANTED._replace(textfile_folder="/srv/none"))


@pytest.mark.parametrize(
    "argv",
    [
        ["/usr/local/bin/node_exporter"],
        ["/usr/local/bin/node_exporter", "--collector.textfile.directory=/host/of/a/container"],
        ["/usr/local/bin/node_exporter", "--collector.textfile.directory"],
        ["/usr/local/bin/node_exporter", "--collector.textfile.directory=relative"],
    ],
)
def test_one_that_reads_no_textfiles_is_refused_with_the_fix(node, argv):
    node.process(77, argv)
    with pytest.raises(
        ExporterError, match=r"site.service \(pid 77\), and reads no folder of textfiles. Fix: start it"
    ):
        node.choose()


def test_one_that_is_installed_and_does_not_run_is_refused_unless_the_role_brought_it(node):
    write(node.root, "usr/bin/prometheus-node-exporter")
    with pytest.raises(ExporterError, match=r"is installed and not running. Fix: start"):
        node.choose()
    record = {"schema": 1, "role": "node_metrics", "record": {"packages": {"prometheus-node-exporter": None}}}
    write(node.root, "var/lib/railyard/originals/node_metrics.json", json.dumps(record))
    assert node.choose()["own"]


@pytest.mark.parametrize(("local", "name"), [(MANAGEMENT, "tcp"), (ANY, "tcp"), (ANY6, "tcp6")])
def test_a_port_that_is_taken_is_refused_by_the_name_of_who_has_it(node, local, name):
    node.listen((local, "0A", 9), name=name)
    node.process(88, ["/usr/bin/python3", "-m", "http.server"], inodes=[9])
    with pytest.raises(
        ExporterError, match=r"port 9100 of 198.51.100.11 is taken by /usr/bin/python3 \(pid 88\). Fix:"
    ):
        node.choose()


def test_our_own_socket_is_not_in_our_way(node):
    write(node.root, exporters.DROP_IN, "# Managed by Railyard (role node_metrics)\n")
    node.listen((MANAGEMENT, "0A", 9))
    node.process(1, ["/sbin/init"], "init.scope", inodes=[9])
    node.process(99, ["/usr/bin/prometheus-node-exporter", "--web.systemd-socket"], inodes=[9])
    assert node.choose()["own"]
    node.listen((MANAGEMENT, "0A", 10))
    with pytest.raises(ExporterError, match="is taken by another program"):
        node.choose()


@pytest.mark.parametrize(
    ("listen", "said"),
    [
        ("", "no IP address"),
        ("gpu001.example", "no IP address"),
        ("0.0.0.0", "every address"), ("::", "every address"),
        ("10.0.0.1", "the address of a rail"), ("2001:db8::1", "the address of a rail"),
    ],
)  # fmt: skip
def test_an_address_that_is_none_or_a_rail_s_is_refused(node, listen, said):
    with pytest.raises(ExporterError, match=said):
        node.choose(WANTED._replace(listen=listen))


def test_garbled_lines_of_the_kernel_are_no_peer(node):
    write(node.root, "proc/net/tcp", HEAD + "\n   0: 0B6433C6\n   1: x 0 0A 0 0 0 0 0 0\n")
    write(node.root, "proc/5/cmdline", "")
    assert node.choose()["own"]


OURS = "# Managed by Railyard (role node_metrics): change the inventory, not this file.\n[Service]\n"
FILE = "/var/lib/prometheus/node-exporter/railyard_node.prom"
WRITER = f"ExecStart=/usr/local/sbin/railyard-metrics --out {FILE}\n"
STARTS = "ExecStart=\nExecStart=/usr/bin/prometheus-node-exporter $ARGS --web.systemd-socket\n"


def test_what_the_role_brought_is_read_from_its_units(node):
    assert exporters.read_brought(str(node.root)) == (False, ())
    write(node.root, exporters.WRITER[1:], OURS + WRITER)
    assert exporters.read_brought(str(node.root)) == (False, (FILE,)), "beside an exporter that was there"
    write(node.root, exporters.DROP_IN[1:], OURS + STARTS)
    assert exporters.read_brought(str(node.root)) == (True, (FILE,))


@pytest.mark.parametrize(
    "starts",
    [
        "ExecStart=/usr/local/sbin/railyard-metrics\n",
        "ExecStart=/usr/local/sbin/railyard-metrics --out\n",
        "ExecStart=/usr/local/sbin/railyard-metrics --out /etc/shadow\n",
        "ExecStart=/usr/local/sbin/railyard-metrics --out relative/railyard_node.prom\n",
        "ExecStart=/usr/local/sbin/railyard-metrics --out /var/../etc/cron.d/railyard_node.prom\n",
        "ExecStart=/usr/local/sbin/railyard-metrics --out '/var/railyard_node.prom\n",
        "#ExecStart=/usr/local/sbin/railyard-metrics --out /var/railyard_node.prom\n",
        f"{WRITER}ExecStart=\n",
    ],
)
def test_no_other_file_is_removed_whatever_a_unit_says(node, starts):
    write(node.root, exporters.WRITER[1:], OURS + starts)
    write(node.root, exporters.DROP_IN[1:], OURS + STARTS.replace("prometheus-node-exporter", "another"))
    assert exporters.read_brought(str(node.root)) == (False, ())


def test_units_of_somebody_else_tell_nothing(node):
    write(node.root, exporters.WRITER[1:], f"[Service]\n{WRITER}")
    write(node.root, exporters.DROP_IN[1:], f"[Service]\n{STARTS}")
    assert exporters.read_brought(str(node.root)) == (False, ())


def test_command_lines_of_units_are_read_as_systemd_documents_them():
    """systemd.service(5), "Command lines", and systemd.syntax(7)."""
    text = (
        "ExecStart=/bin/old\nExecStart=\n"
        "ExecStart=-/bin/one --with 'two words'\n"
        "ExecStart = +/bin/two \\\n  --further\n"
        "ExecStartPre=/bin/three\n"
    )
    assert exporters.parse_starts(text) == [["/bin/one", "--with", "two words"], ["/bin/two", "--further"]]
