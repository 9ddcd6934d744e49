"""What is replaced in a text and what is not: expected values follow from the rules in the README."""

from __future__ import annotations

import ipaddress
import re

import pytest
from railyard.bundle import naming
from railyard.bundle.table import Table

MAC, IPOIB = "b8:3f:d2:4a:00:01", "80:00:02:08:fe:80:00:00:00:00:00:00:"


def table(*texts, declared=(), nodes=()):
    made = Table()
    for node in nodes:
        made.name("node", node)
    for text in declared:
        made.declare(text)
    for text in texts:
        made.learn(text)
    made.settle()
    return made


def swapped(*texts, **known):
    made = table(*texts, **known)
    found = [made.replace(text) for text in texts]
    assert not any(made.left(text) for text in found)
    return found


def ip(text):
    return ipaddress.ip_address(text)


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ('"address":"10.64.4.7/22","peer_address":"10.64.6.9"', '"subnet":"10.64.4.0/22"'),
        ('"address":"10.64.4.7","other":"10.64.8.9"', '"supernet":"10.64.0.0/19","subnet":"10.64.4.0/22"'),
        ('"address":"fd12:3456:0:1::7","peer_address":"fd12:3456:0:1::9"', '"subnet6":"fd12:3456:0:1::/64"'),
        ("ping 203.0.113.7 and ping 203.0.113.9", ""),
        ("inet 169.254.7.7 and 169.254.7.9", ""),
    ],
)
def test_what_is_in_one_network_stays_as_far_apart(text, declared):
    [after] = swapped(text, declared=[declared])
    address = r"(?:[0-9a-f]+:[0-9a-f:]+|\d+\.\d+\.\d+\.\d+)"
    before, stands = ([ip(one) for one in re.findall(address, words)] for words in (text, after))
    assert int(before[1]) - int(before[0]) == int(stands[1]) - int(stands[0])
    assert not set(before) & set(stands)
    assert [one.is_link_local for one in before] == [one.is_link_local for one in stands]


def test_networks_that_lie_apart_stay_apart_and_in_their_order():
    text = "addr 10.0.1.5 addr 10.0.0.5 addr 192.168.7.5 addr 10.0.1.6"
    [after] = swapped(text, declared=['"subnet":"10.0.1.0/24","subnet":"10.0.0.0/24"'])
    first, second, third, beside = map(ip, re.findall(r"[\d.]{7,}", after))
    assert second < first < third
    assert len({int(one) >> 8 for one in (first, second, third)}) == 3
    assert int(beside) == int(first) + 1


@pytest.mark.parametrize(
    ("form", "stands"),
    [
        # 10.0.0.0/24 is the first network of its length that is free.
        ("10.0.1.2:4791", "10.0.0.2:4791"),
        ("0000:0000:0000:0000:0000:ffff:0a00:0102", "0000:0000:0000:0000:0000:ffff:0a00:0002"),
        ("::ffff:10.0.1.2", "::ffff:10.0.0.2"),
        ("00000000000000000000ffff0a000102", "00000000000000000000ffff0a000002"),
        (f"GID: {'00:' * 10}255:255:10:00:01:02", f"GID: {'00:' * 10}255:255:10:00:00:02"),
        # Of the vendor's numbers 000001 stands for 100001, which is smaller.
        (MAC.upper(), "B8:3F:D2:00:00:02"),
        ("b8-3f-d2-4a-00-01", "b8-3f-d2-00-00-02"),
        ("b83f.d24a.0001", "b83f.d200.0002"),
        ("enxb83fd24a0001", "enxb83fd2000002"),
        ("node_guid b83f:d203:004a:0001", "node_guid b83f:d203:0000:0002"),
        ("Port GUID: 0xba3fd2fffe4a0001", "Port GUID: 0xba3fd2fffe000002"),
        ("fe80::ba3f:d2ff:fe4a:1/64", "fe80::ba3f:d2ff:fe00:2/64"),
        ("fe80:0000:0000:0000:b83f:d203:004a:0001", "fe80:0000:0000:0000:b83f:d203:0000:0002"),
        (IPOIB + "b8:3f:d2:03:00:4a:00:01", IPOIB + "b8:3f:d2:03:00:00:00:02"),
        ("mac:b8:3f:d2:4a:00:01: up", "mac:b8:3f:d2:00:00:02: up"),
        (r"said\nb8:3f:d2:4a:00:01", r"said\nb8:3f:d2:00:00:02"),
        ("01:b8:3f:d2:4a:00:01", "01:b8:3f:d2:00:00:02"),
    ],
)  # fmt: skip
def test_a_gid_follows_its_address_and_what_is_made_of_a_mac_follows_it(form, stands):
    assert swapped('"address":"10.0.1.2"', MAC, "b8:3f:d2:10:00:01", form)[3] == stands


@pytest.mark.parametrize(
    "text",
    [
        "fw_ver: 22.39.1002, firmware 28.39.1002",
        "Linux version 5.15.0.1, kernel 5.15.0.1-generic, ii libibverbs1 50.0.2.1",
        "MLNX_OFED_LINUX-5.8-3.0.7.0 perftest 23.10.0.5, firmware 10.2.0.5, ii 10.3.0.5-generic",
        "inet 127.0.0.1 netmask 255.255.255.0 0.0.0.0/0 via nobody",
        "routes to 10.0.0.0/8 and 192.168.0.0/16",
        "at 10:15:03.120 on 2026-11-21T10:15:03Z, a::b and std::vector",
        "VAddr 0x007fc97ff5000012 QPN 0x0132 PSN 0xdd455f, 0000:3b:00.0",
        "fe80::1 and ff:ff:ff:ff:ff:ff and 01:00:5e:00:00:01, GUID: 0x0000000000000000",
        "the client said to root@localhost",
    ],
)
def test_text_without_names_stays(text):
    assert swapped(text) == [text]


def test_a_known_address_is_replaced_where_it_looks_like_a_version():
    assert "5.15.0.1" not in swapped("kernel 5.15.0.1", '"address":"5.15.0.1/24"')[0]


def test_names_are_numbered_in_their_order_and_found_where_they_are_glued():
    nodes = ("acme-gpu7", "acme-gpu10", "moon.acme.example")
    texts = [
        "acme-gpu10 acme-gpu7 acme-gpu77",
        "(ACME-GPU7) xacme-gpu7_1 raw/acme-gpu7.tar.gz",
        r'\nmoon.acme.example moon "host":"moon"',
    ]
    assert swapped(*texts, nodes=nodes) == [
        "node1 node2 acme-gpu77",
        "(node2) xnode2_1 raw/node2.tar.gz",
        r'\nnode3 node3 "host":"node3"',
    ]  # fmt: skip


def test_a_replacement_is_no_real_name():
    after = swapped("node1 node2", '"cluster":"n1"', nodes=("node1", "node2"))
    assert not set(" ".join(after).split()) & {"node1", "node2", "n1"}
    uuid = "00000000-0000-4000-8000-000000000001"
    assert swapped(uuid) != [uuid]


def test_a_word_of_the_documents_is_no_name():
    made = table(nodes=("client", "b8", "gpu1"))
    assert made.kept == {"client", "b8"}
    assert (
        made.replace('"end":"client","node":"client","peer":"gpu1"')
        == '"end":"client","node":"client","peer":"node1"'
    )


@pytest.mark.parametrize(
    ("text", "gone", "there"),
    [
        ("Serial Number      : 1655022005478", "1655022005478", "s000000000001"),
        ('"serial": "MT2134X0"', "MT2134X0", "s0000001"),
        ("GPU-f4c353ff-b56c-c1de-bcb9-7dad861b589a", "f4c353ff", "GPU-00000000-0000-4000-8000-000000000001"),
        ("ssh: alice@moon.acme.example: denied", "acme", "user1@host1.domain1.example"),
        ("0000:0000:0000:0000:0000:ffff:0908:0706", "0908", "0000:0000:0000:0000:0000:ffff:0a00:0006"),
        ("fd12::7 fec0:0000:0000:0001:b83f:d203:004a:0001", "fec0", "fd00::7 fd00:0000:0000:0001:b83f"),
        ("/home/alice/runs belongs to alice", "alice", "/home/user1/runs belongs to user1"),
        ("password: hunter22 for hunter22", "hunter22", "secret1 for secret1"),
        (f"SHA256:{'aB3/' * 10}abc", "aB3/", "SHA256:secret1"),
        (f"ssh-ed25519 AAAA{'C3Nz' * 12} x", "C3Nz", "ssh-ed25519 secret1 x"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE", "key 1"),
        ('"system_info":"Linux moon4 5.15.0.1-generic"', "moon4", "Linux host1 5.15.0.1-generic"),
        ("moon4:225:265 [3] NCCL INFO moon4", "moon4", "host1:225:265 [3] NCCL INFO host1"),
        ('"switch":"leaf-b.acme.example","chassis":"SN77"', "acme", '"switch":"switch1.domain1.example"'),
    ],
)  # fmt: skip
def test_serials_names_and_keys_are_replaced(text, gone, there):
    [after] = swapped(text)
    assert gone.lower() not in after.lower()
    assert there in after


ADDRESS, ADDRESS6 = '"address":"192.168.1.7/24"', '"address":"fd12:3456:0:1::7/64"'


@pytest.mark.parametrize(
    ("form", "stands"),
    [
        # 10.0.0.0/24 is the first network of its length that is free; 000002 the vendor's second number.
        ("7.1.168.192.in-addr.arpa", "7.0.0.10.in-addr.arpa"),
        ("1.168.192.IN-ADDR.ARPA", "0.0.10.IN-ADDR.ARPA"),
        ("ip-192-168-1-7.ec2", "ip-10-0-0-7.ec2"),
        ("dhcp_192_168_1_7_x", "dhcp_10_0_0_7_x"),
        ("IP 192.168.1.7.4791 > 192.168.1.7.22: UDP", "IP 10.0.0.7.4791 > 10.0.0.7.22: UDP"),
        ("c0a80107", "0a000007"),
        ("0xC0A80107", "0x0A000007"),
        ("0701A8C0:1F90", "0700000A:1F90"),
        ("0000000000000000FFFF00000701A8C0:1F90", "0000000000000000FFFF00000700000A:1F90"),
        ("http%3A%2F%2F192.168.1.7%3A80", "http%3A%2F%2F10.0.0.7%3A80"),
        ("fd12:3456:0000:0001:0:0:0:7", "fd00::7"),
        ("FD12:3456:0:1::7", "FD00::7"),
        ("7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.0.0.0.0.6.5.4.3.2.1.d.f.ip6.arpa",
         "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa"),
        ("563412FD010000000000000007000000", "000000FD000000000000000007000000"),
        ("fd12-3456-0-1--7.ipv6-literal.net", "fd00--7.ipv6-literal.net"),
        ("fd12%3A3456%3A0%3A1%3A%3A7", "fd00%3A%3A7"),
        ("b83f-d24a-0001", "b83f-d200-0002"),
        ("b83fd2-4a0001", "b83fd2-000002"),
        ("b8:3f:d2:4a:0:1", "b8:3f:d2:0:0:2"),
        ("B8-3F-D2-FF-FE-4A-00-01", "B8-3F-D2-FF-FE-00-00-02"),
        ("ba3f.d2ff.fe4a.0001", "ba3f.d2ff.fe00.0002"),
        ("b8%3A3f%3Ad2%3A4a%3A00%3A01", "b8%3A3f%3Ad2%3A00%3A00%3A02"),
    ],
)  # fmt: skip
def test_a_known_address_is_replaced_in_each_of_its_forms(form, stands):
    known = (ADDRESS, ADDRESS6, MAC, "b8:3f:d2:10:00:01")
    assert swapped(*known, f"x {form} y")[-1] == f"x {stands} y"


@pytest.mark.parametrize(
    "text",
    ["7.1.168.192.in-addr.arpa", "192-168-1-7", "192_168_1_7", "c0a80107", "0701A8C0", "0701a8c0",
     "563412FD010000000000000007000000", "0000000000000000FFFF00000701A8C0", "fd12:3456:0:1:0:0:0:7",
     "fd12-3456-0-1--7", "b83f-d24a-0001", "b83fd2-4a0001", "b8:3f:d2:4a:0:1", "192%2E168%2E1%2E7",
     "192.168.1.7.22", "b8%3a3f%3ad2%3a4a%3a00%3a01"],
)  # fmt: skip
def test_the_last_look_finds_a_known_address_in_each_of_its_forms(text):
    made = table(ADDRESS, ADDRESS6, MAC, "b8:3f:d2:10:00:01")
    assert made.left(f"x {text} y")


@pytest.mark.parametrize(
    "text",
    ["MLNX_OFED 5-8-3-0, build 24-10-1-4",
      "rkey 0x1fff0a00 QPN 0x00010203", "crc deadbeef 12345678",
     "100%de, 95%ab", "commit 666962f4", "cafe-babe-0001 123456-abcdef", "1:2:3:4:5:6"],
)  # fmt: skip
def test_what_may_be_anything_else_stays(text):
    assert swapped(text) == [text]


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("ssh: Could not resolve hostname gpu7x: Name or service not known", "gpu7x"),
        ("ssh: connect to host gpu7x port 22: Connection refused", "gpu7x"),
        ("deployer14@gpu7x: Permission denied (publickey).", "deployer14 gpu7x"),
        ("Failed to connect to the host via ssh: deployer14@gpu7x", "deployer14 gpu7x"),
        ("Connection closed by authenticating user deployer14 gpu7x port 22 [preauth]", "deployer14 gpu7x"),
        ("Connection to gpu7x closed by remote host.", "gpu7x"),
        ("Warning: Permanently added '[gpu7x]:2222' (ED25519) to the list of known hosts.", "gpu7x"),
        ("The authenticity of host 'gpu7x (10.0.0.7)' can't be established.", "gpu7x"),
        ("No ED25519 host key is known for gpu7x and you have requested strict checking.", "gpu7x"),
        ("sudo: unable to resolve host gpu7x: Name or service not known", "gpu7x"),
        ("[sudo] password for deployer14: ", "deployer14"),
        ("deployer14 is not in the sudoers file.", "deployer14"),
        ("Sorry, user deployer14 is not allowed to execute '/bin/sh' as root on gpu7x.", "deployer14 gpu7x"),
        ("pam_unix(sudo:session): session opened for user root(uid=0) by deployer14(uid=1001)", "deployer14"),
        ("Accepted publickey for deployer14 from gpu7x port 4 ssh2", "deployer14 gpu7x"),
        ("uid=1001(deployer14) gid=1001(deployer14) groups=27(sudo)", "deployer14"),
        ("SUDO_USER=deployer14 LOGNAME=deployer14", "deployer14"),
        ("ping: gpu7x: Temporary failure in name resolution", "gpu7x"),
        ("fatal: [gpu7x]: UNREACHABLE!", "gpu7x"),
        ('{"user": "deployer14", "remote_user": "deployer14"}', "deployer14"),
        ("mailto%3Adeployer14%40gpu7x.acme.example", "deployer14 gpu7x acme"),
        ("GPU7X.MOON.ACME.EXAMPLE at host gpu7x.moon.acme.example, ns1.acme.example", "gpu7x moon acme"),
    ],
)  # fmt: skip
def test_who_a_sentence_names_is_replaced(text, gone):
    [after] = swapped(f"{text}\n" + ('"host":"gpu7x.moon.acme.example"' if "moon" in text.lower() else ""))
    assert [one for one in gone.split() if one in after.lower()] == []


@pytest.mark.parametrize(
    "form",
    ["acme_gpu_b07", r"acme\x2dgpu\x2db07", "ACME-GPU-B07", "acme-gpu-b07.moon", "http://acme%2Dgpu%2Db07/"],
)
def test_a_known_name_is_replaced_in_each_of_its_forms(form):
    [after] = swapped(form, nodes=["acme-gpu-b07"])
    assert "acme" not in after.lower()
    assert "node1" in after.lower()
    assert table(nodes=["acme-gpu-b07"]).left(form)


@pytest.mark.parametrize("form", ["acme-gpu-b07", "acme_gpu_b07", r"acme\x2dgpu\x2db07"])
def test_a_node_with_a_domain_is_replaced_in_each_form_without_it(form):
    known = {"nodes": ["acme-gpu-b07.moon.acme.example"]}
    assert "acme" not in swapped(form, **known)[0].lower()
    assert table(**known).left(form)


def test_a_form_of_a_name_that_is_a_word_of_the_documents_stays():
    made = table('{"cluster":"path-mtu"}')
    assert (
        made.replace('{"check":"path_mtu","cluster":"path-mtu"}')
        == '{"check":"path_mtu","cluster":"cluster1"}'
    )


def test_a_folded_list_of_names_is_replaced():
    made = table(nodes=["acme-gpu-07", "acme-gpu-12", "gpu1"])
    assert made.replace("acme-gpu-[07,12] gpu[1]") == "node[07,12] gpu[1]"
    assert made.left("acme-gpu-[07]")


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (["-u", "deployer14"], {("user", "deployer14")}),
        (["-udeployer14"], {("user", "deployer14")}),
        (["--user=deployer14", "--become-user", "ops9"], {("user", "deployer14"), ("user", "ops9")}),
        (["-e", "ansible_user=deployer14 x=1"], {("user", "deployer14")}),
        (["--extra-vars={\"ansible_user\": \"deployer14\"}"], {("user", "deployer14")}),
        (["-e", "@/srv/vars.yml"], set()),
        (["--limit", "gpu7x,!gpu[08:12]"], {("host", "gpu7x"), ("host", "gpu[08:12]")}),
        (["--ssh-common-args=-o User=ops9 -J jump@bastion7"],
         {("user", "ops9"), ("user", "jump"), ("host", "bastion7")}),
        (["--private-key", "keys/deployer14"], {("folder", "keys/deployer14")}),
        (["-i", "inventories/lab", "-K", "--check"], set()),
        (["-i", "gpu7x,"], {("host", "gpu7x"), ("host", "")}),
        ([], set()),
    ],
)  # fmt: skip
def test_who_a_command_line_names(argv, names):
    assert set(naming.in_argv(["ansible-playbook", *argv])) == names
