"""Tests two people who must sign, each at a machine of their own, by commands as processes and with only files
between them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import frozen
from helen_running import Running, environment, pulse, wait_until

from helen.keys.signing_keys import load_private, make_private, public_pem

pytestmark = pytest.mark.integration

HELEN = [sys.executable, "-c", "from helen.cli.main import main; main(prog_name='helen')"]


@frozen
class Machine:
    """Hold a folder that plays a person's machine; only Anna's reaches Helen."""

    folder: Path
    state: Path | None = None

    def run(self, *words: str, status: int = 0) -> str:
        extra = {"HELEN_STATE": str(self.state)} if self.state is not None else {}
        done = subprocess.run(
            [*HELEN, *words], cwd=self.folder, env=environment(extra), capture_output=True, text=True, timeout=120,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        assert done.returncode == status, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr


def carry(name: str, one: Machine, other: Machine) -> None:
    shutil.copy(one.folder / name, other.folder / name)


def test_the_second_signature_comes_as_a_file(tmp_path: Path) -> None:
    """Roots and sets travel to Bert and back as files; one signature alone is not enough; the agent runs the set
    (F36)."""
    with_helen = Running(tmp_path / "helen")
    (with_helen.checks / "word.lua").write_text(pulse("one", "1h"))
    fleet = with_helen.up()
    agent = fleet.agent("web-1")
    try:
        anna, bert = Machine(tmp_path / "anna", fleet.state), Machine(tmp_path / "bert")
        for person in (anna, bert):
            person.folder.mkdir()
            (person.folder / "word.lua").write_text(pulse("one", "1h"))
        make_private(anna.folder / "anna.key")
        make_private(bert.folder / "bert.key")
        bert_public = public_pem(load_private(bert.folder / "bert.key").public_key())
        (anna.folder / "bert.pem").write_text(bert_public)

        anna.run("keys", "rotate", "--new", "anna.key", "--new", "bert.pem", "--threshold", "2", "--save", "root.json")
        assert "not signed by its own keys" in anna.run("keys", "rotate", "--signed", "root.json", status=1)
        carry("root.json", anna, bert)
        assert "say --first" in bert.run("sign", "root.json", "--key", "bert.key", status=1)
        assert "root 2, the first root of this record: 2 of 2 keys" in bert.run(
            "sign", "root.json", "--key", "bert.key", "--first"
        )
        carry("root.json", bert, anna)
        assert "root 2; 2 of 2 keys must sign" in anna.run("keys", "rotate", "--signed", "root.json")

        for word, first in (("two", ["--first"]), ("three", [])):
            (anna.folder / "word.lua").write_text(pulse(word, "1h"))
            anna.run("push", "word.lua", "--key", "anna.key", "--save", "set.json", *first)
            assert "1 good signature(s) of pinned keys, 2 needed" in anna.run("push", "--signed", "set.json", status=1)
            carry("set.json", anna, bert)
            assert "word.lua (" in bert.run("sign", "set.json", "word.lua", "--key", "bert.key", *first, status=1)
            carry("word.lua", anna, bert)
            bert.run("sign", "set.json", "word.lua", "--key", "bert.key", *first)
            carry("set.json", bert, anna)
            shown = anna.run("push", "--signed", "set.json", "--rings", "off")
            assert "1 of 1 agents run it" in shown
            wait_until(lambda word=word: word in anna.run("run", "word", "--on", "web-1"), f"agent that says {word}")
        back = anna.run("push", "--undo")
        assert "1 of 1 agents run it" in back
        assert "two" in anna.run("run", "word", "--on", "web-1")
    finally:
        agent.end()
        fleet.program.end()
