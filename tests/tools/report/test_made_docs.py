from __future__ import annotations

import pytest
from railyard.report import made_docs


def test_the_documents_are_up_to_date() -> None:
    assert made_docs.main(["--check"]) == 0


def test_every_table_is_in_a_document_and_every_row_has_a_meaning() -> None:
    texts = "".join((made_docs.DOCS / name).read_text(encoding="utf-8") for name in made_docs.NAMES)
    assert all(f"<!-- table {name} -->" in texts for name in made_docs.TABLES)
    assert all(cell for rows in made_docs.TABLES.values() for row in rows() for cell in row)


def test_each_stale_document_is_noticed(tmp_path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    texts = {name: (made_docs.DOCS / name).read_text(encoding="utf-8") for name in made_docs.NAMES}
    monkeypatch.setattr(made_docs, "DOCS", tmp_path)
    for name, text in texts.items():
        (tmp_path / name).write_text(text.replace("<!-- end -->\n", "| x | y |\n<!-- end -->\n"), "utf-8")
    assert made_docs.main(["--check"]) == 1
    told = capsys.readouterr().err
    assert all(f"{tmp_path / name} is out of date" in told for name in texts)
    assert made_docs.main([]) == 0
    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in texts} == texts
