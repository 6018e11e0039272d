"""Tests documents at a backend, command by command: when lists are compared, and what is sent, taken and told."""

from __future__ import annotations

from typing import Any

import pytest

from scale0.documents.collection import Documents, rank_of
from scale0.documents.publication import Publication
from scale0.endpoint.document_holder import DocumentHolder
from scale0.wire import options as opt


class Stage:
    """Holds a holder of documents under a wall clock by hand, with all that it tells."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.told: list[Any] = []
        self.taken: list[Publication] = []
        self.compared: list[None] = []
        self.refused: list[Any] = []
        self.holder = DocumentHolder(
            Documents("", ()), self.taken.append, lambda: self.compared.append(None), lambda: self.now,
            lambda *why: self.refused.append(why),
        )  # fmt: skip

    def begin(self) -> None:
        self.holder.begin(lambda *told: bool(self.told.append(told)))
        self.told.clear()

    def beat(self, digest: str) -> list[Any]:
        told, beat = self.told, opt.Heartbeat(time=0.0, config_version="0", documents=digest)
        self.holder.listen("HEARTBEAT", beat, ())
        found = [(command, options) for command, options, _ in told]
        told.clear()
        return found


@pytest.fixture
def stage() -> Stage:
    return Stage()


def document(version: int = 3, body: bytes = b"{}", name: str = "x") -> Publication:
    return Publication("", f"doc/{name}", version, "JSON", body, b"")


def test_only_another_digest_leads_to_a_comparison(stage: Stage) -> None:
    stage.begin()
    stage.now += 10.0
    assert stage.beat("") == [] == stage.beat(stage.holder.documents.digest)
    assert stage.beat("f" * 16) == [("DOCUMENTS", {"have": {}, "want": True})]
    for command in ("CONFIGACK", "USEBROKER"):
        stage.holder.listen(command, opt.Heartbeat(time=0.0, config_version="0", documents="f" * 16), ())
    assert stage.told == []


@pytest.mark.parametrize("passed, asks", [(0.0, False), (1.99, False), (2.0, True), (60.0, True), (-0.5, True)])
def test_lists_are_compared_every_two_seconds_whatever_the_wall_clock_does(
    stage: Stage, passed: float, asks: bool
) -> None:
    stage.begin()
    stage.now += passed
    assert len(stage.beat("f" * 16)) == asks
    assert stage.beat("f" * 16) == []


def test_a_session_begins_with_the_list_and_ends_silently(stage: Stage) -> None:
    assert stage.holder.publish(document()) == "news"
    stage.holder.begin(lambda *told: bool(stage.told.append(told)))
    [(command, options, body)] = stage.told
    assert (command, options["want"], list(options["have"]), body) == ("DOCUMENTS", True, ["x"], ())
    stage.told.clear()
    assert stage.holder.publish(document()) == "known" and stage.told == []
    assert stage.holder.publish(document(4)) == "news"
    told = {"name": "x", "version": 4, "type": "JSON", "signature": ""}
    assert stage.told == [("PUBLISH", told, [b"{}"])]
    stage.holder.end()
    stage.holder.publish(document(5))
    assert len(stage.told) == 1


def test_what_is_news_is_told_and_what_is_no_document_is_not(stage: Stage) -> None:
    stage.begin()
    for version, body, signature in ((3, (b"{}",), ""), (3, (b"{}",), ""), (2, (b"{}",), ""), (9, (b"{}",), "no hex")):
        stage.holder.listen("PUBLISH", opt.Publish("x", version, "JSON", signature), body)
    assert [each.version for each in stage.taken] == [3] and stage.told == []
    one, two = sorted((document(4, b"1"), document(4, b"2")), key=rank_of, reverse=True)
    for each in (one, two):
        stage.holder.listen("PUBLISH", opt.Publish("x", 4, "JSON", ""), (each.document,))
    assert [each.document for each in stage.taken[1:]] == [one.document]
    assert [(command, body) for command, _, body in stage.told] == [("PUBLISH", [one.document])]


@pytest.mark.parametrize("verdict, told", [("refused", True), ("conflict", False), ("news", False), ("known", False)])
def test_a_refusal_is_told_to_the_publisher(stage: Stage, verdict: str, told: bool) -> None:
    stage.holder.listen("PUBLISHED", opt.Published("x", 3, verdict, "why"), ())
    assert stage.refused == ([("x", "why")] if told else [])


@pytest.mark.parametrize("have, want, command", [
    ({}, False, ["PUBLISH"]), ({}, True, ["PUBLISH", "DOCUMENTS"]), ({"y": (1, "z")}, False, ["PUBLISH", "DOCUMENTS"]),
    ({"x": (9, "z")}, False, ["DOCUMENTS"]), ({"x": (1, "z")}, False, ["PUBLISH"]),
])  # fmt: skip
def test_a_list_is_answered_with_what_it_lacks(stage: Stage, have: Any, want: bool, command: list[str]) -> None:
    stage.holder.publish(document())
    stage.begin()
    stage.holder.listen("DOCUMENTS", opt.DocumentsTold(have, want), ())
    assert [each for each, _, _ in stage.told] == command and len(stage.compared) == 1
    assert all(options["want"] is False for each, options, _ in stage.told if each == "DOCUMENTS")
