"""Tests that a session's fixture of a folder ends with the last test of that folder, in a run of pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONFTEST = """
import pytest
from pathlib import Path

@pytest.fixture(scope="session")
def thing():
    with open("said", "a") as said: said.write("begins ")
    yield
    with open("said", "a") as said: said.write("ends ")
"""
TESTS = {
    "a/conftest.py": CONFTEST,
    "a/test_one.py": "def test(thing): assert open('said').read() == 'begins '",
    "a/b/test_two.py": "def test(thing): assert open('said').read() == 'begins '",
    "c/test_three.py": "def test(): assert open('said').read() == 'begins ends '",
}


def test_it_ends_when_nobody_can_ask_for_it_any_more(tmp_path: Path) -> None:
    """The fixture ends when no test can ask for it, once: a folder within the folder has it, the session's end finds
    nothing.
    """
    for name, text in TESTS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "--import-mode=importlib"]
    words += ["-p", "no:cacheprovider", "a/b/test_two.py", "a/test_one.py", "c/test_three.py"]
    done = subprocess.run(words, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert "3 passed" in done.stdout, done.stdout
    assert (tmp_path / "said").read_text() == "begins ends "
