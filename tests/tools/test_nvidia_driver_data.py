"""The role's data of each distribution answers for each generation of GPUs: packages, or a way out."""

import json
import re
from pathlib import Path

import pytest
import yaml
from ansible.utils.vars import merge_hash
from ansible_collections.railyard.fabric.plugins.module_utils.gpu import catalogue
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu import preflight
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu.choice import choose
from support import programs

VARS = Path(__file__).resolve().parents[2] / "roles/nvidia_driver/vars"
DISTRIBUTIONS = ["debian_12", "debian_13", "ubuntu_22.04", "ubuntu_24.04"]
CURRENT = ["Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell"]
ARCHITECTURES = {"amd64": "x86_64", "arm64": "sbsa"}


def facts_of(distribution, architecture="amd64", nvswitch=False):
    identity, _, version = distribution.partition("_")
    return {
        "kernel": "6.1.0-28-amd64",
        "os": {"id": identity, "version": version},
        "architecture": architecture,
        "gpus": [],
        "nvswitch": nvswitch,
    }


def layout(distribution, source):
    merged = {}
    for layer, name in [("_of_all", "main"), ("_of_family", distribution.split("_")[0]), ("", distribution)]:
        data = yaml.safe_load((VARS / f"{name}.yml").read_text(encoding="utf-8"))
        merged = merge_hash(merged, data[f"__nvidia_driver_sources{layer}"][source])
    return merged


def chosen(distribution, source="vendor", architecture="amd64", nvswitch=False, **asked):
    """Return what is chosen from the data of a distribution."""
    return choose(facts_of(distribution, architecture, nvswitch), asked, layout(distribution, source))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_switches_behind_a_bridge_need_nvlsm_and_the_tool_that_finds_their_ports(distribution):
    facts = facts_of(distribution, nvswitch=True)
    gpu = {
        "pci": "0000:8f:00.0",
        "pci_id": "10de:2901",
        "generation": "Blackwell",
        "switches_behind_bridge": True,
    }
    choice = choose({**facts, "gpus": [gpu]}, {}, layout(distribution, "vendor"))
    assert choice["refusals"] == []
    assert choice["other_packages"] == ["nvlsm", "infiniband-diags"]


def test_there_is_data_for_these_distributions_and_no_other():
    assert sorted(path.stem for path in VARS.glob("*_*.yml")) == DISTRIBUTIONS


@pytest.mark.parametrize("generation", CURRENT)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_nvidias_repository_has_a_driver_for_each_current_generation(distribution, architecture, generation):
    choice = chosen(distribution, architecture=architecture, generations=[generation])
    assert choice["refusals"] == []
    assert choice["uris"][0].endswith(
        f"/{distribution.translate({95: None, 46: None})}/{ARCHITECTURES[architecture]}/"
    )
    assert choice["branch"] == 580
    assert choice["flavour"] == ("proprietary" if generation == "Volta" else "open")
    for name in choice["driver_packages"]:
        assert re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", name), name


@pytest.mark.parametrize("distribution", ["debian_12", "debian_13"])
def test_debians_own_driver_is_too_old_for_blackwell(distribution):
    choice = chosen(distribution, "distribution", generations=["Blackwell"])
    assert [one["code"] for one in choice["refusals"]] == ["branch_too_old"]
    assert "nvidia_driver_source: vendor" in choice["refusals"][0]["text"]


@pytest.mark.parametrize("distribution", ["ubuntu_22.04", "ubuntu_24.04"])
def test_ubuntus_fabric_manager_goes_with_the_server_packages(distribution):
    choice = chosen(distribution, "distribution", nvswitch=True, generations=["Hopper"])
    assert choice["driver_packages"] == ["nvidia-headless-580-server-open", "nvidia-utils-580-server"]
    assert choice["same_version_packages"] == ["nvidia-fabricmanager-580"]


@pytest.mark.parametrize(("branch", "ending"), [(575, "-575"), (580, ""), (595, "")])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_nvidias_fabric_manager_and_imex_lost_the_branch_in_their_names(distribution, branch, ending):
    choice = chosen(distribution, nvswitch=True, generations=["Blackwell"], branch=branch, imex=True)
    assert choice["refusals"] == []
    assert choice["same_version_packages"] == [f"nvidia-fabricmanager{ending}", f"nvidia-imex{ending}"]


@pytest.mark.parametrize("source", ["distribution", "vendor"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_usual_headers_are_those_of_the_architectures_kernel(distribution, architecture, source):
    choice = chosen(distribution, source, architecture, generations=["Hopper"])
    flavour = "generic" if distribution.startswith("ubuntu") else architecture
    assert choice["headers"] == [f"linux-headers-{flavour}"]


@pytest.mark.parametrize("source", ["distribution", "vendor"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_source_has_what_the_choice_reads(distribution, source):
    data = layout(distribution, source)
    assert {"name", "branches", "default_branch", "packages", "headers", "cuda"} <= set(data)
    assert set(data.get("modules", {})) <= set(catalogue.FLAVOURS)
    assert set(data.get("flavours", [])) <= set(catalogue.FLAVOURS)
    if source == "vendor":
        assert set(data["uris"]) == set(ARCHITECTURES)
        assert data["pinned"]


@pytest.mark.parametrize("distribution", sorted({*DISTRIBUTIONS} - {"debian_13"}))
def test_the_key_of_nvidias_repository_is_known(distribution):
    data = layout(distribution, "vendor")
    assert re.fullmatch(r"[0-9A-F]{40}", data["fingerprint"])
    # NVIDIA calls the file by the last eight digits, and lays it beside the packages.
    assert data["fingerprint"].endswith(Path(data["key"]).stem.upper())
    assert any(data["key"].startswith(uri) for uri in data["uris"]["amd64"])


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize(("flavour", "suffix"), [("open", "-open"), ("proprietary", "")])
def test_ubuntu_has_modules_that_it_signed_itself(distribution, flavour, suffix):
    facts = facts_of(distribution) | {
        "kernel": "6.8.0-60-generic",
        "next_kernel": "6.8.0-60-generic",
        "kernel_packages": [
            "linux-headers-generic",
            "linux-image-aws",
            "linux-image-generic",
            "linux-image-unsigned-generic",
        ],
        "secure_boot": True,
        "driver": {"installed": []},
        "kernels": [{"kernel": one, "headers": True} for one in ("6.8.0-50-generic", "6.8.0-60-generic")],
    }
    asked = {"generations": ["Ampere"], "flavour": flavour, "prebuilt": True}
    choice = choose(facts, asked, layout(distribution, "distribution"))
    if distribution.startswith("debian"):
        assert "nvidia_driver_prebuilt: false" in choice["refusals"][0]["text"]
        return
    assert choice["refusals"] == []
    # Those that follow each kernel that moves, and those of the kernel that runs.
    assert choice["driver_packages"] == [
        *(
            f"linux-modules-nvidia-580-server{suffix}-{kernel}"
            for kernel in ("aws", "generic", "6.8.0-60-generic")
        ),
        f"nvidia-headless-no-dkms-580-server{suffix}",
        "nvidia-utils-580-server",
    ]
    assert choice["headers"] == []
    # Nothing is built on the node, so no key of this machine's is wanted, and old kernels get nothing.
    assert preflight._refuse_unsigned(facts, choice, False) == []
    assert [one["code"] for one in preflight.findings(facts, choice)] == []
    [unbuilt] = preflight.unbuilt_kernels(facts, choice, True)
    assert unbuilt["kernel"] == "6.8.0-60-generic"
    assert f"install linux-modules-nvidia-580-server{suffix}-6.8.0-60-generic" in unbuilt["why"]


STUB = """- ansible.builtin.copy:
    content: "{{ told | to_json }}"
    dest: "{{ told_file }}"
    mode: "0644"
  vars:
    told:
      uris: "{{ apt_source_uris }}"
      fingerprint: "{{ apt_source_fingerprint }}"
      bundle: "{{ apt_source_bundle }}"
      sum: "{{ apt_source_bundle_sha256 }}"
      on_node: "{{ apt_source_bundle_on_node }}"
"""
NVIDIA_KEY, OWN_KEY = "EB693B3035CD5710E231E123A4B469963BF863CC", "0" * 40


@pytest.mark.parametrize(
    ("says", "wanted"),
    [
        ({}, {"uris": ["https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/"]}),
        ({"nvidia_driver_vendor_uris": ["file:/srv/cuda"]}, {"uris": ["file:/srv/cuda"]}),
        ({"nvidia_driver_vendor_fingerprint": OWN_KEY}, {"fingerprint": OWN_KEY}),
        (
            {
                "nvidia_driver_vendor_bundle": "/srv/cuda.tar",
                "nvidia_driver_vendor_bundle_sha256": "1" * 64,
                "nvidia_driver_vendor_bundle_on_node": True,
            },
            {"uris": [], "bundle": "/srv/cuda.tar", "sum": "1" * 64, "on_node": True},
        ),
    ],
)
def test_a_mirror_or_a_bundle_takes_the_place_of_nvidias_repository(tmp_path, says, wanted):
    stub = tmp_path / "roles/apt_source/tasks"
    stub.mkdir(parents=True)
    (stub / "main.yml").write_text(STUB)
    role = VARS.parent
    files = ["defaults/main", "vars/main", "vars/ubuntu", "vars/ubuntu_24.04"]
    facts = {**facts_of("ubuntu_24.04"), "headers_missing": [], "kernel_packages": []}
    task = {
        "ansible.builtin.include_tasks": f"{role}/tasks/source.yml",
        "vars": {
            "__nvidia_driver_choice": (
                "{{ facts"
                " | railyard.fabric.nvidia_driver_choice(__nvidia_driver_asked, __nvidia_driver_layout) }}"
            ),
            "__nvidia_driver_source_tasks": "main",
            "__nvidia_driver_source_found": None,
        },
    }
    given = {"nvidia_driver_source": "vendor", "nvidia_driver_generations": ["Hopper"], **says}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars_files": [f"{role}/{one}.yml" for one in files],
        "tasks": [task],
    }
    told = {**given, "facts": facts, "told_file": f"{tmp_path}/told", "fabric": {}}
    roles = str(tmp_path / "roles")
    done = programs.play_here(tmp_path, yaml.safe_dump([play]), told, ANSIBLE_ROLES_PATH=roles)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "told").read_text())
    assert found == {
        "fingerprint": NVIDIA_KEY,
        "bundle": None,
        "sum": None,
        "on_node": False,
        "uris": found["uris"],
        **wanted,
    }


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_gdrcopy_is_of_nvidias_repository_alone_and_only_where_configured(distribution):
    generation = {"debian_13": "Hopper"}.get(distribution, "Volta")
    asked = chosen(distribution, generations=[generation], gdrcopy=True)
    assert asked["refusals"] == []
    assert {"gdrdrv-dkms", "libgdrapi"} <= set(asked["other_packages"])
    assert chosen(distribution, generations=[generation])["other_packages"] == []
    refused = chosen(distribution, "distribution", generations=[generation], gdrcopy=True)["refusals"]
    assert [one["code"] for one in refused] == ["gdrcopy_not_offered"]
