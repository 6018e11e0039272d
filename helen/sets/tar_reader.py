"""Read the regular files of a tar archive that anybody may have written. Pure, and linear in its bytes.

Nothing is unpacked to a disk, and all that a set has no use for is refused by its name: links, devices, sparse files,
names that lead out of the folder. The archive is small, so that it is held in memory.
"""

from __future__ import annotations

import re
import zlib

from equus_protocol.manifest import MAX_FILE
from helen.sets.refused import SetRefused

MOST_BYTES = 8 * 1024 * 1024  # of the archive, unpacked
MOST_FILES = 500
_MOST_ENTRIES = 3 * MOST_FILES  # with folders, and the pax header that tar puts before each file
_BLOCK = 512
_MOST_EXTRA = 4096  # bytes of a pax header: git writes the commit there, tar a time
_GZIP = b"\x1f\x8b"
_KINDS = {
    b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"6": "a FIFO",
    b"7": "a contiguous file", b"L": "a name of more than 100 characters", b"K": "a link",
    b"S": "a sparse file", b"D": "a directory of a backup", b"M": "a part of another archive", b"V": "a volume",
}  # fmt: skip
_RECORD = re.compile(rb"(\d{1,4}) ([^=\n]*)=")  # of a pax header: its length in bytes, a field
_HARMLESS = frozenset((b"comment", b"mtime", b"atime", b"ctime"))


def read_tar(content: bytes) -> dict[str, bytes]:
    """Return the files of an archive by name, packed by gzip or not. Raises SetRefused."""
    plain = _unpacked(content)
    if len(plain) > MOST_BYTES:
        raise SetRefused(f"the archive has more than {MOST_BYTES} bytes: no set of checks is that large")
    found: dict[str, bytes] = {}
    at = entries = 0
    while at + _BLOCK <= len(plain) and any(plain[at : at + _BLOCK]):
        entries += 1
        if entries > _MOST_ENTRIES:
            raise SetRefused(f"the archive has more than {_MOST_ENTRIES} entries: no set of checks has as many")
        at = _read_one(plain, at, found)
    if not found:
        raise SetRefused("this is no tar archive, or an empty one")
    return _without_top(found)


def _unpacked(content: bytes) -> bytes:
    if not content.startswith(_GZIP):
        return content
    unpacker = zlib.decompressobj(31)
    try:
        plain = unpacker.decompress(content, MOST_BYTES + 1)
    except zlib.error as error:
        raise SetRefused(f"the archive can't be unpacked: {error}") from error
    if len(plain) <= MOST_BYTES and (not unpacker.eof or unpacker.unused_data):
        raise SetRefused("the archive can't be unpacked: it is cut, or more than one archive")
    return plain


def _read_one(plain: bytes, at: int, found: dict[str, bytes]) -> int:
    """Read the entry at this offset, and return the offset of the next one. Raises SetRefused."""
    header = plain[at : at + _BLOCK]
    _judge_sum(header)
    name = _name(header)
    size = _number(header[124:136], name)
    begin, kind = at + _BLOCK, header[156:157]
    if size > len(plain) - begin:
        raise SetRefused(f"{name}: the archive ends in the middle of it")
    content = plain[begin : begin + size]
    if kind in (b"x", b"g"):
        _judge_extra(name, content)
    elif kind in (b"0", b"\0"):
        _keep(name, content, found)
    elif kind != b"5":
        raise SetRefused(f"{name} is {_KINDS.get(kind, 'of an unknown kind')}: a set has regular files only")
    elif size:
        raise SetRefused(f"{name} is a folder with content: the archive is damaged")
    return begin + (size + _BLOCK - 1) // _BLOCK * _BLOCK


def _keep(name: str, content: bytes, found: dict[str, bytes]) -> None:
    if len(found) >= MOST_FILES:
        raise SetRefused(f"the archive has more than {MOST_FILES} files")
    if len(content) > MAX_FILE:
        raise SetRefused(f"{name} has more than {MAX_FILE} bytes")
    if name in found:
        raise SetRefused(f"{name} is twice in the archive")
    found[name] = content


def _judge_sum(header: bytes) -> None:
    """Raise SetRefused unless the header's sum is right: of something else than an archive it isn't."""
    claimed = _number(header[148:156], "the archive")
    if sum(header) - sum(header[148:156]) + 8 * 32 != claimed:
        raise SetRefused("this is no tar archive, or it is damaged")


def _number(field: bytes, name: str) -> int:
    text = field.strip(b" \0")
    if not re.fullmatch(rb"[0-7]{0,11}", text):
        raise SetRefused(f"{name}: a number in the archive can't be read; is it 8 GiB or more?")
    return int(text or b"0", 8)


def _name(header: bytes) -> str:
    """Return the name of an entry, relative and plain. Raises SetRefused."""
    parts = [header[345:500].partition(b"\0")[0], header[:100].partition(b"\0")[0]]
    if header[257:262] != b"ustar" or header[257:264] == b"ustar  ":  # the old form, and GNU's, have no prefix
        parts = parts[1:]
    try:
        name = b"/".join(filter(None, parts)).decode("ascii")
    except UnicodeDecodeError:
        raise SetRefused(f"{_shown(parts[-1])}: names in a set are ASCII") from None
    steps = name.rstrip("/").split("/")
    if name.startswith("/") or ".." in steps:
        raise SetRefused(f"{name} leads out of the set's folder")
    return "/".join(step for step in steps if step not in ("", "."))


def _shown(name: bytes) -> str:
    return name.decode("ascii", "replace")


def _judge_extra(name: str, content: bytes) -> None:
    """Raise SetRefused if a pax header says more than a time or a comment: names and sizes are those of the entry."""
    if len(content) > _MOST_EXTRA:
        raise SetRefused(f"{name}: a header of the archive has more than {_MOST_EXTRA} bytes")
    at = 0
    while at < len(content):
        record = _RECORD.match(content, at)
        end = at + int(record[1]) if record else 0
        if record is None or not record.end() < end <= len(content) or content[end - 1 : end] != b"\n":
            raise SetRefused(f"{name}: a header of the archive can't be read: the archive is damaged")
        if record[2] not in _HARMLESS:
            raise SetRefused(
                f"{name}: the archive gives it {_shown(record[2])!r} apart; make it with `helen checks sign`"
            )
        at = end


def _without_top(found: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files without the one folder that all lie in, if there is such a folder beside set.toml."""
    tops = {name.partition("/")[0] for name in found}
    if len(tops) == 1 and f"{next(iter(tops))}/set.toml" in found:
        return {name.partition("/")[2]: content for name, content in found.items()}
    return found
