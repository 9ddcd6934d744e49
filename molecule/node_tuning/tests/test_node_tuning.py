"""What node_tuning leaves on a node: the running kernel, what a reboot will find, the record of before."""

import json

import pytest

testinfra_hosts = ["ansible://gpu_nodes"]

UNIT = "railyard-cpu-governor.service"
# gpuserver1 has the role's defaults, gpuserver2 what converge.yml says.
GOVERNOR = {"gpuserver1": "performance", "gpuserver2": "schedutil"}
TCP_RMEM_BYTES = {"gpuserver1": "4096 131072 134217728", "gpuserver2": "4096 131072 8388608"}


@pytest.fixture
def name(host):
    return host.backend.get_pytest_id().rpartition("/")[2]


def test_every_cpu_has_the_governor(host, name):
    found = host.check_output("cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor").split()
    assert found, "the lab's nodes have a cpufreq tree"
    assert set(found) == {GOVERNOR[name]}


def test_unit_sets_it_at_boot(host, name):
    unit = host.service(UNIT)
    assert unit.is_enabled
    assert unit.is_running, host.run(f"journalctl --no-pager -u {UNIT}").stdout
    # What a boot would do: the governor is lost, the unit brings it back.
    host.check_output("echo powersave | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
    host.check_output(f"systemctl restart {UNIT}")
    found = host.check_output("cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor").split()
    assert set(found) == {GOVERNOR[name]}


def test_socket_buffers(host, name):
    assert host.check_output("cat /proc/sys/net/ipv4/tcp_rmem").split() == TCP_RMEM_BYTES[name].split()
    drop_in = host.file("/etc/sysctl.d/60-railyard.conf")
    assert f"net.ipv4.tcp_rmem = {TCP_RMEM_BYTES[name]}\n" in drop_in.content_string
    assert (drop_in.user, drop_in.mode) == ("root", 0o644)


def test_sysctl_that_the_node_lacks_is_left_out(host):
    for line in host.file("/etc/sysctl.d/60-railyard.conf").content_string.splitlines():
        if not line.startswith("#"):
            key = line.partition(" = ")[0]
            assert host.file("/proc/sys/" + key.replace(".", "/")).exists, key


def test_locked_memory_of_a_login_is_all_that_the_node_may_give(host):
    # A login, through PAM, as slurmd or a user makes one; root inside it so that no password is asked.
    soft, hard = host.check_output("su - railyard -c 'ulimit -S -l; ulimit -H -l'").split()
    assert soft == hard
    may_raise = host.run("sh -c 'ulimit -H -l unlimited'").rc == 0
    assert hard == "unlimited" or not may_raise


def test_locked_memory_of_a_service_is_unlimited_for_systemd(host):
    assert (
        host.check_output("systemctl show --property DefaultLimitMEMLOCK") == "DefaultLimitMEMLOCK=infinity"
    )


def test_originals_are_recorded_once(host, name):
    document = json.loads(host.file("/var/lib/railyard/node_tuning/originals.json").content_string)
    assert document["schema"] == 1
    # Two runs (converge, idempotence) came before: a record made again would hold the role's own value.
    assert document["governors"]
    assert GOVERNOR[name] not in document["governors"].values()
    assert document["sysctl"]["net.ipv4.tcp_rmem"].split() != TCP_RMEM_BYTES[name].split()
