"""Makes three days of a small fleet, always the same: the history behind the answers in docs/questions.rst and the
notebook.

web1, web2 and db1 have a disk that fills, a network counter and a web page each; web2's page fails for forty minutes,
and db1's link was cut for three hours, after which its spool came.
"""

from __future__ import annotations

from typing import Any

AGENTS, DAYS, STEP = ("db1", "web1", "web2"), 3, 600.0
BEGIN = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC
DAY = 86_400.0
CUT = (BEGIN + DAY + 6 * 3600, BEGIN + DAY + 9 * 3600)  # of db1's link
OUTAGE = (BEGIN + 2 * DAY + 14 * 3600, BEGIN + 2 * DAY + 14 * 3600 + 2400)  # of web2's page


def write(helen: Any) -> None:
    """Write segments of six hours each, and the changes of the outage."""
    for begin in range(round(BEGIN), round(BEGIN + DAYS * DAY), 6 * 3600):
        records = []
        for run in range(36):
            for number, agent in enumerate(AGENTS):
                at = begin + run * STEP + number * 10
                received = CUT[1] if agent == "db1" and CUT[0] <= at < CUT[1] else at
                for check, document in documents(agent, number, at).items():
                    records.append(helen.result(f"{agent}/{check}", received, started=at, **document))
        helen.segment(*records)
    for at, was, now, why in ((OUTAGE[0], "ok", "critical", "HTTP 503"), (OUTAGE[1], "critical", "ok", "HTTP 200")):
        document = {"at": at, "was": {"status": was, "attempt": 0}, "now": {"status": now, "attempt": 0}}
        helen.segment(helen.change("transition", at, "web2/page", summary=why, **document))


def documents(agent: str, number: int, at: float) -> dict[str, dict[str, Any]]:
    """Return what each check says at a time, by its id."""
    since = (at - BEGIN) / DAY
    hour = at % DAY / 3600
    busy = 3.0 if 8 <= hour < 18 else 1.0
    failed = agent == "web2" and OUTAGE[0] <= at < OUTAGE[1]
    used = round(50 + number * 10 + since * (number + 1) * 2, 2)
    sent = round(since * 86_400 * 1000 * (number + 1))
    return {
        "disk": {"took_ms": 4.0, "cpu_ms": 1.0, "metrics": [
            {"name": "used", "value": used, "unit": "%", "labels": {"path": "/"}, "crit": "90"}]},
        "net": {"took_ms": 2.0, "cpu_ms": 0.5, "metrics": [
            {"name": "sent", "value": sent, "unit": "B", "kind": "counter"}]},
        "page": {"status": "critical" if failed else "ok", "took_ms": 20.0 * busy, "cpu_ms": 3.0,
                 "summary": "HTTP 503" if failed else "HTTP 200"},
    }  # fmt: skip
