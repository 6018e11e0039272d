"""Tests patterns and cursors that callers invent: Helen refuses expensive ones, and never fails (14)."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from helen_running import Running
from web_client import Web, ask

from groundwork.globs import LONGEST, MOST_LETTERS, MOST_PATTERNS
from helen.web.cursors import GREATEST, Page, read_page
from helen.web.problems import Problem

TOO_MANY = "&".join(["on=a*"] * (MOST_PATTERNS + 1))
TOO_LONG = f"on={'*a' * LONGEST}"
TOO_MUCH = "&".join([f"on={'*a' * (LONGEST // 2)}"] * (MOST_LETTERS // LONGEST + 1))


@pytest.fixture(scope="module")
def helen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("patterns")).up()
    try:
        yield running
    finally:
        running.end()


@pytest.mark.parametrize("query", [TOO_MANY, TOO_LONG, TOO_MUCH])
@pytest.mark.parametrize("path", ["agents", "results", "renewals", "events", "/metrics"])
def test_patterns_of_a_query(helen: Running, path: str, query: str) -> None:
    """A query with too many or too long patterns is refused: one of 16 KB held the reactor for 90 ms."""
    where = path if path.startswith("/") else f"/api/v1/{path}"
    status, _, detail = Web(helen).ask("GET", f"{where}?{query}").problem
    assert (status, detail.startswith("`on` has ")) == (400, True)


def test_checks_of_a_stream_are_patterns_too(helen: Running) -> None:
    """Checks of a stream are patterns, too, and a long one is refused."""
    assert Web(helen).ask("GET", f"/api/v1/events?check={'*a' * LONGEST}").problem[0] == 400


@pytest.mark.parametrize("pattern", ["*a" * 500_000, ["*a*"] * (MOST_PATTERNS + 1)])
@pytest.mark.parametrize(("path", "more"), [
    ("runs", {"check": "pulse"}), ("jobs", {"check": "pulse"}), ("renewals/tokens", {}),
])  # fmt: skip
def test_patterns_of_a_body(helen: Running, path: str, more: dict[str, Any], pattern: Any) -> None:
    """A body with too many or too long patterns is refused: a megabyte of wildcards took seven seconds."""
    answer = ask(helen, "POST", f"/api/v1/{path}", {"on": pattern, **more})
    assert answer.problem[0] == 400
    assert answer.problem[2].startswith("`on` has ")


@pytest.mark.parametrize("field", ["agents", "checks"])
def test_patterns_of_a_window(helen: Running, field: str) -> None:
    """A window takes a long list of hosts, but few wildcards."""
    now = time.time()
    body = {"kind": "downtime", "begin": now, "until": now + 60, "author": "a", "comment": "c", "dry_run": True}
    refused = ask(helen, "POST", "/api/v1/windows", body | {field: ["*a*"] * (MOST_PATTERNS + 1)})
    assert refused.problem[:2] == (400, "window refused")
    assert ask(helen, "POST", "/api/v1/windows", body | {field: [f"web-{n}" for n in range(1_000)]}).status == 200


def test_a_filter_of_wildcards_fits_nothing(helen: Running) -> None:
    """A filter of wildcards has a limit of its own and is answered."""
    answer = Web(helen).ask("GET", f"/api/v1/rows?all=1&filter=agent:{'*a' * 450}")
    assert (answer.status, answer.json["rows"]) == (200, [])


# ---------------------------------------------------------------------------------------------- cursors


def cursor(*place: Any) -> str:
    """Return the cursor of a place, with the mark of the list `x`."""
    made = read_page(request(), "x", (int,)).next(place)
    return made


def request(text: str | None = None) -> Any:
    return SimpleNamespace(args={} if text is None else {b"cursor": [text.encode()]})


@pytest.mark.parametrize(("kind", "value"), [
    (int, GREATEST), (int, -GREATEST - 1), (int, 10**300), (int, True), (int, 1.0), (int, "1"), (int, None),
    (str, "\ud800"), (str, "a\udfff"), (str, 1), (float, True), (float, "1"), (bool, 1),
])  # fmt: skip
def test_a_place_that_no_list_has(kind: type, value: Any) -> None:
    """A cursor with a place that no list has is refused, since the database would fail on it."""
    with pytest.raises(Problem, match="`cursor` is none of ours"):
        read_page(request(cursor(value)), "x", (kind,))


@pytest.mark.parametrize(("kind", "value"), [
    (int, GREATEST - 1), (int, -GREATEST), (str, "grüße"), (str, "\U0001f600"), (float, 1), (float, 1.5), (bool, True),
])  # fmt: skip
def test_a_place_that_a_list_may_have(kind: type, value: Any) -> None:
    """A cursor with a place within the limits is accepted."""
    assert read_page(request(cursor(value)), "x", (kind,)).after == (value,)


def test_the_audit_behind_a_place_of_no_number(helen: Running) -> None:
    """A cursor of the audit with a number beyond the database's is refused, and the largest one is answered."""
    for number in range(3):
        ask(helen, "POST", "/api/v1/web-tokens", {"name": f"t{number}", "scopes": ["read"]})
    following = ask(helen, "GET", "/api/v1/audit?limit=1").json["next"]
    mark, _ = json.loads(base64.urlsafe_b64decode(following + "=" * (-len(following) % 4)))
    for number in (2**63, -(2**63) - 1, 10**400):
        made = Page(1, None, mark).next((number,))
        assert Web(helen).ask("GET", f"/api/v1/audit?limit=1&cursor={made}").problem[0] == 400
    assert ask(helen, "GET", f"/api/v1/audit?limit=1&cursor={Page(1, None, mark).next((2**63 - 1,))}").status == 200
