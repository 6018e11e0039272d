"""Tests that drafts are judged without publishing them, and that published code is read by its hash."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from helen_running import Running, pulse, wait_until
from web_client import Answer, Web

from equus_protocol.manifest import MAX_FILE

pytestmark = pytest.mark.integration
V1 = "/api/v1"
SLIP = pulse().replace('"ok", args.word', "ok, args.word")
TEST = 'return {{ {{ name = "says it", args = {{ word = "x" }}, expect = {{ status = "ok", summary = "{}" }} }} }}\n'


def lint(fleet: Running, files: Any, tests: Any = None, **more: Any) -> Answer:
    body = {"files": files, **({} if tests is None else {"tests": tests}), **more}
    return Web(fleet).ask("POST", f"{V1}/checks/lint", json.dumps(body).encode())


def test_a_draft_is_judged_and_nothing_is_published(fleet: Running) -> None:
    """A draft is judged with its table and each fault's line, and neither the folder nor the set changes."""
    before, files = fleet.client.get(f"{V1}/checks"), sorted(path.name for path in fleet.checks.iterdir())
    good = lint(fleet, {"new.lua": pulse("x", "5m")}).json
    assert good["files"]["new.lua"]["problems"] == [] and good["tests"] == []
    table = good["files"]["new.lua"]["table"]
    assert table["every"] == 300.0
    assert table["args"] == {"word": {"type": "string", "default": "x", "help": "what to say"}}
    bad = lint(fleet, {"new.lua": SLIP}).json["files"]["new.lua"]["problems"]
    assert [(each["line"], each["severity"]) for each in bad] == [(8, "error")]
    assert "ok" in bad[0]["text"]
    assert fleet.client.get(f"{V1}/checks") == before
    assert sorted(path.name for path in fleet.checks.iterdir()) == files and "new.lua" not in files


@pytest.mark.parametrize(("said", "is_ok"), [("x", True), ("y", False)])
def test_recorded_tests_are_run(fleet: Running, said: str, is_ok: bool) -> None:
    """The recorded tests of a draft are run, each with its name and the difference to the expected value."""
    answer = lint(fleet, {"new.lua": pulse()}, {"new.lua": TEST.format(said)}).json
    (test,) = answer["tests"]
    assert (test["file"], test["name"], test["ok"], test["line"]) == ("tests/new.lua", "says it", is_ok, 1)
    assert bool(test["said"]) is not is_ok


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"files": {}}, 400),
        ({"files": {"x.lua": 3}}, 400),
        ({"files": ["x.lua"]}, 400),
        ({"files": {"../x.lua": ""}}, 409),
        ({"files": {"x.lua": ""}, "tests": {"lib/../x.lua": ""}}, 409),
        ({"files": {"x.lua": "x" * (MAX_FILE + 1)}}, 409),
    ],
)
def test_what_can_not_be_judged(fleet: Running, body: Any, status: int) -> None:
    """A draft with a bad name, type or size is refused, since names become paths."""
    assert Web(fleet).ask("POST", f"{V1}/checks/lint", json.dumps(body).encode()).problem[0] == status


def test_text_of_any_bytes_is_judged(fleet: Running) -> None:
    """A draft of any bytes is judged, and a fault of the text is one of the file."""
    for text in ("\x00", "\udcff return {}", "return " + "{" * 100_000, "\x1bLua"):
        answer = lint(fleet, {"new.lua": text})
        assert answer.status == 200 and answer.json["files"]["new.lua"]["problems"], repr(text[:20])


def test_published_code_is_read_by_its_hash(fleet: Running) -> None:
    """Published code is read by its hash with its versions, and an unknown hash is 404."""
    sha256 = hashlib.sha256((fleet.checks / "pulse.lua").read_bytes()).hexdigest()
    web = Web(fleet)
    answer = web.ask("GET", f"{V1}/code/{sha256}")
    assert answer.json["name"] == "pulse.lua" and answer.json["text"] == pulse()
    assert answer.json["versions"][-1]["version"] == 1 and answer.json["versions"][-1]["author"] == "folder"
    for other in ("0" * 64, sha256.upper(), sha256[:12], "..", "%00"):
        assert web.ask("GET", f"{V1}/code/{other}").problem[0] == 404


def test_a_version_that_was_undone_has_its_way_back_listed(tmp_path: Path) -> None:
    """The set of an undo is listed for its code once it is published."""
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "pulse.lua").write_text(pulse())
    helen = Running(tmp_path).up()
    try:
        client, sha256 = helen.client, hashlib.sha256(pulse().encode()).hexdigest()
        wait_until(lambda: client.get(f"{V1}/checks")["version"] == 1, "version 1")

        def versions() -> list[tuple[int, str]]:
            listed = client.get(f"{V1}/code/{sha256}")["versions"]
            return [(each["version"], each["author"]) for each in listed]

        client.post(f"{V1}/push", {"files": {"pulse.lua": pulse("other")}, "rings": "off"})
        assert versions() == [(1, "folder")]
        client.post(f"{V1}/push/undo", {})
        assert versions() == [(4, "undone by operator"), (1, "folder")]
    finally:
        helen.end()
