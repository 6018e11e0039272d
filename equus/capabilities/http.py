"""Perform the capability `http`: one request and its answer, under one time limit, a body limit and the policy.

No proxy, no cookies, no cache, no keep-alive. Each redirect is resolved and judged by the policy as the first URL was.
"""

from typing import Any

from attrs import field, frozen

from equus.capabilities.address import endpoints
from equus.capabilities.calls import CallFailed, Context, Fields, Perform, bad, json_value
from equus.capabilities.http_body import read_body
from equus.capabilities.http_message import Exchange, Head, Target, check_headers, follow, parse_url
from equus.capabilities.streams.stream import Stream
from equus.capabilities.streams.tls_context import not_verifying, verifying
from equus.secrets.redaction import Redaction

LONGEST_SECONDS = 60.0
BODY_LIMIT = 1_048_576  # a blob of the protocol
MOST_REDIRECTS = 10
MOST_HEADERS = 50
# 100 Continue and 103 Early Hints come before the answer; no honest server sends more of them.
MOST_INTERIM = 5
CA_BYTES = 1_048_576
METHODS = ("GET", "HEAD", "POST", "PUT", "OPTIONS", "PATCH", "DELETE")
_REDIRECTS = (301, 302, 303, 307, 308)
_SECRETS = ("authorization", "cookie", "proxy-authorization")


@frozen
class Arguments:
    """Hold the checked arguments of one call."""

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


def _arguments(args: list[Any]) -> Arguments:
    fields = Fields("host.http", args)
    headers, body = fields.take("headers") or {}, fields.take("body")
    if not isinstance(headers, dict) or len(headers) > MOST_HEADERS:
        raise bad(f"host.http: headers must be a table of at most {MOST_HEADERS} texts")
    if body is not None and not isinstance(body, str):
        raise bad("host.http: body must be a text")
    arguments = Arguments(
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
    return arguments


def http(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.http: send the request, follow redirects, return the last answer. Raises CallFailed if none came."""
    arguments = _arguments(args)
    timer = Stream(context.seconds_left(arguments.seconds))
    method, target, headers, body = arguments.method, arguments.target, arguments.headers, arguments.body
    followed = 0
    while True:
        answer, head = _exchange(arguments, method, target, headers, body, policy, context, timer)
        location = head.location
        if head.status not in _REDIRECTS or location is None or followed >= arguments.redirects:
            break
        followed += 1
        before, target = target, follow(target, location)
        if head.status == 303 or (head.status in (301, 302) and method == "POST"):
            method, body = ("HEAD" if method == "HEAD" else "GET"), None
        if (before.scheme, before.authority) != (target.scheme, target.authority):
            headers = _for_another_host(headers, body, context)
    answer |= {"url": target.url, "redirects": followed, "seconds": timer.elapsed()}
    return answer | ({"json": _json(answer)} if arguments.json else {})


def _for_another_host(headers: dict[str, str], body: bytes | None, context: Context) -> dict[str, str]:
    """Return the headers that a redirect takes along to another host: none that holds a secret, whatever its name.

    Raises CallFailed("denied") if the body does, because without its body it would be another request.
    """
    hide = Redaction(context.secrets)
    text = (body or b"").decode("utf-8", "surrogateescape")
    if hide.text(text) != text:
        raise CallFailed("denied", "a secret in the body of a request never follows a redirect to another host")
    kept = {name: value for name, value in headers.items() if name not in (*_SECRETS, "host")}
    return {name: value for name, value in kept.items() if hide.text(value) == value}


def _exchange(
    arguments: Arguments,
    method: str,
    target: Target,
    headers: dict[str, str],
    body: bytes | None,
    policy: Any,
    context: Context,
    timer: Stream,
) -> tuple[dict[str, Any], Head]:
    try:
        candidates = endpoints("http", target.host, target.port, policy, context, timer.left())
        seconds = timer.left()
    except TimeoutError:
        raise CallFailed("timeout", f"{target.url} did not answer within {arguments.seconds:g} s") from None
    with Stream(seconds) as stream:
        endpoint = stream.connect(candidates)
        times = {"connect_seconds": stream.elapsed()}
        if target.scheme == "https":
            settings = verifying(arguments.ca) if arguments.verify else not_verifying()
            stream.start_tls(settings, arguments.server_name or target.host)
            times["tls_seconds"] = round(stream.elapsed() - times["connect_seconds"], 6)
        exchange = Exchange(stream.receive)
        stream.send(exchange.request(method, target, headers, body))
        head = _final_head(exchange)
        times["first_byte_seconds"] = stream.elapsed()
        data, truncated = _body(exchange, arguments.limit)
    text, fault = read_body(head.headers, data, truncated, arguments.limit)
    answer = {
        "status": head.status, "reason": head.reason, "address": endpoint.address, "http_version": head.version,
        "headers": head.headers, "body": text, "body_bytes": len(data),
        "truncated": truncated, **times,
    }  # fmt: skip
    if fault or "content-encoding" in head.headers:
        answer["body_fault"] = fault
    return answer, head


def _final_head(exchange: Exchange) -> Head:
    for _ in range(MOST_INTERIM + 1):
        head = exchange.head()
        if head.status >= 200:
            return head
    raise CallFailed("protocol", "the server sends interim answers only")


def _body(exchange: Exchange, limit: int) -> tuple[bytes, bool]:
    """Return up to `limit` bytes of the body, and True if there was more."""
    data = bytearray()
    for piece in exchange.body():
        data += piece
        if len(data) > limit:
            return bytes(data[:limit]), True
    return bytes(data), False


def _json(answer: dict[str, Any]) -> Any:
    if answer.get("body_fault"):
        raise CallFailed("unsupported", f"the body of {answer['url']} cannot be read: {answer['body_fault']}")
    return json_value(answer["body"], f"the body of {answer['url']}")


CALLS: dict[str, Perform] = {"http": http}
