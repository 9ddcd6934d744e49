"""What quick_check leaves on a node: a program that says what is wrong, a timer, a script for Slurm."""

import json

import pytest

testinfra_hosts = ["ansible://gpu_nodes"]

PROGRAM = "/usr/local/sbin/railyard-quick"
# Of molecule/inventory: what gpuserver1's rails are to have.
RAILS = {"ens6": "10.0.1.1/24", "ens6d1": "10.0.0.1/24"}


@pytest.fixture
def rails(host):
    """Give the rails what the inventory plans, by hand; the state of before comes back."""
    before = {name: host.check_output(f"cat /sys/class/net/{name}/mtu") for name in RAILS}
    for name, address in RAILS.items():
        host.check_output(f"ip address add {address} dev {name}")
        host.check_output(f"ip link set dev {name} mtu 9000 up")
        # The kernel says that a link is up a moment after it is, a busy one up to a second.
        up = f"until grep -qx up /sys/class/net/{name}/operstate; do sleep 0.1; done"
        host.check_output(f'timeout 5 sh -c "{up}"')
    yield
    for name, address in RAILS.items():
        host.check_output(f"ip address del {address} dev {name}")
        host.check_output(f"ip link set dev {name} mtu {before[name]}")


def test_nothing_is_there_by_default(host, is_configured):
    assert host.file(PROGRAM).exists == is_configured
    assert host.file("/etc/railyard/quick.json").exists == is_configured


def test_it_says_what_is_wrong_and_what_is_good(host, is_configured, rails):
    if not is_configured:
        return
    good = host.run(f"{PROGRAM} --as test")
    assert (good.rc, good.stderr) == (0, ""), good.stdout
    assert good.stdout.startswith("railyard quick: gpuserver1: good: 2 rails")
    host.check_output("ip link set dev ens6 mtu 1500")
    wrong = host.run(f"{PROGRAM} --as test")
    assert wrong.rc == 1
    assert "mtu_differs: rail0 (ens6) has 1500, the plan's is 9000" in wrong.stdout
    host.check_output("ip link set dev ens6 mtu 9000")
    # The link went down and came back: its counter says so, once.
    host.check_output("ip link set dev ens6d1 down")
    host.check_output("ip link set dev ens6d1 up")
    wrong = host.run(f"sleep 1; {PROGRAM} --as test --json")
    assert [one for one in json.loads(wrong.stdout)["wrong"] if "netdev.carrier_changes grew" in one]
    assert host.run(f"{PROGRAM} --as test").rc == 0


def test_it_takes_little_of_a_processor_and_of_the_rails(host, is_configured, rails):
    if not is_configured:
        return
    sent = "cat " + " ".join(f"/sys/class/net/{name}/statistics/[rt]x_bytes" for name in RAILS)
    before = sum(map(int, host.check_output(sent).split()))
    timed = host.run(f"bash -c 'TIMEFORMAT=\"%U %S\"; time {PROGRAM} --as test >/dev/null'")
    moved_bytes = sum(map(int, host.check_output(sent).split())) - before
    assert sum(map(float, timed.stderr.split()[-2:])) <= 2.0
    assert moved_bytes <= 10e6


def test_the_timer_looks(host, is_configured):
    assert host.file("/etc/systemd/system/railyard-quick.timer").exists == is_configured
    if is_configured:
        timer = host.service("railyard-quick.timer")
        assert (timer.is_enabled, timer.is_running) == (True, True)
        host.run("systemctl start railyard-quick.service")
        # The journal takes a service's last words after its end.
        host.check_output("journalctl --sync")
        journal = host.check_output("journalctl --no-pager -u railyard-quick.service")
        assert "railyard quick: gpuserver1: " in journal


def test_slurm_has_a_script_that_says_when_slurm_is_not_there(host, is_configured):
    if not is_configured:
        return
    script = host.file("/usr/local/sbin/railyard-quick-slurm")
    assert (script.mode, script.user) == (0o755, "root")
    said = host.run("/usr/local/sbin/railyard-quick-slurm")
    assert said.rc == 1
    assert "Slurm does not know of it: scontrol: not found" in said.stdout
