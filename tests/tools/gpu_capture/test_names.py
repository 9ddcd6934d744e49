"""What tells a machine from others is replaced in a capture, the same way everywhere, and nothing else."""

from __future__ import annotations

import pytest
from gpu.capture import names
from gpu.capture.names import LeftError, Names


def replaced(*texts: str, hosts=("trn-07",), users=("jbloggs",), common=()) -> list[str]:
    found = Names(hosts, users, common)
    for text in texts:
        found.learn(text)
    return [found.replace(text) for text in texts]


@pytest.mark.parametrize(
    "text",
    [
        "Serial Number                         : 1650924031780",
        "NVRM: GPU Board Serial Number: 1650924031780",
        "Chassis Serial Number             : 1821425190145",
        "GPU PDI                               : 0x7a1b2c3d4e5f6070",
        "GPU Fabric GUID                   : 0xe5a7dfe34fce0f52",
        "GPU UUID : GPU-7c1f40d2-93ab-4e6d-8f05-d1c2b3a49550",
        "MIG 1g.10gb Device 0: (UUID: MIG-7c1f40d2-93ab-5e6d-8f05-d1c2b3a49551)",
        "ClusterUUID : 7c1f40d2-93ab-4e6d-8f05-d1c2b3a49552",
        "link/ether 98:03:9b:12:34:56 brd",
        "GUID 98:03:9b:03:00:12:34:56",
        "Device Serial Number 98-03-9b-ff-ff-12-34-56",
        "NET/Socket : Using [0]ens49f1np1:10.52.7.19<0>",
        "NET/Socket : Using [0]eno8np0:192.168.103.97<0>",
        "NET/Socket : Using [1]veth1:fe80::9a03:9bff:fe12:3456%veth1<0>",
        "listening at [fd00:1234::7]:28028",
        "trn-07:12225:12255 [0] NCCL INFO Using network Socket",
        "(root@trn-07.cluster.acme.example)",
        "name=/home/jbloggs/train.py",
        "trained by jbloggs on TRN-07",
    ],
)
def test_a_name_goes_and_the_line_keeps_its_form(text):
    [found] = replaced(text, hosts=("trn-07.cluster.acme.example",))
    assert found != text
    for original in (
        "1650924031780", "1821425190145", "7a1b2c3d", "e5a7dfe3", "7c1f40d2", "12:34:56", "12-34-56",
        "10.52.7", "103.97", "9a03", "fd00", "trn-07", "acme", "jbloggs",
    ):  # fmt: skip
        assert original not in found.lower()
    # Twice it is the same: a stand-in is no name.
    assert replaced(found, hosts=()) == [found]


@pytest.mark.parametrize(
    "text",
    [
        "00000000:53:00.0, NVIDIA H100 80GB HBM3, 580.105.08",
        "PCI:0000:53:00: it fell off",
        "VBIOS Version : 96.00.99.00.01",
        "Image Version : G520.0200.00.05",
        "NCCL version 2.27.5+cuda12.9",
        "RAS client listening socket at 127.0.0.1<28028>",
        "Timestamp : Fri Aug 21 08:54:01 2026",
        "Serial Number : N/A",
        "GPU UUID : GPU-00000000-0000-0000-0000-000000000000",
        "torch::autograd::Node, at::cuda, std::abort",
        "(root@localhost) /home/ubuntu/x",
    ],
)
def test_what_is_no_name_stays(text):
    assert replaced(text) == [text]


def test_one_original_has_one_stand_in():
    first, second, third = replaced(
        "Serial Number : 1650924031780\nSerial Number : 1650924031781",
        "serial=1650924031781",
        "a 1650924031780",
    )
    one, other = (line.split()[-1] for line in first.splitlines())
    assert one != other
    assert (second, third) == (f"serial={other}", f"a {one}")


def test_a_common_word_stays_in_text_and_goes_where_it_is_a_name():
    texts = ("max:1:2 [0] NCCL INFO pcie.link.gen.max /home/max/x", "power.max_limit")
    assert replaced(*texts, hosts=("max",), users=("max",), common=("max",))[1] == "power.max_limit"
    assert replaced(*texts, hosts=("max",), users=("max",), common=("max",))[0] == (
        "gpu-host1:1:2 [0] NCCL INFO pcie.link.gen.max /home/user1/x"
    )


def test_a_name_inside_another_word_goes_too():
    # Two ranks wrote at once (seen in a public log of NCCL 2.26.2).
    [found] = replaced("trn-07:1:2 [0] NCCL INFO x\ntrntrn-07:1:3 [1] NCCL INFO y\nytrn-07:1")
    assert "trn-07" not in found


def test_a_text_that_still_holds_a_name_is_refused(monkeypatch):
    found = Names((), (), ())
    found.learn("Serial Number : 1650924031780")
    monkeypatch.setattr(names, "_anywhere", lambda word: rf"\b{word}\b")
    with pytest.raises(LeftError):
        found.replace("x1650924031780y")
