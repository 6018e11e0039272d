"""Play transcripts of docs/protocol.rst, paragraph by paragraph, for both roles.

`> line` is what we say, `< line` what the peer says, as in the page and in a conversation's trace; which of the two is
Helen is said above. `> line << blob` has a blob, its length is filled in for `#`. `! slug` is what next_message raises,
`x word` is something that we try to say and may not, `= state` where it leaves us.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from equus_protocol import messages as m
from equus_protocol.codec import BY_COMMAND, read_error, read_fields, split_line
from equus_protocol.conversation import TURN_BYTES, Conversation, Role, State
from equus_protocol.errors import LocalProtocolError, RemoteProtocolError

HELEN, EQUUS = Role.HELEN, Role.EQUUS
SHA = "0" * 64


def bytes_of(text: str) -> bytes:
    """Return `report s 1 load # << {}` as it stands on the wire."""
    line, has_blob, blob = text.partition(" << ")
    if not has_blob:
        return line.encode("latin1") + b"\n"
    return line.replace("#", str(len(blob))).encode("latin1") + b"\n" + blob.encode("latin1") + b"\n"


def message_of(text: str, sender: Role) -> m.Message:
    line, _, blob = text.partition(" << ")
    raw = line.replace("#", str(len(blob))).encode()
    if (error := read_error(raw)) is not None:
        return error
    parts = split_line(raw)
    form = BY_COMMAND[sender][parts[0]]
    values = read_fields(form, parts[1:])
    return form.message(*values[:-1], blob.encode()) if form.has_blob else form.message(*values)


class Play:
    """Lead a conversation along a transcript."""

    def __init__(self, role: Role) -> None:
        self.ours = Conversation(role)
        self.trace: list[str] = []
        self.ours.trace_to(self.trace.append)

    def step(self, text: str) -> None:
        sign, _, rest = text.partition(" ")
        steps: dict[str, Callable[[str], None]] = {
            ">": self.say, "<": self.hear, "!": self.fail, "x": self.try_to_say, "=": self.stand, "<<": self.raw,
        }  # fmt: skip
        steps[sign](rest)

    def say(self, text: str) -> None:
        assert self.ours.send(message_of(text, self.ours.role)) == bytes_of(text)

    def try_to_say(self, text: str) -> None:
        with pytest.raises(LocalProtocolError):
            self.ours.send(message_of(text, self.ours.role))

    def hear(self, text: str) -> None:
        self.ours.feed(bytes_of(text))
        assert self.ours.next_message() == message_of(text, self.ours.role.peer)

    def raw(self, text: str) -> None:
        self.ours.feed(text.encode("latin1").decode("unicode_escape").encode("latin1"))

    def fail(self, slug: str) -> None:
        for _ in range(2):  # again and again
            with pytest.raises(RemoteProtocolError) as failure:
                self.ours.next_message()
            assert failure.value.slug == slug
        assert self.ours.state is State.FAILED

    def stand(self, state: str) -> None:
        assert self.ours.state.name == state


def play(role: Role, *steps: str) -> Play:
    stage = Play(role)
    for step in steps:
        stage.step(step)
    return stage


Case = tuple[str, Role, list[str]]


def case(title: str, role: Role, *lines: str) -> Case:
    return title, role, [*lines]


HELLO_1 = "< hello 1 kit"
HELLO_2 = "< hello 2 kit"
SAY_1 = "> hello 1 equus/0.1"
SAY_2 = "> hello 2 equus/0.1"
SCHEDULE = "< schedule 1 # << []"

VERSION_1 = [
    case("§3 hello is taken in silence", HELEN, HELLO_1, "= READY_1"),
    case("§3 hello 2", HELEN, HELLO_2, "= READY_2"),
    case("§3 hello, said", EQUUS, SAY_1, "= READY_1"),
    case("§3 hello of a version that isn't there", EQUUS, "x hello 3 equus/0.1", "x hello 0 equus/0.1", SAY_1),
    case("§3 hello only once, said", EQUUS, SAY_1, "x hello 1 equus/0.1"),
    case("§3 hello only once", HELEN, HELLO_1, "<< hello 1 kit\\n", "! hello-repeated"),
    case("§3 hello in another version is a second one", HELEN, HELLO_2, "<< hello 1 kit\\n", "! hello-repeated"),
    case("§3 anything else first", HELEN, "<< result 1 load 2\\n{}\\n", "! hello-expected"),
    case("§3 version 2 words before hello", HELEN, "<< ping 1\\n", "! hello-expected"),
    case("§3 too great a version", HELEN, "<< hello 3 kit\\n", "! unsupported-protocol-version"),
    case("§3 version 0", HELEN, "<< hello 0 kit\\n", "! unsupported-protocol-version"),
    case("§3 a negative version", HELEN, "<< hello -1 kit\\n", "! unsupported-protocol-version"),
    case("§3 check and result, Helen", HELEN, HELLO_1, "> check load 7 # << {}", "< result 7 load # << {}"),
    case("§3 check and result, Equus", EQUUS, SAY_1, "< check load 7 # << {}", "> result 7 load # << status ok"),
    case("§3 empty args, empty result", HELEN, HELLO_1, "> check load 7 # << ", "< result 7 load # << "),
    case("§3 results in any order", HELEN, HELLO_1, "> check a 1 # << {}", "> check b 2 # << {}", "> check a 3 # << {}",
         "< result 2 b # << x", "< result 3 a # << y", "< result 1 a # << z"),
    case("§3 an id is free again once answered", HELEN, HELLO_1, "> check a 1 # << {}", "< result 1 a # << x",
         "> check b 1 # << {}", "< result 1 b # << x"),
    case("§3 an outstanding id, said", HELEN, HELLO_1, "> check a 1 # << {}", "x check b 1 # << {}"),
    case("§3 an outstanding id, heard", EQUUS, SAY_1, "< check a 1 # << {}", "<< check a 1 2\\n{}\\n",
         "! unknown-message-id"),
    case("§3 a result that nobody asked for", HELEN, HELLO_1, "<< result 1 a 0\\n\\n", "! unknown-message-id"),
    case("§3 a result under another name", HELEN, HELLO_1, "> check a 1 # << {}", "<< result 1 b 0\\n\\n",
         "! unknown-message-id"),
    case("§3 a second result", HELEN, HELLO_1, "> check a 1 # << {}", "< result 1 a # << x", "<< result 1 a 0\\n\\n",
         "! unknown-message-id"),
    case("§3 a result that nobody asked for, said", EQUUS, SAY_1, "x result 1 a # << x"),
    case("§3 a result under another name, said", EQUUS, SAY_1, "< check a 1 # << {}", "x result 1 b # << x"),
    case("§3 a fault of the result is named before its blob has come", HELEN, HELLO_1, "<< result 9 a 1000\\n",
         "! unknown-message-id"),
    case("§3 reload", EQUUS, SAY_1, "< reload", "= READY_1"),
    case("§3 reload, said", HELEN, HELLO_1, "> reload"),
    case("§3 error ends it", EQUUS, SAY_1, "< error bad-line", "= CLOSED", "x result 1 a # << x"),
    case("§3 error before hello is heard", EQUUS, SAY_1, "< error hello-timeout"),
    case("§3 error, said", HELEN, "> error hello-timeout", "= CLOSED", "x error internal"),
    case("§3 error after a fault is the last word", HELEN, "<< frobnicate\\n", "! unknown-command", "x reload",
         "> error unknown-command", "= CLOSED", "x error unknown-command"),
    case("§3 error with a delay", EQUUS, SAY_1, "< error shutting-down;retry-after=12"),
    case("§3 error takes the rest of the line", EQUUS, SAY_1, "< error the quick  brown fox ", "= CLOSED"),
    case("§3 Equus never says error", EQUUS, "x error internal", SAY_1, "x error internal"),
    case("§3 Equus has no last word", EQUUS, SAY_1, "<< frobnicate\\n", "! unknown-command", "x error unknown-command"),
    case("§3 Helen hears none of its own words", HELEN, HELLO_1, "<< reload\\n", "! unknown-command"),
    case("§3 Helen hears no check", HELEN, HELLO_1, "<< check a 1 2\\n{}\\n", "! unknown-command"),
    case("§3 Helen hears no error", HELEN, HELLO_1, "<< error x\\n", "! unknown-command"),
    case("§3 Equus hears no hello", EQUUS, SAY_1, "<< hello 1 kit\\n", "! unknown-command"),
    case("§3 Equus hears no result", EQUUS, SAY_1, "<< result 1 a 2\\n{}\\n", "! unknown-command"),
    case("§3 Helen is silent before hello", HELEN, "x reload", "x check a 1 # << {}", "x ping 1"),
    case("§3 a Helen that speaks before hello", EQUUS, "<< reload\\n", "! unknown-command"),
]  # fmt: skip

VERSION_2 = [
    case("§5 Helen's words of version 2 in version 1", EQUUS, SAY_1, "<< ping 1\\n", "! unknown-command"),
    case("§5 Equus' words of version 2 in version 1", HELEN, HELLO_1, "<< ping 1\\n", "! unknown-command"),
    case("§5 nobody says them in version 1", HELEN, HELLO_1, "x ping 1", "x schedule 1 # << []", "x ack s 1"),
    case("§5 nor does Equus", EQUUS, SAY_1, "x ping 1", "x manifest 1", "x report s 1 a # << {}"),
    case("§5 not before Helen's first, said", EQUUS, SAY_2, "x ping 1", "x manifest 1", "x loaded d # << {}",
         "< check a 1 # << {}", "> result 1 a # << {}", "x ping 1", SCHEDULE, "> ping 1"),
    case("§5 a ping is a first word, too", EQUUS, SAY_2, "< ping 0", "> pong 0"),
    case("§5 Helen takes them at once", HELEN, HELLO_2, "< ping 1", "> pong 1"),
    case("§5 ping and pong", HELEN, HELLO_2, "> ping 2147483647", "< pong 2147483647", "< ping 0", "> pong 0"),
    case("§5 a pong that nobody asked for does no harm", HELEN, HELLO_2, "< pong 9"),
    case("§5 enrol before hello", HELEN, "< enrol 1 web-1 # << {}", "> enrolled 1 # << {}", "= WANT_HELLO"),
    case("§5 enrol before hello, said", EQUUS, "> enrol 1 web-1 # << {}", "< enrolled 1 # << {}", SAY_2),
    case("§5 enrolled is no word of version 2", EQUUS, "> enrol 1 web-1 # << {}", "< enrolled 1 # << {}", SAY_2,
         "x ping 1"),
    case("§5 enrol anew", EQUUS, SAY_2, SCHEDULE, "> enrol 4 web-1 # << {}", "< enrolled 4 # << {}"),
    case("§5 enrolled without enrol", EQUUS, SAY_2, SCHEDULE, "<< enrolled 1 2\\n{}\\n", "! unknown-message-id"),
    case("§5 enrolled before hello without enrol", EQUUS, "<< enrolled 1 2\\n{}\\n", "! unknown-message-id"),
    case("§5 enrolled without enrol, said", HELEN, "x enrolled 1 # << {}", HELLO_2, "x enrolled 1 # << {}"),
    case("§5 too long a request", HELEN, "<< enrol 1 web-1 65537\\n", "! blob-too-large"),
    case("§5 the longest request", HELEN, "< enrol 1 web-1 # << " + "x" * 65_536),
    case("§5 too long a request, said", EQUUS, "x enrol 1 w # << " + "x" * 65_537,
         "> enrol 1 w # << " + "x" * 65_536),
    case("§5 enrol isn't in version 1", HELEN, HELLO_1, "<< enrol 1 web-1 2\\n{}\\n", "! unknown-command"),
    case("§5 manifest", HELEN, HELLO_2, "< manifest 3", "> manifest 3 # << {}"),
    case("§5 manifest, said", EQUUS, SAY_2, SCHEDULE, "> manifest 3", "< manifest 3 # << {}"),
    case("§5 a manifest that nobody asked for", EQUUS, SAY_2, SCHEDULE, "<< manifest 3 2\\n{}\\n",
         "! unknown-message-id"),
    case("§5 a request id that is still open", HELEN, HELLO_2, "< manifest 3", f"<< fetch 3 {SHA}\\n",
         "! unknown-message-id"),
    case("§5 a request id that is still open, said", EQUUS, SAY_2, SCHEDULE, "> manifest 3", f"x fetch 3 {SHA}"),
    case("§5 checks and requests have ids of their own", HELEN, HELLO_2, "> check a 3 # << {}", "< manifest 3",
         "> manifest 3 # << {}", "< result 3 a # << {}"),
    case("§5 fetch", HELEN, HELLO_2, f"< fetch 4 {SHA}", f"> file 4 {SHA} # << return 1"),
    case("§5 fetch, said", EQUUS, SAY_2, SCHEDULE, f"> fetch 4 {SHA}", f"< file 4 {SHA} # << return 1"),
    case("§5 answers in any order", EQUUS, SAY_2, SCHEDULE, "> fetch 4 a", "> fetch 5 b", "< file 5 b # << 5",
         "< file 4 a # << 4"),
    case("§5 another file", EQUUS, SAY_2, SCHEDULE, "> fetch 4 a", "<< file 4 b 0\\n\\n", "! unknown-message-id"),
    case("§5 another file, said", HELEN, HELLO_2, "< fetch 4 a", "x file 4 b # << ", "x manifest 4 # << {}"),
    case("§5 a manifest for a fetch", EQUUS, SAY_2, SCHEDULE, "> fetch 4 a", "<< manifest 4 2\\n{}\\n",
         "! unknown-message-id"),
    case("§5 loaded", HELEN, HELLO_2, f"< loaded {SHA} # << {{}}"),
    case("§5 loaded, said", EQUUS, SAY_2, SCHEDULE, f"> loaded {SHA} # << {{}}"),
    case("§5 schedule, and another", EQUUS, SAY_2, SCHEDULE, SCHEDULE, "< schedule 2 # << [{}]"),
    case("§5 report and ack", HELEN, HELLO_2, "< report s1 1 load # << {}", "< report s1 2 load # << {}", "> ack s1 2"),
    case("§5 report and ack, said", EQUUS, SAY_2, SCHEDULE, "> report s1 1 load # << {}", "< ack s1 1"),
    case("§5 a report twice is the journal's business", HELEN, HELLO_2, "< report s1 1 load # << {}",
         "< report s1 1 load # << {}", "> ack s1 1", "> ack s1 1"),
    case("§5 a gap is a report", HELEN, HELLO_2, '< report s1 9 equus:gap # << {"from":1,"to":8,"reason":"full"}'),
    case("§5 cancel", HELEN, HELLO_2, "> check a 1 # << {}", "> cancel 1", "< result 1 a # << {}"),
    case("§5 a cancel that comes too late does no harm", EQUUS, SAY_2, "< cancel 5"),
    case("§5 servers", EQUUS, SAY_2, SCHEDULE, "< servers 2 # << []"),
    case("§5 servers, said", HELEN, HELLO_2, "> schedule 1 # << []", "> servers 2 # << []"),
]  # fmt: skip


@pytest.mark.adversary(13)
@pytest.mark.parametrize(("role", "steps"), [pytest.param(*c[1:], id=c[0]) for c in VERSION_1 + VERSION_2])
def test_transcript(role: Role, steps: list[str]) -> None:
    """Each transcript is sent and heard as it stands."""
    play(role, *steps)


def test_good_messages_before_a_bad_line_are_heard() -> None:
    """Messages before a bad line in one chunk are heard, and those behind it are not (§2)."""
    helen = Conversation(HELEN)
    helen.feed(b"hello 2 kit\nping 1\nreport s 1 load 2\n{}\nfrobnicate\nping 2\n")
    heard = [helen.next_message() for _ in range(3)]
    assert heard == [m.Hello(2, "kit"), m.Ping(1), m.Report("s", 1, "load", b"{}")]
    for _ in range(3):
        with pytest.raises(RemoteProtocolError, match="unknown-command"):
            helen.next_message()
        helen.feed(b"ping 3\n")
    assert helen.unread == 0


@pytest.mark.parametrize(("line", "message"), [
    (b"error\n", ""), (b"error\r\n", ""), (b"error \n", ""), (b"error bad-line\r\n", "bad-line"),
    (b"error  two  spaces \n", " two  spaces "), (b"error \xff\x00\n", "\\xff\x00"),
    (b"error " + b"x" * 1_017 + b"\n", "x" * 1_017),
])  # fmt: skip
def test_error_takes_what_is_there(line: bytes, message: str) -> None:
    """A reader takes the rest of an `error` line, whatever it is, and the conversation is over (§3)."""
    equus = Conversation(EQUUS)
    equus.feed(line + b"reload\n")
    assert equus.next_message() == m.Error(message)
    assert equus.next_message() is None
    assert equus.state is State.CLOSED


def test_a_refused_message_changes_nothing() -> None:
    """A message that may not be sent changes nothing, and the conversation goes on (§7)."""
    helen = Conversation(HELEN)
    helen.feed(b"hello 1 kit\n")
    helen.next_message()
    for bad in (m.Check("a b", 1, b""), m.Check("", 1, b""), m.Check("a", -1, b""), m.Check("a", 2**31, b""),
                m.Check("a", 1, b"x" * 1_048_577), m.Check("a" * 256, 1, b""), m.Check("\ud800", 1, b""),
                m.Check("a", True, b""), m.Check("a", 1.0, b""), m.Check("a", 1, "text")):  # fmt: skip
        with pytest.raises(LocalProtocolError):
            helen.send(bad)
    assert helen.outstanding == {}
    assert helen.send(m.Check("a", 1, b"")) == b"check a 1 0\n\n"


def test_trace_reads_like_the_page() -> None:
    """The trace shows lines as they stand on the wire, and the sizes of blobs in their place (§9)."""
    stage = play(EQUUS, SAY_2, "< schedule 1 # << []", "> ping 3", "< error the end")
    assert stage.trace == ["> hello 2 equus/0.1", "< schedule 1 2 [2 bytes]", "> ping 3", "< error the end"]


def test_outstanding_survives_the_end() -> None:
    """Outstanding checks are kept at the end, so that their callers can be told that no answer will come."""
    stage = play(HELEN, HELLO_1, "> check a 1 # << {}", "> check b 2 # << {}")
    stage.ours.hang_up()
    assert stage.ours.outstanding == {1: "a", 2: "b"}
    assert stage.ours.next_message() is None
    with pytest.raises(LocalProtocolError):
        stage.ours.send(m.Reload())


def test_a_conversation_of_version_1_alone() -> None:
    """A Helen of version 1 alone refuses version 2, and knows none of its words, not even before hello (§3)."""
    for line, slug in ((b"hello 2 kit\n", "unsupported-protocol-version"), (b"ping 1\n", "unknown-command"),
                       (b"enrol 1 a 2\n{}\n", "unknown-command")):  # fmt: skip
        helen = Conversation(HELEN, versions=(1,))
        helen.feed(line)
        with pytest.raises(RemoteProtocolError) as failure:
            helen.next_message()
        assert failure.value.slug == slug


@pytest.mark.adversary(16)
def test_a_turn_has_limits() -> None:
    """A turn ends after 256 messages, and nothing is lost, and a fault comes in its place (§8)."""
    helen = play(HELEN, HELLO_2).ours
    helen.feed(b"ping 1\n" * 600 + b"nonsense\n")
    sizes = []
    for _ in range(2):
        sizes.append(len(list(helen.turn())))
        assert helen.more
    rest = helen.turn()
    sizes.append(len([next(rest) for _ in range(600 - sum(sizes))]))
    assert sizes == [256, 256, 88]
    with pytest.raises(RemoteProtocolError, match="unknown-command"):
        next(rest)
    assert not helen.more


@pytest.mark.parametrize(("size", "taken"), [(TURN_BYTES - 1, 2), (TURN_BYTES, 1)])
def test_a_turn_has_a_limit_of_bytes(size: int, taken: int) -> None:
    """A turn ends after 256 KiB: after a message that has a byte less there is room for one more."""
    helen = play(HELEN, HELLO_2).ours
    blob = size - len("report s 1 cpu 262000\n\n")
    helen.feed(f"report s 1 cpu {blob}\n".encode() + b"x" * blob + b"\nping 1\nping 2\n")
    assert len(list(helen.turn())) == taken
    assert helen.more


def test_a_turn_counts_bytes() -> None:
    """A great blob ends a turn, even if most of it came in turns before (§8)."""
    helen = play(HELEN, HELLO_2).ours
    great = b"report s 1 load 300000\n" + b"x" * 300_000 + b"\n"
    helen.feed(great[:200_000])
    assert (list(helen.turn()), helen.more, helen.unread) == ([], False, 199_977)
    helen.feed(great[200_000:] + b"ping 1\n" * 3)
    assert ([type(message) for message in helen.turn()], helen.more) == ([m.Report], True)
    assert (list(helen.turn()), helen.more, helen.unread) == ([m.Ping(1)] * 3, False, 0)


@pytest.mark.parametrize(("data", "part"), [
    (b"", None), (b"ping 1\n", None), (b"pin", "line"), (b"report s 1 a 2\n", "blob"), (b"report s 1 a 2\n{}", "blob"),
    (b"report s 1 a 2\n{}\n", None), (b"report s 1 a 0\n", "blob"), (b"report s 1 a 2\n{}\np", "line"),
])  # fmt: skip
def test_what_a_deadline_is_for(data: bytes, part: str | None) -> None:
    """`unfinished` names the part that the peer has begun, a line or a blob, for a deadline (§8)."""
    helen = play(HELEN, HELLO_2).ours
    helen.feed(data)
    while helen.next_message() is not None:
        pass
    assert helen.unfinished == part
