# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import candidate as netplan_candidate
from ansible_collections.railyard.fabric.plugins.module_utils.rollback import restore
from support.nodes.netplan import needs_netplan

pytestmark = needs_netplan
MAC = "02:00:00:00:00:06"
NETDEVS = {"ens6": {"mac": MAC, "driver": "mlx4_core"}}
OURS = "network:\n  version: 2\n  ethernets:\n    ens6:\n      addresses: [10.0.1.1/24]\n      mtu: 9000\n"


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return str(folder)


def other(tmp_path, name, ethernets):
    path = tmp_path / name
    path.write_text(f"network:\n  version: 2\n  renderer: networkd\n{ethernets}")
    path.chmod(0o600)
    return {f"/etc/netplan/{name}": str(path)}


def claims(files, work):
    return netplan_candidate.claims_by_netplan(restore.run, "netplan", files, NETDEVS, work)


def test_candidate_is_generated_with_the_others(tmp_path, work):
    files = other(tmp_path, "50-management.yaml", "  ethernets:\n    enp5s0:\n      dhcp4: true\n")
    candidate = {"/etc/netplan/60-railyard-rails.yaml": OURS}
    texts, said = netplan_candidate.generate(restore.run, "netplan", files, candidate, work)
    assert set(texts) >= {
        "/run/systemd/network/10-netplan-ens6.network",
        "/run/systemd/network/10-netplan-enp5s0.network",
    }
    assert said == ""


def test_refusal_mentions_the_nodes_own_path(work):
    candidate = {"/etc/netplan/60-railyard-rails.yaml": OURS + "      no-such-key: 1\n"}
    with pytest.raises(netplan_candidate.CandidateError) as caught:
        netplan_candidate.generate(restore.run, "netplan", {}, candidate, work)
    assert "/etc/netplan/60-railyard-rails.yaml:7:7" in str(caught.value)
    assert "unknown key" in str(caught.value)
    assert work not in str(caught.value)


@pytest.mark.parametrize(
    "ethernets",
    [
        "  ethernets:\n    ens6:\n      dhcp4: true\n",
        "  ethernets:\n    all:\n      match: {name: 'en*'}\n      dhcp4: true\n",
        f"  ethernets:\n    port:\n      match: {{macaddress: '{MAC}'}}\n      dhcp4: true\n",
        "  ethernets:\n    cards:\n      match: {driver: 'mlx4*'}\n      dhcp4: true\n",
        "  ethernets:\n    ens6: {}\n  bonds:\n    bond0:\n      interfaces: [ens6]\n",
    ],
    ids=["by-name", "by-glob", "by-mac", "by-driver", "as-bond-port"],
)
def test_other_file_claims_the_rail(tmp_path, work, ethernets):
    files = {
        **other(tmp_path, "01-network.yaml", ethernets),
        **other(tmp_path, "50-management.yaml", "  ethernets:\n    enp5s0:\n      dhcp4: true\n"),
    }
    assert [(netdev, path) for netdev, path, _reason in claims(files, work)] == [
        ("ens6", "/etc/netplan/01-network.yaml")
    ]


def test_file_that_is_not_complete_alone_is_named_all_the_same(tmp_path, work):
    files = {
        **other(tmp_path, "02-bond.yaml", "  bonds:\n    bond0:\n      interfaces: [ens6]\n"),
        **other(tmp_path, "01-ports.yaml", "  ethernets:\n    ens6: {}\n"),
    }
    assert {path for _netdev, path, _reason in claims(files, work)} == set(files)


def test_similar_names_are_no_claim(tmp_path, work):
    files = other(tmp_path, "01-network.yaml", "  ethernets:\n    ens6d1: {}\n    ens66: {}\n")
    assert claims(files, work) == []


def test_broken_other_file_is_reported(tmp_path, work):
    files = other(tmp_path, "01-network.yaml", "  ethernets: [\n")
    with pytest.raises(netplan_candidate.CandidateError, match=r"/etc/netplan/01-network\.yaml"):
        claims(files, work)


def test_netplan_files_of_all_three_folders(tmp_path):
    for folder in ("lib", "etc", "run"):
        (tmp_path / folder / "netplan").mkdir(parents=True)
        (tmp_path / folder / "netplan" / f"{folder}.yaml").write_text("network: {}\n")
    (tmp_path / "etc/netplan/notes.txt").write_text("not netplan's")
    assert set(netplan_candidate.netplan_files(str(tmp_path))) == {
        "/lib/netplan/lib.yaml",
        "/etc/netplan/etc.yaml",
        "/run/netplan/run.yaml",
    }
