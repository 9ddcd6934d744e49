# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import claims

MAC = "02:00:00:00:00:06"


@pytest.mark.parametrize(
    ("match", "reason"),
    [
        ("Name=ens6", "name ens6"),
        ("Name=en*", "name en*"),
        ("Name=eth0 ens6", "name eth0 ens6"),
        ("OriginalName=*", "name *"),
        ("PermanentMACAddress=02:00:00:00:00:06", f"MAC address {MAC}"),
        ("MACAddress=02-00-00-00-00-06", f"MAC address {MAC}"),
        ("Driver=mlx4_*", "driver mlx4_*"),
        ("Type=ether", "its [Match] section"),
        ("Name=!ens7", "name !ens7"),
        ("PermanentMACAddress=02:00:00:00:00:06\nName=en*", f"name en* and MAC address {MAC}"),
    ],
)
def test_networkd_file_claims(match, reason):
    text = f"# by hand\n[Match]\n{match}\n\n[Network]\nDHCP=yes\n"
    assert claims.claims_netdev(text, "ens6", MAC, "mlx4_core") == reason


@pytest.mark.parametrize(
    "match",
    [
        "Name=ens6d1",
        "Name=enp*",
        "Name=!ens6",
        "PermanentMACAddress=02:00:00:00:00:07",
        "Driver=ixgbe",
        "Type=wlan",
        "Name=ens6\nPermanentMACAddress=02:00:00:00:00:07",
        "#Name=ens6\nName=lo",
    ],
)
def test_networkd_file_leaves_the_rail_alone(match):
    text = f"[Match]\n{match}\n[Network]\nName=ens6\n"
    assert claims.claims_netdev(text, "ens6", MAC, "mlx4_core") == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[connection]\ntype=ethernet\ninterface-name=ens6\n", "interface-name ens6"),
        ("[connection]\ntype=ethernet\n[ethernet]\nmac-address=02:00:00:00:00:06\n", f"mac-address {MAC}"),
        ("[connection]\ntype=ethernet\ninterface-name=ens7\n", ""),
        ("[connection]\ntype=ethernet\n[match]\ninterface-name=eno1;en*;\n", "interface-name eno1 en*"),
        ("[connection]\ntype=ethernet\n[match]\ninterface-name=eno*;\n", ""),
    ],
)
def test_networkmanager_profile(text, reason):
    assert claims.claims_netdev(text, "ens6", MAC) == reason


@pytest.mark.parametrize(
    ("line", "claimed"),
    [
        ("iface ens6 inet static", True),
        ("auto lo ens6", True),
        ("allow-hotplug ens6", True),
        ("auto /ens*", True),
        ("iface ens6d1 inet static", False),
        ("# iface ens6 inet dhcp", False),
        ("source /etc/network/interfaces.d/*", False),
        ("    up ip link set ens6 up", False),
        ("iface lo inet ens6", False),
    ],
)
def test_ifupdown(line, claimed):
    assert claims.ifupdown_claims(f"auto lo\n{line}\n", "ens6") == (line if claimed else "")


def test_every_claim_names_its_file():
    found = claims.claims(
        {"ens6": {"mac": MAC, "driver": ""}, "ens6d1": {"mac": "", "driver": ""}},
        {"/etc/systemd/network/20-wired.network": "[Match]\nName=en*\n"},
        {"/etc/network/interfaces": "iface ens6 inet dhcp\n"},
    )
    assert [(netdev, path) for netdev, path, _reason in found] == [
        ("ens6", "/etc/systemd/network/20-wired.network"),
        ("ens6", "/etc/network/interfaces"),
        ("ens6d1", "/etc/systemd/network/20-wired.network"),
    ]


def test_reading_leaves_netplans_own_output_out(tmp_path):
    (tmp_path / "10-netplan-ens6.network").write_text("[Match]\nName=ens6\n")
    (tmp_path / "20-wired.network").write_text("[Match]\nName=en*\n")
    (tmp_path / "20-wired.link").write_text("[Match]\nOriginalName=en*\n")
    assert list(claims.read_networkd([str(tmp_path), str(tmp_path / "absent")])) == [
        str(tmp_path / "20-wired.network")
    ]


def test_ifupdown_files_are_read_with_their_folder(tmp_path):
    folder = tmp_path / "etc/network/interfaces.d"
    folder.mkdir(parents=True)
    (tmp_path / "etc/network/interfaces").write_text("auto lo\n")
    (folder / "rails").write_text("auto ens6\n")
    assert sorted(claims.read_ifupdown(str(tmp_path)).values()) == ["auto ens6\n", "auto lo\n"]
