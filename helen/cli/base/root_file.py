"""Pass a new root from one person to the next as a file, until enough keys of it and of the one before have signed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from equus_protocol import manifest, roots
from groundwork.terminal import echo
from helen.cli.base.judged_root import NextRoot, judge_text
from helen.cli.base.offline_signing import or_first
from helen.cli.base.passed_file import read_passed, write_passed, wrong_type
from helen.cli.base.signing_record import KeyFile, Record, joined

TYPE = "helen-root-to-sign"


@frozen
class RootFile:
    """Hold a root in its envelope; the file that `helen keys rotate --save` writes."""

    envelope: bytes

    def write(self, path: Path) -> None:
        """Write the file whole. Raises Failed."""
        write_passed(path, {"type": TYPE, "root": self.envelope.decode()})

    @classmethod
    def read(cls, path: Path) -> RootFile:
        """Read a file of `--save`. Raises Failed if it is none."""
        return read_passed(path, 2 * roots.MAX_ROOT, "helen keys rotate --save", cls._of)

    @classmethod
    def _of(cls, document: Mapping[str, Any]) -> RootFile:
        if document.get("type") != TYPE:
            raise wrong_type(document)
        found = cls(document["root"].encode())
        roots.read(found.envelope)
        return found


def sign_root(keys: Sequence[KeyFile], held: RootFile, first: bool) -> RootFile:
    """Return a root with our signatures beside those that it has. Raises Failed, and then nothing was signed."""
    text, signatures = manifest.open_envelope(held.envelope)
    record = joined(keys)
    made = or_first(lambda said: judge_text(text, record, said), first)
    keep_root(keys, record, made)
    names = {key.id for key in keys}
    others = [each for each in signatures if not (isinstance(each, dict) and each.get("key") in names)]
    mine = [manifest.signature_of(text, key.private, roots.TYPE) for key in keys]
    return RootFile(manifest.seal(text, others + mine))


def keep_root(keys: Sequence[KeyFile], record: Record | None, made: NextRoot) -> Record:
    """Show what a root changes, and write it into the records as signed; return the record."""
    for line in made.lines:
        echo(line, err=True)
    kept = evolve(record or Record(), sent=made.root)
    for key in keys:
        key.save(kept)
    return kept
