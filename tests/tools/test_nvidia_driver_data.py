"""The role's data of each distribution answers for each generation of GPUs: packages, or a way out."""

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.module_utils import gpu_catalogue
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu_driver_choice import choose

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
    data = yaml.safe_load((VARS / f"{distribution}.yml").read_text(encoding="utf-8"))
    return data["__nvidia_driver_sources"][source]


def test_there_is_data_for_these_distributions_and_no_other():
    assert sorted(path.stem for path in VARS.glob("*_*.yml")) == DISTRIBUTIONS


@pytest.mark.parametrize("generation", CURRENT)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_nvidias_repository_has_a_driver_for_each_current_generation(distribution, architecture, generation):
    facts = facts_of(distribution, architecture)
    choice = choose(facts, {"generations": [generation]}, layout(distribution, "vendor"))
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
    choice = choose(
        facts_of(distribution), {"generations": ["Blackwell"]}, layout(distribution, "distribution")
    )
    assert [one["code"] for one in choice["refusals"]] == ["branch_too_old"]
    assert "nvidia_driver_source: vendor" in choice["refusals"][0]["text"]


@pytest.mark.parametrize("distribution", ["ubuntu_22.04", "ubuntu_24.04"])
def test_ubuntus_fabric_manager_goes_with_the_server_packages(distribution):
    choice = choose(
        facts_of(distribution, nvswitch=True),
        {"generations": ["Hopper"]},
        layout(distribution, "distribution"),
    )
    assert choice["driver_packages"] == ["nvidia-headless-580-server-open", "nvidia-utils-580-server"]
    assert choice["same_version_packages"] == ["nvidia-fabricmanager-580"]


@pytest.mark.parametrize(("branch", "ending"), [(575, "-575"), (580, ""), (595, "")])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_nvidias_fabric_manager_and_imex_lost_the_branch_in_their_names(distribution, branch, ending):
    asked = {"generations": ["Blackwell"], "branch": branch, "imex": True}
    choice = choose(facts_of(distribution, nvswitch=True), asked, layout(distribution, "vendor"))
    assert choice["refusals"] == []
    assert choice["same_version_packages"] == [f"nvidia-fabricmanager{ending}", f"nvidia-imex{ending}"]


@pytest.mark.parametrize("source", ["distribution", "vendor"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_usual_headers_are_those_of_the_architectures_kernel(distribution, architecture, source):
    choice = choose(
        facts_of(distribution, architecture), {"generations": ["Hopper"]}, layout(distribution, source)
    )
    flavour = "generic" if distribution.startswith("ubuntu") else architecture
    assert choice["headers"] == [f"linux-headers-{flavour}"]


@pytest.mark.parametrize("source", ["distribution", "vendor"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_source_has_what_the_choice_reads(distribution, source):
    data = layout(distribution, source)
    assert {"name", "branches", "default_branch", "packages", "headers", "cuda"} <= set(data)
    assert set(data.get("modules", {})) <= set(gpu_catalogue.FLAVOURS)
    assert set(data.get("flavours", [])) <= set(gpu_catalogue.FLAVOURS)
    if source == "vendor":
        assert set(data["uris"]) == set(ARCHITECTURES)
        assert data["pinned"]
