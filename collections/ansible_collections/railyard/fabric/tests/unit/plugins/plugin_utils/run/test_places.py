from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import places

CHECKOUT = Path(__file__).resolve().parents[9]


@pytest.fixture(autouse=True)
def _unnamed(monkeypatch, tmp_path):
    monkeypatch.delenv("RAILYARD_REPORTS_DIR", raising=False)
    monkeypatch.chdir(tmp_path)


def test_a_checkout_keeps_its_reports_itself():
    assert (CHECKOUT / "site.yml").is_file()
    assert places.reports_dir() == CHECKOUT / "reports"


@pytest.mark.parametrize("files", [[], ["site.yml"]], ids=["collection", "wheel"])
def test_what_is_installed_keeps_reports_in_the_current_folder(files, monkeypatch, tmp_path):
    installed = tmp_path / "installed"
    installed.mkdir()
    for name in files:
        (installed / name).touch()
    monkeypatch.setattr(places, "_ROOT", installed)
    assert places.reports_dir() == tmp_path / "reports"


def test_a_named_folder_counts_before_all_others(monkeypatch, tmp_path):
    monkeypatch.setenv("RAILYARD_REPORTS_DIR", "named")
    assert places.reports_dir() == tmp_path / "named"
