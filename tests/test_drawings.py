"""Tests that the drawings of docs/drawings.rst are those that the code gives now, and that stale ones are found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "drawings"


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the modules of the generator, which is no package of the product."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import canvas  # noqa: PLC0415  # the path is there only now
    import facts  # noqa: PLC0415

    yield canvas, facts
    for name in ("canvas", "facts", "scenes"):
        sys.modules.pop(name, None)


def test_no_drawing_is_stale(tmp_path: Path) -> None:
    """`python docs/drawings/make.py` would change nothing; every picture is on the page."""
    subprocess.run([sys.executable, str(FOLDER / "make.py"), str(tmp_path)], check=True, capture_output=True, cwd=ROOT)
    made = {path.name: path.read_text() for path in tmp_path.glob("*.svg")}
    assert made == {path.name: path.read_text() for path in FOLDER.glob("*.svg")}
    assert len(made) == 5
    page = (ROOT / "docs" / "drawings.rst").read_text()
    assert all(f".. image:: drawings/{name}" in page for name in made)


def test_what_the_code_does_not_have(drawing: Any, tmp_path: Path) -> None:
    """A module, a class, a method, a message or a constant that is gone is refused."""
    _, facts = drawing
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "printer.py").write_text(
        'import threading\nNAMES = ("a", "b")\nclass Printer:\n    kind: str = "x"\n    def open(self): ...\n'
        'threading.Thread(target=None, name="writer")\n'
    )
    assert facts.code("package.printer", "Printer", tmp_path) == "package/printer.py"
    assert facts.code("package.printer", "Printer.open", tmp_path) == "package/printer.py"
    assert facts.threads("package", root=tmp_path) == {"writer": "package/printer.py"}
    assert facts.strings("package.printer", "NAMES", tmp_path) == ["a", "b"]
    assert facts.strings("package.printer", "Printer.kind", tmp_path) == ["x"]
    for module, name in (("package.scanner", ""), ("package.printer", "Scanner"), ("package.printer", "Printer.close")):
        with pytest.raises(facts.Stale):
            facts.code(module, name, tmp_path)
    with pytest.raises(facts.Stale):
        facts.strings("package.printer", "OTHER", tmp_path)
    assert facts.message("report", "EQUUS") == "report"
    with pytest.raises(facts.Stale):
        facts.message("report", "HELEN")


def test_text_that_runs_over_its_box(drawing: Any) -> None:
    """Text that runs over its box is refused when the drawing is made: bytes alone would not show it."""
    canvas, _ = drawing
    sheet = canvas.Canvas("one")
    sheet.box(0, 0, 100, "short", ["as it is"])
    with pytest.raises(canvas.TooWide):
        sheet.box(0, 0, 100, "short", ["as it is, and some more of it"])
