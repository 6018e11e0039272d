"""Test that a great text is read apart from its document, with the same result as all of it at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equus_protocol.long_text import PIECE
from equus_protocol.results import parse
from helen.journal import document as document_module
from helen.journal.document import Document, from_result, read_document
from helen.journal.great_text import LEAST, part

GREAT = "a" * LEAST
JSON = b'{"status":"ok","output":"%b","summary":"s"}'


def is_same(blob: bytes) -> bool:
    return repr(read_document("cpu", blob)) == repr(from_result(parse(blob)))


@pytest.mark.parametrize(
    "text",
    [
        GREAT.encode(), (GREAT + "\u2603 \U0001f600 \x7f").encode(), ("\u2603" * LEAST).encode(),
        b"," * LEAST, b"[{:" * LEAST, b"x" * (3 * PIECE + 1),
    ],
)  # fmt: skip
def test_a_text_that_stands_for_itself(text: bytes) -> None:
    """A great text of any characters, marks of JSON among them, is read whole, and so are the other parts of its
    document."""
    blob = JSON % text
    parted = part(blob)
    assert parted is not None and len(parted.rest) < 100 and parted.text.encode() == text
    read = read_document("cpu", blob)
    assert (read.word, read.summary, read.output) == ("ok", "s", text.decode())
    assert is_same(blob)


@pytest.mark.parametrize(
    "blob",
    [
        JSON % b"", JSON % (b"a" * 100 + b"\\n" + b"a" * LEAST), JSON % (b"a" * LEAST + b"\n"),
        JSON % (b"a" * LEAST + b"\x00"), JSON % (b"a" * LEAST + b"\xff"), JSON % (b"a" * LEAST + b"\xe2\x98"),
        JSON % (b"a" * (PIECE - 1) + b"\xe2\x98a" + b"a" * LEAST), JSON % b"(great text)" + b" " * LEAST,
        b'{"summary":"(great text)","output":"%b"}' % (b"a" * LEAST),
        b'OK "output":"%b" |a=1' % (b"a" * LEAST), b'["output":"%b"]' % (b"a" * LEAST),
        b'{"output":%b"}' % (b"1" * LEAST), b'{"output":"%b' % (b"a" * LEAST), b'{"output"' + b" " * LEAST,
        b'{"output":' + b" " * 17 + b'"%b"}' % (b"a" * LEAST),
    ],
)  # fmt: skip
def test_a_text_that_does_not(blob: bytes) -> None:
    """A text is not parted from its document if it is small, escaped or broken, or if another text might be taken
    for it."""
    assert part(blob) is None
    assert is_same(blob)


@pytest.mark.parametrize(
    "blob",
    [
        b'{"output":"%b"}', b'{"status":"ok","output":"%b","output":"b"}', b'{"output":"b","output":"%b"}',
        b'{"status":"ok","metrics":[{"name":"m","output":"%b"}]}', b'{"x":{"output":"%b"}}', b'{"output":"%b",}',
        b'{"status":"ok","summary":"output","x":"output","output":"%b"}', b' \n{ "output" \t: "%b" , "status":"ok"}',
        b'{"output":' + b" " * 16 + b'"%b"}',
        b'{"output":"%b","status":"ok","took_ms":1e999}', b'{"status":"ok","output":"%b"} x',
    ],
)  # fmt: skip
def test_documents_around_it(blob: bytes) -> None:
    """Documents with repeated keys, inner texts or broken JSON are read with the same result as without parting."""
    assert is_same(blob % GREAT.encode())


names = st.sampled_from(["output", "status", "summary", "x", "metrics"])
plain = st.text(st.characters(codec="utf-8", exclude_characters='"\\'), max_size=4)
inner = st.recursive(plain | st.integers() | st.none(), lambda each: st.lists(each) | st.dictionaries(names, each))


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(names, inner), max_size=4), plain, st.integers(0, 4), st.binary(max_size=2))
def test_any_document(parts: list[tuple[str, Any]], text: str, at: int, behind: bytes) -> None:
    """Both readers agree on any document with a great text anywhere among its parts and with any bytes at the text's
    end."""
    shown = [f"{json.dumps(name)}:{json.dumps(value, ensure_ascii=False)}".encode() for name, value in parts]
    shown.insert(at, b'"output":"%b%b"' % ((text + GREAT).encode(), behind))
    assert is_same(b"{" + b",".join(shown) + b"}")


def test_no_decoder_gets_a_great_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder, which holds other threads, reads less than a hundred bytes of a document of a mebibyte."""
    sizes: list[int] = []
    decode, read = document_module._decode, document_module.parse

    def counted(blob: bytes) -> Document:
        sizes.append(len(blob))
        return decode(blob)

    def counted_again(blob: bytes) -> Any:
        sizes.append(len(blob))
        return read(blob)

    monkeypatch.setattr(document_module, "_decode", counted)
    monkeypatch.setattr(document_module, "parse", counted_again)
    for begin in (b'{"status":"ok","output":"', b'{"output":"'):
        assert len(str(read_document("cpu", begin + b"a" * 1_048_000 + b'"}').output)) == 1_048_000
    assert len(sizes) == 3 and max(sizes) < 100
