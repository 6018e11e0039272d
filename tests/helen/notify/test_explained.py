"""Tests that the answer of `helen explain` has the outcome of each decision, in the order of decisions."""

from __future__ import annotations

import json
from typing import Any

from helen.evaluation.replay import HistoryRecord
from helen.explain.explain import Facts, explain
from helen.states.model import Rule


def test_notices_are_explained() -> None:
    """Notices are explained from the last decision to tell on, each with its channel, its rule and the other side's
    words.
    """
    told = {"number": 1, "at": 10.0, "action": "notify", "what": "problem", "status": "critical", "why": "so"}
    place = {"what": "problem", "channel": "hook", "rule": "night"}
    said: list[tuple[str, dict[str, Any]]] = [
        ("notice", {"action": "nobody", "what": "problem", "why": "there is no notifications.toml"}),
        ("decision", told | {"reasons": []}),
        ("notice", {"action": "grouped", **place, "why": "goes out in 10 s"}),
        ("notice", {"action": "failed", **place, "why": "500 no", "tries": 1}),
        ("notice", {"action": "sent", **place, "why": "200 OK", "tries": 3}),
        ("notice", {"action": "dead", **place, "why": "500 no", "tries": 20}),
    ]
    past = [
        HistoryRecord(at, 10.0 + at, kind, "a", "c", document=json.dumps(each)) for at, (kind, each) in enumerate(said)
    ]
    lines = explain(Facts("a", "c", 100.0, None, Rule(), changes=past))["why_no_alert"]
    assert [(line["at"], line["text"]) for line in lines] == [
        (10.0, "due: problem, critical (so)"),
        (12.0, "hook (rule night): problem grouped: goes out in 10 s"),
        (13.0, "hook (rule night): problem failed, it is tried again: 500 no"),
        (14.0, "hook (rule night): problem sent, try 3: 200 OK"),
        (15.0, "hook (rule night): problem given up, try 20: 500 no"),
    ]
    [first] = explain(Facts("a", "c", 100.0, None, Rule(), changes=past[:1]))["why_no_alert"]
    assert first["text"] == "nobody was told: there is no notifications.toml"
