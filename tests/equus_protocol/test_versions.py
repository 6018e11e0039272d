"""Test the first version of each command and the numbers of the protocol as literals, because other peers rely
on them.
"""

from __future__ import annotations

import pytest

from equus_protocol import codec, conversation, open_ids
from equus_protocol import messages as m
from equus_protocol.codec import FORMS, Role, read_id, read_int
from equus_protocol.conversation import Conversation
from equus_protocol.errors import RemoteProtocolError

VERSION_1 = {(Role.EQUUS, b"hello"), (Role.EQUUS, b"result"), (Role.HELEN, b"reload"), (Role.HELEN, b"check")}


def test_the_first_version_of_each_command() -> None:
    """Four commands are of version 1, and all others of version 2."""
    assert {(form.sender, form.command): form.version for form in FORMS} == {
        (form.sender, form.command): 1 if (form.sender, form.command) in VERSION_1 else 2 for form in FORMS
    }


@pytest.mark.adversary(59)
@pytest.mark.parametrize("form", [form for form in FORMS if form.sender is Role.EQUUS], ids=lambda form: form.command)
def test_a_helen_of_version_1_knows_no_newer_command(form: codec.Form) -> None:
    """A Helen of version 1 does not know a newer command, even before hello, where `enrol` would be legal."""
    if form.version == 1:
        return
    ours = Conversation(Role.HELEN, (1,))
    values = {codec.ID: b"1", codec.SEQUENCE: b"1", codec.STRING: b"s"}
    ours.feed(
        b" ".join([form.command, *(values[kind] for kind in form.kinds), *([b"0"] if form.has_blob else [])]) + b"\n"
    )
    with pytest.raises(RemoteProtocolError) as failure:
        ours.next_message()
    assert failure.value.slug == "unknown-command"


INTS = [("-2147483648", -2_147_483_648), ("2147483647", 2_147_483_647), ("-1", -1), ("0", 0), ("1000000000", 10**9)]


@pytest.mark.parametrize(("text", "value"), INTS)
def test_ints(text: str, value: int) -> None:
    """The whole range of int32 is read and written, and ids are the part of it from 0 on."""
    assert read_int(text.encode()) == value
    assert codec.INT.write(value) == text.encode()
    if value >= 0:
        assert read_id(text.encode()) == value
        assert codec.ID.write(value) == text.encode()


def test_limits() -> None:
    """The limits of the protocol are those of docs/protocol.rst, which agents of other makers keep."""
    assert (codec.MAX_LINE, codec.MAX_BLOB, codec.MAX_STRING) == (1_024, 1_048_576, 255)
    assert (open_ids.MAX_CHECKS, open_ids.MAX_CHECKS_RECEIVED, open_ids.MAX_REQUESTS) == (64, 1_024, 64)
    assert open_ids.MAX_ENROL_BLOB == 65_536
    assert conversation.VERSIONS == (1, 2)


def test_a_memo_starts_over_when_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A memo holds MAX_KNOWN fields, reads each once while it holds it, and starts over when it is full."""
    monkeypatch.setattr(codec, "MAX_KNOWN", 2)
    read: list[bytes] = []

    def note(field: bytes) -> str:
        read.append(field)
        return field.decode()

    memo = codec.Memo(note)
    assert [memo[field] for field in (b"a", b"b", b"a", b"b")] == ["a", "b", "a", "b"]
    assert (read, sorted(memo)) == ([b"a", b"b"], [b"a", b"b"])
    assert memo[b"c"] == "c"
    assert sorted(memo) == [b"c"]


def test_a_hello_says_which_version_begins() -> None:
    """A hello says which version begins, and an unknown version is refused by the side that would send it."""
    ours = Conversation(Role.EQUUS)
    assert ours.send(m.Hello(2, "kit")) == b"hello 2 kit\n"
    assert ours.version == 2
