"""Play the transcripts of docs/protocol.rst between a Helen and an Equus of this code, and check the page's tables.

Each line of a transcript is one line on the wire. A line that one side sends must be that of this code, byte for byte;
where the page shows a fault, the next line must be the error for it.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

import pytest

from equus_protocol import messages as m
from equus_protocol.codec import FORMS
from equus_protocol.conversation import Conversation, Role
from equus_protocol.errors import SLUGS, RemoteProtocolError
from equus_protocol.results import REASONS

PAGE = Path(__file__).parents[2] / "docs" / "protocol.rst"


def transcripts() -> list[list[str]]:
    """Return the literal blocks of the page in which every line is sent by a side, or is a remark."""
    blocks = re.findall(r"::\n\n((?:    .*\n)+)", PAGE.read_text())
    lines = [[line[4:] for line in block.splitlines()] for block in blocks]
    return [block for block in lines if all(f"{line} "[:2] in ("> ", "< ", "# ") for line in block)]


def sides(lines: list[str]) -> list[tuple[Role, bytes]]:
    """Return who sends what, in turns."""
    said = [line for line in lines if not line.startswith("#")]
    turns = groupby(said, key=lambda line: Role.EQUUS if line[0] == ">" else Role.HELEN)
    return [(role, "".join(line[2:] + "\n" for line in part).encode()) for role, part in turns]


def hear(ours: Conversation, data: bytes) -> tuple[list[m.Message], str | None]:
    ours.feed(data)
    heard = []
    try:
        while (message := ours.next_message()) is not None:
            heard.append(message)
    except RemoteProtocolError as failure:
        return heard, failure.slug
    assert ours.unfinished is None, "a blob of the page has another length than its line says"
    return heard, None


@pytest.mark.parametrize("lines", transcripts(), ids=lambda lines: " / ".join(lines)[:60])
def test_a_transcript_of_the_page(lines: list[str]) -> None:
    """Each side reads the transcript's lines as messages, and this code writes the same bytes."""
    ends = {role: Conversation(role) for role in Role}
    fault = None
    for role, data in sides(lines):
        heard, slug = hear(ends[role.peer], data)
        written = b"".join(ends[role].send(message) for message in heard)
        assert data == written or (slug is not None and data.startswith(written))
        if fault is not None:
            assert heard[-1] == m.Error(fault)
        fault = slug
    assert fault is None, "a fault is followed by its error"


def test_there_are_transcripts() -> None:
    """The page has all its transcripts, and each command stands in one."""
    played = transcripts()
    assert len(played) == 12, "a transcript has come or gone"
    words = {line.split()[1] for lines in played for line in lines if len(line.split()) > 1}
    assert words >= {form.command.decode() for form in FORMS} | {"error"}


def test_every_line_of_the_grammar_is_on_the_page() -> None:
    """The tables of sections 3 and 5 show each command with as many fields as the code reads."""
    rows = re.findall(r"^``(\w+)((?: <[^`]*)?)`` +(equus|helen|both)", PAGE.read_text(), re.M)
    shown = {(word, sender, fields.count("<")) for word, fields, side in rows
             for sender in (("equus", "helen") if side == "both" else (side,))}  # fmt: skip
    assert shown == {(f.command.decode(), f.sender.value, len(f.readers)) for f in FORMS} | {("error", "helen", 1)}


def test_every_slug_and_every_reason_is_on_the_page() -> None:
    """The page has each slug of errors.SLUGS and each reason of REASONS, and no other."""
    table = PAGE.read_text().partition("slug  ")[2].partition("A foreign Helen")[0]
    assert set(re.findall(r"^``([a-z-]+)`` ", table, re.M)) == SLUGS
    assert set(PAGE.read_text().partition("Reasons of our own: ``")[2].partition("``")[0].split()) == REASONS
