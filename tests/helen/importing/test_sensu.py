"""Tests `sensuctl dump`: wrapped JSON and YAML, tokens, subscriptions, proxies, and dumps that are none."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from helen.importing import sensu, sensu_dump
from helen.importing.folder import files
from helen.importing.found import Found, SourceError

YAML = """\
type: CheckConfig
api_version: core/v2
metadata:
  name: check-cpu
  namespace: default
spec:
  command: check-cpu-usage -w {{ .labels.cpu_warn | default "75" }} -c 90
  interval: 60
  timeout: 10
  publish: true
  subscriptions: [linux, gone]
  runtime_assets: [sensu/check-cpu-usage]
  low_flap_threshold: 20
  high_flap_threshold: 60
---
type: Entity
api_version: core/v2
metadata:
  name: Web1.example
  labels: {cpu_warn: "60"}
spec: {entity_class: agent, subscriptions: [linux, "entity:web1"]}
---
type: Entity
metadata: {name: web2}
spec: {entity_class: agent, subscriptions: [linux]}
---
type: Handler
metadata: {name: slack}
spec: {type: pipe}
"""


def entity(name: str, *subscriptions: str, **labels: str) -> dict[str, Any]:
    spec = {"entity_class": "agent", "subscriptions": list(subscriptions), "system": {"hostname": f"{name}.lan"}}
    return {"type": "Entity", "metadata": {"name": name, "labels": labels}, "spec": spec}


def check(name: str, command: str, **spec: Any) -> dict[str, Any]:
    settings = {"command": command, "interval": 30, "subscriptions": ["linux"], **spec}
    return {"type": "CheckConfig", "metadata": {"name": name}, "spec": settings}


def of(tmp_path: Path, *documents: Any) -> Found:
    path = tmp_path / "sensu.json"
    path.write_text("\n".join(json.dumps(each) for each in documents))
    return sensu.convert(sensu_dump.read(path), "sensu.json", "/opt/plugins")


def test_yaml_with_tokens_of_each_agent(tmp_path: Path) -> None:
    (tmp_path / "dump.yaml").write_text(YAML)
    found = sensu.convert(sensu_dump.read(tmp_path / "dump.yaml"), "dump.yaml", "/opt/plugins")
    assert (found.total, found.omitted) == (2, [])
    lines = {each.runner: each.command.argv for each in found.services if each.command}
    assert lines == {
        "web1.example": ("/opt/plugins/check-cpu-usage", "-w", "60", "-c", "90"),
        "web2": ("/opt/plugins/check-cpu-usage", "-w", "75", "-c", "90"),
    }
    made = files(found, "core")
    entries = tomllib.loads(made["assignments.toml"])["assign"]
    assert [(each["agents"], each["args"]) for each in entries] == [
        (["web1.example"], {"name": "check-cpu"}), (["web2"], {"name": "check-cpu-2"}),
    ]  # fmt: skip
    assert entries[0] | {"args": {}} == {
        "check": "plugin", "agents": ["web1.example"], "id": "check-cpu", "every": "1m", "timeout": "10s", "args": {},
        "attempts": 1, "flap": [60, 20],
    }  # fmt: skip
    assert {"policy/web1.example.toml", "policy/web2.toml"} <= made.keys()
    assert "resources of the type Handler are not taken over" in found.remarks
    assert "the asset sensu/check-cpu-usage must be installed" in str(found.remarks)


def test_agents_share_an_entry(tmp_path: Path) -> None:
    found = of(tmp_path, entity("b", "linux"), entity("a", "linux"), entity("c"), check("up", "/bin/true -x"))
    [entry] = tomllib.loads(files(found, "core")["assignments.toml"])["assign"]
    assert entry["agents"] == ["a", "b"]


def test_a_proxy_becomes_a_target(tmp_path: Path) -> None:
    found = of(tmp_path, entity("b", "linux"), check("web", "/bin/look", proxy_entity_name="www.example"))
    made = files(found, "core")
    assert tomllib.loads(made["targets.toml"])["target"] == [
        {"name": "www.example", "address": "www.example", "via": ["b"]}
    ]
    assert tomllib.loads(made["assignments.toml"])["assign"][0]["targets"] == ["www.example"]
    assert "/bin/look" in made["policy/b.toml"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"subscriptions": ["windows"]}, "no agent has its subscriptions (windows)"),
        ({"subscriptions": "linux"}, "no agent has its subscriptions"),
        ({"publish": False}, "it is not published"),
        ({"stdin": True}, "it reads its event from standard input"),
        ({"cron": "* * * * *"}, "it runs by a cron line"),
        ({"secrets": [{"name": "X"}]}, "it is given secrets"),
        ({"interval": "often"}, "its interval is often"),
        ({"interval": 0}, "its interval is 0"),
        ({"command": "/bin/look {{ .labels.none }}"}, "nothing sets .labels.none"),
        ({"command": "/bin/look {{ if .x }}"}, "is more than a value with a default"),
        ({"command": "look; reboot"}, "needs a shell (';')"),
        ({"command": ""}, "its command line is empty"),
    ],
)
def test_checks_that_are_not_taken(tmp_path: Path, spec: dict[str, Any], why: str) -> None:
    document = check("x", "/bin/look")
    document["spec"] |= spec
    found = of(tmp_path, entity("a", "linux"), document)
    assert found.services == []
    [(_, reason)] = found.omitted
    assert why in reason


def test_tokens_of_the_system(tmp_path: Path) -> None:
    found = of(tmp_path, entity("a", "linux"), check("x", "/bin/look {{ .system.hostname }} {{.name}}"))
    assert found.services[0].command is not None
    assert found.services[0].command.argv == ("/bin/look", "a.lan", "a")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is no JSON from line 1"),
        ('{"type": "x", "metadata": {"name": "x"}, "spec": {}}\n{"a', "is no JSON from line 2"),
        ('{"type": "CheckConfig"}', "is no resource with type, metadata and spec"),
        ('{"type": "Entity", "metadata": {"name": "x"}, "spec": {}}', "no resource of the type CheckConfig"),
        ('{"type": "x", "metadata": [], "spec": {}}', "has no metadata with a name"),
        ("a: [", "is neither JSON nor YAML"),
        ("!!python/object:os.system x", "is neither JSON nor YAML"),
        ("just words", "is no resource"),
        ("[" * 50_000, "is no JSON"),
    ],
)
def test_broken_dumps(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "dump").write_text(text)
    with pytest.raises(SourceError) as fault:
        sensu_dump.read(tmp_path / "dump")
    assert why in str(fault.value)


def test_files_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "dump").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SourceError, match="is no UTF-8 text"):
        sensu_dump.read(tmp_path / "dump")
    with pytest.raises(SourceError, match="can't be read"):
        sensu_dump.read(tmp_path / "missing")


def test_yaml_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "dump").write_text(YAML)
    with pytest.raises(SourceError, match="dump it with `sensuctl dump --format wrapped-json`"):
        sensu_dump.read(tmp_path / "dump")
