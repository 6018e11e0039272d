"""Tests `helen export` and `helen apply` against a real Helen: a round trip is no change, plans, refusals, two who
write.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helen_running import pulse
from outside_stage import Stage

from helen.cli.base import declared_files
from helen.cli.base.client import Client, Failed
from helen.cli.declared.plan_steps import make_plan

pytestmark = pytest.mark.integration

AT_ONCE = ("--rings", "off")  # else each push would wait for the one before


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def furnished(stage: Stage) -> Stage:
    """Return a stage with something of each kind."""
    stage.command("passive", "add", "files/smart", "--stale", "26h", "--label", "site=north")
    stage.command("downtime", "--on", "files*", "--for", "2h", "--id", "files-patch", "--comment", "x y")
    daily = ("--daily", "22:00-06:00", "--zone", "Europe/Berlin")
    stage.command("silence", "--check", "nothing*", *daily, "--id", "night")
    matcher = {"name": "role", "value": "none.*", "isRegex": True, "isEqual": True}
    window = {"kind": "silence", "id": "matched", "until": time.time() + 3_600, "matchers": [matcher]}
    stage.helen.client.post("/api/v1/windows", window)
    stage.command("web-token", "add", "ci", "--scope", "push", "--expires", "30d")
    return stage


@pytest.fixture
def folder(furnished: Stage, tmp_path: Path) -> Iterator[Path]:
    """Yield an export; what a test makes of Helen is taken back by another one."""
    before, made = tmp_path / "before", tmp_path / "made"
    for each in (before, made):
        furnished.command("export", str(each))
    yield made
    furnished.command("apply", "-f", str(before), "--yes", "--prune", *AT_ONCE)
    assert furnished.command("apply", "-f", str(before), "--dry-run", "--prune") == "no change"


def test_a_round_trip(stage: Stage, folder: Path) -> None:
    """A round trip changes nothing for Helen and in the files; what others keep in the folder stays."""
    assert {"assignments.toml", "notifications.toml", "passive.toml", "windows.toml", "web-tokens.toml",
            "checks/pulse.lua"} <= tree(folder).keys() | {"assignments.toml"}  # fmt: skip
    assert (folder / "passive.toml").read_bytes() == (stage.helen.state / "passive.toml").read_bytes()
    (folder / "README").write_text("ours")
    (folder / "checks" / "gone.lua").write_text(pulse())
    before = tree(folder)
    assert stage.command("export", str(folder)) == "gone: checks/gone.lua"
    assert tree(folder) == {name: content for name, content in before.items() if name != "checks/gone.lua"}
    assert stage.command("export", str(folder)) == "nothing is different"
    assert stage.command("apply", "-f", str(folder), "--dry-run", "--prune") == "no change"
    assert stage.command("apply", "-f", str(folder)) == "no change"


def edit(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))


def test_a_plan_and_what_comes_of_it(stage: Stage, folder: Path) -> None:
    """A plan shows each kind of change before it is made; nothing is removed that is only not named."""
    (folder / "checks" / "other.lua").write_text(pulse("other", "1h"))
    edit(folder, "checks/pulse.lua", '"hello"', '"changed"')
    edit(folder, "windows.toml", "x y", "z")
    edit(folder, "windows.toml", 'id = "night"', 'id = "nightly"')
    edit(folder, "passive.toml", '"26h"', '"27h"')
    (folder / "assignments.toml").write_text('[[assign]]\ncheck = "other"\nagents = ["x"]\n')
    with open(folder / "web-tokens.toml", "a") as file:
        file.write('\n[[token]]\nname = "two"\nscopes = ["read"]\n')
    shown = stage.command("apply", "-f", str(folder), "--dry-run", fails=2)
    heads = [line for line in shown.splitlines() if line[:2] in ("+ ", "~ ", "- ")]
    assert heads == [
        "~ checks", "+ assignments.toml", "~ passive.toml", "~ downtime files-patch", "+ silence nightly",
        "+ token two",
    ]  # fmt: skip
    assert '        -  args = { word = { type = "string", default = "hello", help = "what to say" } },' in shown
    assert '    - comment: "x y"\n    + comment: "z"' in shown
    assert "left alone without --prune: silence night" in shown
    said = stage.command("apply", "-f", str(folder), "--yes", *AT_ONCE)
    assert "token two, shown this once: helen_" in said
    assert stage.command("apply", "-f", str(folder), "--dry-run").splitlines()[-1] == "no change"
    names = {each["id"] for each in stage.helen.client.get("/api/v1/windows")["windows"]}
    assert names >= {"night", "nightly", "files-patch", "matched"}
    pruned = json.loads(stage.command("apply", "-f", str(folder), "--dry-run", "--prune", "--output", "json", fails=2))
    assert [(each["action"], each["what"]) for each in pruned["changes"]] == [("-", "silence night")]
    stage.command("apply", "-f", str(folder), "--yes", "--prune", *AT_ONCE)
    names = {each["id"] for each in stage.helen.client.get("/api/v1/windows")["windows"]}
    assert "night" not in names
    checks = stage.helen.client.get("/api/v1/checks")["checks"]
    assert {"other", "pulse"} <= {each["name"] for each in checks}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("assignments.toml", "x = 1", "nothing was changed. assignments.toml: 'x' is no setting"),
        ("notifications.toml", '[channels.a]\ntype = "fax"', "nothing was changed. notifications.toml: channels.a"),
        ("passive.toml", '[[ping]]\nid = "x"', "passive.toml: [[ping]] number 1: every is missing"),
        ("windows.toml", "x = 1", "windows.toml: write [[window]] for each, and nothing else"),
        ("windows.toml", '[[window]]\nid = "a"', "windows.toml: [[window]] number 1: kind is missing"),
        ("windows.toml", '[[window]]\nid = "a"\nkind = "silence"\n' * 2, "one of them is there twice"),
        ("windows.toml", '[[window]]\nid = "a"\nkind = "silence"\nuntil = 2030-01-01T00:00:00', "has no zone"),
        ("windows.toml", '[[window]]\nid = "a"\nkind = "silence"', "silence a: `until` is missing"),
        ("web-tokens.toml", '[[token]]\nname = "ci"\nscopes = ["admin"]', "the token 'ci' has other scopes"),
        ("web-tokens.toml", '[[token]]\nname = "x"\nscopes = ["all"]', "token x: 'all' is no scope"),
        ("checks/bad.lua", "return 1 +", "nothing was changed. checks: bad.lua"),
        ("passive.toml", "= 3", "no TOML"),
    ],
    ids=range(12),
)  # fmt: skip
def test_what_cannot_be_changes_nothing(furnished: Stage, tmp_path: Path, name: str, text: str, said: str) -> None:
    """Helen judges all files beforehand, so right ones beside a wrong one aren't applied either."""
    stage, before = furnished, declared_files.fetch(furnished.helen.client)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    if name != "assignments.toml":
        (tmp_path / "assignments.toml").write_text("default_set = false\n")
    assert said in stage.command("apply", "-f", str(tmp_path), "--yes", fails=1)
    assert declared_files.fetch(stage.helen.client).documents == before.documents


def test_what_is_over_and_what_is_nothing(stage: Stage, tmp_path: Path) -> None:
    """A window of the past is not opened; a folder without any part is refused, and so is an export into somebody's."""
    past = '[[window]]\nid = "old"\nkind = "silence"\nbegin = 2020-01-01T00:00:00Z\nuntil = 2020-01-02T00:00:00Z\n'
    (tmp_path / "windows.toml").write_text(past)
    assert "windows.toml: silence old is over" in stage.command("apply", "-f", str(tmp_path), "--dry-run")
    (tmp_path / "assignments.toml").write_text("default_set = false\n")
    assert "Give --yes, or --dry-run" in stage.command("apply", "-f", str(tmp_path), fails=1)
    other = tmp_path / "other"
    other.mkdir()
    assert "declares nothing" in stage.command("apply", "-f", str(other), "--yes", fails=1)
    (other / "letter.txt").write_text("dear")
    assert "holds other things" in stage.command("export", str(other), fails=1)
    stage.command("export", str(other), "--force")


def test_of_two_who_write_the_second_is_told(stage: Stage, folder: Path) -> None:
    """A change after the plan was made is not overwritten: documents, windows, checks."""
    edit(folder, "passive.toml", '"26h"', '"28h"')
    edit(folder, "windows.toml", "x y", "mine")
    edit(folder, "checks/pulse.lua", '"hello"', '"mine"')
    client: Client = stage.helen.client
    plan = make_plan(client, declared_files.read(folder), declared_files.fetch(client), False, {})
    stage.command("passive", "add", "files/theirs")
    stage.command("downtime", "--on", "files*", "--for", "3h", "--id", "files-patch", "--comment", "theirs")
    (stage.helen.checks / "theirs.lua").write_text(pulse("theirs", "1h"))
    refused: dict[str, Any] = {}
    for change in plan.changes:
        with pytest.raises(Failed) as caught:
            change.perform(False)
        refused[change.what] = caught.value.message
    assert refused.keys() == {"checks", "passive.toml", "downtime files-patch"}
    assert "has been changed" in refused["checks"] and "meanwhile" in refused["passive.toml"]
    assert "has been changed" in refused["downtime files-patch"]
