"""Split files that are longer than a blob into pieces, and join them again. Pure.

A manifest names the pieces of a file `NAME` as `NAME/00`, `NAME/01` and so on, each with its own hash and size; a file
that fits into one blob keeps its name. So each piece travels and is verified as any other file, and a peer that knows
no pieces sees names that it has no use for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from equus_protocol.manifest import MAX_FILE

PIECE = MAX_FILE
_PIECE_NAME = re.compile(r"(?P<name>.+)/(?P<number>[0-9]{2,4})")


def split(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return files by name, those longer than PIECE as their pieces by the names of these."""
    pieces: dict[str, bytes] = {}
    for name, content in files.items():
        if len(content) <= PIECE:
            pieces[name] = content
            continue
        for number, begin in enumerate(range(0, len(content), PIECE)):
            pieces[f"{name}/{number:02d}"] = content[begin : begin + PIECE]
    return pieces


def join(pieces: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return whole files by name of what `split` has made.

    Raises ValueError if a piece is missing, or if a name is that of a file and of pieces.
    """
    whole: dict[str, bytes] = {}
    parts: dict[str, dict[int, bytes]] = {}
    for name, content in pieces.items():
        found = _PIECE_NAME.fullmatch(name)
        if found is None:
            whole[name] = content
        elif parts.setdefault(found["name"], {}).setdefault(int(found["number"]), content) is not content:
            raise ValueError(f"{name} is there twice")
    for name, numbered in parts.items():
        if name in whole or sorted(numbered) != list(range(len(numbered))):
            raise ValueError(f"the pieces of {name} are not whole: {', '.join(map(str, sorted(numbered)))}")
        whole[name] = b"".join(numbered[number] for number in sorted(numbered))
    return whole
