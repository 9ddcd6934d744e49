"""The driver is built for the node's kernel where it was requested, kept at its version, loaded nowhere."""

testinfra_hosts = ["ansible://gpu_nodes"]

KERNEL = "6.1.0-99-amd64"
OPTIONS = "/etc/modprobe.d/railyard-nvidia.conf"


def test_dkms_built_the_module_and_depmod_knows_it(host, is_configured):
    out = host.run(f"modinfo -k {KERNEL} -F version nvidia-current")
    assert (out.stdout.strip() == "535.183.01") == is_configured, out


def test_the_packages_are_held_at_their_version(host, is_configured):
    show = host.run("dpkg-query --show --showformat='${db:Status-Want} ${Version}' nvidia-kernel-dkms")
    assert (show.stdout == "hold 535.183.01-1") == is_configured, show


def test_nouveau_is_kept_from_loading_and_the_options_are_those_of_debians_module(host, is_configured):
    assert host.file(OPTIONS).exists == is_configured
    if is_configured:
        text = host.file(OPTIONS).content_string
        assert "\nblacklist nouveau\n" in text
        assert "\noptions nvidia-current NVreg_EnableGpuFirmware=0\n" in text


def test_what_was_not_asked_is_not_there(host):
    assert not host.file("/etc/modules-load.d/railyard-nvidia.conf").exists
    assert not host.file("/etc/nvidia-imex/nodes_config.cfg").exists
    assert not host.file("/var/lib/railyard/waits/nvidia_driver.json").exists


def test_a_container_loads_nothing_into_its_host(host):
    assert not host.file("/sys/module/nvidia").exists
