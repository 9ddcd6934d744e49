from __future__ import annotations

import pytest
from railyard.report import causes_doc


def test_the_document_is_up_to_date() -> None:
    assert causes_doc.main(["--check"]) == 0


def test_a_stale_document_is_noticed(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes_doc, "TARGET", tmp_path / "troubleshooting.md")
    assert causes_doc.main(["--check"]) == 1
    assert causes_doc.main([]) == 0
    assert causes_doc.main(["--check"]) == 0
