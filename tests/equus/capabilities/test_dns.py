"""Test the dns call: the messages, and name servers that behave and that do not."""

import contextlib
import errno
import socket
import struct
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equus.capabilities.dns_message import BadMessage, encode_name, parse_answer, question, read_name
from equus.policy.policy import Policy

ID = 4711


def record(owner: bytes, kind: int, data: bytes, ttl: int = 60) -> bytes:
    return owner + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


def answer_to(query: bytes, *records: bytes, flags: int = 0x8180, count: int | None = None) -> bytes:
    """Return an answer that repeats the question."""
    header = query[:2] + struct.pack("!HHHHH", flags, 1, len(records) if count is None else count, 0, 0)
    return header + query[12:] + b"".join(records)


POINTER = b"\xc0\x0c"  # to the name in the question
QUERY = question(ID, "www.example", "A")


def parsed(data: bytes, kind: str = "A") -> list[dict]:
    return list(parse_answer(data, ID, "www.example", kind).answers)


@pytest.mark.parametrize(
    ("kind", "number", "data", "value"),
    [
        ("A", 1, bytes([192, 0, 2, 1]), {"value": "192.0.2.1"}),
        ("AAAA", 28, bytes(15) + b"\1", {"value": "::1"}),
        ("CNAME", 5, b"\x04edge" + POINTER, {"value": "edge.www.example"}),
        ("NS", 2, b"\x02ns\x00", {"value": "ns"}),
        ("PTR", 12, POINTER, {"value": "www.example"}),
        ("MX", 15, b"\x00\x0a\x02mx" + POINTER, {"value": "mx.www.example", "preference": 10}),
        ("TXT", 16, b"\x05v=spf\x031 \xff", {"value": "v=spf1 \ufffd"}),
        (
            "SOA",
            6,
            b"\x02ns\x00\x01m\x00" + struct.pack("!IIIII", 1, 2, 3, 4, 5),
            {"value": "ns m 1 2 3 4 5", "serial": 1},
        ),
    ],
)
def test_record_types(kind, number, data, value):
    """Each type of record is returned with its own fields."""
    query = question(ID, "www.example", kind)
    expected = {"name": "www.example", "type": kind, "ttl": 60, **value}
    assert parsed(answer_to(query, record(POINTER, number, data)), kind) == [expected]


def test_types_that_nobody_asked_for_are_passed_over():
    """Records of other types are passed over, and an impossible time to live is 0."""
    records = (record(POINTER, 46, b"x" * 20), record(POINTER, 1, bytes(4), ttl=1 << 31))
    assert parsed(answer_to(QUERY, *records)) == [{"name": "www.example", "type": "A", "ttl": 0, "value": "0.0.0.0"}]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "cut short"),
        (QUERY, "no answer"),
        (answer_to(question(ID + 1, "www.example", "A")), "no answer"),
        (answer_to(question(ID, "www.other", "A")), "another question"),
        (answer_to(question(ID, "www.example", "MX")), "another question"),
        (struct.pack("!HHHHHH", ID, 0x8180, 0, 0, 0, 0), "repeats no question"),
        (struct.pack("!HHHHHH", ID, 0x8180, 2, 0, 0, 0) + QUERY[12:] * 2, "repeats no question"),
        (answer_to(QUERY, count=1), "cut short"),
        (answer_to(QUERY, record(POINTER, 1, b"123")), "wrong length"),
        (answer_to(QUERY, record(POINTER, 28, b"1234")), "wrong length"),
        (answer_to(QUERY, record(POINTER, 16, b"\x05ab")), "longer than its record"),
        (answer_to(QUERY, record(POINTER, 5, b"\x01a\x00rest")), "does not fill"),
        (answer_to(QUERY, record(POINTER, 6, b"\x00\x00abc")), "wrong length"),
        (answer_to(QUERY, record(POINTER, 1, bytes(4))[:-2]), "cut short"),
        (answer_to(QUERY, record(b"\xc0\x1d", 1, bytes(4))), "leads forwards"),
        (answer_to(QUERY, record(b"\xff\xff", 1, bytes(4))), "leads forwards"),
        (answer_to(QUERY, record(b"\x01a\xc0\x1d", 1, bytes(4))), "leads forwards"),
        (answer_to(QUERY, record(b"\x80", 1, bytes(4))), "unknown form"),
        (
            answer_to(QUERY, record(b"\x3f" + b"a" * 63 + (b"\x3f" + b"a" * 63) * 3 + b"\x00", 1, bytes(4))),
            "longer than 255",
        ),
    ],
)
def test_hostile_messages(data, why):
    """A hostile message, with loops, wrong lengths and counts, or another question, raises BadMessage with a reason."""
    with pytest.raises(BadMessage, match=why):
        parsed(data)


def test_a_name_cannot_pass_for_another():
    """Dots and control characters inside a label are escaped, so that a name cannot look like another."""
    assert read_name(b"\x05a.b\x00\\\x00", 0) == ("a\\046b\\000\\092", 7)


def test_a_tower_of_pointers_ends():
    """A chain of pointers, each one step back, ends at the length limit of a name."""
    tower = b"\x01a\x00" + b"".join(
        b"\x01a" + struct.pack("!H", 0xC000 | max(0, 3 + 4 * (step - 1) if step else 0)) for step in range(4000)
    )
    with pytest.raises(BadMessage, match="longer than 255"):
        read_name(tower, 3 + 4 * 3999)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_break_the_parser(data):
    """Any bytes give an answer or BadMessage, and no other error."""
    for message in (data, answer_to(QUERY) + data, answer_to(QUERY, count=3) + data):
        with contextlib.suppress(BadMessage):
            parse_answer(message, ID, "www.example", "A")


@settings(deadline=None)
@given(st.lists(st.from_regex(r"[a-z0-9_-]{1,63}", fullmatch=True), min_size=1, max_size=3))
def test_names_survive_the_way(labels):
    """A name that is encoded and read again stays the same."""
    name = ".".join(labels)
    encoded = encode_name(name)
    assert read_name(encoded, 0) == (name, len(encoded))


@pytest.mark.parametrize("name", ["a..b", ".a", "a" * 64, ".".join(["a" * 60] * 5)])
def test_names_that_are_none(name):
    """Names with an empty or a too long part are refused before they are sent."""
    with pytest.raises(ValueError, match="name"):
        encode_name(name)


# Name servers ------------------------------------------------------------------------------------------------------


def both_on_one_port() -> tuple[socket.socket, socket.socket]:
    """Return a UDP and a TCP socket on one port; a port that is free for the one may be taken for the other."""
    while True:
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind(("127.0.0.1", 0))
        try:
            return server, socket.create_server(server.getsockname())
        except OSError as error:
            server.close()
            if error.errno != errno.EADDRINUSE:
                raise


@pytest.fixture
def name_server():
    """Starts a UDP server (and TCP on the same port) that answers with what functions make of a question."""
    stops = []

    def start(by_datagram, by_stream=None) -> int:
        server, listener = both_on_one_port()
        port = server.getsockname()[1]

        def datagrams() -> None:
            with contextlib.suppress(OSError):
                while True:
                    query, sender = server.recvfrom(65535)
                    if not query:
                        return
                    for answer in by_datagram(query):
                        server.sendto(answer, sender)

        def streams() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        query = connection.recv(65535)[2:]
                        if query and by_stream:
                            connection.sendall(by_stream(query))

        threads = [threading.Thread(target=act, daemon=True) for act in (datagrams, streams)]
        for thread in threads:
            thread.start()
        stops.append((server, listener, threads, port))
        return port

    yield start
    for server, listener, threads, port in stops:
        server.sendto(b"", ("127.0.0.1", port))
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(60)
        server.close()
        listener.close()


def ask(call, port, **fields):
    return call("dns", {"name": "www.example", "server": "127.0.0.1", "port": port, "timeout": 50, **fields})


def test_an_address(call, name_server):
    """An answer with an address has all its fields, and the time it took in seconds."""
    port = name_server(lambda query: [answer_to(query, record(POINTER, 1, bytes([192, 0, 2, 1])), flags=0x8580)])
    answer = ask(call, port)
    assert 0 < answer.pop("seconds") < 50
    assert answer == {
        "server": "127.0.0.1",
        "name": "www.example",
        "type": "A",
        "status": "NOERROR",
        "authoritative": True,
        "truncated": False,
        "answers": [{"name": "www.example", "type": "A", "ttl": 60, "value": "192.0.2.1"}],
    }


def test_no_such_name_is_an_answer(call, name_server):
    """A missing name is an answer with status NXDOMAIN and not a failure, so that a check can judge it."""
    answer = ask(call, name_server(lambda query: [answer_to(query, flags=0x8183)]))
    assert (answer["status"], answer["answers"]) == ("NXDOMAIN", [])


def test_a_reverse_name(call, name_server):
    """A PTR query for an address asks for its reverse name."""
    seen = []

    def answer(query: bytes) -> list[bytes]:
        seen.append(read_name(query, 12)[0])
        return [answer_to(query, record(POINTER, 12, b"\x04host\x00"))]

    port = name_server(answer)
    assert ask(call, port, name="192.0.2.7", type="PTR")["answers"][0]["value"] == "host"
    assert seen == ["7.2.0.192.in-addr.arpa"]


def test_a_cut_answer_is_asked_for_again_over_tcp(call, name_server):
    """An answer that is cut is asked for again over TCP, and that answer counts."""

    def whole(query: bytes) -> bytes:
        message = answer_to(query, *[record(POINTER, 1, bytes([192, 0, 2, number])) for number in range(100)])
        return len(message).to_bytes(2, "big") + message

    port = name_server(lambda query: [answer_to(query, flags=0x8380)], whole)
    answer = ask(call, port)
    assert (len(answer["answers"]), answer["truncated"]) == (100, False)


def test_forged_and_late_datagrams_are_passed_over(call, name_server):
    """Only a datagram with the number of the question counts; forged and broken ones are passed over."""

    def answers(query: bytes) -> list[bytes]:
        other = bytes([query[0] ^ 255, query[1]]) + query[2:]
        forged = answer_to(other, record(POINTER, 1, bytes([6, 6, 6, 6])))
        return [forged, b"", b"x", answer_to(query, record(POINTER, 1, bytes([192, 0, 2, 1])))]

    assert ask(call, name_server(answers))["answers"][0]["value"] == "192.0.2.1"


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        (lambda query: [], "timeout"),
        (lambda query: [answer_to(query, record(b"\xc0\x1d", 1, bytes(4)))], "protocol"),
        (lambda query: [b"x"] * 100, "protocol"),
        (lambda query: [query], "protocol"),
    ],
)
def test_servers_that_do_not_behave(failure, name_server, answers, code):
    """Silence, loops, floods and echoes fail with timeout or protocol."""
    port = name_server(answers)
    fields = {"name": "www.example", "server": "127.0.0.1", "port": port, "timeout": 0.3 if code == "timeout" else 50}
    assert failure("dns", fields)[0] == code


@pytest.mark.parametrize("stream", [b"", b"\x00", b"\xff\xffshort", b"\x00\x05hello"])
def test_a_bad_answer_over_tcp(failure, name_server, stream):
    """An answer over TCP that is cut short, or is no message, fails with the code `protocol`."""
    port = name_server(lambda query: [], lambda query: stream)
    fields = {"name": "www.example", "server": "127.0.0.1", "port": port, "timeout": 50, "tcp": True}
    assert failure("dns", fields)[0] == "protocol"


def test_the_servers_of_the_host(call, plant, name_server):
    """The servers of resolv.conf are asked in turn; one that the policy does not grant is passed over."""
    port = name_server(lambda query: [answer_to(query, record(POINTER, 1, bytes([192, 0, 2, 1])))])
    root = plant({"/etc/resolv.conf": "# x\nnameserver 192.0.2.53\nnameserver fe80::1%eth0\nnameserver 127.0.0.1\n"})
    assert call("dns", {"name": "www.example", "port": port}, root=root)["server"] == "127.0.0.1"


def test_a_server_that_is_not_granted(failure, plant):
    """A server that is not granted is refused, and the text names the table to write into the policy."""
    root = plant({"/etc/resolv.conf": "nameserver 192.0.2.53\n"})
    code, text = failure("dns", {"name": "www.example"}, root=root)
    assert code == "denied"
    assert "[caps.dns]" in text
    assert (
        failure("dns", {"name": "x", "server": "127.0.0.1"}, policy=Policy.parse(b"[caps.dns]\nallow = false\n", None))[
            0
        ]
        == "denied"
    )


@pytest.mark.parametrize(
    "fields", [{"server": "ns.example"}, {"type": "ANY"}, {"name": ""}, {"name": "a b"}, {"port": 0}]
)
def test_arguments_are_checked(failure, fields):
    """Wrong arguments are refused; a server must be an address, since its name would have to be looked up first."""
    assert failure("dns", {"name": "www.example", "server": "127.0.0.1", **fields})[0] == "bad-arguments"
