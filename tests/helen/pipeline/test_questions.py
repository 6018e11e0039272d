"""Tests that the questions of docs/questions.rst have the answers that stand there, and that the notebook runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import example_fleet
import pytest

from helen.pipeline.lake.lake import Lake
from helen.pipeline.reports.report_formats import render
from helen.pipeline.reports.sql_statements import Questions
from helen.pipeline.rollup.following import cascade

DOCS = Path(__file__).parents[3] / "docs"
_BLOCK = re.compile(r"(?m)^(?:\.\. code-block:: sql|(?P<answer>::))\n\n(?P<text>(?:    .*\n|\n)+)")
_TITLE = re.compile(r"(?m)^(.+\?)\n-+\n")


def questions() -> dict[str, tuple[str, str]]:
    """Return the statement and the answer below each question of the page."""
    page = (DOCS / "questions.rst").read_text(encoding="utf-8")
    _, *parts = _TITLE.split(page)
    found = {}
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        blocks = [re.sub(r"(?m)^    ", "", each["text"]).strip("\n") for each in _BLOCK.finditer(text)]
        assert len(blocks) == 2, title
        found[title] = (blocks[0], blocks[1])
    return found


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, new_history: Any, take_in: Any) -> Lake:
    folder = tmp_path_factory.mktemp("questions")
    helen, lake = new_history(folder / "helen"), Lake(folder / "lake")
    example_fleet.write(helen)
    take_in(lake, helen.state)
    lake.lock()
    cascade(None, lake)  # type: ignore[arg-type]
    lake.unlock()
    return lake


@pytest.fixture(scope="module")
def asked(lake: Lake, spark: Any) -> Questions:
    return Questions(lake, lambda: spark)


def test_there_are_ten() -> None:
    assert len(questions()) == 10


@pytest.mark.parametrize("title", questions())
def test_answers(asked: Questions, title: str) -> None:
    statement, answer = questions()[title]
    found = render(asked.ask(statement).report, "text")
    assert [line.rstrip() for line in found.strip("\n").split("\n")] == answer.split("\n")


def test_the_notebook_runs(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The notebook runs cell by cell with the expected figures, and draws four plots without a screen."""
    monkeypatch.setenv("HELEN_LAKE", str(lake.folder))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    notebook = json.loads((DOCS / "history.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["metadata"]["kernelspec"]["language"]) == (4, "python")
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code")
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, source in enumerate(cells):
        exec(compile(source, f"cell {number}", "exec"), names)
    pyplot = names["plt"]
    assert len(pyplot.get_fignums()) == 4
    assert names["fleet"]["n"].sum() == 3 * 3 * 144 * 3
    assert sorted(names["full"].index) == ["db1", "web1", "web2"]
    assert names["worst"].iloc[0][["agent", "check_id", "critical"]].tolist() == ["web2", "page", 4]
    pyplot.close("all")
