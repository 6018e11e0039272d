"""Tests that README.rst and docs/index.rst name checks, folders, commands and pages of today, each by its own list."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helen.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.rst").read_text()
INDEX = (ROOT / "docs" / "index.rst").read_text()
CHECKS = sorted(path.stem for path in (ROOT / "checks").glob("*.lua"))


@pytest.mark.parametrize("page", ["README.rst", "CHANGES.rst"])
def test_the_number_of_checks(page: str) -> None:
    """A page that counts checks says the number of those in the folder."""
    text = (ROOT / page).read_text()
    said = re.findall(r"(\d+) (?:checks|of them) are shipped", text)
    assert said == [str(len(CHECKS))]


def test_each_check_has_a_row() -> None:
    """The table of docs/checks.rst has them all, and no other."""
    table = (ROOT / "docs" / "checks.rst").read_text().partition("The checks that are installed")[2]
    rows = re.findall(r"^``(\w+)``  ", table, re.M)
    assert rows == CHECKS


def test_the_table_of_folders() -> None:
    """Each folder of the table exists, and each package of ours is in it; so do the components that a row names."""
    rows = dict(re.findall(r"^``(\w+)/`` +(.*(?:\n {10,}.*)*)", README.partition("Folders\n")[2], re.M))
    assert all((ROOT / folder).is_dir() for folder in rows)
    listed = re.findall(r"^    (\w+)$", (ROOT / "setup.cfg").read_text(), re.M)
    packages = {name for name in listed if (ROOT / name).is_dir()} - {"helen_checks"}  # which is checks/, installed
    assert packages <= rows.keys()
    for package in ("equus", "helen", "scale0", "zerotask"):
        for component in re.findall(r"``(\w+)``", rows[package]):
            if component != "zmq":
                path = ROOT / package / component
                assert path.is_dir() or path.with_suffix(".py").exists(), f"{package} has no {component}"


def test_commands_exist() -> None:
    """Each `helen ...` of a block is a command of today."""
    used = re.findall(r"^    (?:HELEN_\w+=\S+ )?helen ([a-z-]+)", README, re.M)
    assert len(used) >= 8
    assert set(used) <= COMMANDS.keys()


def test_shells_complete_commands() -> None:
    """A shell completes commands as the README says, and nothing but click is asked."""
    assert "_HELEN_COMPLETE=bash_source helen" in README
    environment = {**os.environ, "_HELEN_COMPLETE": "bash_complete", "COMP_WORDS": "helen ro", "COMP_CWORD": "1"}
    words = [sys.executable, "-c", "from helen.cli.main import main; main(prog_name='helen')"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["plain,rollout", "plain,route"]


def test_every_page_stands_in_one_tree() -> None:
    """Every page stands under one of four captions; one in none would be found by nobody, one in two would be two."""
    trees = dict(re.findall(r":caption: (\S+)\n   :maxdepth: 1\n\n((?:   \S+\n)+)", INDEX))
    assert list(trees) == ["Start", "How-to", "Reference", "Inside"]
    listed = [page for tree in trees.values() for page in tree.split()]
    docs = ROOT / "docs"
    there = [str(path.relative_to(docs).with_suffix("")) for path in docs.rglob("*.rst") if path.stem != "index"]
    assert sorted(listed) == sorted(there)


def test_the_glossary_has_each_term_once() -> None:
    """The glossary has one row for each term, and forty or more of them."""
    terms = re.findall(r"^   (\S.*)\n      \S", (ROOT / "docs" / "glossary.rst").read_text(), re.M)
    assert len(terms) == len(set(terms)) >= 40
