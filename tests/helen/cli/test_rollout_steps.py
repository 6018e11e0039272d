"""Tests the steps of a rollout that `helen push` prints, from one answer of the API to the next: each once, in
order."""

from __future__ import annotations

from typing import Any

from helen.cli.base.rollout_steps import FIGURES_SECONDS, Steps, figures_text

FIGURES = {
    "check": "disk", "members": 2, "results": 3, "wanted": 6, "errors": 0.0, "errors_before": 0.25, "changed": 1,
    "comparable": 2, "run_ms": 11.34, "run_ms_before": 12.0, "peak_kib": 3_174.4, "peak_kib_before": None,
}  # fmt: skip
TOLD = "disk: 3 of 6 results; errors 0.0 % (before: 25.0 %), changed 1 of 2, 11.3 ms (12.0 ms)"


def ring(number: int, text: str, state: str, **more: Any) -> dict[str, Any]:
    return {"number": number, "ring": text, "state": state, "figures": [], "why": "", **more}


def shown(*rings: dict[str, Any], state: str = "open", **more: Any) -> dict[str, Any]:
    return {
        "version": 7, "base": 5, "newest": 7, "state": state, "why": "", "paused": None, "files": "changed: disk.lua",
        "agents": 10, "loaded": 2, "rings": list(rings), **more,
    }  # fmt: skip


def opened(number: int, text: str, confirmed: int, size: int = 2, **more: Any) -> dict[str, Any]:
    place = f"ring {number} of 2 ({text})"
    return ring(number, text, "open", confirmed=confirmed, size=size, members=["a", "b"], place=place, **more)


def said(*answers: tuple[float, dict[str, Any]]) -> list[tuple[str, str]]:
    steps = Steps()
    return [(step.event, step.text) for now, answer in answers for step in steps.since(answer, now)]


def test_to_its_end() -> None:
    """A rollout prints its rings, the agents that run it, figures and verdicts, to its end."""
    first, later = opened(1, "20%", 0), ring(2, "100%", "to come")
    full = {**FIGURES, "results": 6}
    passed = ring(1, "20%", "passed", why="2 agents run it", figures=[full])
    over = ring(2, "100%", "passed", why="8 agents run it")
    assert said(
        (0, shown(first, later)), (1, shown(first, later)), (2, shown({**first, "confirmed": 2}, later)),
        (3, shown({**first, "confirmed": 2, "figures": [FIGURES]}, later)),
        (4, shown({**first, "confirmed": 2, "figures": [full]}, later)),
        (5, shown(passed, opened(2, "100%", 0, 8))),
        (6, shown(passed, over, state="finished", why="it is well", loaded=10)),
    ) == [
        ("begin", "version 7 goes to 20%, 100%; changed: disk.lua"),
        ("ring", "ring 1 of 2 (20%): 2 agents"),
        ("loaded", "ring 1 of 2 (20%): 0 of 2 agents run it"),
        ("loaded", "ring 1 of 2 (20%): 2 of 2 agents run it"),
        ("figures", TOLD),
        ("figures", ""),
        ("figures", TOLD.replace("3 of 6", "6 of 6")),
        ("passed", "ring 1 of 2 (20%) passed: 2 agents run it"),
        ("ring", "ring 2 of 2 (100%): 8 agents"),
        ("loaded", "ring 2 of 2 (100%): 0 of 8 agents run it"),
        ("passed", "ring 2 of 2 (100%) passed: 8 agents run it"),
        ("loaded", "version 7: 10 of 10 agents run it"),
        ("finished", "version 7 is for all agents: it is well"),
    ]  # fmt: skip


def test_taken_back() -> None:
    """A rollout that is taken back prints the pause, the ring, the reason and the next steps."""
    first, paused = opened(1, "20%", 2), {"by": "eva", "at": 0.0}
    rings = ring(1, "20%", "undone", why="it is bad"), ring(2, "100%", "not reached")
    steps = said(
        (0, shown(first)), (1, shown(first, state="paused", paused=paused)), (2, shown(first)),
        (3, shown(*rings, state="undone", why="it is bad")),
    )  # fmt: skip
    assert [step for step in steps if step[0] not in ("begin", "ring", "loaded")] == [
        ("paused", "paused by eva: `helen rollout resume` lets it go on"),
        ("resumed", "it goes on"),
        ("undone", "version 7 was taken back from ring 1 of 2: it is bad\nall agents have been told to go back to the"
                   " files of version 5; the folder of checks stays as it is; files that were taken back wait there for"
                   " a change: `helen checks` lists them"),
    ]  # fmt: skip


def test_at_once() -> None:
    """A push without rings prints only how many agents run it."""
    assert said((0, shown(state="finished")), (1, shown(state="finished", loaded=10))) == [
        ("begin", "version 7 goes to all agents at once; changed: disk.lua"),
        ("loaded", "version 7: 2 of 10 agents run it"),
        ("loaded", "version 7: 10 of 10 agents run it"),
    ]  # fmt: skip


def test_figures_in_a_line() -> None:
    """A line of figures leaves out unknown ones and has memory in MiB; changed figures are printed after
    FIGURES_SECONDS."""
    both = {**FIGURES, "run_ms": None, "peak_kib": 3_174.4, "peak_kib_before": 1_024.0}
    assert figures_text(both).endswith("changed 1 of 2, 3.1 MiB (1.0 MiB)")
    first = opened(1, "20%", 2, figures=[FIGURES])
    later = {**first, "figures": [{**FIGURES, "results": 4}]}
    told = [text for event, text in said((0, shown(first)), (FIGURES_SECONDS, shown(later))) if event == "figures"]
    assert told == [TOLD, TOLD.replace("3 of 6", "4 of 6")]
