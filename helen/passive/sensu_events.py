"""Read events as Sensu's agents take them at `POST /events`, into submissions. Pure.

    {"check": {"metadata": {"name": "nightly"}, "status": 1, "output": "slow", "ttl": 90000},
     "entity": {"metadata": {"name": "nas"}}, "metrics": {"points": [{"name": "took", "value": 5, "tags": []}]}}

An agent of Sensu knows whose event it is, and Helen doesn't: the event names its entity, or the address does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helen.passive.foreign_formats import LONGEST_TTL, exit_status, plugin_document
from helen.passive.submission import NoSubmission, Submission

MAX_POINTS = 1_000  # of one event
MAX_TAGS = 20  # of one point


def read_event(body: Mapping[str, Any], entity: str | None, given_id: str | None) -> Submission:
    """Return the submission of an event; `entity` is the one that the address names.

    Raises NoSubmission with a sentence if it is no event of a check.
    """
    check = body.get("check")
    if not isinstance(check, Mapping):
        raise NoSubmission("an event has a `check`, an object with metadata.name, status and output")
    name = _name(check)
    if name is None:
        raise NoSubmission("check.metadata.name is the name of the check, a text")
    whose = _name(body.get("entity")) or _text(check.get("proxy_entity_name")) or entity
    if whose is None:
        raise NoSubmission("whose event is it? entity.metadata.name, check.proxy_entity_name, or ?entity=NAME says so")
    output = check.get("output")
    document = plugin_document(
        exit_status(check.get("status", 0), False), output if isinstance(output, str) else "",
        started=_seconds(check, "executed"), took_ms=_milliseconds(check),
    )  # fmt: skip
    document["metrics"] = [*document.get("metrics", ()), *_points(body.get("metrics"))]
    ttl = _seconds(check, "ttl")
    if ttl is not None and ttl > LONGEST_TTL:
        raise NoSubmission(f"check.ttl is in seconds, at most {LONGEST_TTL:g}")
    return Submission(whose, name, document, "sensu", given_id, ttl, "by its ttl" if ttl else "")


def _name(thing: Any) -> str | None:
    """Return the name of an entity or check: in its metadata, or beside it as in older versions."""
    if not isinstance(thing, Mapping):
        return None
    metadata = thing.get("metadata")
    return _text(metadata.get("name") if isinstance(metadata, Mapping) else None) or _text(thing.get("name"))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _seconds(check: Mapping[str, Any], key: str) -> float | None:
    """Return a time or duration of the check; 0 is none, as Sensu has it."""
    value = check.get(key)
    if value in (None, 0):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 4e9:
        raise NoSubmission(f"check.{key} is a number of seconds")
    return float(value)


def _milliseconds(check: Mapping[str, Any]) -> float | None:
    duration = _seconds(check, "duration")
    return None if duration is None else duration * 1_000


def _points(metrics: Any) -> list[dict[str, Any]]:
    points = metrics.get("points") if isinstance(metrics, Mapping) else None
    if points is None:
        return []
    if not isinstance(points, list) or len(points) > MAX_POINTS:
        raise NoSubmission(f"metrics.points is a list of at most {MAX_POINTS:,} points")
    return [_metric(point) for point in points]


def _metric(point: Any) -> dict[str, Any]:
    value = point.get("value") if isinstance(point, Mapping) else None
    if not isinstance(value, int | float) or isinstance(value, bool) or _text(point.get("name")) is None:
        raise NoSubmission("a point of metrics has a name, and a value that is a number")
    tags = point.get("tags") if isinstance(point.get("tags"), list) else []
    labels = {
        tag["name"]: tag["value"]
        for tag in tags[:MAX_TAGS]
        if isinstance(tag, Mapping) and _text(tag.get("name")) and isinstance(tag.get("value"), str)
    }
    return {"name": point["name"], "value": value} | ({"labels": labels} if labels else {})
