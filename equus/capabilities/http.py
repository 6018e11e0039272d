"""The capability `http`: one request and its answer, under one time limit, a body limit and the host's policy.

No proxy, no cookies, no cache, no keep-alive. Each redirect is resolved and judged by the policy as the first URL was.
"""

import json
from typing import Any

from attrs import field, frozen

from equus.capabilities.address import endpoints
from equus.capabilities.calls import CallFailed, Context, Fields, Perform, bad
from equus.capabilities.http_message import Head, Source, Target, check_headers, follow, parse_head, parse_url, request
from equus.capabilities.stream import Stream
from equus.capabilities.tls_context import trusting_anyone, verifying

LONGEST_SECONDS = 60.0
BODY_LIMIT = 1_048_576  # a blob of the protocol
MOST_REDIRECTS = 10
MOST_HEADERS = 50
# 100 Continue and 103 Early Hints come before the answer; a server that sends more of them is playing.
MOST_INTERIM = 5
CA_BYTES = 1_048_576
METHODS = ("GET", "HEAD", "POST", "PUT", "OPTIONS", "PATCH", "DELETE")
_REDIRECTS = (301, 302, 303, 307, 308)
_SECRETS = ("authorization", "cookie", "proxy-authorization")


@frozen
class Order:
    """One call's arguments, checked."""

    method: str
    target: Target
    headers: dict[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    seconds: float
    redirects: int
    limit: int
    verify: bool
    ca: str | None = field(repr=False)
    server_name: str | None
    json: bool


def _order(args: list[Any]) -> Order:
    fields = Fields("host.http", args)
    headers, body = fields.take("headers") or {}, fields.take("body")
    if not isinstance(headers, dict) or len(headers) > MOST_HEADERS:
        raise bad(f"host.http: headers must be a table of at most {MOST_HEADERS} texts")
    if body is not None and not isinstance(body, str):
        raise bad("host.http: body must be a text")
    order = Order(
        method=fields.choice("method", "GET", METHODS) or "GET",
        target=parse_url(fields.text("url", limit=8192)),
        headers=check_headers(headers),
        body=None if body is None else body.encode("utf-8", "surrogateescape"),
        seconds=fields.number("timeout", 10.0, 0.01, LONGEST_SECONDS),
        redirects=fields.whole("redirects", 3, 0, MOST_REDIRECTS),
        limit=fields.whole("limit", BODY_LIMIT, 0, BODY_LIMIT),
        verify=fields.flag("verify", True),
        ca=fields.optional_text("ca", CA_BYTES),
        server_name=fields.optional_text("server_name", 253),
        json=fields.flag("json", False),
    )
    fields.done()
    return order


def http(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Ask, follow, answer."""
    order = _order(args)
    timer = Stream(context.seconds_left(order.seconds))
    method, target, headers, body = order.method, order.target, order.headers, order.body
    followed = 0
    while True:
        answer, head = _exchange(order, method, target, headers, body, policy, context, timer)
        location = head.headers.get("location")
        if head.status not in _REDIRECTS or location is None or followed >= order.redirects:
            break
        followed += 1
        before, target = target, follow(target, location)
        if (before.scheme, before.authority) != (target.scheme, target.authority):
            headers = {name: value for name, value in headers.items() if name not in (*_SECRETS, "host")}
        if head.status == 303 or (head.status in (301, 302) and method == "POST"):
            method, body = ("HEAD" if method == "HEAD" else "GET"), None
    answer |= {"url": target.url, "redirects": followed, "seconds": timer.elapsed()}
    return answer | ({"json": _json(answer)} if order.json else {})


def _exchange(
    order: Order,
    method: str,
    target: Target,
    headers: dict[str, str],
    body: bytes | None,
    policy: Any,
    context: Context,
    timer: Stream,
) -> tuple[dict[str, Any], Head]:
    candidates = endpoints("http", target.host, target.port, policy, context)
    try:
        seconds = timer.left()
    except TimeoutError:
        raise CallFailed("timeout", f"{target.url} did not answer within {order.seconds:g} s") from None
    with Stream(seconds) as stream:
        endpoint = stream.connect(candidates)
        times = {"connect_seconds": stream.elapsed()}
        if target.scheme == "https":
            settings = verifying(order.ca) if order.verify else trusting_anyone()
            stream.start_tls(settings, order.server_name or target.host)
            times["tls_seconds"] = round(stream.elapsed() - times["connect_seconds"], 6)
        stream.send(request(method, target, headers, body))
        source = Source(stream.receive)
        head = _head(source)
        times["first_byte_seconds"] = stream.elapsed()
        data, truncated = _body(source, head, method, order.limit)
    answer = {
        "status": head.status, "reason": head.reason, "address": endpoint.address, "http_version": head.version,
        "headers": head.headers, "body": data.decode("utf-8", "replace"), "body_bytes": len(data),
        "truncated": truncated, **times,
    }  # fmt: skip
    return answer, head


def _head(source: Source) -> Head:
    for _ in range(MOST_INTERIM + 1):
        head = parse_head(source.head())
        if head.status >= 200:
            return head
    raise CallFailed("protocol", "the server sends interim answers only")


def _body(source: Source, head: Head, method: str, limit: int) -> tuple[bytes, bool]:
    """Up to `limit` bytes, and whether there was more."""
    if method == "HEAD" or head.status in (204, 304):
        return b"", False
    data = bytearray()
    for piece in source.body(head):
        data += piece
        if len(data) > limit:
            return bytes(data[:limit]), True
    return bytes(data), False


def _json(answer: dict[str, Any]) -> Any:
    try:
        return json.loads(answer["body"], parse_constant=_no_number)
    except (ValueError, RecursionError):
        cut = ", which was cut at the limit" if answer["truncated"] else ""
        raise CallFailed("protocol", f"the body of {answer['url']}{cut} is not JSON") from None


def _no_number(text: str) -> None:
    raise ValueError(text)  # NaN and Infinity are no JSON


CALLS: dict[str, Perform] = {"http": http}
