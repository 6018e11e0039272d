"""Tests the rows of `helen top`: their content from results and states, filters and orders."""

from __future__ import annotations

from typing import Any

import pytest

from helen.cli.top.rows import Rows, Update
from helen.web.rows.filters import read_filter
from helen.web.rows.row import LINK

NOW = 1_000.0


def result(check: str, status: str = "ok", agent: str = "web-1", **more: Any) -> dict[str, Any]:
    made = {"agent": agent, "check_id": check, "status": status, "summary": f"{check} {status}", "received": 990.0}
    return made | {"since": 900.0, "reason": None, "metrics": [], "kept": False} | more


def state(check: str, status: str, agent: str = "web-1", **more: Any) -> dict[str, Any]:
    made = {"agent": agent, "check_id": check, "status": status, "kind": "hard", "since": 950.0, "reason": None}
    made |= {"attempt": 0, "attempts": 3, "acknowledged": None, "held_by": [], "flapping": False}
    return made | more


def update(*results: Any, states: Any = (), labels: Any = None, whole: bool = False) -> Update:
    return Update({"started": 1.0}, tuple(results), tuple(states), labels, whole)


def shown(rows: Rows, text: str = "", sort: str = "problems") -> list[str]:
    return [f"{row.agent}/{row.check}" for row in rows.view(read_filter(text), sort, NOW)]


def test_a_row_of_both() -> None:
    """A row has the judged state beside the summary of its check."""
    rows = Rows()
    ack = {"owner": "ann", "comment": "", "until": None, "sticky": False}
    holds = [{"kind": "downtime", "ref": "x", "detail": ""}, {"kind": "dependency", "ref": "y", "detail": ""}]
    rows.take(
        update(
            result("disk", "critical"), result("load"),
            states=[state("disk", "critical", kind="soft", attempt=1, acknowledged=ack, held_by=holds, flapping=True)],
            labels={"web-1": {"role": "web"}},
        )
    )  # fmt: skip
    row = rows.rows["web-1", "disk"]
    assert (row.status, row.soft, row.marks, row.since, row.heard, row.summary) == (
        "critical", "1/3", "ADPF", 950.0, 990.0, "disk critical",
    )  # fmt: skip
    assert (row.labels, rows.rows["web-1", "load"].soft) == ({"role": "web"}, "")
    assert rows.counts() == {"ok": 1, "warning": 0, "critical": 1, "unknown": 0}


def test_rows_of_one_of_them() -> None:
    """A row without a result says that its agent is away, and a stale one repeats its last summary."""
    rows = Rows()
    rows.take(
        update(
            result("disk", "warning"), result("old", kept=True, summary=""),
            states=[state(LINK, "unknown", reason="agent-away"), state("disk", "unknown", reason="stale")],
        )
    )  # fmt: skip
    assert rows.rows["web-1", LINK].summary == "the agent is away"
    assert rows.rows["web-1", "disk"].summary == "no result for too long; before: disk warning"
    assert rows.rows["web-1", "old"].summary == "kept from before Helen's start"


def test_updates() -> None:
    """New results replace old ones, a state that is gone means ok, and a whole update drops missing rows."""
    rows = Rows()
    rows.take(update(result("disk", "critical"), result("load"), states=[state("disk", "critical")]))
    rows.take(update(result("disk", "ok")))
    assert (rows.rows["web-1", "disk"].status, len(rows.rows)) == ("ok", 2)
    rows.take(update(states=[state("load", "critical")]))
    assert rows.rows["web-1", "load"].status == "critical"
    rows.take(update(states=[]))
    assert rows.rows["web-1", "load"].status == "ok"
    rows.take(update(labels={"web-1": {"role": "db"}}))
    assert shown(rows, "role=db") == ["web-1/disk", "web-1/load"]
    rows.take(update(result("load"), whole=True))
    assert list(rows.rows) == [("web-1", "load")]


def fleet() -> Rows:
    rows = Rows()
    rows.take(
        update(
            result("disk", "critical", since=100.0), result("load", "warning", "web-2", since=990.0),
            result("net", "critical", "db-1", since=950.0), result("mem", agent="db-1", received=10.0),
            result("swap", "unknown", "db-1", reason="timeout"),
            states=[
                state("disk", "critical", since=100.0, acknowledged={"owner": "a", "comment": "", "until": None}),
                state("net", "critical", "db-1", since=950.0),
                state("load", "warning", "web-2", kind="soft", attempt=2, since=990.0),
                state("swap", "unknown", "db-1", reason="timeout", flapping=True),
            ],
            labels={"db-1": {"role": "db"}, "web-1": {"role": "web"}},
        )
    )  # fmt: skip
    return rows


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "db-1/net web-1/disk db-1/swap web-2/load db-1/mem"),
        ("state:crit", "db-1/net web-1/disk"),
        ("state:warn,unk", "db-1/swap web-2/load"),
        ("state:problem", "db-1/net web-1/disk db-1/swap web-2/load"),
        ("agent:web-*", "web-1/disk web-2/load"),
        ("check:*s*", "web-1/disk db-1/swap"),
        ("role=d*", "db-1/net db-1/swap db-1/mem"),
        ("since:1m", "db-1/net db-1/swap web-2/load"),
        ("is:open", "db-1/net db-1/swap web-2/load"),
        ("is:acked", "web-1/disk"),
        ("is:soft", "web-2/load"),
        ("is:flapping", "db-1/swap"),
        ("is:held is:away", ""),
        ("is:stale", ""),
        ("LOAD warn", "web-2/load"),
        ("agent:db-1 state:ok", "db-1/mem"),
        ("x:y", ""),
    ],
)
def test_filters(text: str, expected: str) -> None:
    """A filter selects rows for which all its words hold; a word without a known key is looked for as text."""
    assert shown(fleet(), text) == expected.split()


@pytest.mark.parametrize(
    ("text", "why"),
    [("state:x", "there are ok"), ("state:", "there are ok"), ("is:x", "soft"), ("since:x", "not a duration")],
)
def test_filters_that_are_none(text: str, why: str) -> None:
    """A wrong filter raises ValueError with the possible values."""
    with pytest.raises(ValueError, match=why):
        read_filter(text)


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("agent", "db-1/mem db-1/net db-1/swap web-1/disk web-2/load"),
        ("check", "web-1/disk web-2/load db-1/mem db-1/net db-1/swap"),
        ("since", "web-2/load db-1/net db-1/swap db-1/mem web-1/disk"),
        ("heard", "db-1/mem db-1/net db-1/swap web-1/disk web-2/load"),
    ],
)
def test_orders(sort: str, expected: str) -> None:
    """Each order of rows is the same for the same rows."""
    assert shown(fleet(), sort=sort) == expected.split()
