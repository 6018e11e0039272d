"""Propose a policy for the plugins of a folder: each is run with --help, and its usage becomes typed slots.

A program that others than root could change is not run, as no check may run it either.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from equus.authoring.plugin_usage import NoProposal, Proposal, propose
from equus.policy.file_ownership import ownership_fault
from equus.policy.policy_text import PolicyError, read_policy
from equus.processes.accounts import plugin_user
from equus.processes.spawn import run_program

MAX_PLUGINS = 1_000
PATIENCE = 10.0  # seconds for one --help
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": "/"}
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_HEAD = """\
# Proposed by `equus policy plugins`: a guess by what each program says with --help. Read it, narrow types and paths,
# and keep in /etc/equus/policy.toml what checks shall run. A slot with `default = "..."` may be left out."""


class FolderError(Exception):
    """Says that the folder can't be used; the text is a sentence."""


def proposals(folder: Path) -> tuple[str, int, int]:
    """Return the text of a policy, and how many plugins it proposes and does not. Blocks. Raises FolderError."""
    parts, others = [_HEAD], list[str]()
    programs = _programs(folder.absolute())
    for path in programs:
        try:
            parts.append(text_of(path.name, _proposal(path)))
        except NoProposal as why:
            others.append(f"# {_plain(path.name)}: {_plain(str(why))}")
    text = "\n\n".join([*parts, *(["\n".join(["# Not proposed:", *others])] if others else [])])
    return text, len(programs) - len(others), len(others)


def _programs(folder: Path) -> list[Path]:
    try:
        found = [path for path in sorted(folder.iterdir()) if path.is_file() and os.access(path, os.X_OK)]
    except OSError as error:
        raise FolderError(f"{folder} can't be read: {error.strerror}") from error
    if not found:
        raise FolderError(f"{folder} holds no programs: name the folder of the plugins")
    if len(found) > MAX_PLUGINS:
        raise FolderError(f"{folder} holds more than {MAX_PLUGINS:,} programs: name a folder of plugins")
    return found


def _proposal(path: Path) -> Proposal:
    """Return what may be proposed for one program. Raises NoProposal with the reason if nothing may."""
    if not _NAME.fullmatch(path.name.replace(".", "_")):
        raise NoProposal("its name is no name of a plugin")
    try:
        if fault := ownership_fault(path):
            raise NoProposal(f"it is not run: {fault}")
        done = run_program([str(path), "--help"], PATIENCE, _ENVIRONMENT, uid=plugin_user(None))
    except (OSError, ValueError) as error:
        raise NoProposal(f"it can't be run: {error}") from error
    if done.timed_out:
        raise NoProposal(f"it has not answered --help within {PATIENCE:g} s")
    made = propose(str(path), (done.stdout or done.stderr).decode("utf-8", "replace"))
    try:
        read_policy(text_of(path.name, made).encode(), "proposal")
    except PolicyError as error:
        raise NoProposal(f"its usage makes no slots: {error}") from error
    return made


def text_of(name: str, made: Proposal) -> str:
    """Return the lines of a policy for one proposal."""
    key = name if _NAME.fullmatch(name) else json.dumps(name)
    lines = [f"# may be added: {', '.join(map(_plain, made.others))}"] if made.others else []
    lines += [f"[plugins.{key}]", f"command = {json.dumps(made.command)}"]
    return "\n".join([*lines, *(f"slots.{slot} = {_table(values)}" for slot, values in made.slots.items())])


def _table(values: Mapping[str, object]) -> str:
    return "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items()) + " }"


def _plain(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
