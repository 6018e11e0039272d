"""Test the permissions proposed for plugins from their usage text, and for Debian's plugins from their --help."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from equus.authoring import plugin_folder
from equus.authoring.plugin_folder import FolderError, proposals, text_of
from equus.authoring.plugin_usage import NoProposal, propose
from equus.main import main
from equus.policy.policy_text import read_policy

DEBIAN = Path("/usr/lib/nagios/plugins")
OPTIONS = """
Options:
 -H, --hostname=ADDRESS
    Host name
 -w, --warning=INTEGER
 -c, --critical=RANGE
 -t, --timeout=INTEGER
 -q, --quit=STRING
"""


def line(usage: str) -> str:
    """Return the proposed command line, and the types of its slots."""
    made = propose("/p/check_x", f"check_x 1.0\n\nUsage:\n check_x {usage}\n{OPTIONS}")
    assert made.command[0] == "/p/check_x"
    types = ", ".join(str(slot["type"]) for slot in made.slots.values())
    return " ".join([*made.command[1:], *([f"| {types}"] if types else [])])


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ("-H <host> -w <w> [-c <c>] [-t timeout]", "-H {hostname} -w {warning} | host, integer"),
        ("-H host -c <c>", "-H {hostname} -c {critical} | host, word"),
        ("-w <wrta>,<wpl>% -c A1,A5", "-w {wrta},{wpl}% -c {a1},{a5} | number, percent, word, word"),
        ("-F log_file -a <AVG | MAX>", "-F {log_file} -a {avg_max} | path, enum"),
        ("{-w absolute |-w percentage%} {-p path | -x device}", "-w {warning}% -p {path} | percent, path"),
        ("-H <vhost> | -I <IP-address> [-u <uri>]", "-H {hostname} | host"),
        ("(-s | -h) -d <port>", "-s -d {port} | integer"),
        ("-w <a>% -c <b>%\n  -w <bytes> -c <bytes>", "-w {warning}% -c {critical}% | percent, percent"),
        ("host1 host2 hostN", "{host} | host"),
        ("[-a [-b <c>]] [-4|-6] -v", "-v"),
        ("", ""),
    ],
)
def test_usages(usage: str, expected: str) -> None:
    assert line(usage) == expected


def test_what_may_be_added_and_choices() -> None:
    made = propose("/p/check_x", f"Usage: check_x -r <ok|warn> -F <log file>\n{OPTIONS}")
    assert made.slots == {
        "ok_warn": {"type": "enum", "choices": ["ok", "warn"]}, "log_file": {"type": "path", "paths": ["/var/log"]},
    }  # fmt: skip
    assert made.others == ("-H ADDRESS", "-w INTEGER", "-c RANGE", "-q STRING")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "shows no usage"),
        ("Usage: other -x", "does not begin with its name"),
        ("Usage: check_x -C <command>", "'command' may be anything"),
        ("Usage: check_x [-t timeout] <definition of wrapped plugin>", "it runs another program"),
        ("Usage: check_x " + " ".join(f"-{chr(97 + at)} <v{at}>" for at in range(20)), "more than 16 values"),
        ("Usage: check_x " + "[" * 100_000, ""),
    ],
)
def test_nothing_is_proposed(text: str, why: str) -> None:
    if not why:
        assert propose("/p/check_x", text).command == ("/p/check_x",)
        return
    with pytest.raises(NoProposal) as fault:
        propose("/p/check_x", text)
    assert why in str(fault.value)


def test_debians_plugins() -> None:
    """The policy that is proposed for Debian's plugins can be read, and its slots have the types that the
    plugins mean.
    """
    assert (DEBIAN / "check_load").exists(), "apt-get install monitoring-plugins-basic"
    text, proposed, _ = proposals(DEBIAN)
    plugins = read_policy(text.encode(), "policy.toml").plugins
    assert len(plugins) == proposed >= 40
    ping = plugins["check_ping"]
    assert ping.argv({"hostname": "db-1", "wrta": 100, "wpl": 20, "crta": "500.5", "cpl": 60})[1:] == [
        "-H", "db-1", "-w", "100,20%", "-c", "500.5,60%",
    ]  # fmt: skip
    disk = plugins["check_disk"].argv({"warning": 20, "critical": 10, "path": "/srv"})
    assert disk[1:] == ["-w", "20%", "-c", "10%", "-p", "/srv"]
    assert plugins["check_ssh"].slots["host"].type == "host"
    assert "# check_by_ssh: its value 'command' may be anything" in text
    assert "negate" not in plugins


def script(folder: Path, name: str, text: str, mode: int = 0o755) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(mode)


def test_programs_that_do_as_they_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each plugin without a proposal is named with its reason, and one that another user could change is not run."""
    monkeypatch.setattr(plugin_folder, "PATIENCE", 2.0)
    script(tmp_path, "check_good", "echo 'Usage: check_good -H <host>'")
    script(tmp_path, "check_slow", "exec sleep 60")
    script(tmp_path, "check_open", f"touch {tmp_path}/ran", 0o777)
    script(tmp_path, "check_quiet", "exit 3")
    script(tmp_path, "check_plain", "", 0o644)
    text, proposed, others = proposals(tmp_path)
    assert (proposed, others) == (1, 3), text
    assert tomllib.loads(text)["plugins"] == {
        "check_good": {"command": [f"{tmp_path}/check_good", "-H", "{host}"], "slots": {"host": {"type": "host"}}}
    }
    assert "# check_slow: it has not answered --help within 2 s" in text
    assert "# check_open: it is not run: " in text
    assert "# check_quiet: its --help shows no usage" in text
    assert not (tmp_path / "ran").exists()


def test_the_command(tmp_path: Path) -> None:
    script(tmp_path, "check_good", "echo 'Usage: check_good -p port'")
    done = CliRunner().invoke(main, ["policy", "plugins", str(tmp_path)])
    assert done.exit_code == 0
    assert 'slots.port = { type = "integer" }' in done.output
    assert "1 plugin proposed, 0 other programs" in done.output
    done = CliRunner().invoke(main, ["policy", "plugins", str(tmp_path / "missing")])
    assert (done.exit_code, "can't be read: No such file" in done.output) == (1, True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FolderError, match="holds no programs"):
        proposals(tmp_path / "empty")


def test_odd_names_are_quoted() -> None:
    made = propose("/p/check_x.pl", "Usage: check_x.pl -p port")
    assert '[plugins."check_x.pl"]' in text_of("check_x.pl", made)
