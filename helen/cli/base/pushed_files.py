"""Reads the files of a push, with the tests beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helen.cli.base.failures import Failed
from helen.cli.base.pinned import judge_pinned


def read_files(files: tuple[Path, ...]) -> dict[str, Any]:
    """Return the body of a push, `{"files": {NAME: TEXT}, "tests": {NAME: TEXT}}`, with the tests beside the files."""
    contents: dict[str, str] = {}
    tests: dict[str, str] = {}
    for path in files:
        name = f"lib/{path.name}" if path.absolute().parent.name == "lib" else path.name
        judge_pinned(path.absolute().parents[name.count("/")], {name, f"tests/{name}"})
        contents[name] = read_text(path)
        beside = path.parent / "tests" / path.name
        if beside.exists():
            tests[path.name] = read_text(beside)
    return {"files": contents, "tests": tests}


def read_text(path: Path) -> str:
    """Return a file's text, with bytes that are no UTF-8 as surrogates; raises Failed if it can't be read."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise Failed(f"{path} can't be read: {error.strerror}") from error
