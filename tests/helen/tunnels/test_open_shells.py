"""Tests who is told that somebody opened a shell: each opening, and one end when none was open for a while."""

from __future__ import annotations

from equus_protocol.results import OK, WARNING
from helen.tunnels.open_shells import QUIET_SECONDS, SHELL, OpenShells


class Stage:
    def __init__(self) -> None:
        self.now = 0.0
        self.told: list[tuple[str, str, str, int, str]] = []
        self.shells = OpenShells(lambda: self.now)
        self.shells.told.subscribe(lambda *told: self.told.append(told))

    def after(self, seconds: float) -> list[tuple[str, str, str, int, str]]:
        self.now += seconds
        self.shells.sweep()
        told, self.told = self.told, []
        return told


def test_each_opening_is_told_and_the_end_once() -> None:
    """Each opening is told; the end comes ten minutes after the last of them, and a new opening begins anew."""
    stage = Stage()
    stage.shells.opened("web-1", "token anna", "192.0.2.7")
    stage.shells.opened("web-1", "token bert", "192.0.2.8")
    sentence = "token {} at 192.0.2.{} has opened a tunnel to the SSH server of web-1"
    assert stage.after(0) == [
        ("web-1", SHELL, "problem", WARNING, sentence.format("anna", 7)),
        ("web-1", SHELL, "problem", WARNING, sentence.format("bert", 8)),
    ]
    stage.shells.ended("web-1")
    assert stage.after(10 * QUIET_SECONDS) == []
    stage.shells.ended("web-1")
    assert stage.after(QUIET_SECONDS - 1) == []
    end = ("web-1", SHELL, "recovery", OK, "no tunnel to its SSH server was open for 10 minutes")
    assert stage.after(1) == [end]
    assert stage.after(QUIET_SECONDS) == []
    stage.shells.opened("web-1", "token anna", "192.0.2.7")
    assert len(stage.after(0)) == 1


def test_those_of_before_a_restart_end() -> None:
    """Openings of before a restart end: people were told of a problem, and no process is left that would
    tell its end.
    """
    stage = Stage()
    stage.shells.recall(["web-1", "web-2"])
    stage.shells.opened("web-2", "operator", "control.sock")
    told = stage.after(QUIET_SECONDS)
    assert [(name, what) for name, _, what, _, _ in told] == [("web-2", "problem"), ("web-1", "recovery")]
