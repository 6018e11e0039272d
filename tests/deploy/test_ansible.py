"""Test the Ansible role on a copy of this Debian: its second run changes nothing, and a wrong playbook is refused."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from a_debian import Debian, a_debian

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "deploy" / "debian"))

from environment import python_version  # noqa: E402
from make import pack_all  # noqa: E402

ROLE = ROOT / "deploy" / "ansible" / "roles" / "helen_equus"
SETTINGS = {
    "helen_settings": {"HELEN_NAME": "helen.example", "HELEN_RINGS": "1%,100%"},
    "equus_settings": {"EQUUS_SERVER": "helen.example:4166", "EQUUS_NAME": "db-1"},
    "equus_join": "one.token",
    "equus_policy": "[caps.cpu]\nallow = false\n",
}
BOTH = ("helen_servers", "monitored")
TASKS = re.compile(r"^TASK \[helen_equus : (.*)\] \*+$\n((?:(?!^TASK|^PLAY|^RUNNING).*\n)*)", re.M)

pytestmark = [pytest.mark.integration, pytest.mark.long]


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debian]:
    """Yield a Debian with a checkout's playbook and packages of small scripts; the real packages have their own
    test.
    """
    with a_debian(tmp_path_factory.mktemp("ansible")) as opened:
        for version in ("1.0-1", "1.1-1"):
            root = opened.shared / version / "helen-equus"
            (root / "opt/helen/bin").mkdir(parents=True)
            (root / "opt/helen/bin/helen").write_text(f"#!/bin/sh\necho {version}\n")
            (root / "opt/helen/bin/helen").chmod(0o755)
            pack_all(root, version, python_version(), opened.shared / version)
        shutil.copytree(ROOT / "deploy" / "ansible", opened.shared / "checkout" / "deploy" / "ansible")
        yield opened


def play(
    debian: Debian, version: str = "1.0-1", groups: tuple[str, ...] = BOTH, **settings: object
) -> tuple[dict[str, int], list[str], str]:
    """Run site.yml of the checkout, whose dist has a version, on a host that is in groups.

    Return the counts of Ansible's recap, the tasks that changed something, and all that it said.
    """
    checkout = debian.shared / "checkout"
    shutil.rmtree(checkout / "dist", ignore_errors=True)
    (checkout / "dist").mkdir()
    for package in (debian.shared / version).glob("*.deb"):
        shutil.copyfile(package, checkout / "dist" / package.name)
    host = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": "/usr/bin/python3"}
    hosts = {"localhost": {**host, **SETTINGS, **settings}}
    inventory = {"all": {"children": {group: {"hosts": hosts} for group in groups}}}
    (debian.shared / "inventory.yml").write_text(json.dumps(inventory))
    program = Path(sys.executable).with_name("ansible-playbook")
    words = [str(program), "-i", "/mnt/test/inventory.yml", "/mnt/test/checkout/deploy/ansible/site.yml"]
    done = debian.tried("env", "ANSIBLE_PIPELINING=1", *words)
    said = done.stdout + done.stderr
    counts = dict(re.findall(r"(ok|changed|failed)=(\d+)", said))
    changed = [task for task, lines in TASKS.findall(said) if re.search(r"^changed:", lines, re.M)]
    return {name: int(count) for name, count in counts.items()}, changed, said


def test_it_is_what_the_playbook_says_after_one_run(debian: Debian) -> None:
    """A second run of the playbook changes nothing, and an upgrade changes the packages and removes the used token
    alone (20).
    """
    counts, changed, said = play(debian)
    assert counts["failed"] == 0, said
    assert {"Packages, from files", "Settings of the server", "Join token", "Policy of the agent"} <= set(changed)
    assert debian.does("helen") == "1.0-1\n"
    settings = debian.does("cat", "/etc/helen/helen.env").splitlines()[1:]
    assert settings == ["HELEN_NAME=helen.example", "HELEN_RINGS=1%,100%"]
    assert debian.does("stat", "-c", "%a %U", "/etc/equus/join.env") == "600 root\n"
    assert debian.does("cat", "/etc/equus/join.env") == "EQUUS_JOIN=one.token\n"
    assert "one.token" not in said
    units = ("helen.service", "helen-agents.socket", "helen-web.socket", "equus.service")
    assert debian.does("systemctl", "is-enabled", *units) == "enabled\n" * 4

    counts, changed, said = play(debian)
    assert (counts["failed"], counts["changed"], changed) == (0, 0, []), said

    counts, changed, said = play(debian, "1.1-1", BOTH[:1])
    assert counts["failed"] == 1 and "remove is disabled" in said, said  # it would take the agent away
    assert debian.does("helen") == "1.0-1\n"

    debian.script("touch /var/lib/equus/agent.pem")
    counts, changed, said = play(debian, "1.1-1")
    assert set(changed) == {
        "Packages, from files", "No join token that was used"
    }, said  # fmt: skip
    assert debian.does("helen") == "1.1-1\n"
    assert "HELEN_NAME=helen.example" in debian.does("cat", "/etc/helen/helen.env")

    counts, changed, said = play(debian)
    assert (counts["failed"], changed) == (0, ["Packages, from files"]), said  # the way back, downgrades alone
    assert debian.does("helen") == "1.0-1\n"


def test_what_a_playbook_lacks_is_told_before_anything_is_done(debian: Debian) -> None:
    """A playbook without a server for the agent stops before anything is done, and the message says what to
    give (20).
    """
    counts, changed, said = play(debian, equus_settings={"EQUUS_NAME": "db-1"})
    assert (counts["failed"], changed) == (1, [])
    assert "equus_settings has no EQUUS_SERVER of the form HOST:PORT. Give it, or set equus_agent: false" in said


def test_the_defaults_are_those_of_the_arguments() -> None:
    """The role's defaults equal those of its arguments, and each variable of its tasks is declared (20)."""
    options = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
    assert {name: option["default"] for name, option in options.items()} == defaults
    text = "".join(path.read_text() for path in sorted((ROLE / "tasks").iterdir()))
    used = set(re.findall(r"\b(?:helen|equus)_[a-z_]+", text)) - {"equus_identity", "helen_installed"}
    assert used == set(defaults)
