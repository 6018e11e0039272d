"""Checks a push before anything of it is written: its names, its files, and its rings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from twisted.internet.threads import deferToThread

from equus_protocol import manifest
from equus_protocol.manifest import FileEntry
from helen.library import check_folder
from helen.library.lint_cache import Lint, Verdicts, libraries
from helen.library.linter import Verdict
from helen.library.published import PushRefused
from helen.rollout.rings import Candidate, matches
from helen.rollout.rollout import Plan


def check_names(files: Mapping[str, bytes]) -> None:
    """Raises PushRefused for a name that is not one of a check's file, or for a file too long: names become paths."""
    for name, content in files.items():
        if not manifest.FILE_NAME.fullmatch(name) or len(content) > manifest.MAX_FILE:
            raise PushRefused(f"{name!r}: a check's file is called NAME.lua and has at most {manifest.MAX_FILE} bytes")


def in_tests_folder(tests: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return tests by their names in the folder of checks."""
    return {f"tests/{name}": content for name, content in tests.items()}


async def judge_push(
    folder: Path, lint: Lint, verdicts: Verdicts, files: Mapping[str, bytes], tests: Mapping[str, bytes]
) -> dict[str, Verdict]:
    """Return the verdict of each file of a push. With a library among them every check of the folder is judged.

    Raises PushRefused if a file can't be used, or if the push breaks one of the folder, LintFailed if lint can't run,
    and OSError if the folder can't be read.
    """
    reading = await deferToThread(check_folder.read, folder)
    beside = reading.files if libraries(files) else libraries(reading.files)
    found = await lint({**beside, **files, **in_tests_folder(tests)})
    bad = [name for name in files if not found[name].usable]
    for name, content in beside.items():
        entry = manifest.entry(content)
        if name not in files and not found[name].usable and _was_usable(verdicts, name, entry):
            bad.append(name)
    if bad:
        raise PushRefused("\n".join(problem.at(name) for name in bad for problem in found[name].problems))
    return {name: found[name] for name in files}


def _was_usable(verdicts: Verdicts, name: str, entry: FileEntry) -> bool:
    try:
        return verdicts.of(name, entry).usable
    except KeyError:
        return False


def can_none_try(fleet: Iterable[Candidate], plan: Plan) -> bool:
    """Return True if there are agents, and all of them are away: all would get the set at once when they come back."""
    known = list(fleet) if plan.rings else []
    return bool(known) and not any(each.is_here for each in known)


def check_rings(fleet: list[Candidate], plan: Plan, has_published: bool) -> None:
    """Raises PushRefused if no agent can try the set first, or if no agent has the label that a ring is named by.

    Such a label is a slip of the operator's: the ring that follows would be the first one.
    """
    if has_published and can_none_try(fleet, plan):
        raise PushRefused(
            "no agent is there that could try it before all others: wait for one, or `helen push --rings off`"
        )
    for spec in plan.rings:
        if spec.label is not None and fleet and not any(matches(each, spec.label) for each in fleet):
            raise PushRefused(f"no agent of version 2 has the label {spec.text}: `helen agents` shows their labels")
