"""Tests that the verdicts stored with the shipped checks are those of lint, and hold for a whole set only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from twisted.internet.defer import Deferred, succeed
from twisted.logger import capturedLogs, formatEvent

import helen_checks
from equus.authoring.commands import lint
from equus_protocol.manifest import FileEntry, entry
from helen.cli.local.first_checks import FIRST, LIBRARIES
from helen.library import shipped_lint
from helen.library.lint_cache import Verdicts
from helen.library.linter import Verdict

FOLDER = Path(helen_checks.FOLDER)


def test_it_is_what_lint_says() -> None:
    """The stored verdicts are the answer of lint for the shipped checks; `./dev verdicts` writes them after a
    change."""
    answer = CliRunner().invoke(lint, [str(FOLDER), "--no-tests", "--output", "json"])
    assert answer.exit_code == 0
    assert shipped_lint.PATH.read_text() == shipped_lint.written(answer.stdout.encode())
    assert json.loads(answer.stdout)["files"].keys() == {
        str(path.relative_to(FOLDER)) for path in [*FOLDER.glob("*.lua"), *FOLDER.glob("lib/*.lua")]
    }


def entries(*names: str, **changed: bytes) -> dict[str, FileEntry]:
    return {name: entry((FOLDER / name).read_bytes()) for name in names} | {
        f"{name}.lua": entry(content) for name, content in changed.items()
    }


@pytest.mark.parametrize(
    "files, known",
    [
        (entries(*FIRST, *LIBRARIES), {*FIRST, *LIBRARIES}),
        (entries("load.lua", "lib/words.lua"), {"lib/words.lua"}),  # it requires lib/status.lua too
        (entries("uptime.lua", "lib/words.lua", load=b"return {}"), {"uptime.lua", "lib/words.lua"}),
        (entries("uptime.lua") | {"lib/words.lua": entry(b"return {}")}, set()),
        (entries(mine=b"return {}"), set()),
    ],
)
def test_a_file_is_known_with_all_that_it_requires(files: dict[str, FileEntry], known: set[str]) -> None:
    assert shipped_lint.load().known(files).keys() == known


@pytest.mark.parametrize("content", [None, b"", b"[]", b"{}", b'{"files": 3}', b"\xff"])
def test_of_a_damaged_installation_nothing_is_known(tmp_path: Path, content: bytes | None) -> None:
    """With unreadable stored verdicts nothing is known of any file, and one line of the log says to install it anew."""
    path = tmp_path / "verdicts.json"
    if content is not None:
        path.write_bytes(content)
    with capturedLogs() as logged:
        assert shipped_lint.load(path).known(entries(*FIRST, *LIBRARIES)) == {}
    told = [formatEvent(event) for event in logged]
    assert len(told) == 1
    assert told[0].startswith(f"{path} can't be read (")
    assert "install it anew" in told[0]


def test_a_circle_ends() -> None:
    listed = {f"lib/{name}.lua": {"sha256": entry(b"").sha256, "requires": [other], "problems": [], "table": None}
              for name, other in ("ab", "ba")}  # fmt: skip
    assert shipped_lint.Shipped(listed).known(dict.fromkeys(listed, entry(b""))).keys() == listed.keys()


class Store:
    def call(self, *_: Any) -> Deferred[None]:
        return succeed(None)


def test_only_what_is_not_known_is_asked() -> None:
    """Only a file without a stored verdict is given to lint, with the libraries, since it may require them."""
    asked: list[set[str]] = []

    def ask(contents: Any) -> Deferred[dict[str, Verdict]]:
        asked.append(set(contents))
        return succeed(dict.fromkeys(contents, Verdict(None)))

    verdicts = Verdicts(ask, Store(), lambda: 0.0, shipped_lint.load())  # type: ignore[arg-type]
    files = entries(*FIRST, *LIBRARIES)
    contents = {name: (FOLDER / name).read_bytes() for name in files}
    outcome = Deferred.fromCoroutine(verdicts.judge(contents, files, ()))
    assert (outcome.called, asked) == (True, [])
    assert {name: table.attempts for name, table in verdicts.tables(files).items()} == {
        "load": None, "memory": None, "uptime": 1,
    }  # fmt: skip
    files["mine.lua"], contents["mine.lua"] = entry(b"x"), b"x"
    Deferred.fromCoroutine(verdicts.judge(contents, files, ()))
    assert asked == [{"mine.lua", *LIBRARIES}]
    assert verdicts.of("mine.lua", files["mine.lua"]) == Verdict(None)
