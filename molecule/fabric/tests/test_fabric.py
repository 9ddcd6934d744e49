"""What playbooks/fabric.yml met: a node whose tools read a subnet, and none of it changed."""

# The others do not exist.
testinfra_hosts = ["ansible://gpuserver1"]


def test_the_subnet_is_up_with_its_manager(host):
    unit = host.service("railyard-subnet")
    assert unit.is_running
    assert "SMINFO_MASTER" in host.check_output("sminfo")


def test_the_tools_that_ansible_finds_read_the_simulated_subnet(host):
    assert host.check_output("command -v ibnetdiscover") == "/usr/local/sbin/ibnetdiscover"
    # 8 nodes x 2 rails and 4 leaves x 4 uplinks, each from both ends.
    lines = host.check_output("ibnetdiscover -p").splitlines()
    assert len(lines) == 2 * (16 + 16)
    assert sum("'gpuserver1 mlx5_1' - 'a2'" in line for line in lines) == 1


def test_another_adapter_of_the_node_is_another_point_of_view(host):
    shown = {host.check_output(f"smpquery -C mlx5_{rail} nodedesc -D 0") for rail in (0, 1)}
    assert len(shown) == 2


def test_counters_are_not_reset_and_nothing_was_set(host):
    log = host.file("/var/lib/railyard-subnet/ibsim.log").content_string
    assert "ERR" not in log


def test_opensm_of_the_distribution_does_not_run(host):
    assert not host.service("opensm").is_running
