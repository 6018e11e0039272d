"""Serves the pages of rollouts: the newest one with its rings and figures, those before, and one of them by its
version.

They show the documents of GET /api/v1/rollouts and /rollouts/current. static/rollouts.js keeps them live, and pauses,
resumes and takes back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from helen.rollout.gates import MEMORY_SLACK, RUN_SLACK
from helen.web.connections.short_turns import take_turns
from helen.web.pages.answer import write_page
from helen.web.request import ApiRequest
from helen.web.route import Routes
from helen.web.routes.rollouts import RolloutRow, kept_rollout, listed_rollouts, show_rollout
from helen.web.web_parts import WebParts

routes = Routes()
LOOKED_AT_ONCE = 2_000  # rows, of a tenth of a microsecond each
FULL = 1.25  # times the limit that fill a gauge


@frozen
class Gauge:
    """Holds one figure against its limit: texts, and the places of new value, old value and limit, 0 to 100."""

    now: str
    before: str
    limit: str
    at: float
    before_at: float | None
    limit_at: float | None
    is_over: bool


@routes.page("/rollouts", "fleet-look", "Rollouts")
async def rollouts(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with the rollout under way, or else the last one, and with those before."""
    listed, last = await listed_rollouts(parts), parts.library.releases.last
    current = None if last is None else await show_rollout(parts, last)
    return await _write(parts, request, current, listed, None)


@routes.page("/rollouts/<int:version>", "fleet-look", "One rollout")
async def rollout(parts: WebParts, request: ApiRequest, version: int) -> bytes:
    """Answer with the rollout of a version. Raises Problem 404 if there was none, or its version is not kept."""
    return await _write(parts, request, await show_rollout(parts, await kept_rollout(parts, version)), [], version)


async def _write(
    parts: WebParts, request: ApiRequest, current: dict[str, Any] | None, listed: list[RolloutRow], one: int | None
) -> bytes:  # fmt: skip
    """Answer with a rollout and a list; `one` is the version that was asked for."""
    releases = parts.library.releases
    is_last = current is not None and releases.last is not None and current["version"] == releases.last.version
    is_tried = is_last and releases.rollout is not None
    held = await _held(parts) if is_tried else 0
    return await write_page(
        parts, request, "rollouts", current=current, listed=listed, one=one, is_last=is_last, held=held,
        gauges=gauges_of,
    )  # fmt: skip


async def _held(parts: WebParts) -> int:
    """Return how many checks are tried, counted in short turns."""
    rows, found = list(parts.row_feed.rows.values()), [0]

    def steps() -> Iterator[None]:
        for first in range(0, len(rows), LOOKED_AT_ONCE):
            found[0] += sum("R" in row.marks for row in rows[first : first + LOOKED_AT_ONCE])
            yield

    await take_turns(steps())
    return found[0]


def gauges_of(figures: Mapping[str, Any], gates: Mapping[str, Any]) -> dict[str, Gauge | None]:
    """Return the gauges of one check at a gate: `errors`, `changed`, `run_ms`, `peak_kib`; None: not measured."""
    comparable = figures["comparable"]
    share = figures["changed"] / comparable if comparable else 0.0
    errors = gates.get("errors")
    return {
        "errors": _gauge(
            figures["errors"], figures["errors_before"], None if errors is None else figures["errors_before"] + errors,
            _percent,
        ),
        "changed": _gauge(share, None, gates.get("changed"), _percent),
        "run_ms": _cost(figures["run_ms"], figures["run_ms_before"], gates.get("run_time"), RUN_SLACK, _ms),
        "peak_kib": _cost(figures["peak_kib"], figures["peak_kib_before"], gates.get("memory"), MEMORY_SLACK, _kib),
    }  # fmt: skip


def _cost(now: float | None, before: float | None, factor: float | None, slack: float, text: Any) -> Gauge | None:
    """Return the gauge of a cost: too much is more than `factor` times as before, and more than `slack` above it."""
    if now is None:
        return None
    limit = None if before is None or factor is None else max(before * factor, before + slack)
    return _gauge(now, before, limit, text)


def _gauge(now: float, before: float | None, limit: float | None, text: Any) -> Gauge:
    whole = max(limit or 0.0, 1e-9) * FULL if limit else max(now, before or 0.0, 1e-9) * FULL
    return Gauge(
        text(now), "" if before is None else text(before), "" if limit is None else text(limit),
        _place(now, whole), None if before is None else _place(before, whole),
        None if limit is None else _place(limit, whole), limit is not None and now > limit,
    )  # fmt: skip


def _place(value: float, whole: float) -> float:
    return round(min(100.0, 100.0 * value / whole), 1)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _ms(value: float) -> str:
    return f"{value:.1f} ms"


def _kib(value: float) -> str:
    return f"{value / 1_024:.1f} MiB" if value >= 1_024 else f"{value:.0f} KiB"
