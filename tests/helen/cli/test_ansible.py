"""Tests Ansible with the configuration of docs/shell.rst: files in both directions, commands, no change the second
time."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helen_running import environment
from openssh import PATIENCE
from ssh_fleet import Fleet
from web_client import ask

pytestmark = pytest.mark.integration
PLAYBOOK = """
- hosts: web-1
  gather_facts: true
  tasks:
    - ansible.builtin.copy: {{content: "grüße\\n", dest: "{folder}/there", mode: "0640"}}
    - ansible.builtin.command: cat {folder}/there
      register: shown
      changed_when: false
    - ansible.builtin.assert: {{that: ["shown.stdout == 'grüße'", "ansible_facts.user_uid == 0"]}}
    - ansible.builtin.fetch: {{src: "{folder}/there", dest: "{folder}/back", flat: true}}
"""


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("ansible"))
    try:
        yield made
    finally:
        made.end()


def test_a_playbook(fleet: Fleet, tmp_path: Path) -> None:
    """A playbook run twice with ControlMaster sends all steps of both runs through one tunnel, and changes nothing
    the second time."""
    assert fleet.ssh("root@web-1", *fleet.options(), "true").returncode == 0
    (tmp_path / "hosts").write_text(f"web-1 ansible_user=root ansible_python_interpreter={sys.executable}\n")
    (tmp_path / "play.yml").write_text(PLAYBOOK.format(folder=tmp_path), "utf-8")
    before = len(tunnels(fleet))
    config = fleet.config(tmp_path, "ControlMaster auto", "ControlPersist 10m", f"ControlPath {tmp_path}/master")
    given = {
        "HOME": str(tmp_path), "ANSIBLE_SSH_ARGS": f"-F {config}", "ANSIBLE_REMOTE_TEMP": f"{tmp_path}/remote",
        "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1",
    }  # fmt: skip
    words = [sys.executable, "-m", "ansible", "playbook", "-i", str(tmp_path / "hosts"), str(tmp_path / "play.yml")]
    try:
        for changed in (2, 0):  # the file, and its copy
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=4 * PATIENCE, env=environment() | given, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            [told] = re.findall(r"web-1 +: ok=(\d+) +changed=(\d+) +unreachable=0 +failed=0", done.stdout)
            assert told == ("5", str(changed))
    finally:
        subprocess.run(["ssh", "-F", str(config), "-O", "exit", "root@web-1"], capture_output=True, check=False)
    assert (tmp_path / "back").read_text("utf-8") == "grüße\n"
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o640
    assert len(tunnels(fleet)) == before + 1


def tunnels(fleet: Fleet) -> list[object]:
    rows = ask(fleet.helen, "GET", "/api/v1/audit?limit=100").json["audit"]
    return [row for row in rows if row["action"] == "tunnel"]
