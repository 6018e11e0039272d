"""Tests objects.cache: Debian's sample configuration, as Nagios 4 itself wrote it, and files that are cut, odd or
hostile.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from equus.policy.policy_text import read_policy
from helen.importing import nagios, nagios_objects
from helen.importing.folder import files
from helen.importing.found import Found, SourceError

SAMPLES = Path(__file__).parent / "samples"
HOST = "define host {\n\thost_name\tweb 1\n\taddress\t192.0.2.7\n\t_COMMUNITY\tmoon\n\t}\n"


def debian() -> Found:
    core = nagios_objects.read(SAMPLES / "objects.cache", SAMPLES / "resource.cfg")
    return nagios.convert(core, "objects.cache")


def core_of(tmp_path: Path, text: str, users: str = "") -> Found:
    (tmp_path / "objects.cache").write_text(text)
    (tmp_path / "resource.cfg").write_text(users)
    return nagios.convert(nagios_objects.read(tmp_path / "objects.cache", tmp_path / "resource.cfg"), "x")


def service(line: str, check: str = "look", **settings: str) -> str:
    """Return a host, a command of this line, and a service that runs it, as text of objects.cache."""
    more = "".join(f"\t{key}\t{value}\n" for key, value in settings.items())
    return (
        f"{HOST}define command {{\n\tcommand_name\tlook\n\tcommand_line\t{line}\n\t}}\n"
        f"define service {{\n\thost_name\tweb 1\n\tservice_description\tDisk /var\n\tcheck_command\t{check}\n"
        f"\tcheck_interval\t5\n{more}\t}}\n"
    )


def test_debians_sample_runs_whole() -> None:
    found = debian()
    assert (found.total, found.omitted) == (8, [])
    made = files(found, "core")
    entries = {each["id"]: each for each in tomllib.loads(made["assignments.toml"])["assign"]}
    names = "Current-Load Current-Users HTTP PING Root-Partition SSH Swap-Usage Total-Processes host"
    assert " ".join(sorted(entries)) == names
    assert entries["PING"] == {
        "check": "plugin", "targets": ["localhost"], "id": "PING", "every": "5m", "timeout": "1m", "retry": "1m",
        "args": {"name": "check_ping", "slots": ["address={address}"]}, "attempts": 4, "depends": ["host"],
    }  # fmt: skip
    assert tomllib.loads(made["targets.toml"])["target"] == [
        {"name": "localhost", "address": "127.0.0.1", "via": ["core"], "labels": {"group-linux-servers": "yes"}}
    ]


def test_the_policy_has_each_command_line_whole() -> None:
    """An agent takes it, and nothing but the address can be chosen by Helen."""
    policy = read_policy(files(debian(), "core")["policy/core.toml"].encode(), "policy.toml")
    assert policy.plugins["check_local_disk"].argv({}) == [
        "/usr/lib/nagios/plugins/check_disk", "-w", "20%", "-c", "10%", "-p", "/",
    ]  # fmt: skip
    ping = policy.plugins["check_ping"]
    assert ping.argv({"address": "10.1.2.3"})[:3] == ["/usr/lib/nagios/plugins/check_ping", "-H", "10.1.2.3"]
    with pytest.raises(ValueError, match="must not begin with '-'"):
        ping.argv({"address": "-h"})
    assert {slot.type for each in policy.plugins.values() for slot in each.slots.values()} == {"host"}


def test_names_arguments_and_macros(tmp_path: Path) -> None:
    """A name becomes Helen's; `$ARGn$` may hold macros, and the same command with others is another plugin."""
    text = service(
        r"$USER1$/check -C '$_HOSTCOMMUNITY$' -H $HOSTADDRESS$ -u http://$HOSTADDRESS$/ -x $ARG1$",
        r"look!$SERVICEDESC$ 5\!6 $$1", retry_interval="2", max_check_attempts="900", flap_detection_enabled="0",
    )  # fmt: skip
    found = core_of(tmp_path, text.replace("5\\!6 $$1", "5\\!6"), "$USER1$=/opt/p\n")
    [made] = found.services
    assert made.command is not None
    assert made.command.argv == (
        "/opt/p/check", "-C", "moon", "-H", "{address}", "-u", "http://{address}/", "-x", "Disk", "/var", "5!6",
    )  # fmt: skip
    assert (made.host, made.id, made.every, made.retry, made.attempts, made.flap) == (
        "web-1", "Disk-_var", 300.0, 120.0, 100, False,
    )  # fmt: skip
    assert "web 1 -> web-1" in str(found.remarks)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("/bin/check | grep x", "needs a shell ('|')"),
        ("/bin/check $(id)", "needs a shell ('(')"),
        ('/bin/check "`id`"', "needs a shell ('`')"),
        ("/bin/check *", "needs a shell ('*')"),
        ("/bin/check 'one", "quotes that don't end"),
        ("check -x", "'check' has no absolute path"),
        ("A=b /bin/check", "sets the variable A"),
        ("/bin/check {slot}", "holds {slot}"),
        ("/bin/check '' -x", "an argument before others is empty"),
        ("/bin/check $USER9$", "$USER9$ is not known"),
        ("/bin/check $SERVICESTATE$", "known only when a check runs"),
        ("/bin/check $_HOSTNONE$", "no object sets $_HOSTNONE$"),
    ],
)
def test_lines_that_are_not_taken(tmp_path: Path, line: str, why: str) -> None:
    """A line that is not taken is named with its reason; the folder is made of the rest."""
    found = core_of(tmp_path, service(line))
    assert found.services == []
    [(name, reason)] = found.omitted
    assert name == "web 1/Disk /var"
    assert why.replace("('(')", "('") in reason
    assert "not run" not in files(found, "core")["import.txt"]


def test_macros_that_grow_without_end(tmp_path: Path) -> None:
    """A file of a few lines can't become a command line of gigabytes."""
    for macros, depth, why in ((40, 3, "more than 2,000 macros"), (1, 9, "more than 4 times")):
        bomb = "".join(f"\t_A{at}\t{f'$_HOSTA{at + 1}$' * macros}\n" for at in range(depth))
        text = service("/bin/check $_HOSTA0$").replace("\t_COMMUNITY\tmoon\n", f"{bomb}\t_A{depth}\tx\n")
        [(_, reason)] = core_of(tmp_path, text).omitted
        assert why in reason


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"check_interval": "soon"}, "check_interval is 'soon', which is no number"),
        ({"check_interval": "0"}, "the core doesn't run it by itself"),
        ({"check_interval": "-3"}, "which can't be"),
        ({"check_command": "gone!1"}, "the command 'gone' is not in the file"),
        ({"active_checks_enabled": "0", "passive_checks_enabled": "0"}, "neither run nor reported"),
        ({"host_name": "nobody"}, "its host is not in the file"),
    ],
)
def test_services_that_are_not_taken(tmp_path: Path, settings: dict[str, str], why: str) -> None:
    [(_, reason)] = core_of(tmp_path, service("/bin/check", **settings)).omitted
    assert why in reason


def test_passive_services_are_declared(tmp_path: Path) -> None:
    settings = {"active_checks_enabled": "0", "check_freshness": "1", "freshness_threshold": "5400"}
    made = files(core_of(tmp_path, service("/bin/check", **settings)), "core")
    assert tomllib.loads(made["passive.toml"])["check"] == [{"host": "web-1", "id": "Disk /var", "stale": "90m"}]


def test_an_agents_own_host_is_no_target(tmp_path: Path) -> None:
    """Checks of the core's own host are the agent's, with its address put in."""
    found = core_of(tmp_path, service("/bin/check $HOSTADDRESS$"))
    made = files(found, "web-1")
    [entry] = tomllib.loads(made["assignments.toml"])["assign"]
    assert entry["agents"] == ["web-1"]
    assert entry["args"] == {"name": "look", "slots": ["address=192.0.2.7"]}
    assert "target" not in tomllib.loads(made["targets.toml"])


def test_hosts_with_the_same_service_share_an_entry(tmp_path: Path) -> None:
    """Hosts share an entry, but an address that no slot takes stands in a command line of its own."""
    text = service("/bin/check $HOSTADDRESS$")
    other = text[text.index("define service") :].replace("web 1", "web 2")
    third = other.replace("web 2", "web 3")
    text += HOST.replace("web 1", "web 2") + HOST.replace("web 1", "web 3").replace("192.0.2.7", "::1") + other + third
    made = files(core_of(tmp_path, text), "core")
    entries: list[dict[str, Any]] = tomllib.loads(made["assignments.toml"])["assign"]
    assert [(each["targets"], each["args"]) for each in entries] == [
        (["web-1", "web-2"], {"name": "look", "slots": ["address={address}"]}),
        (["web-3"], {"name": "look-2"}),
    ]
    assert tomllib.loads(made["policy/core.toml"])["plugins"]["look-2"]["command"] == ["/bin/check", "::1"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no host"),
        ("\x7fELF\x00\x01", "line 1: "),
        ("define host {\n\thost_name\ta\n", "ends within an object"),
        ("define host {\n\tdefine service {\n", "an object begins within another one"),
        ("host_name a\n", "where `define TYPE {` is expected"),
        ("x" * 70_000, "a line of more than"),
    ],
)
def test_broken_files(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(SourceError) as fault:
        core_of(tmp_path, text)
    assert why in str(fault.value)
    assert str(tmp_path / "objects.cache") in str(fault.value)


def test_by_its_main_file(tmp_path: Path) -> None:
    """The main file nagios.cfg names the cache, the file of resources and the unit of intervals."""
    (tmp_path / "objects.cache").write_text(service("$USER1$/check"))
    (tmp_path / "users").write_text("# comment\n$USER1$ = /opt\n")
    main = tmp_path / "nagios.cfg"
    main.write_text("object_cache_file=objects.cache\nresource_file=users\ninterval_length=10\n")
    [made] = nagios.convert(nagios_objects.read(main), "x").services
    assert made.every == 50.0
    assert made.command is not None and made.command.argv == ("/opt/check",)
    main.write_text("object_cache_file=objects.cache\ninterval_length=none\n")
    with pytest.raises(SourceError, match="interval_length is 'none'"):
        nagios_objects.read(main)
    with pytest.raises(SourceError, match="can't be read: No such file"):
        nagios_objects.read(tmp_path / "missing.cfg")
