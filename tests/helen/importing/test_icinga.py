"""Tests Icinga's API: Debian's sample configuration, as Icinga 2.13 answered, arguments, and answers that are none."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from equus.policy.policy_text import read_policy
from helen.importing import icinga, icinga_dump
from helen.importing.folder import files
from helen.importing.found import Found, SourceError

SAMPLES = Path(__file__).parent / "samples" / "icinga2"
FUNCTION = {"type": "Function", "name": "<anonymous>", "arguments": []}


def of_command(command: dict[str, Any], variables: dict[str, Any] | None = None, **service: Any) -> Found:
    """Return what is found in a host, a command, and a service of it."""
    host = {"name": "db 1", "address": "192.0.2.9", "check_command": "none", "vars": {"site": "north", "n": 5.0}}
    about = {"host_name": "db 1", "check_command": "look", "check_interval": 30, "vars": variables, **service}
    objects = {
        "Host": {"db 1": host}, "Service": {"db 1!disk": about}, "CheckCommand": {"look": {"name": "look", **command}},
    }  # fmt: skip
    return icinga.convert(objects, "dump")


def argv(arguments: dict[str, Any], variables: dict[str, Any] | None = None) -> list[str]:
    found = of_command({"command": ["/bin/look"], "arguments": arguments}, variables)
    assert found.omitted == []
    command = found.services[0].command
    assert command is not None
    return list(command.argv[1:])


def reason(command: dict[str, Any], variables: dict[str, Any] | None = None, **service: Any) -> str:
    [(name, why)] = of_command(command, variables, **service).omitted
    assert name == "db 1!disk"
    return why


def test_debians_sample_runs_but_for_what_is_built_in() -> None:
    found = icinga.convert(icinga_dump.read(SAMPLES), "icinga2")
    assert (found.total, found.omitted) == (12, [("monitor.example!icinga", "its command is built into Icinga")])
    made = files(found, "core")
    assert "11 of 12 services of 1 host run (92 %)" in made["import.txt"]
    entries = {each["id"]: each for each in tomllib.loads(made["assignments.toml"])["assign"]}
    assert " ".join(sorted(entries)) == "apt disk disk-_ host http load ping4 ping6 procs ssh swap users"
    assert entries["load"] == {
        "check": "plugin", "targets": ["monitor.example"], "id": "load", "every": "1m", "timeout": "1m",
        "args": {"name": "load"}, "retry": "30s", "attempts": 5, "flap": False, "depends": ["host"],
    }  # fmt: skip
    plugins = read_policy(made["policy/core.toml"].encode(), "policy.toml").plugins
    lines = {name: plugin.argv(dict.fromkeys(plugin.slots, "127.0.0.1"))[1:] for name, plugin in plugins.items()}
    assert lines["ping6"] == ["-6", "-H", "::1", "-c", "200,15%", "-w", "100,5%"]
    assert lines["swap"] == ["-c", "25%", "-w", "50%"]
    assert lines["ssh"] == ["127.0.0.1"]
    assert lines["disk"][:4] == ["-c", "10%", "-w", "20%"] and lines["disk"][-3:] == ["-X", "squashfs", "-m"]
    assert sorted(lines["disk-2"]) == sorted([*lines["disk"], "-p", "/"])


def test_arguments_as_icinga_builds_them() -> None:
    """Arguments have Icinga's order, keys that stand once or never, lists, separators, flags, macros and numbers."""
    last, first = {"value": "$n$", "order": 1}, {"value": "x", "order": -1, "skip_key": True}
    assert argv({"-b": "$site$", "-a": last, "z": first}) == ["x", "-b", "north", "-a", "5"]
    assert argv({"-p": {"value": "$l$"}}, {"l": ["a", "b"]}) == ["-p", "a", "-p", "b"]
    assert argv({"-p": {"value": "$l$", "repeat_key": False}}, {"l": ["a", "b"]}) == ["-p", "a", "b"]
    assert argv({"--w": {"value": "$n$%,$host.address$", "separator": "="}}) == ["--w=5%,{address}"]
    assert argv({"k": {"key": "-v", "set_if": "$on$"}, "-q": {"set_if": "$off$"}}, {"on": True, "off": "0"}) == ["-v"]
    assert argv({"-m": "$missing$", "-c": "$host.vars.site$", "-d": "$$5"}) == ["-c", "north", "-d", "$5"]
    assert argv({"-t": "$a.b$"}, {"a": {"b": 1.5}}) == ["-t", "1.5"]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, "{address}"), ({"v6": True}, "2001:db8::9"), ({"v4": True, "v6": False}, "{address}")],
)
def test_the_address_that_icingas_library_computes(variables: dict[str, Any], expected: str) -> None:
    command = {
        "name": "look", "command": ["/bin/look", "$check_address$"],
        "vars": {"check_address": FUNCTION, "check_ipv4": "$v4$", "check_ipv6": "$v6$"},
    }  # fmt: skip
    host = {"name": "a", "address": "192.0.2.9", "address6": "2001:db8::9", "check_command": "look"}
    about = {"host_name": "a", "check_command": "look", "vars": variables}
    objects: dict[str, Any] = {"Host": {"a": host}, "Service": {"a!x": about}, "CheckCommand": {"look": command}}
    made = icinga.convert(objects, "dump").services[-1].command
    assert made is not None and made.argv[1] == expected


def test_a_function_that_decides_about_a_flag_is_told() -> None:
    arguments = {"-u": {"set_if": FUNCTION}, "-I": {"set_if": FUNCTION, "value": "x"}}
    found = of_command({"command": ["/bin/look"], "arguments": arguments})
    assert found.services[0].command is not None
    assert found.services[0].command.argv == ("/bin/look", "-I", "x")
    assert "look: the argument -u is left out: a function of Icinga's language decides about it" in found.remarks


@pytest.mark.parametrize(
    ("command", "variables", "why"),
    [
        ({"command": None}, None, "its command is built into Icinga"),
        ({"command": FUNCTION}, None, "its command is computed by a function"),
        ({"command": ["/bin/look", "$x$"]}, None, "holds $x$, which nothing sets"),
        ({"command": ["/bin/look", "$host.state$"]}, None, "known only when a check runs"),
        ({"command": ["/bin/look"], "arguments": {"-w": {"value": FUNCTION}}}, None, "argument -w: it is computed by"),
        ({"command": ["/bin/look"], "arguments": {"-w": {"value": "$x$", "required": True}}}, None, "-w needs $x$"),
        ({"command": ["/bin/look"], "arguments": {"-w": "$a$"}}, {"a": "$b$", "b": "$a$"}, "name each other"),
        ({"command": ["look"]}, None, "'look' has no absolute path"),
        ({"command": "/bin/look | cat"}, None, "needs a shell"),
        ({"command": ["/bin/look"], "arguments": {"-w": "$a$"}}, {"a": {"b": 1}}, "computed by a function"),
        ({"command": ["/bin/look"], "arguments": {"-w": "a\nb"}}, None, "control characters"),
    ],
)
def test_services_that_are_not_taken(command: dict[str, Any], variables: dict[str, Any] | None, why: str) -> None:
    assert why in reason(command, variables)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"check_command": "gone"}, "the command 'gone' is not in the dump"),
        ({"check_interval": "soon"}, "check_interval is soon"),
        ({"check_interval": 1e12}, "which can't be"),
        ({"host_name": "nobody"}, "its host is not in the dump"),
        ({"enable_active_checks": False, "enable_passive_checks": False}, "neither run nor reported"),
    ],
)
def test_settings_that_are_not_taken(settings: dict[str, Any], why: str) -> None:
    assert why in reason({"command": ["/bin/look"]}, **settings)


def test_variables_that_grow_without_end() -> None:
    variables = {f"a{at}": f"$a{at + 1}$ " * 60 for at in range(6)} | {"a6": "x"}
    command = {"command": ["/bin/look"], "arguments": {"-w": "x $a0$"}}
    assert "more than 2,000 macros" in reason(command, variables)
    assert "becomes longer than" in reason(command, {"a0": "y" * 70_000})


def test_passive_services_and_those_of_endpoints() -> None:
    """`command_endpoint` means an agent on that host; what the core asks of the same host is filed under the core's."""
    found = of_command({"command": ["/bin/look"]}, check_command="passive")
    assert [(each.host, each.id) for each in found.reported] == [("db-1", "disk")]
    look = {"name": "look", "command": ["/bin/look", "$address$"]}
    services = {
        "db 1!own": {"host_name": "db 1", "check_command": "look", "command_endpoint": "db 1"},
        "db 1!ping": {"host_name": "db 1", "check_command": "look"},
    }
    host = {"name": "db 1", "address": "192.0.2.9", "check_command": "none"}
    objects: dict[str, Any] = {"Host": {"db 1": host}, "Service": services, "CheckCommand": {"look": look}}
    made = files(icinga.convert(objects, "dump"), "core")
    entries = tomllib.loads(made["assignments.toml"])["assign"]
    assert [(each["agents"], each["id"]) for each in entries] == [(["db-1"], "own"), (["core"], "db-1:ping")]
    assert {"policy/core.toml", "policy/db-1.toml"} <= made.keys()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ('{"error": 401, "status": "Unauthorized. Please check your credentials."}', "Icinga said: Unauthorized"),
        ('{"results": [{"name": "x"}]}', "an object without type, name and attrs"),
        ('{"results": []}', "has no objects of the type Host, Service, CheckCommand"),
    ],
)
def test_broken_dumps(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "hosts.json").write_text(text)
    with pytest.raises(SourceError) as fault:
        icinga_dump.read(tmp_path)
    assert why in str(fault.value)


def test_one_file_holds_all_answers(tmp_path: Path) -> None:
    whole = [json.loads((SAMPLES / f"{name}.json").read_text()) for name in ("hosts", "services", "checkcommands")]
    (tmp_path / "all.json").write_text(json.dumps(whole))
    assert icinga_dump.read(tmp_path / "all.json") == icinga_dump.read(SAMPLES)
    with pytest.raises(SourceError, match=r"has no file \*.json"):
        icinga_dump.read(tmp_path.joinpath("empty").mkdir() or tmp_path / "empty")  # type: ignore[func-returns-value]
    with pytest.raises(SourceError, match="can't be read"):
        icinga_dump.read(tmp_path / "missing.json")
