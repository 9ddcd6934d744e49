"""Which nodes `railyard discover` is to read: what can be typed or listed, and what is refused."""

from __future__ import annotations

import json
import socket

import pytest
from railyard.base.errors import UserError
from railyard.discover import hosts
from railyard.discover.hosts import Host

REALLY_KNOWN = hosts._is_known


@pytest.fixture(autouse=True)
def names(monkeypatch):
    """Have every name known but `nowhere`."""
    monkeypatch.setattr(hosts, "_is_known", lambda name: not name.startswith("nowhere"))


def plain(found):
    return [(host.key, host.name, host.address, host.user) for host in found.hosts]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["gpu1"], [("gpu1", "gpu1", None, None)]),
        (["gpu[09-10]"], [("gpu09", "gpu09", None, None), ("gpu10", "gpu10", None, None)]),
        (["gpu1,gpu2"], [("gpu1", "gpu1", None, None), ("gpu2", "gpu2", None, None)]),
        (["192.0.2.73"], [("192.0.2.73", None, "192.0.2.73", None)]),
        (
            ["192.0.2.[71,73]"],
            [("192.0.2.71", None, "192.0.2.71", None), ("192.0.2.73", None, "192.0.2.73", None)],
        ),
        (["2001:DB8::0:1"], [("2001:db8::1", None, "2001:db8::1", None)]),
        (["[2001:db8::1]"], [("2001:db8::1", None, "2001:db8::1", None)]),
        (["fe80::1%eth0"], [("fe80::1%eth0", None, "fe80::1%eth0", None)]),
        (
            ["nvidia@192.0.2.73", "gpu2"],
            [("192.0.2.73", None, "192.0.2.73", "nvidia"), ("gpu2", "gpu2", None, None)],
        ),
        (["a@b.example@spark-1"], [("spark-1", "spark-1", None, "a@b.example")]),
    ],
)
def test_what_can_be_typed(words, found):
    assert plain(hosts.find(words, None, None)) == found


def test_the_user_of_the_command_is_for_those_without_one():
    found = hosts.find(["root@gpu1", "gpu2"], None, "ubuntu")
    assert [host.user for host in found.hosts] == ["root", "ubuntu"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], ["no node is named", "gpu[001-032]"]),
        (["gpu["], ["NODES: 'gpu['"]),
        (["10.1.0.300"], ["'10.1.0.300' is not a valid address"]),
        (["10.1.0.[254-256]"], ["'10.1.0.256' is not a valid address"]),
        (["gpu_1/etc"], ["'gpu_1/etc' is no name of a host"]),
        (["-oProxyCommand=x"], ["is no name of a host"]),
        (["a b@gpu1"], ["'a b' is not a user name"]),
        (["localhost"], ["means something else to Ansible"]),
        (["gpu[1-20000]"], ["more than 16384"]),
        (["gpu1", "gpu[1-2]"], ["NODES: gpu1 is named twice"]),
        (["192.0.2.1", "ubuntu@192.0.2.1"], ["NODES: 192.0.2.1 is named twice"]),
        (["nowhere1", "gpu1"], ["neither DNS nor ~/.ssh/config knows the name nowhere1", "--hosts-from"]),
        # All of it at once.
        (["gpu[", "10.1.0.300"], ["2 problems", "'gpu['", "10.1.0.300"]),
    ],
)
def test_what_is_refused(words, said):
    with pytest.raises(UserError) as refused:
        hosts.find(words, None, None)
    assert refused.value.exit_status == 2
    assert [text in str(refused.value) for text in said] == [True] * len(said), str(refused.value)


LISTED = """\
# the racks

gpu1  192.0.2.1            # top
gpu2\t2001:db8::2 ubuntu
gpu3  mgmt3.example.org
gpu4
192.0.2.5
gpu[6-7]
"""


def test_a_list_of_nodes(tmp_path):
    file = tmp_path / "hosts.txt"
    file.write_text(LISTED)
    assert plain(hosts.find([], file, "root")) == [
        ("gpu1", "gpu1", "192.0.2.1", "root"),
        ("gpu2", "gpu2", "2001:db8::2", "ubuntu"),
        ("gpu3", "gpu3", "mgmt3.example.org", "root"),
        ("gpu4", "gpu4", None, "root"),
        ("192.0.2.5", None, "192.0.2.5", "root"),
        ("gpu6", "gpu6", None, "root"),
        ("gpu7", "gpu7", None, "root"),
    ]
    assert plain(hosts.find(["gpu[1,7]"], file, None)) == [
        ("gpu1", "gpu1", "192.0.2.1", None),
        ("gpu7", "gpu7", None, None),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ["names no node"]),
        ("# nothing\n", ["names no node"]),
        ("gpu1 192.0.2.1\n192.0.2.2 gpu2\n", [":2: '192.0.2.2' is an address where the node's name belongs"]),
        ("gpu1 192.0.2.1 root x\n", [":1: ", "here are 4 words"]),
        ("gpu1 192.0.2.256\n", [":1: '192.0.2.256' is not a valid address"]),
        ("gpu1 x/y\n", [":1: 'x/y' is not a valid address"]),
        ("gpu[1-2] 192.0.2.1\n", [":1: 'gpu[1-2]' is several nodes with one address"]),
        ("gpu1 192.0.2.1 {{x}}\n", [":1: '{{x}}' is not a user name"]),
        (
            "gpu1 192.0.2.1\n\ngpu2 192.0.2.1\n",
            [":3: address 192.0.2.1 is named twice, of gpu1 and gpu2", ":1)"],
        ),
        ("gpu1 2001:db8::1\ngpu2 2001:DB8:0::1\n", [":2: address 2001:db8::1 is named twice"]),
        ("gpu1 192.0.2.1\ngpu1 192.0.2.2\n", [":2: node gpu1 is named twice", ":1)"]),
        ("gpu1 192.0.2.1\n192.0.2.1\n", [":2: address 192.0.2.1 is named twice"]),
        ("nowhere\n", [":1: neither DNS nor"]),
        (b"gpu1\n\xff\n", [":2: it is not UTF-8"]),
        ("\x1b[31mgpu1 192.0.2.1\n", [":1: "]),
    ],
)
def test_a_list_that_is_wrong_names_the_line(tmp_path, text, said):
    file = tmp_path / "hosts.txt"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError) as refused:
        hosts.find([], file, None)
    assert [f"{file}{words}" in str(refused.value) or words in str(refused.value) for words in said] == [
        True
    ] * len(said), str(refused.value)


def test_a_list_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match="there is no such file"):
        hosts.find([], tmp_path / "none", None)
    with pytest.raises(UserError, match="not a file"):
        hosts.find([], tmp_path.__class__("/dev/zero"), None)


def test_a_node_that_a_list_does_not_have(tmp_path):
    file = tmp_path / "hosts.txt"
    file.write_text("gpu1 192.0.2.1\n")
    with pytest.raises(UserError, match=r"hosts.txt has no node gpu2"):
        hosts.find(["gpu[1-2]"], file, None)


INVENTORY = {
    "gpu_nodes": {
        "hosts": {"gpu1": {"ansible_host": "192.0.2.1", "ansible_user": "ubuntu"}, "gpu2": {}},
        "vars": {"ansible_port": 2222},
    },
    "storage": {"hosts": {"nas1": {"ansible_host": "{{ lookup('file', 'x') }}"}}},
}


def in_file(tmp_path, form):
    if form == "ini":
        file = tmp_path / "hosts"
        file.write_text(
            "[gpu_nodes]\ngpu1 ansible_host=192.0.2.1 ansible_user=ubuntu\ngpu2\n[storage]\nnas1\n"
        )
        return file
    (tmp_path / "hosts.json").write_text(json.dumps(INVENTORY))
    return tmp_path if form == "folder" else tmp_path / "hosts.json"


@pytest.mark.parametrize("form", ["folder", "file", "ini"])
def test_an_existing_inventory(tmp_path, form):
    source = in_file(tmp_path, form)
    found = hosts.find([], source, "root")
    assert found.inventories == [str(source)]
    assert {type(host.address) for host in found.hosts if host.address} == {str}
    assert plain(found) == [("gpu1", "gpu1", "192.0.2.1", "ubuntu"), ("gpu2", "gpu2", None, "root")]
    # An expression is Ansible's to evaluate.
    assert plain(hosts.find(["storage"], source, None)) == [("nas1", "nas1", None, None)]
    assert [host.key for host in hosts.find(["gpu[2]", "gpu_nodes"], source, None).hosts] == ["gpu2", "gpu1"]
    with pytest.raises(UserError, match="has no node gpu3"):
        hosts.find(["gpu3"], source, None)


def test_what_of_an_inventory_is_not_carried_over_is_named(tmp_path):
    (tmp_path / "hosts.json").write_text(json.dumps(INVENTORY))
    [remark] = hosts.find([], tmp_path / "hosts.json", None).remarks
    assert "hosts.json sets ansible_port, which the new inventory does not" in remark
    (tmp_path / "plain.ini").write_text("gpu1 ansible_host=192.0.2.1 ansible_user=me\n")
    assert hosts.find([], tmp_path / "plain.ini", None).remarks == []


def test_hosts_without_the_group_are_all_meant(tmp_path):
    (tmp_path / "hosts.ini").write_text("a1 ansible_host=192.0.2.1\na2\n")
    assert [host.key for host in hosts.find([], tmp_path / "hosts.ini", None).hosts] == ["a1", "a2"]


def test_an_inventory_that_cannot_be_used(tmp_path):
    (tmp_path / "hosts.yml").write_text("gpu_nodes: [\n")
    with pytest.raises(UserError, match=r"hosts\.yml"):
        hosts.find([], tmp_path / "hosts.yml", None)
    program = tmp_path / "hosts.sh"
    program.write_text("#!/bin/sh\ntouch ran\n")
    program.chmod(0o755)
    with pytest.raises(UserError, match="it is a program"):
        hosts.find([], program, None)
    assert not (tmp_path / "ran").exists()


def test_who_is_meant_is_one_record():
    assert hosts.find(["gpu1"], None, None).hosts == [Host("gpu1", "gpu1", None, None, "NODES")]


@pytest.mark.parametrize(
    ("error", "settings", "is_known"),
    [
        (None, "", True),
        (socket.EAI_NONAME, "hostname gpu1\n", False),
        # A name server that does not answer says nothing of the name.
        (socket.EAI_AGAIN, "hostname gpu1\n", True),
        (socket.EAI_NONAME, "hostname 192.0.2.1\n", True),
        (socket.EAI_NONAME, "hostname other\n", False),
        (socket.EAI_NONAME, "hostname gpu1\nproxyjump bastion\n", True),
        (socket.EAI_NONAME, "hostname gpu1\nproxycommand none\n", False),
        # Its own configuration is wrong: SSH says so where it is called.
        (socket.EAI_NONAME, None, True),
    ],
)
def test_names_are_looked_up_as_ssh_does(monkeypatch, tmp_path, error, settings, is_known):
    def look_up(name, _port):
        if error is not None and not name[0].isdigit():
            raise socket.gaierror(error, "as the resolver says")
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nexit 255\n" if settings is None else f"#!/bin/sh\ncat <<END\n{settings}END\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert REALLY_KNOWN("gpu1") is is_known
