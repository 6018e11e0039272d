"""Test files that are longer than a blob: they are split into pieces and joined again."""

from __future__ import annotations

import pytest

from equus_protocol.manifest import AGENT_FILE_NAME
from equus_protocol.pieces import PIECE, join, split

NAME = "helen_equus-0.2.0-py3-none-any.whl"


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 16 * PIECE - 7, 120 * PIECE])
def test_what_is_split_is_joined(size: int) -> None:
    """A file that is split is joined again; each piece fits into a blob and has a name that manifests can hold."""
    files = {NAME: bytes(size), "attrs-25.1.0-py3-none-any.whl": b"short"}
    pieces = split(files)
    assert join(pieces) == files
    assert (NAME in pieces) is (size <= PIECE)
    assert all(len(piece) <= PIECE and AGENT_FILE_NAME.fullmatch(name) for name, piece in pieces.items())
    assert join(dict(reversed(pieces.items()))) == files


@pytest.mark.parametrize(
    "pieces",
    [
        {"a/01": b""},
        {"a/00": b"", "a/02": b""},
        {"a": b"", "a/00": b""},
        {"a/00": b"x", "a/000": b"y"},
    ],
)
def test_pieces_that_are_not_whole(pieces: dict[str, bytes]) -> None:
    """Pieces that are not whole, or are there twice, are refused."""
    with pytest.raises(ValueError, match=r"not whole|there twice"):
        join(pieces)
