"""Tests answers packed in pieces: each can be read as soon as it is there, and all together are one gzip."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Iterator

import pytest

from helen.web.connections.packed import MOST_PACKED, Packing, block_of, takes_packed
from helen.web.request import ApiRequest

READ = 16 + zlib.MAX_WBITS


class Asked:
    """Play a request as far as it says which encodings it accepts."""

    def __init__(self, accepted: str | None) -> None:
        self.accepted = accepted

    def getHeader(self, name: bytes) -> bytes | None:
        assert name == b"accept-encoding"
        return None if self.accepted is None else self.accepted.encode()


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        (None, False), ("", False), ("identity", False), ("gzip", True), ("GZIP", True), ("br, gzip;q=0.5", True),
        ("gzip, deflate, br, zstd", True), ("gzip;q=0", False), ("gzip; q=0.000", False), ("*", False),
        ("x-gzip", True), ("gzipped", False),
    ],
)  # fmt: skip
def test_who_takes_it(accepted: str | None, expected: bool) -> None:
    """A client takes packed answers if it says so without refusing them."""
    asked: ApiRequest = Asked(accepted)  # type: ignore[assignment]
    assert takes_packed(asked) is expected


def pieces(chance: random.Random) -> Iterator[bytes]:
    for size in (0, 1, 5, 3_000, MOST_PACKED, MOST_PACKED + 1, 200_000):
        yield bytes(chance.randrange(32, 127) for _ in range(min(size, 500))) * (size // 500 + 1)


@pytest.mark.parametrize("seed", range(4))
def test_each_piece_is_read_before_the_next_is_written(seed: int) -> None:
    """Each packed piece can be read before the next is written, also one that was packed for others before."""
    chance, packing, reader, sent = random.Random(seed), Packing(), zlib.decompressobj(READ), b""
    given = list(pieces(chance))
    chance.shuffle(given)
    for piece in given:
        packed = packing.block(piece, block_of(piece) if chance.random() < 0.5 else None)
        assert reader.decompress(packed) == piece
        sent += packed
    assert gzip.decompress(sent + packing.end()) == b"".join(given)


def test_an_answer_without_a_piece_is_one_too() -> None:
    assert gzip.decompress(Packing().end()) == b""


def test_an_answer_that_is_cut_off_is_known_to_be() -> None:
    """A packed answer without its end raises EOFError when read."""
    packing = Packing()
    with pytest.raises(EOFError):
        gzip.decompress(packing.block(b"half an answer"))


def test_rows_of_a_frame_take_less_than_half() -> None:
    """Rows of a frame take less than half when packed."""
    rows = [
        f'["web-{at % 100:03}","check-{at % 97:03}",1,{1764405416.125 + at / 8},{1764405416.25 + at / 8},'
        f'"/ used {40 + at / 10:.1f} %, 61.3 GiB free",null,"1/3","",{12_345 + at}]'
        for at in range(25)
    ]
    frame = f"data: [{','.join(rows)}]\n\n".encode()
    assert len(block_of(frame)) < 0.5 * len(frame)
