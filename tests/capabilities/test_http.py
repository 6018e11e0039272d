"""http against servers that behave and servers that do not."""

import json
import socket
import ssl
import subprocess
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equus.capabilities.calls import CallFailed
from equus.capabilities.http_message import HEAD_BYTES, Source, parse_head, parse_url
from equus.policy import Policy


def reading(connection: socket.socket) -> bytes:
    """A request up to the end of its head."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return data
        data += piece
    return data


def answering(*pieces: bytes, pause: float = 0.0, seen: list | None = None):
    """A server that reads a request and answers with these pieces."""

    def act(connection: socket.socket) -> None:
        request = reading(connection)
        if seen is not None:
            seen.append(request)
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(pause)

    return act


def get(call, port, **fields):
    return call("http", {"url": f"http://127.0.0.1:{port}/", **fields})


def test_a_page(call, serve):
    """Status, headers with their names in lower case, body, times."""
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
    """A body is sent with its length."""
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
    """By length, by chunks, until the end, or none."""
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
    ],
)
def test_what_is_not_http(call, serve, pieces):
    """Each is the protocol's fault, in a sentence."""
    with pytest.raises(CallFailed) as caught:
        get(call, serve(answering(*pieces)))
    assert caught.value.code == "protocol"


def test_a_head_that_never_ends(call, serve):
    """It is cut at its limit."""

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
    """The limit ends it, and the answer says so."""

    def act(connection: socket.socket) -> None:
        reading(connection)
        connection.sendall(head)
        while True:
            connection.sendall(b"x" * 65536)

    answer = get(call, serve(act), limit=100_000)
    assert (answer["body_bytes"], len(answer["body"]), answer["truncated"]) == (100_000, 100_000, True)


def test_a_body_that_drips(call, serve):
    """One limit for all of it."""

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
    assert time.monotonic() - began < 2


def test_redirects_share_one_time_limit(call, serve):
    """A chain of slow ones is no way round it."""

    def act(connection: socket.socket) -> None:
        reading(connection)
        time.sleep(0.15)
        connection.sendall(b"HTTP/1.1 302 Found\r\nlocation: /again\r\n\r\n")

    began = time.monotonic()
    with pytest.raises(CallFailed) as caught:
        get(call, serve(act), redirects=10, timeout=0.4)
    assert caught.value.code == "timeout"
    assert time.monotonic() - began < 2


def redirecting(location: str, status: int = 302, seen: list | None = None):
    return answering(
        f"HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n".encode(), seen=seen
    )


def test_a_redirect_is_followed(call, serve):
    """Relative ones too; the last URL is told."""
    seen: list[bytes] = []
    last = serve(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", seen=seen))
    first = serve(redirecting(f"//127.0.0.1:{last}/new?x=1#part"))
    answer = get(call, first)
    assert (answer["status"], answer["redirects"], answer["url"]) == (200, 1, f"http://127.0.0.1:{last}/new?x=1")
    assert seen[0].startswith(b"GET /new?x=1 HTTP/1.1\r\n")


def test_a_redirect_to_another_host_takes_no_secrets_along(call, serve):
    """Authorization and cookies stay where they were meant for; a POST becomes a GET."""
    seen: list[bytes] = []
    last = serve(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", seen=seen))
    first = serve(redirecting(f"http://127.0.0.1:{last}/"))
    get(
        call, first, method="POST", body="x", headers={"Authorization": "secret", "Cookie": "secret", "X-Other": "kept"}
    )
    assert seen[0].startswith(b"GET / HTTP/1.1\r\n")
    assert b"secret" not in seen[0]
    assert b"x-other: kept" in seen[0]


@pytest.mark.parametrize(
    "location", ["http://169.254.169.254/latest/meta-data", "http://192.0.2.1/", "http://[fd00:ec2::254]/"]
)
def test_a_redirect_to_a_denied_host(call, serve, location):
    """Each target is judged as the first was."""
    with pytest.raises(CallFailed) as caught:
        get(call, serve(redirecting(location)))
    assert caught.value.code == "denied"


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "gopher://127.0.0.1/", "http://user:x@127.0.0.1/", "http://127.0.0.1:99999/"],
)
def test_a_redirect_to_no_web_page(call, serve, location):
    """Other schemes are the server's fault."""
    with pytest.raises(CallFailed) as caught:
        get(call, serve(redirecting(location)))
    assert caught.value.code == "protocol"


def test_a_redirect_is_the_answer_when_no_more_are_followed(call, serve):
    """A loop ends with the last answer."""
    answer = get(call, serve(redirecting("/")), redirects=2)
    assert (answer["status"], answer["redirects"]) == (302, 2)


def test_json(call, serve):
    """The parsed body stands beside the text."""
    body = json.dumps({"a": [1, {"b": None}]}).encode()
    port = serve(answering(b"HTTP/1.1 200 OK\r\n\r\n" + body))
    assert get(call, port, json=True)["json"] == {"a": [1, {"b": None}]}


@pytest.mark.parametrize("body", [b"", b"{", b"NaN", b"[" * 100_000, b"<html>"])
def test_what_is_no_json(call, serve, body):
    """Deep nesting and NaN among it."""
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
    """Nothing that could end a line gets into a request."""
    assert failure("http", {"url": "http://127.0.0.1/", **fields})[0] == "bad-arguments"


def test_https_verifies_unless_it_is_told_not_to(call, failure, serve, tmp_path):
    """With the system's authorities a self-signed certificate is refused, before anything is sent."""
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
    """http has its own grant; tcp's does not help."""
    policy = Policy.parse(b"[caps.http]\nallow = false\n", None)
    code, text = failure("http", {"url": f"http://127.0.0.1:{closed_port}/"}, policy=policy)
    assert code == "denied"
    assert '"http"' in text


@settings(deadline=None)
@given(st.binary(max_size=300), st.integers(1, 7))
def test_no_bytes_break_the_reader(data, step):
    """Whatever a server sends: an answer or CallFailed, and never more held than came."""
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    source = Source(lambda: pieces.pop(0) if pieces else b"")
    try:
        head = parse_head(source.head())
        assert len(b"".join(source.body(head))) <= len(data)
    except CallFailed as failed:
        assert failed.code in ("protocol", "too-large")


@settings(deadline=None)
@given(st.text(max_size=60))
def test_no_text_breaks_the_url_reader(text):
    """A target that can be sent as one line, or a refusal."""
    try:
        target = parse_url(f"http://{text}")
    except CallFailed:
        return
    assert target.path.isascii()
    assert not set(target.path) & set(" \r\n\0")
    assert parse_url(target.url) == target
