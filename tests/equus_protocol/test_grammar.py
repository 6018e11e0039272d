"""Test section 2 of docs/protocol.rst: fields, integers, strings, blobs, lines, their limits, and the order of
judging.
"""

from __future__ import annotations

import itertools

import pytest

from equus_protocol import messages as m
from equus_protocol.codec import FORMS, INT_MAX, INT_MIN, MAX_BLOB, MAX_KNOWN, MAX_LINE, MAX_STRING, STRINGS, encode
from equus_protocol.conversation import Conversation, Role
from equus_protocol.errors import SLUGS, LocalProtocolError, RemoteProtocolError
from equus_protocol.open_ids import MAX_CHECKS, MAX_CHECKS_RECEIVED, MAX_REQUESTS


def agreed(role: Role = Role.HELEN, version: int = 2) -> Conversation:
    """Return a conversation after hello, in which the version is agreed."""
    ours = Conversation(role)
    if role is Role.HELEN:
        ours.feed(b"hello %d kit\n" % version)
        assert ours.next_message() == m.Hello(version, "kit")
    else:
        ours.send(m.Hello(version, "kit"))
        if version == 2:
            ours.feed(b"schedule 1 2\n[]\n")
            assert ours.next_message() == m.Schedule(1, b"[]")
    return ours


def heard(data: bytes, ours: Conversation | None = None) -> m.Message | str | None:
    """Return the message in these bytes, or the slug of their fault."""
    ours = ours or Conversation(Role.HELEN)
    ours.feed(data)
    try:
        return ours.next_message()
    except RemoteProtocolError as failure:
        assert failure.slug in SLUGS
        assert failure.detail.isprintable()
        return failure.slug


NOT_INTS = {
    "a plus sign": b"+1", "a leading zero": b"01", "two zeros": b"00", "a negative leading zero": b"-01",
    "a negative zero": b"-0", "a lone minus": b"-", "two minus signs": b"--1", "an underscore": b"1_0",
    "a fraction": b"1.0", "an exponent": b"1e3", "a hexadecimal": b"0x1", "a word": b"one",
    "an Arabic digit": "\u0661".encode(),
    "a superscript digit": "\u00b9".encode(), "a full-width digit": "\uff11".encode(),
    "one above int32": b"2147483648", "one below int32": b"-2147483649", "ten nines": b"9" * 10,
    "twenty digits": b"1" * 20, "two hundred digits": b"1" * 200, "a tab behind": b"1\t", "a CR inside": b"1\r1",
    "a NUL": b"1\x00",
}  # fmt: skip


@pytest.mark.adversary(6)
@pytest.mark.parametrize("field", NOT_INTS.values(), ids=NOT_INTS)
def test_what_is_no_int(field: bytes) -> None:
    """An int is what `%d` writes, and nothing else that some library takes for one; as version, id and length."""
    assert heard(b"hello " + field + b" kit\n") == "bad-int"
    assert heard(b"ping " + field + b"\n", agreed()) == "bad-int"
    assert heard(b"report s 1 a " + field + b"\n", agreed()) == "bad-int"


@pytest.mark.adversary(8)
@pytest.mark.parametrize("value", [0, 1, 9, 10, 999_999_999, 1_000_000_000, INT_MAX])
def test_ids(value: int) -> None:
    """Ids go from 0 to 2147483647."""
    assert heard(b"ping %d\n" % value, agreed()) == m.Ping(value)


@pytest.mark.parametrize("field", [b"0", b"-0", b"00", b"-1", b"-2147483648", b"2147483648"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_what_no_journal_can_count_is_no_sequence(field: bytes, end: bytes) -> None:
    """A sequence begins at 1: 0 is refused where it comes in, and the first and the last one are accepted (F50)."""
    assert heard(b"report s " + field + b" c 2" + end, agreed()) == "bad-int"
    for sequence in (1, INT_MAX):
        line = b"report s %d c 2\n{}\n" % sequence
        assert heard(line, agreed()) == m.Report("s", sequence, "c", b"{}")


def test_no_agent_of_ours_sends_sequence_0() -> None:
    """Sequence 0 is a local error before it would be one of the peer."""
    with pytest.raises(LocalProtocolError, match="the first one is 1"):
        encode(m.Report("s", 0, "c", b"{}"), Role.EQUUS)


@pytest.mark.adversary(6)
@pytest.mark.parametrize("value", [-1, -9, INT_MIN])
def test_no_negative_ids_and_lengths(value: int) -> None:
    """A negative int is legal as a version, but neither as an id nor as a length."""
    assert heard(b"hello %d kit\n" % value) == "unsupported-protocol-version"
    assert heard(b"ping %d\n" % value, agreed()) == "bad-int"
    assert heard(b"report s 1 a %d\n" % value, agreed()) == "bad-int"
    assert heard(b"report s %d a 1\n" % value, agreed()) == "bad-int"


STRINGS_TAKEN = {
    "one byte": b"v", "255 bytes": b"v" * MAX_STRING, "beyond ASCII": "ünïcödé-☃-😀".encode(),
    "255 bytes in 128 characters": "é".encode() * 127 + b"v", "other spaces": "a\u00a0b\u2003c\u3000d".encode(),
    "other line ends": "a\u0085b\u2028c".encode(), "right to left": "a\u202eb".encode(), "quotes": b"\"'\\`$()",
    "the last code point": "\U0010ffff".encode(), "a byte order mark": b"\xef\xbb\xbfx",
}  # fmt: skip
STRINGS_REFUSED = {
    "256 bytes": b"v" * (MAX_STRING + 1), "128 characters in 256 bytes": "é".encode() * 128, "a tab": b"a\tb",
    "a NUL": b"a\0b", "a DEL": b"a\x7fb", "a CR inside": b"a\rb", "escape": b"a\x1bb", "no UTF-8": b"a\xffb",
    "an overlong slash": b"\xc0\xaf", "half a surrogate pair": b"\xed\xa0\x80", "cut short": b"caf\xc3",
    "beyond Unicode": b"\xf4\x90\x80\x80",
}  # fmt: skip


@pytest.mark.parametrize("field", STRINGS_TAKEN.values(), ids=STRINGS_TAKEN)
def test_strings(field: bytes) -> None:
    """A string is 1 to 255 bytes of UTF-8 without bytes up to 0x20 and 0x7f; what Unicode calls a space is a letter."""
    assert heard(b"hello 1 " + field + b"\n") == m.Hello(1, field.decode())


@pytest.mark.adversary(15)
@pytest.mark.parametrize("field", STRINGS_REFUSED.values(), ids=STRINGS_REFUSED)
def test_no_strings(field: bytes) -> None:
    """A field that is too long in bytes, or no strict UTF-8, is a bad string."""
    assert heard(b"hello 1 " + field + b"\n") == "bad-string"


LINES: dict[str, tuple[bytes, m.Message | str | None]] = {
    "a line": (b"hello 1 kit\n", m.Hello(1, "kit")),
    "CR before LF": (b"hello 1 kit\r\n", m.Hello(1, "kit")),
    "two CRs": (b"hello 1 kit\r\r\n", "bad-string"),
    "CR alone": (b"\r\n", "bad-line"),
    "nothing": (b"\n", "bad-line"),
    "a space": (b" \n", "bad-line"),
    "a leading space": (b" hello 1 kit\n", "bad-line"),
    "a trailing space": (b"hello 1 kit \n", "bad-line"),
    "a trailing space and CR": (b"hello 1 kit \r\n", "bad-line"),
    "two spaces": (b"hello  1 kit\n", "bad-line"),
    "a field too few": (b"hello 1\n", "bad-line"),
    "a field too many": (b"hello 1 kit kit\n", "bad-line"),
    "the word alone": (b"hello\n", "bad-line"),
    "two spaces for a field": (b"hello  kit\n", "bad-line"),
    "a tab for a space": (b"hello\t1\tkit\n", "unknown-command"),
    "upper case": (b"HELLO 1 kit\n", "unknown-command"),
    "no such word": (b"frobnicate\n", "unknown-command"),
    "a word that is no UTF-8": (b"\xff\xfe\n", "unknown-command"),
    "an HTTP request": (b"GET / HTTP/1.1\r\nHost: helen\r\n\r\n", "unknown-command"),
    "a TLS greeting": (b"\x16\x03\x01\x02\x00\x01\n", "unknown-command"),
    "half a line": (b"hello 1 ki", None),
    "1,024 bytes": (b"hello 1 ".ljust(MAX_LINE - 1, b"v") + b"\n", "bad-string"),
    "1,025 bytes": (b"hello 1 ".ljust(MAX_LINE, b"v") + b"\n", "line-too-long"),
    "1,024 bytes, and CR": (b"hello 1 ".ljust(MAX_LINE - 1, b"v") + b"\r\n", "line-too-long"),
    "1,023 bytes without an end": (b"hello 1 ".ljust(MAX_LINE - 1, b"v"), None),
    "1,024 bytes without an end": (b"hello 1 ".ljust(MAX_LINE, b"v"), "line-too-long"),
    "64 KiB without an end": (b"\x80" * 65_536, "line-too-long"),
    "64 KiB of nothing": (b"\n" * 65_536, "bad-line"),
}


@pytest.mark.adversary(3, 4)
@pytest.mark.parametrize(("line", "expected"), LINES.values(), ids=LINES)
def test_lines(line: bytes, expected: m.Message | str | None) -> None:
    """A line has one space between fields, LF at its end, and at most 1,024 bytes with it."""
    assert heard(line) == expected


@pytest.mark.adversary(5)
def test_the_longest_line_of_all() -> None:
    """No legal line is longer than 539 bytes with a CR, well below the limit of 1,024."""
    longest = encode(m.Report("s" * 255, INT_MAX, "c" * 255, b"x" * MAX_BLOB), Role.EQUUS)
    assert longest.index(b"\n") + 2 == 539
    line, blob = longest[: 539 - 2], longest[539 - 1 :]
    assert heard(line + b"\r\n" + blob, agreed()) == m.Report("s" * 255, INT_MAX, "c" * 255, b"x" * MAX_BLOB)


BLOBS: dict[str, tuple[bytes, m.Message | str | None]] = {
    "empty": (b"report s 1 a 0\n\n", m.Report("s", 1, "a", b"")),
    "lines inside": (b"report s 1 a 11\n\n\nping 1\r\nx\n", m.Report("s", 1, "a", b"\n\nping 1\r\nx")),
    "all bytes": (b"report s 1 a 256\n" + bytes(range(256)) + b"\n", m.Report("s", 1, "a", bytes(range(256)))),
    "the greatest": (b"report s 1 a 1048576\n" + b"b" * MAX_BLOB + b"\n", m.Report("s", 1, "a", b"b" * MAX_BLOB)),
    "one byte more": (b"report s 1 a 1048577\n", "blob-too-large"),
    "2 GiB": (b"report s 1 a 2147483647\n", "blob-too-large"),
    "a space for LF": (b"report s 1 a 2\n{} ", "bad-blob-end"),
    "CR LF": (b"report s 1 a 2\n{}\r\n", "bad-blob-end"),
    "longer than announced": (b"report s 1 a 1\n{}\n", "bad-blob-end"),
    "shorter than announced": (b"report s 1 a 3\n{}\nping 1\n", "bad-blob-end"),
    "one byte short": (b"report s 1 a 3\n{}", None),
    "without its LF": (b"report s 1 a 2\n{}", None),
}


@pytest.mark.adversary(7, 9)
@pytest.mark.parametrize(("data", "expected"), BLOBS.values(), ids=BLOBS)
@pytest.mark.parametrize("size", [0, 7], ids=["whole", "in pieces"])
def test_blobs(data: bytes, expected: m.Message | str | None, size: int) -> None:
    """A blob has exactly the announced number of bytes and LF behind them, and too long a one is refused when it is
    announced.
    """
    ours, got = agreed(), None
    pieces = [data[i : i + size] for i in range(0, min(len(data), 3_000), size)] if size else []
    pieces.append(data[size * len(pieces) :])
    for piece in pieces:
        got = heard(piece, ours)
        if got is not None:
            break
    assert got == expected


# One line per fault, in the order of judging; each is put together from those of the faults after it.
def faulty(faults: set[str]) -> bytes:
    """Return a `report` in version 2 with all of these faults, and no other."""
    sequence = b"01" if "bad-int" in faults else b"1"
    name = b"\xff" if "bad-string" in faults else b"load"
    length = b"1048577" if "blob-too-large" in faults else b"2"
    word = b"frobnicate" if "unknown-command" in faults else b"report"
    spool = b"" if "empty field" in faults else b"s"
    fields = [word, spool, sequence, name, length] + ([b"extra"] if "number of fields" in faults else [])
    line = b" ".join(fields)
    return (line.ljust(MAX_LINE, b"x") if "line-too-long" in faults else line) + b"\n"


ORDER = ["line-too-long", "empty field", "unknown-command", "number of fields", "bad-int", "bad-string",
         "blob-too-large"]  # fmt: skip
SLUG = {"empty field": "bad-line", "number of fields": "bad-line"}


@pytest.mark.adversary(4)
@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(ORDER, 2)))
def test_a_line_with_two_faults_is_named_for_the_first(first: str, second: str) -> None:
    """A line with two faults is named for the first: length, empty fields, command, number of fields, fields from left
    to right.
    """
    assert heard(faulty({first, second}), agreed()) == SLUG.get(first, first)


@pytest.mark.parametrize(("line", "slug"), [
    (b"report  1 a 2 2\n", "bad-line"), (b"result  1 x\n", "bad-line"), (b"report s 1 a\n", "bad-line"),
    (b"report \xff 01 a 2\n", "bad-string"), (b"report s 01 \xff 2\n", "bad-int"), (b"ping 01\n", "bad-int"),
    (b"result 1 \xff 2\n", "bad-string"), (b"result 1 load 1048577\n", "blob-too-large"), (b"ping\n", "bad-line"),
    (b"ping 1\n", "hello-expected"), (b"result 1 load 2\n", "hello-expected"), (b"reload 1\n", "unknown-command"),
    (b"check load 01 2\n", "unknown-command"),
])  # fmt: skip
def test_legality_is_judged_last(line: bytes, slug: str) -> None:
    """A line must be whole before it is judged whether it is legal, also before hello."""
    assert heard(line) == slug


@pytest.mark.parametrize(("line", "slug"), [
    (b"ping 01\n", "unknown-command"), (b"report\n", "unknown-command"), (b"hello 01 kit\n", "bad-int"),
    (b"hello 2 kit kit\n", "bad-line"), (b"hello 3 kit\n", "hello-repeated"),
    (b"result 1 a 1048577\n", "blob-too-large"),
])  # fmt: skip
def test_words_of_version_2_are_none_in_version_1(line: bytes, slug: str) -> None:
    """A word that this version does not have is unknown before its fields are judged."""
    assert heard(line, agreed(version=1)) == slug


@pytest.mark.adversary(8)
def test_limits_of_outstanding_checks() -> None:
    """Helen keeps at most 64 checks outstanding, and an agent accepts 1,024 from a Helen that does not know that."""
    helen = agreed()
    for number in range(MAX_CHECKS):
        helen.send(m.Check("load", number, b""))
    with pytest.raises(LocalProtocolError, match="64 checks are outstanding"):
        helen.send(m.Check("load", MAX_CHECKS, b""))
    equus = agreed(Role.EQUUS)
    for number in range(MAX_CHECKS_RECEIVED):
        assert heard(b"check load %d 0\n\n" % number, equus) == m.Check("load", number, b"")
    assert heard(b"check load %d 0\n\n" % MAX_CHECKS_RECEIVED, equus) == "too-many-outstanding"


def test_limits_of_outstanding_requests() -> None:
    """At most 64 requests of an agent are open, on both sides."""
    helen, equus = agreed(), agreed(Role.EQUUS)
    for number in range(MAX_REQUESTS):
        assert heard(equus.send(m.AskManifest(number)), helen) == m.AskManifest(number)
    with pytest.raises(LocalProtocolError, match="64 requests are outstanding"):
        equus.send(m.AskManifest(MAX_REQUESTS))
    assert heard(b"manifest %d\n" % MAX_REQUESTS, helen) == "too-many-outstanding"
    helen = agreed()
    for number in range(MAX_REQUESTS):
        heard(b"manifest %d\n" % number, helen)
    helen.send(m.Manifest(5, b""))
    assert heard(b"manifest 5\n", helen) == m.AskManifest(5)


def test_strings_are_remembered_up_to_a_limit() -> None:
    """Strings are remembered up to a limit, so that a peer that never repeats itself fills no memory."""
    helen = agreed()
    for number in range(MAX_KNOWN + 100):
        assert heard(b"loaded name-%d 0\n\n" % number, helen) == m.Loaded(f"name-{number}", b"")
    assert 0 < len(STRINGS) <= MAX_KNOWN


def test_every_word_is_written_as_it_is_read() -> None:
    """The grammar has 27 commands, each once for each side."""
    assert len({(form.sender, form.command) for form in FORMS}) == len(FORMS) == 27
