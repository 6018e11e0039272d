"""Tests given and claimed labels with `helen token --labels`, `helen label` and `helen agents NAME`, against a real
Helen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from helen_running import Running, wait_until

from helen.cli.base.labels import in_words, read_labels
from helen.cli.label import read_changes
from helen.cli.main import main

pytestmark = pytest.mark.integration
Shell = Callable[..., str]


@pytest.fixture
def helen(fleet: Running) -> Shell:
    def run(*words: str, status: int = 0) -> str:
        done = CliRunner().invoke(main, [*words, "--state", str(fleet.state)])
        assert done.exit_code == status, done.output
        return str(done.output)

    return run


def test_what_is_given_and_what_is_claimed(helen: Shell, fleet: Running) -> None:
    """Given and claimed labels are shown apart, and a claimed label selects no agent (F45)."""
    shown = helen("agents", "web-1")
    assert "labels given: role=web\nlabels claimed: rack=7 (not trusted: it steers nothing)\n" in shown
    agent = json.loads(helen("agents", "web-1", "--output", "json"))
    assert (agent["labels"], agent["given"], agent["claimed"]) == ({"role": "web"}, {"role": "web"}, {"rack": "7"})
    assert [each["name"] for each in fleet.client.get("/api/v1/agents?on=role%3Dweb")["agents"]] == ["web-1"]
    assert "no agent fits rack=7" in helen("agents", "--on", "rack=7", status=3)
    assert "no agent is called 'web-9'" in helen("agents", "web-9", status=3)


def test_an_operator_labels_an_agent(helen: Shell, fleet: Running) -> None:
    """A dry run of `helen label` changes nothing; a change counts at once, is in the audit, and can be removed."""
    assert "web-1 would have role=web, site=north (before: role=web)" in helen(
        "label", "web-1", "site=north", "--dry-run"
    )
    assert fleet.client.get("/api/v1/agents/web-1")["labels"] == {"role": "web"}
    helen("label", "web-1", "rack=8,site=north")
    agent = fleet.client.get("/api/v1/agents/web-1")
    assert agent["labels"] == agent["given"] == {"rack": "8", "role": "web", "site": "north"}
    assert "rack=7 (not trusted: rack=8 is given)" in helen("label", "web-1")
    assert "web-1 has role=web (before: rack=8, role=web, site=north)" in helen("label", "web-1", "site-", "rack-")
    (last, *_) = fleet.client.get("/api/v1/audit?subject=web-1")["audit"]
    assert (last["actor"], last["action"]) == ("operator", "label")
    assert last["detail"] == "rack=8,role=web,site=north -> role=web"


def test_assigning_by_a_label_that_nobody_was_given(helen: Shell) -> None:
    """`helen assign` and `helen status` warn of a label that no agent was given and name the option; given labels
    cause no warning."""
    said = helen("assign", "pulse", "--on", "rack=7", "--args", '{"password": "x"}', "--dry-run", status=2)
    assert 'there is no argument "password"' in said
    said = helen("assign", "pulse", "--on", "rack=7", "--on", "role=web", "--every", "1s", "--dry-run")
    assert "no agent was given the label rack. 1 agent says it of itself, which steers nothing" in said
    assert "--trust-label rack" in said and "the label role" not in said
    helen("assign", "nope", "--on", "rack=7", "--args", '{"password": "x"}')
    try:
        assert "assignments.toml: no agent was given the label rack" in helen("status")
        assert 'nope: the argument "password" looks like a password' in helen("assign", "nope", "--on", "web-1")
    finally:
        helen("assign", "nope", "--remove")
    assert "no agent was given" not in helen("status")


def test_a_host_has_its_labels_from_the_file(helen: Shell, fleet: Running) -> None:
    """A host's labels are given by passive.toml, and `helen label` refuses to change them."""
    helen("passive", "add", "bk/backup", "--label", "site=north")
    wait_until(lambda: "bk" in helen("agents"), "host")
    try:
        assert fleet.client.get("/api/v1/agents/bk")["given"] == {"site": "north"}
        assert "labels are those of [hosts.bk] in passive.toml" in helen("label", "bk", "x=y", status=1)
    finally:
        fleet.client.put("/api/v1/passive", {"text": ""})


def test_tokens_with_labels(helen: Shell) -> None:
    """NAME and --agent of `helen token` mean the same; --labels may be one text or several, without Helen's own
    keys."""
    words = ("--labels", "role=web,env=prod", "--labels", "site=n")
    made = json.loads(helen("token", "web-7", *words, "--output", "json"))
    assert made["labels"] == {"role": "web", "env": "prod", "site": "n"} and made["join"].endswith(" --name web-7")
    assert "--name web-7" in helen("token", "--agent", "web-7")
    assert "give one of them" in helen("token", "web-7", "--agent", "web-8", status=2)
    assert "Helen's own" in helen("token", "--labels", "severity=ok", status=2)


@pytest.mark.parametrize("text", ["role", "=web", "role=", "a=1,,b=2", "a=1,a=2"])
def test_texts_that_are_no_labels(text: str) -> None:
    """A text that is no list of labels is a usage error."""
    with pytest.raises(click.UsageError):
        read_labels([text])


@pytest.mark.parametrize(
    ("changes", "read"),
    [
        (("role=web", "env-"), {"put": {"role": "web"}, "drop": ["env"]}),
        (("a=x-", "b-c-"), {"put": {"a": "x-"}, "drop": ["b-c"]}),
        (("-",), None), (("a=1", "a-"), None), (("a",), None),
    ],
)  # fmt: skip
def test_changes(changes: tuple[str, ...], read: dict[str, Any] | None) -> None:
    """KEY=VALUE sets a label and KEY- drops it; a change that is neither, or both, is a usage error."""
    if read is None:
        with pytest.raises(click.UsageError):
            read_changes(changes)
    else:
        assert read_changes(changes) == read


def test_words() -> None:
    """Labels in words are sorted by key, so that two lists can be compared."""
    assert (in_words({"b": "2", "a": "1"}), in_words({})) == ("a=1, b=2", "")


def test_code_in_no_set_finds_agents_by_given_labels(helen: Shell, fleet: Running, tmp_path: Path) -> None:
    """Code that is in no set runs on agents by given labels, signed by Helen or locally, and not by a claimed label
    (F45)."""
    path = tmp_path / "hello.lua"
    path.write_text('local c = { summary = "x" }\nfunction c.run() return "ok", "hello" end\nreturn c\n')
    assert "web-1: OK hello" in helen("run", "--source", str(path), "--on", "role=web")
    key = str(fleet.state / "signing.key")
    assert "web-1: OK hello" in helen("run", "--source", str(path), "--key", key, "--on", "role=w*")
    assert "web-1: OK hello" in helen("check", "dry-run", str(path), "--key", key, "--on", "role=web")
