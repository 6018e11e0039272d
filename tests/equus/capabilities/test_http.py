"""Test the http call against servers that behave and servers that do not."""

import gzip
import itertools
import json
import random
import socket
import ssl
import subprocess
import time
import zlib
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equus.capabilities import http_body
from equus.capabilities.calls import CallFailed
from equus.capabilities.http_body import read_body
from equus.capabilities.http_message import HEAD_BYTES, MOST_ANSWER_HEADERS, Exchange, parse_url
from equus.capabilities.streams.stream import RECEIVE_BYTES
from equus.policy.policy import Policy


def reading(connection: socket.socket) -> bytes:
    """Read a request up to the end of its head."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return data
        data += piece
    return data


def answering(*pieces: bytes, pause: float = 0.0, seen: list | None = None):
    """Return the act of a server that reads a request and answers with these pieces."""

    def act(connection: socket.socket) -> None:
        request = reading(connection)
        if seen is not None:
            seen.append(request)
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(pause)

    return act


def get(call, port, secrets=(), **fields):
    return call("http", {"url": f"http://127.0.0.1:{port}/", **fields}, secrets=secrets)


def test_a_page(call, serve):
    """The answer of a page has its status, headers with lower-case names, body, and times."""
    body = b"all is well"
    head = b"HTTP/1.1 200 All OK\r\nContent-Length: 11\r\nX-A: 1\r\nx-a: 2\r\n\r\n"
    seen: list[bytes] = []
    port = serve(answering(head, body, seen=seen))
    answer = call("http", {"url": f"http://127.0.0.1:{port}/a?b=c#d", "headers": {"Accept": "text/plain"}})
    times = {name: answer.pop(name) for name in ("connect_seconds", "first_byte_seconds", "seconds")}
    assert 0 <= times["connect_seconds"] <= times["first_byte_seconds"] <= times["seconds"]
    assert answer == {
        "status": 200,
        "reason": "All OK",
        "url": f"http://127.0.0.1:{port}/a?b=c",
        "address": "127.0.0.1",
        "http_version": "1.1",
        "headers": {"content-length": "11", "x-a": "1, 2"},
        "body": "all is well",
        "body_bytes": 11,
        "truncated": False,
        "redirects": 0,
    }
    lines = seen[0].decode().split("\r\n")
    assert lines[0] == "GET /a?b=c HTTP/1.1"
    assert {f"host: 127.0.0.1:{port}", "accept: text/plain", "connection: close", "accept-encoding: identity"} < set(
        lines
    )


def test_post(call, serve):
    """A POST sends its body with its length in bytes."""
    seen: list[bytes] = []
    port = serve(answering(b"HTTP/1.1 204 No Content\r\n\r\n", seen=seen))
    assert get(call, port, method="POST", body="grüße")["status"] == 204
    assert b"content-length: 7\r\n" in seen[0]


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ((b"HTTP/1.0 200 OK\n\n", b"until ", b"the end"), "until the end"),
        ((b"HTTP/1.1 200\r\ncontent-length: 3\r\n\r\n", b"abcdef"), "abc"),
        (
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4;x=y\r\nWiki\r\n5\r\npedia\r\n0\r\nt: 1\r\n\r\n",),
            "Wikipedia",
        ),
        (
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"A", b"\r\n01234", b"56789\r", b"\n0\r\n\r\n"),
            "0123456789",
        ),
        ((b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",), "ok"),
        ((b"HTTP/1.1 304 Not Modified\r\ncontent-length: 10\r\n\r\n",), ""),
    ],
)
def test_bodies(call, serve, pieces, body):
    """A body ends by its length, by its last chunk, or at the end of the connection, or there is none."""
    assert get(call, serve(answering(*pieces)))["body"] == body


@pytest.mark.parametrize(
    "pieces",
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n",),
        (b"HTTP/2 200 OK\r\n\r\n",),
        (b"HTTP/1.1 2000 OK\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\nbad name : x\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1, 1\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\ncontent-length: \xd9\xa3\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort",),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-5\r\n",),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabcd\r\n",),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"1" * 5000,),
        (b"HTTP/1.1 200 OK",),
        (b"",),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 20,),
        (b"HTTP/1.1 600 OK\r\n\r\n",),
        (b"HTTP/1.1 000 OK\r\n\r\n",),
        (b"HTTP/1.2 200 OK\r\n\r\n",),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\n" + b"n" * 129 + b": x\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\n" + b"n: x\r\n" * (MOST_ANSWER_HEADERS + 1) + b"\r\n",),
        (b"HTTP/1.1 200 OK\r\ncontent-length: " + b"1" * 5000 + b"\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"t: x\r\n" * 50_000,),
    ],
)
def test_what_is_not_http(call, serve, pieces):
    """An answer that is not HTTP fails with the code `protocol`."""
    with pytest.raises(CallFailed) as caught:
        get(call, serve(answering(*pieces)))
    assert caught.value.code == "protocol"


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ((b"SSH-2.0-OpenSSH_9.2\r\n\r\n",), "the answer is not HTTP: illegal status line: 'SSH-2.0-OpenSSH_9.2'"),
        ((b"HTTP/1.1 200 OK\r\n",), "the connection ended before a whole HTTP answer"),
        ((b"",), "the connection ended before a whole HTTP answer"),
        ((b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort",), "received 5 bytes, expected 10"),
        ((b"HTTP/1.1 200 OK\r\n" + b"bad name: x" * 100 + b"\r\n\r\n",), "illegal header line: 'bad name"),
    ],
)
def test_what_is_said_of_a_broken_answer(call, serve, pieces, text):
    """The text about a broken answer names the fault, and stays short whatever the server sent."""
    with pytest.raises(CallFailed) as caught:
        get(call, serve(answering(*pieces)))
    assert text in caught.value.text
    assert len(caught.value.text) < 250


def test_a_switch_of_protocols_is_no_answer(call, serve):
    """A switch of protocols fails, because the call reads HTTP alone."""
    port = serve(answering(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\nnoise"))
    with pytest.raises(CallFailed, match="left HTTP") as caught:
        get(call, port, headers={"upgrade": "x"})
    assert caught.value.code == "protocol"


def test_a_head_that_never_ends(call, serve):
    """A head without an end is cut at its limit, and the text names the limit."""

    def act(connection: socket.socket) -> None:
        reading(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            connection.sendall(b"x: y\r\n" * 1000)

    with pytest.raises(CallFailed, match=str(HEAD_BYTES)) as caught:
        get(call, serve(act))
    assert caught.value.code == "too-large"


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n"]
)
def test_a_body_that_never_ends(call, serve, head):
    """A body without an end is cut at the limit, and `truncated` says so."""

    def act(connection: socket.socket) -> None:
        reading(connection)
        connection.sendall(head)
        while True:
            connection.sendall(b"x" * 65536)

    answer = get(call, serve(act), limit=100_000)
    assert (answer["body_bytes"], len(answer["body"]), answer["truncated"]) == (100_000, 100_000, True)


def test_a_body_that_drips(call, serve):
    """One time limit counts for the whole body, even if a byte comes now and then."""

    def act(connection: socket.socket) -> None:
        reading(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b".")
            time.sleep(0.02)

    began = time.monotonic()
    with pytest.raises(CallFailed) as caught:
        get(call, serve(act), timeout=0.3)
    assert caught.value.code == "timeout"
    assert time.monotonic() - began < 50  # the run has a minute


def test_redirects_share_one_time_limit(call, serve):
    """All redirects of a call share one time limit, so that slow ones do not lengthen it."""

    def act(connection: socket.socket) -> None:
        reading(connection)
        time.sleep(0.4)
        connection.sendall(b"HTTP/1.1 302 Found\r\nlocation: /again\r\n\r\n")

    with pytest.raises(CallFailed) as caught:
        get(call, serve(act), redirects=10, timeout=1)
    assert caught.value.code == "timeout"


def redirecting(location: str, status: int = 302, seen: list | None = None):
    return answering(
        f"HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n".encode(), seen=seen
    )


def test_a_redirect_is_followed(call, serve):
    """A redirect is followed, also a relative one, and the answer has the last URL."""
    seen: list[bytes] = []
    last = serve(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", seen=seen))
    first = serve(redirecting(f"//127.0.0.1:{last}/new?x=1#part"))
    answer = get(call, first)
    assert (answer["status"], answer["redirects"], answer["url"]) == (200, 1, f"http://127.0.0.1:{last}/new?x=1")
    assert seen[0].startswith(b"GET /new?x=1 HTTP/1.1\r\n")


def test_a_redirect_to_another_host_takes_no_secrets_along(call, serve):
    """A redirect to another host carries no Authorization and no cookie along, and a POST becomes a GET."""
    seen: list[bytes] = []
    last = serve(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", seen=seen))
    first = serve(redirecting(f"http://127.0.0.1:{last}/"))
    get(
        call, first, method="POST", body="x", headers={"Authorization": "secret", "Cookie": "secret", "X-Other": "kept"}
    )
    assert seen[0].startswith(b"GET / HTTP/1.1\r\n")
    assert b"secret" not in seen[0]
    assert b"x-other: kept" in seen[0]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("where", ["header", "body", "encoded"])
def test_no_redirect_takes_a_secret_of_the_run_to_another_host(call, serve, status, where):
    """A redirect to another host carries no secret along, in no header and not in the body, since a captured server may
    send it.
    """
    seen: list[bytes] = []
    last = serve(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", seen=seen))
    first = serve(redirecting(f"http://127.0.0.1:{last}/", status=status))
    password = "p w/1&x"
    more = {"header": {"headers": {"X-Api-Key": f"k {password}", "X-Other": "kept"}}, "body": {"body": f"a{password}"},
            "encoded": {"body": f"password={quote(password)}"}}[where]  # fmt: skip
    keeps_body = where != "header" and status >= 307
    try:
        get(call, first, method="POST", secrets=(password,), **more)
    except CallFailed as failed:
        assert (failed.code, keeps_body) == ("denied", True)
    else:
        assert not keeps_body
    assert len(seen) == (0 if keeps_body else 1)
    sent = b"".join(seen)
    assert password.encode() not in sent and quote(password).encode() not in sent
    assert (b"x-other: kept" in sent) is (where == "header")


def test_a_redirect_on_the_same_host_keeps_a_secret(call, serve):
    """A redirect on the same host keeps the secret, which was meant for that host."""
    seen: list[bytes] = []
    first = serve(redirecting("/again", status=308, seen=seen))
    get(call, first, method="POST", secrets=("pass-word",), headers={"X-Api-Key": "pass-word"}, body="b pass-word")
    assert len(seen) > 1 and all(b"x-api-key: pass-word" in one for one in seen)


@pytest.mark.adversary(40)
@pytest.mark.parametrize(
    "location", ["http://169.254.169.254/latest/meta-data", "http://192.0.2.1/", "http://[fd00:ec2::254]/"]
)
def test_a_redirect_to_a_denied_host(call, serve, location):
    """The target of a redirect is judged by the policy as the first address was."""
    with pytest.raises(CallFailed) as caught:
        get(call, serve(redirecting(location)))
    assert caught.value.code == "denied"


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "gopher://127.0.0.1/", "http://user:x@127.0.0.1/", "http://127.0.0.1:99999/"],
)
def test_a_redirect_to_no_web_page(call, serve, location):
    """A redirect to another scheme, or to a URL with a user or a wrong port, is a fault of the server."""
    with pytest.raises(CallFailed) as caught:
        get(call, serve(redirecting(location)))
    assert caught.value.code == "protocol"


def test_a_redirect_is_the_answer_when_no_more_are_followed(call, serve):
    """A loop of redirects ends with the last answer, once no more are followed."""
    answer = get(call, serve(redirecting("/")), redirects=2)
    assert (answer["status"], answer["redirects"]) == (302, 2)


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/straße".encode(), "/stra%C3%9Fe"), (b"/stra\xdfe", "/stra%DFe"), (b"/a b?c=d e", "/a%20b?c=d%20e"),
        (b"  /a%20b\t", "/a%20b"), ("/日本?q=é#teil".encode(), "/%E6%97%A5%E6%9C%AC?q=%C3%A9"),
        (b"/a\"<>{}", '/a"<>{}'),
        (b"/tab\there", "/tab%09here"),
    ],
)  # fmt: skip
def test_a_redirect_is_encoded(call, serve, location, path):
    """Blanks and bytes beyond ASCII in a redirect are encoded as browsers encode them (F29)."""
    seen: list[bytes] = []
    last = serve(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", seen=seen))
    head = b"HTTP/1.1 301 Moved\r\nlocation: //127.0.0.1:%d" % last
    first = serve(answering(head + location.lstrip() + b"\r\ncontent-length: 0\r\n\r\n"))
    assert get(call, first)["body"] == "ok"
    assert seen[0].startswith(f"GET {path} HTTP/1.1\r\n".encode())


@pytest.mark.parametrize(
    ("head", "name", "value"),
    [
        (b"X-A : b", "x-a", "b"), (b"X-A\t \t: b: c", "x-a", "b: c"), (b"X-A: a\r\n b : c", "x-a", "a b : c"),
        (b"X-A : a\r\nX-B : b", "x-b", "b"), (b"Content-Length : 2", "content-length", "2"),
        (b"Content-Length: 2\r\nContent-Length: 2", "content-length", "2"), (b"X-A:\r\n\tfolded", "x-a", "folded"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("early", [b"", b"HTTP/1.1 103 Early\r\nx : y\r\n\r\n"])
def test_heads_that_clients_take(call, serve, head, name, value, early):
    """Heads that other clients accept are read: blanks behind a name, folded lines, a repeated length (F29)."""
    length = b"" if b"ength" in head else b"content-length: 2\r\n"
    port = serve(answering(early + b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + length + b"\r\na :", pause=0.01))
    answer = get(call, port)
    assert (answer["headers"][name], answer["body"]) == (value, "a " if length or b"ength" in head else "")


TEXT = "Größe € ERROR 日本"
RAW = zlib.compressobj(wbits=-15)
RAW_DEFLATE = RAW.compress(TEXT.encode()) + RAW.flush()
LATIN = "Größe ERROR"
LONG, NOISE_BYTES = bytes(range(256)) * 9, random.Random(1).randbytes(120_000)
BODIES = {
    "gzip": ("content-encoding: gzip", gzip.compress(TEXT.encode()), TEXT),
    "x-gzip, in capitals": ("content-encoding: X-GZip", gzip.compress(TEXT.encode()), TEXT),
    "two members of gzip": ("content-encoding: gzip", gzip.compress(b"ERR") + gzip.compress(b"OR"), "ERROR"),
    "padding behind gzip": ("content-encoding: gzip", gzip.compress(b"ERROR") + b"\0\0\0", "ERROR"),
    "deflate": ("content-encoding: deflate", zlib.compress(TEXT.encode()), TEXT),
    "deflate without its header": ("content-encoding: deflate", RAW_DEFLATE, TEXT),
    "gzip twice": ("content-encoding: gzip, gzip", gzip.compress(gzip.compress(TEXT.encode())), TEXT),
    "gzip of deflate": ("content-encoding: deflate, gzip", gzip.compress(zlib.compress(TEXT.encode())), TEXT),
    "identity": ("content-encoding: identity", TEXT.encode(), TEXT),
    "Latin-1": ("content-type: text/html; charset=iso-8859-1", LATIN.encode("latin-1"), LATIN),
    "Latin-1 in gzip": ("content-encoding: gzip\r\ncontent-type: text/plain; charset='Latin1'",
                        gzip.compress(LATIN.encode("latin-1")), LATIN),
    "UTF-16": ("content-type: text/plain; charset=utf-16le", TEXT.encode("utf-16-le"), TEXT),
    "a mark of UTF-16": ("x: y", TEXT.encode("utf-16"), TEXT),
    "a mark of UTF-8": ("x: y", b"\xef\xbb\xbf" + TEXT.encode(), TEXT),
    "Shift JIS": ('content-type: text/html;charset="Shift_JIS"', "日本".encode("shift_jis"), "日本"),
    "named by the document": ("content-type: text/html", b"<meta charset='iso-8859-1'>" + LATIN.encode("latin-1"),
                              "<meta charset='iso-8859-1'>" + LATIN),
    "named by XML": ("x: y", b'<?xml encoding="windows-1252"?>\x80', '<?xml encoding="windows-1252"?>€'),
}  # fmt: skip


@pytest.mark.parametrize(("header", "data", "text"), BODIES.values(), ids=BODIES)
def test_bodies_are_unpacked_and_decoded(call, serve, header, data, text):
    """Bodies are unpacked and decoded, so that a check reads the text that a browser shows (F14)."""
    head = f"HTTP/1.1 200 OK\r\n{header}\r\ncontent-length: {len(data)}\r\n\r\n".encode()
    answer = get(call, serve(answering(head + data)))
    assert (answer["body"], answer["body_bytes"], answer.get("body_fault", "")) == (text, len(data), "")


UNREADABLE = {
    "brotli": ("content-encoding: br", b"\x0b\x02\x80ERROR\x03", "its encoding is br"),
    "no gzip": ("content-encoding: gzip", b"all is well", "it is no gzip, as its headers say"),
    "half of gzip": ("content-encoding: gzip", gzip.compress(LONG)[:-40], "its packed bytes end too early"),
    "half of deflate": ("content-encoding: deflate", zlib.compress(LONG)[:-40], "its packed bytes end too early"),
    "four encodings": ("content-encoding: gzip,gzip,gzip,gzip", b"x", "it has 4 encodings"),
    "an unknown charset": ("content-type: text/html; charset=klingon", b"x", "its charset klingon is not known"),
    "a codec that is no charset": ("content-type: text/html; charset=rot13", b"x", "its charset rot13 is not known"),
    "another": ("content-type: text/html; charset=unicode_escape", b"x", "its charset unicode_escape is not known"),
    "no text": ("x: y", "ERROR".encode("utf-16-le"), "it is no text in UTF-8, and names no charset"),
    "too long when unpacked": ("content-encoding: gzip", gzip.compress(b"x" * 100_001),
                               "it is longer than 100000 bytes when it is unpacked"),
    "too long": ("x: y", b"x" * 100_001, "it is longer than 100000 bytes"),
    "packed and too long": ("content-encoding: deflate", zlib.compress(NOISE_BYTES), "it is longer than 100000 bytes"),
}  # fmt: skip


@pytest.mark.parametrize(("header", "data", "fault"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_body_that_cannot_be_read_whole(call, serve, header, data, fault):
    """A body that cannot be unpacked or decoded has a fault that says why, and fails as JSON (F14)."""
    head = f"HTTP/1.1 200 OK\r\n{header}\r\ncontent-length: {len(data)}\r\n\r\n".encode()
    port = serve(answering(head + data))
    answer = get(call, port, limit=100_000)
    assert answer["body_fault"] == fault
    assert len(answer["body"]) <= 100_000
    with pytest.raises(CallFailed, match="cannot be read: ") as caught:
        get(call, port, limit=100_000, json=True)
    assert (caught.value.code, fault in caught.value.text) == ("unsupported", True)


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_an_empty_body_needs_no_unpacking(call, serve, method):
    """An empty body is not unpacked, as in the answer to HEAD, which has the headers of a body (F14)."""
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n"
    answer = get(call, serve(answering(head)), method=method)
    assert (answer["body"], answer["body_fault"]) == ("", "")


def test_a_body_of_very_many_members_takes_no_long_time(monkeypatch):
    """The bytes that zlib reads and copies for many members grow with the body, and not with its square."""
    moved = []

    class Counting:
        def __init__(self, form: int) -> None:
            self.real = zlib.decompressobj(form)

        def decompress(self, data: bytes, limit: int) -> bytes:
            moved.append(len(data))
            return self.real.decompress(data, limit)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

    monkeypatch.setattr(http_body, "zlib", SimpleNamespace(decompressobj=Counting, error=zlib.error))
    member = gzip.compress(b"")
    for members in (1_000, 50_000):
        moved.clear()
        assert http_body.read_body({"content-encoding": "gzip"}, member * members, False, 1_048_576) == ("", "")
        assert members <= len(moved) <= 1.1 * members
        assert sum(moved) <= 1.1 * members * http_body.PIECE


def test_a_small_body_that_unpacks_to_a_large_one(call, serve):
    """Unpacking stops at the limit, so that a bomb of 1 GiB costs neither memory nor time (F14)."""
    bomb = gzip.compress(gzip.compress(b"x" * 2**28))
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip, gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb)
    began = time.process_time()
    answer = get(call, serve(answering(head + bomb)))
    assert (len(answer["body"]) <= 1_048_576, "unpacked" in answer["body_fault"]) == (True, True)
    assert time.process_time() - began < 1


@given(
    st.dictionaries(st.sampled_from(["content-encoding", "content-type"]), st.text(max_size=40)),
    st.binary(max_size=300), st.booleans(), st.integers(0, 400),
)  # fmt: skip
@settings(deadline=None)
def test_no_bytes_break_the_reader_of_bodies(headers, data, truncated, limit):
    """Any bytes of a body give a text, with a fault if it is not whole (F14)."""
    text, fault = read_body(headers, data, truncated, limit)
    assert "\ud800" not in text
    assert bool(fault) or not truncated


def test_json(call, serve):
    """With `json` the answer has the parsed body beside its text."""
    body = json.dumps({"a": [1, {"b": None}]}).encode()
    port = serve(answering(b"HTTP/1.1 200 OK\r\n\r\n" + body))
    assert get(call, port, json=True)["json"] == {"a": [1, {"b": None}]}


@pytest.mark.parametrize("body", [b"", b"{", b"NaN", b"[" * 100_000, b"<html>"])
def test_what_is_no_json(call, serve, body):
    """A body that is no JSON fails, also one with NaN or with deep nesting."""
    with pytest.raises(CallFailed, match="is not JSON") as caught:
        get(call, serve(answering(b"HTTP/1.1 200 OK\r\n\r\n" + body)), json=True)
    assert caught.value.code == "protocol"


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "ftp://127.0.0.1/"},
        {"url": "http://127.0.0.1/a b"},
        {"url": "http://127.0.0.1/\r\nx: y"},
        {"url": "http://user:pw@127.0.0.1/"},
        {"url": "http://127.0.0.1:0x50/"},
        {"url": "//127.0.0.1/"},
        {"url": "http://127.0.0.1/é"},
        {"headers": {"a": "b\r\nc: d"}},
        {"headers": {"a b": "c"}},
        {"headers": {"content-length": "5"}},
        {"headers": {"Transfer-Encoding": "chunked"}},
        {"headers": {"a": 1}},
        {"headers": ["a: b"]},
        {"method": "TRACE"},
        {"method": "GET / HTTP/1.1\r\nx:"},
        {"redirects": 11},
        {"limit": 1_048_577},
        {"timeout": 61},
        {"body": 5},
        {"proxy": "http://127.0.0.1/"},
    ],
)
def test_arguments_are_checked(failure, fields):
    """Wrong URLs and fields are refused, so that no text ends a line of the request."""
    assert failure("http", {"url": "http://127.0.0.1/", **fields})[0] == "bad-arguments"


def test_https_verifies_unless_it_is_told_not_to(call, failure, serve, tmp_path):
    """A self-signed certificate is refused before anything is sent, unless verification is switched off."""
    path = tmp_path / "c.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = [
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-keyout",
        str(path),
        "-out",
        str(tmp_path / "cert.pem"),
    ]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    settings = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    settings.load_cert_chain(tmp_path / "cert.pem", path)
    seen: list[bytes] = []

    def act(connection: socket.socket) -> None:
        with settings.wrap_socket(connection, server_side=True) as wrapped:
            answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", seen=seen)(wrapped)

    url = f"https://127.0.0.1:{serve(act)}/"
    code, text = failure("http", {"url": url})
    assert (code, "self-signed certificate" in text, seen) == ("tls", True, [])
    assert call("http", {"url": url, "verify": False})["body"] == "ok"
    answer = call("http", {"url": url, "ca": (tmp_path / "cert.pem").read_text()})
    assert (answer["body"], answer["tls_seconds"] > 0) == ("ok", True)


def test_a_granted_network_and_no_more(failure, closed_port):
    """The call http has a grant of its own, and that of tcp does not count for it."""
    policy = Policy.parse(b"[caps.http]\nallow = false\n", None)
    code, text = failure("http", {"url": f"http://127.0.0.1:{closed_port}/"}, policy=policy)
    assert code == "denied"
    assert '"http"' in text


BEGINNINGS = [
    b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.0 404\n\n", b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: ",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"HTTP/1.1 200 OK\r\ntransfer-encoding: ",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
]  # fmt: skip
NOISE = st.one_of(st.binary(max_size=200), st.text("0123456789abcdefx:;, \r\n\t\0", max_size=200).map(str.encode))


def exchange_of(pieces, method="GET"):
    """Return an Exchange that has sent its request and receives these pieces, and then the end."""
    pieces = iter(pieces)
    exchange = Exchange(lambda: next(pieces, b""))
    exchange.request(method, parse_url("http://127.0.0.1/"), {}, None)
    return exchange


def answer_of(exchange):
    """Read a whole answer as the call does. Raises CallFailed, and nothing else, if it is none."""
    while (head := exchange.head()).status < 200:
        pass
    return head, b"".join(exchange.body())


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(BEGINNINGS), st.lists(NOISE, max_size=3), st.lists(st.integers(0, 900)), st.booleans())
def test_no_bytes_break_the_reader(beginning, noise, cuts, is_head):
    """Any bytes, split anywhere, give an answer or CallFailed, and never a body longer than the bytes that came."""
    data = beginning + b"".join(noise)
    cuts = sorted({cut for cut in cuts if 0 < cut < len(data)})
    pieces = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if begin < end]
    try:
        head, body = answer_of(exchange_of(pieces, "HEAD" if is_head else "GET"))
        assert 200 <= head.status <= 599
        assert len(body) <= (0 if is_head else len(data))
    except CallFailed as failed:
        assert failed.code in ("protocol", "too-large")
        assert len(failed.text) < 250


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(BEGINNINGS), NOISE, st.lists(st.integers(1, 40), min_size=1))
def test_how_bytes_are_split_changes_nothing(beginning, noise, steps):
    """The reader finds in pieces of any size what it finds in all of the bytes at once."""

    def outcome(pieces):
        try:
            return answer_of(exchange_of(pieces))
        except CallFailed as failed:
            return failed.code

    data, pieces = beginning + noise, []
    steps = itertools.cycle(steps)
    at = 0
    while at < len(data):
        step = next(steps)
        pieces.append(data[at : at + step])
        at += step
    assert outcome(pieces) == outcome([data] if data else [])


@pytest.mark.parametrize("unit", [b"x", b"x: y\r\n", b"\r\n", b"1", b"1;", b"1\r\nx\r\n", b"HTTP/1.1 103\r\n\r\n"])
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_what_never_ends_is_held_in_bounds(beginning, unit):
    """The reader holds at most the part of an endless answer that it must see whole, and one read more."""
    size, sent, most = 4096, 0, 4 * 1024 * 1024
    piece = (unit * size)[: size - size % len(unit)]
    assert size <= RECEIVE_BYTES

    def receive():
        nonlocal sent
        assert exchange.unread <= HEAD_BYTES
        sent += size
        return piece if sent > size else beginning + piece

    exchange = Exchange(receive)
    exchange.request("GET", parse_url("http://127.0.0.1/"), {}, None)
    try:
        for _ in range(100):
            if exchange.head().status >= 200:
                break
        for _ in exchange.body():
            if sent > most:
                break
    except CallFailed as failed:
        assert failed.code in ("protocol", "too-large")
        assert sent <= len(beginning) + HEAD_BYTES + 2 * size


@settings(deadline=None)
@given(st.text(max_size=60))
def test_no_text_breaks_the_url_reader(text):
    """Any text gives a target that can be sent as one line, or a refusal."""
    try:
        target = parse_url(f"http://{text}")
    except CallFailed:
        return
    assert target.path.isascii()
    assert not set(target.path) & set(" \r\n\0")
    assert parse_url(target.url) == target
