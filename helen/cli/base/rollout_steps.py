"""Compare two answers about a rollout, and return the steps between them as text and JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import field, frozen

from groundwork.counts import count
from helen.cli.base.options import plain

FIGURES_SECONDS = 5.0  # between two lines of figures for people, while nothing else happens


@frozen
class Step:
    """Describe one step. `event` is named in docs/rollouts.rst; `text` is for people, empty for figures not due."""

    event: str
    text: str
    more: dict[str, Any] = field(factory=dict)


class Steps:
    """Collect the steps of one rollout from the answers of `GET /rollouts/current`."""

    def __init__(self) -> None:
        self._before: dict[str, Any] | None = None
        self._figures_at = float("-inf")

    def since(self, shown: dict[str, Any], now: float) -> list[Step]:
        """Return the steps since the answer before, in their order; `now` is in seconds of any clock."""
        before, self._before = self._before, shown
        steps = [] if before is not None else [_begin(shown)]
        steps += _rings(before, shown)
        steps += _paused(before, shown)
        steps += self._progress(before, shown, now)
        steps += _end(before, shown)
        return steps

    def _progress(self, before: dict[str, Any] | None, shown: dict[str, Any], now: float) -> Iterator[Step]:
        ring = _open(shown)
        known = None if before is None else _open(before)
        if ring is None:
            if shown["state"] == "finished" and _loaded(before) != _loaded(shown):
                yield Step("loaded", f"version {shown['newest']}: {_loaded(shown)}", {"loaded": shown["loaded"]})
            return
        same = known if known is not None and known["number"] == ring["number"] else None
        if same is None or (same["confirmed"], same["size"]) != (ring["confirmed"], ring["size"]):
            text = f"{plain(ring['place'])}: {ring['confirmed']} of {ring['size']} agents run it"
            yield Step("loaded", text, {"ring": ring["number"], "loaded": ring["confirmed"], "size": ring["size"]})
        if ring["figures"] and (same is None or same["figures"] != ring["figures"]):
            is_due = now - self._figures_at >= FIGURES_SECONDS
            self._figures_at = now if is_due else self._figures_at
            for each in ring["figures"]:
                yield Step("figures", figures_text(each) if is_due else "", {"ring": ring["number"], **each})


def _begin(shown: dict[str, Any]) -> Step:
    rings = ", ".join(ring["ring"] for ring in shown["rings"])
    to = f"goes to {rings}" if rings and shown["state"] in ("open", "paused") else "goes to all agents at once"
    if rings and shown["state"] not in ("open", "paused"):
        to = f"went to {rings}"
    return Step("begin", f"version {shown['version']} {to}; {plain(shown['files'])}", {"rings": rings})


def _rings(before: dict[str, Any] | None, shown: dict[str, Any]) -> Iterator[Step]:
    """Yield steps for rings that have opened, passed, or been skipped."""
    known = {} if before is None else {ring["number"]: ring["state"] for ring in before["rings"]}
    for ring in shown["rings"]:
        state, number = ring["state"], ring["number"]
        if state == known.get(number) or state not in ("passed", "skipped", "open", "undone"):
            continue
        for each in ring.get("figures", []) if state in ("passed", "undone") else ():
            yield Step("figures", figures_text(each), {"ring": number, **each})  # as they were when it was decided
        if state == "undone":
            continue  # `_end` has a step for it
        if state == "open":
            place = f"ring {number} of {len(shown['rings'])} ({ring['ring']})"
            text = f"{plain(place)}: {count(ring['size'], 'agent')}"
            yield Step("ring", text, {"ring": number, "size": ring["size"], "members": ring["members"]})
        else:
            place = f"ring {number} of {len(shown['rings'])} ({ring['ring']})"
            more = {"ring": number, "why": ring["why"], "figures": ring.get("figures", [])}
            yield Step(state, f"{plain(place)} {state}: {plain(ring['why'])}", more)


def _paused(before: dict[str, Any] | None, shown: dict[str, Any]) -> Iterator[Step]:
    was = before is not None and before["paused"] is not None
    if (shown["paused"] is not None) == was:
        return
    if was:
        yield Step("resumed", "it goes on", {})
    else:
        by = shown["paused"]["by"]
        yield Step("paused", f"paused by {plain(by)}: `helen rollout resume` lets it go on", {"by": by})


def _end(before: dict[str, Any] | None, shown: dict[str, Any]) -> Iterator[Step]:
    if before is not None and before["state"] == shown["state"]:
        return
    if shown["state"] == "finished" and shown["rings"]:
        yield Step(
            "finished", f"version {shown['version']} is for all agents: {plain(shown['why'])}", {"why": shown["why"]}
        )
    elif shown["state"] == "undone":
        last = next((ring for ring in reversed(shown["rings"]) if ring["state"] == "undone"), None)
        where = "" if last is None else f" from ring {last['number']} of {len(shown['rings'])}"
        text = f"version {shown['version']} was taken back{where}: {plain(shown['why'])}\n"
        text += f"all agents have been told to go back to the files of version {shown['base']}; the folder of checks"
        text += " stays as it is; files that were taken back wait there for a change: `helen checks` lists them"
        yield Step("undone", text, {"why": shown["why"], "base": shown["base"]})


def figures_text(figures: dict[str, Any]) -> str:
    """Return the figures of a check as text, the old version's in brackets, for example:

    `disk: 14 of 30 results; errors 0.0 % (before: 0.0 %), changed 2 of 10, 11.3 ms (12.0 ms), 3.1 MiB (3.1 MiB)`.
    """
    parts = [
        f"errors {100 * figures['errors']:.1f} % (before: {100 * figures['errors_before']:.1f} %)",
        f"changed {figures['changed']} of {figures['comparable']}",
    ]
    if figures["run_ms"] is not None and figures["run_ms_before"] is not None:
        parts.append(f"{figures['run_ms']:.1f} ms ({figures['run_ms_before']:.1f} ms)")
    if figures["peak_kib"] is not None and figures["peak_kib_before"] is not None:
        parts.append(f"{figures['peak_kib'] / 1024:.1f} MiB ({figures['peak_kib_before'] / 1024:.1f} MiB)")
    return f"{plain(figures['check'])}: {figures['results']} of {figures['wanted']} results; {', '.join(parts)}"


def _open(shown: dict[str, Any]) -> dict[str, Any] | None:
    return next((ring for ring in shown["rings"] if ring["state"] == "open"), None)


def _loaded(shown: dict[str, Any] | None) -> str:
    return "" if shown is None else f"{shown['loaded']} of {shown['agents']} agents run it"
