"""Tests that the first checks of a quickstart are whole: no check of it requires what comes later; then all of them are
there.
"""

from __future__ import annotations

import re
from pathlib import Path

import helen_checks
from helen.cli.local import first_checks
from helen.cli.local.first_checks import FIRST, LIBRARIES


def shipped() -> set[str]:
    return {str(path.relative_to(helen_checks.FOLDER)) for path in Path(helen_checks.FOLDER).rglob("*.lua")}


def test_the_first_ones_and_then_the_others(tmp_path: Path) -> None:
    """A quickstart gets the first checks with all they require, then the others; a file deleted or changed meanwhile
    stays so."""
    folder = tmp_path / "checks"
    first_checks.fill(folder)
    held = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.lua")}
    assert held.keys() == {*FIRST, *LIBRARIES}
    required = {f"lib/{name}.lua" for text in held.values() for name in re.findall(r'require[ (]+"(\w+)"', text)}
    assert required == set(LIBRARIES)
    (folder / "load.lua").write_text("mine")
    first_checks.complete(folder)
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.lua")} == shipped()
    assert (folder / "load.lua").read_text() == "mine"
    (folder / "load.lua").unlink()
    first_checks.complete(folder)
    first_checks.fill(folder)
    assert not (folder / "load.lua").exists()
