"""Sign with keys that Helen doesn't hold: a staged push, or a set in a file that goes from one person to the next."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from attrs import evolve, frozen

import helen_checks
from equus_protocol import manifest, pieces
from equus_protocol.manifest import FileEntry
from groundwork.terminal import echo
from helen.cli.base.failures import Failed
from helen.cli.base.judged_set import IsFirst, IsUndone, Judged, NotOurs, Wanted, judge
from helen.cli.base.options import plain
from helen.cli.base.passed_file import read_passed, write_passed, wrong_type
from helen.cli.base.signing_record import KeyFile, Record, joined
from helen.library.agent_wheels import NotAnEquus, version_of

TYPE = "helen-set-to-sign"
PLAN = ("rings", "canary", "gates")  # options of a push that go with a set; nobody signs them, so they are shown
LONGEST = 4 * manifest.MAX_MANIFEST  # bytes of a file with two envelopes

_Found = TypeVar("_Found")


@frozen
class SetFile:
    """Hold a push and its undo in their envelopes, with the options of the push; the file that `--save` writes."""

    new: bytes
    undo: bytes
    plan: Mapping[str, Any]

    def write(self, path: Path) -> None:
        """Write the file whole. Raises Failed."""
        held = {"manifest": self.new.decode(), "undo": self.undo.decode(), "plan": dict(self.plan)}
        write_passed(path, {"type": TYPE, **held})

    @classmethod
    def read(cls, path: Path) -> SetFile:
        """Read a file of `--save`. Raises Failed if it is none."""
        return read_passed(path, LONGEST, "helen push --save", cls._of)

    @classmethod
    def _of(cls, document: Mapping[str, Any]) -> SetFile:
        if document.get("type") != TYPE or not isinstance(document["plan"], dict):
            raise wrong_type(document)
        strange = sorted(document["plan"].keys() - set(PLAN))
        if strange:
            raise ValueError(f"its plan has {strange[0][:40]!r}")
        found = cls(document["manifest"].encode(), document["undo"].encode(), document["plan"])
        for envelope in (found.new, found.undo):
            manifest.open_envelope(envelope)
        return found

    def merged(self, other: SetFile) -> SetFile:
        """Return the same set with the signatures of both. Raises Failed if set or plan are others."""
        if self.plan != other.plan:
            raise Failed("the files name different rings or gates: make one of `helen push --save` the file of all")
        pairs = ((self.new, other.new), (self.undo, other.undo))
        return evolve(self, new=_merged(*pairs[0]), undo=_merged(*pairs[1]))


def _merged(one: bytes, other: bytes) -> bytes:
    (signed, ours), (same, theirs) = manifest.open_envelope(one), manifest.open_envelope(other)
    if signed != same:
        raise Failed("the files hold different sets: each person signs the file of one `helen push --save`")
    there = {str(each.get("key")) for each in ours if isinstance(each, dict)}
    more = [each for each in theirs if isinstance(each, dict) and str(each.get("key")) not in there]
    return manifest.seal(signed, [*ours, *more])


def wanted_of(
    files: Mapping[str, bytes], removed: Sequence[str], wheels: Mapping[str, bytes], first: bool,
    no_way_back: bool = False, undone: bool = False,
) -> Wanted:  # fmt: skip
    """Return what the operator wants to be signed. Raises Failed for wheels that are no Equus."""
    agent = None
    if wheels:
        try:
            split = {name: manifest.entry(content) for name, content in pieces.split(wheels).items()}
            entries = {name: {"sha256": each.sha256, "size": each.size} for name, each in split.items()}
            agent = {"version": version_of(wheels), "files": entries}
        except NotAnEquus as error:
            raise Failed(str(error)) from error
    entries_of_files = {name: manifest.entry(content) for name, content in files.items()}
    return Wanted(entries_of_files, frozenset(removed), agent, _shipped(), first, undone, no_way_back)


def _shipped() -> dict[str, FileEntry]:
    """Return the checks of this installation, which a first set may hold without being given one by one."""
    folder = helen_checks.FOLDER
    paths = [*folder.glob("*.lua"), *(folder / "lib").glob("*.lua")]
    return {path.relative_to(folder).as_posix(): manifest.entry(path.read_bytes()) for path in paths}


def sign_staged(keys: Sequence[KeyFile], staged: Any, wanted: Wanted) -> tuple[bytes, bytes, Record]:
    """Sign a staged set as `GET /api/v1/push` shows it; return both envelopes, and the record that was written.

    Raises Failed, and then nothing was signed, unless the set is what the operator wants.
    """
    if not isinstance(staged, dict):
        raise Failed("nothing was signed: Helen's answer about the staged set can't be read")
    record = joined(keys)
    judged = _judged(staged.get("manifest"), staged.get("undo"), wanted, record)
    _keep(keys, judged, record)
    private = [key.private for key in keys]
    return manifest.sign(judged.new, private), manifest.sign(judged.undo, private), _kept(judged, record)


def sign_file(keys: Sequence[KeyFile], held: SetFile, wanted: Wanted) -> SetFile:
    """Return a set with our signatures beside those that it has. Raises Failed, and then nothing was signed."""
    (new, ours), (undo, back) = manifest.open_envelope(held.new), manifest.open_envelope(held.undo)
    record = joined(keys)
    texts = [signed.decode("utf-8", "replace") for signed in (new, undo)]
    judged = _judged(*texts, wanted, record, mend=False)
    _keep(keys, judged, record)
    mine = [[manifest.signature_of(text, key.private) for key in keys] for text in (judged.new, judged.undo)]
    names = {key.id for key in keys}
    others = [[e for e in each if not (isinstance(e, dict) and e.get("key") in names)] for each in (ours, back)]
    return evolve(
        held, new=manifest.seal(judged.new, others[0] + mine[0]), undo=manifest.seal(judged.undo, others[1] + mine[1])
    )


def has_published(keys: Sequence[KeyFile], record: Record) -> None:
    """Write into the records that Helen has taken the newest pair."""
    for key in keys:
        key.save(evolve(record, published=True))


def _judged(new: Any, undo: Any, wanted: Wanted, record: Record | None, mend: bool = True) -> Judged:
    def judged_with(first: bool, undone: bool) -> Judged:
        """Judge once, with what the person has agreed to."""
        return judge(new, undo, evolve(wanted, first=first, undone=undone), record, time.time(), mend)

    judged = or_first(lambda first: _or_undone(lambda undone: judged_with(first, undone), wanted.undone), wanted.first)
    for line in judged.lines:
        echo(plain(line), err=True)
    return judged


def or_first(call: Callable[[bool], _Found], first: bool) -> _Found:
    """Return `call(first)`; where a record is missing the person at a terminal is asked if one begins.

    Raises Failed with the sentence of NotOurs.
    """
    try:
        try:
            return call(first)
        except IsFirst as lacking:
            if not sys.stdin.isatty() or not click.confirm(f"{plain(lacking)}.\nBegin a new record?", err=True):
                raise
            return call(True)
    except NotOurs as error:
        raise Failed(f"nothing was signed: {error}") from error


def _or_undone(call: Callable[[bool], _Found], undone: bool) -> _Found:
    """Return `call(undone)`; a person at a terminal is asked if the newest set was undone. Raises IsUndone."""
    try:
        return call(undone)
    except IsUndone as back:
        if not sys.stdin.isatty() or not click.confirm(f"{plain(back)}.\nWas it undone?", err=True):
            raise
        return call(True)


def _kept(judged: Judged, record: Record | None) -> Record:
    return (record or Record()).with_pair(judged.new_document, judged.undo_document)


def _keep(keys: Sequence[KeyFile], judged: Judged, record: Record | None) -> None:
    for key in keys:
        if key.record is None:
            echo(f"{key.path} ({key.id}) signs with a new record from here on", err=True)
        key.save(_kept(judged, record))
