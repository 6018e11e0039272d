"""Build the two manifests of a push from the operator's files and the record of the keys, and compare Helen's.

A Helen that was taken over may hand out any text to sign. So only texts are signed that are built here, and each file
in them is one that the operator gives, or one that these keys have signed before. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from equus_protocol import manifest
from equus_protocol.manifest import FileEntry, ManifestDocument, ManifestRefused
from groundwork.counts import count
from helen.cli.base.signing_record import Record, SignedSet

MAX_LIFE = 31 * 86_400.0  # seconds from `created` to `expires` of what is signed; Helen says 30 days
SKEW = 86_400.0  # seconds that Helen's clock may be ahead of ours
HASH = 12  # digits of a hash that are shown


class NotOurs(Exception):
    """Report that a text of Helen's is not what the operator would sign; the text says why and what to do."""


class IsFirst(NotOurs):
    """Report that the record of the keys does not lead to this version; `--first` begins a new one."""


class IsUndone(NotOurs):
    """Report that a set goes back behind the newest one that the keys have signed; `--undone` agrees to it."""


@frozen
class Wanted:
    """Hold what the operator wants, and what the keys have signed before.

    `files`: those given, by name. `removed`: names that leave the set. `agent`: the Equus of --agent, as manifests name
    it. `shipped`: the checks that came with this installation. `first`: begin a record. `undone`: the newest set that
    was signed has been taken back. `no_way_back`: the undo has the files of the push itself.
    """

    files: Mapping[str, FileEntry] = field(factory=dict)
    removed: frozenset[str] = frozenset()
    agent: Mapping[str, Any] | None = None
    shipped: Mapping[str, FileEntry] = field(factory=dict)
    first: bool = False
    undone: bool = False
    no_way_back: bool = False


@frozen
class Judged:
    """Hold both texts to sign, their documents, and the lines that show what they change."""

    new: bytes
    undo: bytes
    new_document: ManifestDocument
    undo_document: ManifestDocument
    lines: tuple[str, ...]


def judge(new: Any, undo: Any, wanted: Wanted, record: Record | None, now: float, mend: bool = True) -> Judged:
    """Return the texts to sign for a staged push and its undo; `now` is unix seconds.

    `mend`: an undo that is not known here is replaced by one with the files of the push itself. Raises NotOurs if a
    text is anything else than the operator wants, IsFirst if there is no record that leads to it, and IsUndone
    if it goes back behind the newest set of the record.
    """
    theirs, back = _read(new, "manifest", now), _read(undo, "undo", now)
    _judge_versions(theirs.version, back.version, record, wanted.first)
    sets = () if record is None else record.sets[: 2 if record.published else None]
    before = next((each for each in sets if each.holds(back)), None)
    base = next((each for each in sets if each.holds(theirs)), None) or before
    entries = _judge_files(theirs, base, sets, wanted)
    newest = sets[0] if sets and record is not None and theirs.version > record.version else None
    back_again = _judge_way(theirs, newest, wanted)
    agent = _judge_agent(theirs, base, sets, wanted)
    ours = _build(new, entries, theirs.version, agent, "manifest")
    back_entries, back_agent = (entries, agent) if before is None else (dict(before.files), before.agent)
    if wanted.no_way_back or (before is None and not SignedSet(0, entries, agent).holds(back)):
        if not mend:
            raise NotOurs(
                f"version {back.version} is kept for an undo and has files that these keys have not signed: ask for a"
                " set that was made with `helen push --no-way-back`"
            )
        ours_back = _build(undo, entries, back.version, agent, "undo", like=False)
    else:
        ours_back = _build(undo, back_entries, back.version, back_agent, "undo")
    documents = [manifest.read_unverified(manifest.seal(text, [])) for text in (ours, ours_back)]
    lines = _difference(documents[0], base) + back_again + _way_back(documents[1], documents[0], before)
    return Judged(ours, ours_back, *documents, tuple(lines))


def _read(text: Any, name: str, now: float) -> ManifestDocument:
    """Return the document of a text. Raises NotOurs if it is no manifest, or if its times are none of today's."""
    try:
        document = manifest.read_unverified(manifest.seal(text.encode(), []))
    except (AttributeError, ValueError) as error:
        raise NotOurs(f"`{name}`, which Helen wants to be signed, is no text of a manifest") from error
    except ManifestRefused as refused:
        raise NotOurs(f"`{name}`, which Helen wants to be signed, is no manifest: {refused}") from refused
    if document.created > now + SKEW or document.expires <= now or document.expires > document.created + MAX_LIFE:
        raise NotOurs(
            f"`{name}` counts from {document.created:.0f} to {document.expires:.0f} (unix seconds), and it is {now:.0f}"
            ": are both clocks right? A set that waited for more than 30 days is staged anew when Helen is restarted"
        )
    return document


def _judge_versions(new: int, undo: int, record: Record | None, first: bool) -> None:
    if undo != new + 1:
        raise NotOurs(f"the undo of version {new} is version {undo}, not {new + 1}")
    if record is None or not record.version:
        if not first:
            raise IsFirst(
                f"there is no record of what these keys have signed, and Helen asks for version {new}. If they sign for"
                " the first time, or if the record is lost, say --first"
            )
        return
    again = new == record.version - 1 and not record.published
    if new == record.version + 1 or again:
        return
    if new <= record.version:
        raise NotOurs(
            f"Helen asks for version {new}, and these keys have signed version {record.version}: agents that hold it"
            " refuse older ones. Was Helen restored from a backup? `helen push --yes` numbers its sets anew"
        )
    if not first:
        raise IsFirst(
            f"Helen asks for version {new}, and these keys have signed version {record.version} last. If others have"
            " signed since, give the files that they have changed and say --first"
        )


def _judge_files(
    theirs: ManifestDocument, base: SignedSet | None, sets: Sequence[SignedSet], wanted: Wanted
) -> dict[str, FileEntry]:
    known = [*([] if base is None else [base]), *sets[: 1 if base is not None else None]]
    for name in wanted.files.keys() - theirs.files.keys():
        raise NotOurs(f"Helen's set leaves out {name}, which you give: look at `helen checks`")
    for name in sorted(wanted.removed & theirs.files.keys()):
        raise NotOurs(f"Helen's set still has {name}, which you remove")
    if base is None and not wanted.first:
        raise IsFirst(
            "the set before is none that these keys have signed. If others have signed since, give the files that they"
            " have changed and say --first"
        )
    gone = sorted((base.files.keys() if base is not None else set()) - theirs.files.keys() - wanted.removed)
    if gone and not any(each.holds(theirs) for each in sets):
        raise NotOurs(f"Helen's set leaves out {', '.join(gone)}: say `--remove {gone[0]}` if that is what you want")
    strange = [name for name, entry in theirs.files.items() if not _is_known(name, entry, known, wanted)]
    if strange:
        what = ", ".join(f"{name} ({theirs.files[name].sha256[:HASH]})" for name in sorted(strange)[:5])
        more = f" and {len(strange) - 5} more" if len(strange) > 5 else ""
        raise NotOurs(
            f"Helen's set has {what}{more}, which is not the file that you gave or that these keys have signed. Read"
            " it, and give it as one of FILES if it is yours"
        )
    return dict(theirs.files)


def _judge_way(theirs: ManifestDocument, newest: SignedSet | None, wanted: Wanted) -> list[str]:
    """Return lines that show which files go back behind the newest set that was signed; raises IsUndone.

    Such files are known, because they were signed before. By them a Helen could take back a push without an undo.
    """
    if newest is None:
        return []
    asked = wanted.files.keys() | wanted.removed
    moved = {name for name in newest.files.keys() | theirs.files.keys()
             if name not in asked and newest.files.get(name) != theirs.files.get(name)}  # fmt: skip
    if wanted.first:
        moved -= {name for name in moved if name not in newest.files and name in wanted.shipped}
    lines = [f"  < {name}, as before version {newest.version}" for name in sorted(moved)]
    if lines and not wanted.undone:
        names = ", ".join(sorted(moved)[:5]) + (f" and {len(moved) - 5} more" if len(moved) > 5 else "")
        raise IsUndone(
            f"Helen's set goes back behind version {newest.version}, which these keys have signed last: {names}."
            f" If version {newest.version} was undone, `helen push --undone` and `helen sign --undone` go on from there"
        )
    return lines


def _is_known(name: str, entry: FileEntry, known: Sequence[SignedSet], wanted: Wanted) -> bool:
    if name in wanted.files:
        return wanted.files[name] == entry
    if any(each.files.get(name) == entry for each in known):
        return True
    return wanted.first and wanted.shipped.get(name) == entry


def _judge_agent(
    theirs: ManifestDocument, base: SignedSet | None, sets: Sequence[SignedSet], wanted: Wanted
) -> Mapping[str, Any] | None:
    if wanted.agent is not None:
        allowed: list[Any] = [wanted.agent]
    else:
        allowed = [each.agent for each in [*([] if base is None else [base]), *sets[:1]]] or [None]
    if theirs.agent not in allowed:
        version = theirs.agent["version"] if theirs.agent else "none"
        raise NotOurs(
            f"Helen's set brings another Equus (version {version}) than these keys have signed or you give:"
            " `helen push --agent WHEEL` names one"
        )
    return theirs.agent


def _build(
    text: str, files: Mapping[str, FileEntry], version: int, agent: Mapping[str, Any] | None, name: str,
    like: bool = True,
) -> bytes:  # fmt: skip
    """Return our own text, with the times of Helen's. Raises NotOurs if `like` and Helen's differs in anything."""
    theirs = manifest.read_object(text.encode())
    ours = manifest.build(files, version, theirs["created"], theirs["expires"], agent=agent)
    if like and ours != text.encode():
        raise NotOurs(f"`{name}`, which Helen wants to be signed, has more in it than version, times and files")
    return ours


def _difference(new: ManifestDocument, base: SignedSet | None) -> list[str]:
    before: Mapping[str, FileEntry] = base.files if base is not None else {}
    since = f"against version {base.version}" if base is not None else "the first set of this record"
    lines = [f"version {new.version}, {since}: {count(len(new.files), 'file')}, digest {new.digest[:HASH]}"]
    for name in sorted(before.keys() | new.files.keys()):
        old, now = before.get(name), new.files.get(name)
        if old != now:
            sign = "-" if now is None else "+" if old is None else "~"
            was = f" (was {old.sha256[:HASH]})" if old is not None and now is not None else ""
            lines.append(f"  {sign} {name} {(now or old).sha256[:HASH]}{was}")  # type: ignore[union-attr]
    if (agent := new.agent) != (base.agent if base is not None else None):
        lines.append(f"  ~ Equus {agent['version'] if agent else 'is no longer offered'}")
    return lines if len(lines) > 1 else [f"{lines[0]}; nothing differs"]


def _way_back(undo: ManifestDocument, new: ManifestDocument, before: SignedSet | None) -> list[str]:
    if (undo.files, undo.agent) == (new.files, new.agent):
        return [f"version {undo.version} has the same files: this push has no undo"]
    return [f"version {undo.version}, kept for an undo: the files of version {before.version if before else '?'}"]
