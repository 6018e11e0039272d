"""Tests the cost of a body before its sender is known: little memory, and no time of the reactor."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from helen_running import Running, wait_until
from twisted.web.test.requesthelper import DummyChannel
from web_client import Web, ask

from helen.web.connections.clients import KEPT, KEPT_OF_ADDRESS, Client, Clients
from helen.web.foreign_routes.foreign_results import MAX_NRDP
from helen.web.forms import MOST_FIELDS, decoded, read_raw_form
from helen.web.login.wrong_tries import FREE_TOKENS
from helen.web.request import MAX_BODY, STRANGER_BODY, ApiRequest

FORM = b"application/x-www-form-urlencoded"
FILE = '[hosts.nas]\n\n[[check]]\nhost = "nas"\nid = "smart"\n\n[[ping]]\nid = "nightly"\nevery = "1d"\n'


class Taken(ApiRequest):
    """Note that a request was processed, without answering it."""

    is_processed = False

    def process(self) -> None:
        self.is_processed = True


def taken(kind: bytes, body: bytes, target: bytes = b"/x?agent=web-1&agent=web-2", most: int = MAX_BODY) -> Taken:
    channel: Any = DummyChannel()
    channel._path = target
    request = Taken(channel)
    request.most_body = lambda request: most
    request.requestHeaders.setRawHeaders(b"content-type", [kind])
    request.gotLength(len(body))
    request.handleContentChunk(body)
    request.requestReceived(b"POST", target, b"HTTP/1.1")
    return request


MULTIPART = b'--b\r\nContent-Disposition: form-data; name="agent"\r\n\r\ndb-1\r\n--b--\r\n'


@pytest.mark.parametrize(
    ("kind", "body"),
    [(FORM, b"agent=db-1&dry_run=true"), (b"multipart/form-data; boundary=b", MULTIPART),
     (b"multipart/form-data", b"--"), (b"application/json", b"{}"), (FORM, b"%" * 100)],
)  # fmt: skip
def test_a_body_adds_nothing_to_the_query(kind: bytes, body: bytes) -> None:
    """A body adds no parameters to those of the query, whatever its type."""
    request = taken(kind, body)
    assert (request.is_processed, request.args) == (True, {b"agent": [b"web-1", b"web-2"]})
    assert (request.path, request.body(), request.content.tell()) == (b"/x", body, 0)


def test_a_body_beyond_what_its_head_allows() -> None:
    """A body above the limit of its head is refused with 413 and never processed."""
    assert taken(FORM, b"x" * 100, most=100).is_processed
    refused = taken(FORM, b"x" * 101, most=100)
    assert not refused.is_processed and refused.body() == b""
    said = refused.channel.transport.written.getvalue()
    assert said.count(b"HTTP/1.1 413 ") == 1
    assert b"at most 100 bytes, and one with a token or a key in its head 8388608" in said


def clients(*addresses: str) -> tuple[Clients, list[Client]]:
    held = Clients()
    made = [Client(address) for address in addresses]
    assert all(held.add(each) for each in made)
    return held, made


def test_bodies_of_one_address() -> None:
    """Bodies of strangers at one address share a limit; one that is answered, gone or let in makes room."""
    held, (one, two, other) = clients("192.0.2.1", "192.0.2.1", "192.0.2.2")
    assert one.keep(KEPT_OF_ADDRESS - 5) and two.keep(5)
    assert not two.keep(1) and other.keep(KEPT_OF_ADDRESS) and not other.keep(1)
    one.drop_body()
    assert two.keep(KEPT_OF_ADDRESS - 5) and not one.keep(1)
    held.remove(two)
    assert one.keep(KEPT_OF_ADDRESS) and not one.keep(1)
    one.is_let_in = True
    assert one.keep(MAX_BODY)


def test_bodies_of_all_strangers() -> None:
    """Bodies of all strangers share a limit, from however many addresses."""
    most = KEPT // KEPT_OF_ADDRESS
    _, made = clients(*(f"192.0.{at}.1" for at in range(most + 1)))
    assert all(each.keep(KEPT_OF_ADDRESS) for each in made[:most])
    assert not made[most].keep(1)
    made[0].drop_body()
    assert made[most].keep(KEPT_OF_ADDRESS) and not made[0].keep(1)


@pytest.mark.parametrize(
    ("body", "fields"),
    [(b"", {}), (b"a=1&b=%32&a=3&c", {"a": b"1", "b": b"%32", "c": b""}),
     (b"a" * 200 + b"=1", {"a" * 100: b"1"}), (b"&".join([b"a=1"] * MOST_FIELDS), {"a": b"1"}),
     (b"&".join([b"a=1"] * (MOST_FIELDS + 1)), {})],
)  # fmt: skip
def test_fields_are_not_decoded(body: bytes, fields: dict[str, bytes]) -> None:
    """A form's fields are not decoded, the first of each name counts, and a form of too many has none."""
    assert read_raw_form(taken(FORM, body)) == fields
    assert read_raw_form(taken(b"text/plain", body)) == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [(b"a+b%20%C3%A9", "a b é"), (b"%ff%zz%", "\ufffd%zz%"), (b"%61" * 10, "a" * 10), (b"%61" * 11, None),
     (b"a" * 11, None), (b"a" * 31, None)],
)  # fmt: skip
def test_a_value_has_a_length(value: bytes, text: str | None) -> None:
    """A form's value has a limit on its decoded bytes."""
    assert decoded(value, 10) == text


# ---------------------------------------------------------------------------------------------- a running Helen


@pytest.fixture(scope="module")
def web(fleet: Running) -> Iterator[Web]:
    assert ask(fleet, "PUT", "/api/v1/passive", {"text": FILE}).status == 200
    wait_until(lambda: len(ask(fleet, "GET", "/api/v1/passive").json["checks"]) == 2, "declarations")
    yield Web(fleet)
    assert ask(fleet, "PUT", "/api/v1/passive", {"text": None}).status == 200


def announce(web: Web, target: str, length: int, *headers: str) -> int:
    """Send the head of a POST alone; return the status, or 0 if the body is waited for."""
    with socket.create_connection((web.host, int(web.port)), 20.0) as client:
        head = [f"POST {target} HTTP/1.1", "host: localhost", f"content-length: {length}", "expect: 100-continue"]
        client.sendall("\r\n".join([*head, *headers, "", ""]).encode())
        status = int(client.recv(4_096).split(b" ")[1])
        return 0 if status == 100 else status


@pytest.mark.integration
def test_who_may_send_much(fleet: Running, web: Web) -> None:
    """A token, a host's key or a ping's URL in the head allows a large body, and a stranger's is refused before it
    comes."""
    key = ask(fleet, "GET", "/api/v1/passive/keys/nas").json["key"]
    ping = ask(fleet, "GET", "/api/v1/passive/pings/pings/nightly").json
    results, action = "/api/v1/passive/results", "/v1/actions/process-check-result"
    for target in (
        results,
        action,
        "/api/v2/alerts",
        "/login",
        "/api/v1/acks",
        "/nothing",
        "/ping/x",
        "/ping/x/nightly",
    ):
        assert announce(web, target, STRANGER_BODY) == 0, target
        assert announce(web, target, STRANGER_BODY + 1) == 413, target
        assert announce(web, target, STRANGER_BODY + 1, "authorization: Bearer hs_wrong", "cookie: x=y") == 413, target
    for target, shown in (
        (results, f"authorization: Bearer {key}"), (action, f"authorization: Bearer {key}"),
        ("/api/v1/push", f"authorization: Bearer {web.token}"), (ping["path"], "x: y"), (ping["named"], "x: y"),
        (f"{ping['path']}/fail", "x: y"), ("/nrdp", "x: y"), ("/nrdp/?cmd=submitcheck", "x: y"),
    ):  # fmt: skip
        assert announce(web, target, MAX_BODY, shown) == 0, target
        assert announce(web, target, MAX_BODY + 1, shown) == 413, target


@pytest.mark.integration
def test_nrdp_reads_results_of_those_who_have_a_key(fleet: Running, web: Web) -> None:
    """NRDP decodes results only with a good key, and reads them up to their limit."""
    key = ask(fleet, "GET", "/api/v1/passive/keys/nas").json["key"]
    result = {
        "checkresult": {"type": "service"},
        "hostname": "nas",
        "servicename": "smart",
        "state": 0,
        "output": "a b&c",
    }

    def say(token: str, data: str) -> tuple[int, str]:
        form = urlencode({"cmd": "submitcheck", "token": token, "JSONDATA": data}).encode()
        answer = web.ask("POST", "/nrdp/", form, authorization="", content_type=FORM.decode())
        return answer.json["result"]["status"], answer.json["result"]["message"]

    good = json.dumps({"checkresults": [result]})
    assert say("wrong", "no JSON") == (-1, "BAD TOKEN: it is not one of any host")
    assert say("", "no JSON") == (-1, "NO TOKEN: `helen passive key HOST` prints one")
    assert say("x" * 1_001, good) == (-1, "NO TOKEN: `helen passive key HOST` prints one")
    assert say(key, "no JSON")[1].startswith("BAD JSON")
    assert say(key, good + " " * (MAX_NRDP - len(good))) == (0, "OK")
    assert (
        say(key, good + " " * (MAX_NRDP + 1 - len(good)))[1]
        == f"BAD DATA: at most {MAX_NRDP} bytes come in one request"
    )
    kept = [each for each in ask(fleet, "GET", "/api/v1/results?on=nas").json["results"] if each["check_id"] == "smart"]
    assert [each["summary"] for each in kept] == ["a b&c"]


NRDP = urlencode({"cmd": "submitcheck", "token": "hs_wrong", "JSONDATA": "{}"}).encode()
RESULT = b'{"host": "nas", "check": "smart", "status": 0}'
ALERT = b'[{"labels": {"agent": "nas", "alertname": "smart"}}]'


@pytest.mark.integration
@pytest.mark.parametrize(
    ("place", "method", "target", "body"),
    [(1, "GET", "/api/v1/status", None), (2, "GET", "/livez", None), (3, "POST", "/api/v1/passive/results", RESULT),
     (4, "POST", "/nrdp/", NRDP), (5, "POST", "/api/v2/alerts", ALERT)],
)  # fmt: skip
def test_wrong_tokens_are_counted_everywhere(
    web: Web, place: int, method: str, target: str, body: bytes | None
) -> None:
    """Wrong tokens are counted for each address by every route, and a good token from there works all the same."""

    def say(token: str, *asked: Any) -> http.client.HTTPResponse:
        client = http.client.HTTPConnection(web.host, int(web.port), 20.0, source_address=(f"127.0.7.{place}", 0))
        kind = FORM.decode() if body is NRDP else "application/json"
        try:
            client.request(*asked, {"authorization": f"Bearer {token}", "content-type": kind})
            answer = client.getresponse()
            answer.read()
            return answer
        finally:
            client.close()

    seen: list[int] = []
    while len(seen) < 2_000 and "retry-after" not in (answer := say("no", method, target, body)).headers:
        seen.append(answer.status)
    assert len(seen) >= FREE_TOKENS and set(seen) == {200 if body is NRDP else 401}
    assert answer.status == (200 if body is NRDP else 429) and 1 <= int(answer.headers["retry-after"]) <= 2
    assert say(web.token, "GET", "/api/v1/status", None).status == 200
