"""Tests documents between a broker and its sessions: which lists are told, when, and who is sent a document that is
news.
"""

from __future__ import annotations

from typing import Any

import pytest
from scale0_stage import Stage, broker_config, member

from scale0.broker import sharing as module
from scale0.config.schema import GroupConfig
from scale0.documents.collection import Documents
from scale0.wire.frames import D2

DOCUMENT = {"name": "x", "version": 3, "type": "JSON", "signature": ""}


@pytest.fixture
def stage() -> Stage:
    return Stage(broker_config(group="east", group_config=(GroupConfig("east", (member("b1"), member("b2"))),)))


def peer(stage: Stage, identity: str = "b2") -> tuple[str, bytes]:
    address = ("peer", identity.encode())
    stage.scale0(address, "CHECKCONFIG", identity=identity, services=["all"], config_type="JSON", role="peer")
    stage.take(address)
    return address


def told(stage: Stage, address: tuple[str, bytes], command: str) -> list[Any]:
    return [(options, body) for found, options, body in stage.told(address) if found == command]


@pytest.mark.parametrize("held, refused, most, have", [
    ({"a": (3, "x")}, {"a": (2, "z")}, 9, {"a": [3, "x"]}), ({"a": (3, "x")}, {"a": (4, "")}, 9, {"a": [4, ""]}),
    ({}, {"a": (1, "x"), "b": (1, "y")}, 1, {"a": [1, "x"]}), ({"a": (3, "x")}, {"b": (1, "y")}, 1, {"a": [3, "x"]}),
    ({"a": (3, "x")}, {"b": (1, "y")}, 2, {"a": [3, "x"], "b": [1, "y"]}),
])  # fmt: skip
def test_what_would_be_refused_again_is_told_as_if_it_were_held(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, held: Any, refused: Any, most: int, have: Any
) -> None:
    """A broker lists refused documents as if it held them, within the limit of a list, so that nobody sends them."""
    address = peer(stage)
    monkeypatch.setattr(Documents, "have", lambda self: dict(held))
    monkeypatch.setattr(module, "MOST", most)
    stage.broker.sharing._refused = refused
    stage.scale0(address, "DOCUMENTS", have={}, want=True)
    assert told(stage, address, "DOCUMENTS") == [({"have": have, "want": False}, [])]


def test_news_goes_to_those_that_share_and_not_back(stage: Stage) -> None:
    first, second, silent = stage.worker(b"w1", "a"), stage.worker(b"w2", "b"), stage.worker(b"w3", "c")
    plain, client, broker = stage.plain_worker(b"p", "tea", D2), stage.client(b"c"), peer(stage)
    stage.scale0(second, "DOCUMENTS", have={}, want=False)
    for address in (first, second, silent, plain, client, broker):
        stage.take(address)
    stage.scale0(first, "PUBLISH", b"{}", **DOCUMENT)
    verdict = {"name": "x", "version": 3, "verdict": "news"}
    assert stage.told(first) == [("PUBLISHED", verdict, [])]
    for address in (second, broker):
        assert told(stage, address, "PUBLISH") == [(DOCUMENT, [b"{}"])]
    for address in (silent, plain, client):
        assert stage.take(address) == []
    stage.scale0(first, "PUBLISH", b"{}", **DOCUMENT)
    assert stage.told(first) == [("PUBLISHED", verdict | {"verdict": "known"}, [])] and stage.told(second) == []
    stage.scale0(broker, "PUBLISH", b"{}", **DOCUMENT | {"version": 4})
    assert [command for command, _, _ in stage.told(broker)] == []
    assert [len(told(stage, address, "PUBLISH")) for address in (first, second)] == [1, 1]


@pytest.mark.parametrize("body, signature", [((), ""), ((b"a", b"b"), ""), ((b"{}",), "no hex")])
def test_a_malformed_publication_ends_the_session(stage: Stage, body: tuple[bytes, ...], signature: str) -> None:
    worker = stage.worker(b"w", "a")
    stage.scale0(worker, "PUBLISH", *body, **DOCUMENT | {"signature": signature})
    [(command, options, _)] = stage.told(worker)
    assert (command, options["code"], options["reason"]) == ("DISCONNECTERROR", 400, "malformed")


def test_of_two_documents_of_one_version_one_counts_everywhere(stage: Stage) -> None:
    """The document with the greater digest counts; the other's publisher is told both that and the document."""
    worker = stage.worker(b"w", "a")
    bodies = [b"1", b"2"]
    answers = []
    for body in bodies:
        stage.scale0(worker, "PUBLISH", body, **DOCUMENT)
        answers.append(stage.told(worker))
    verdicts = [[options["verdict"] for command, options, _ in told if command == "PUBLISHED"] for told in answers]
    held = stage.broker.sharing.documents.get("x")
    assert verdicts[0] == ["news"] and verdicts[1] in (["news"], ["conflict"])
    sent = [body for command, _, body in answers[1] if command == "PUBLISH"]
    assert sent == ([] if verdicts[1] == ["news"] else [[held.document]])
    [alarm] = stage.broker.context.alarms
    assert alarm == "two documents x of version 3; the one with the greater digest is kept"
    assert stage.broker.context.counts["documents"] == (1 if verdicts[1] == ["conflict"] else 2)


def test_lists_are_compared_once_an_interval(stage: Stage) -> None:
    address = peer(stage)
    found = []
    for _ in range(5):
        stage.now += 0.5
        beat = {"time": stage.wall, "config_version": "7", "seq": 0, "digest": "0" * 16, "documents": "f" * 16}
        stage.scale0(address, "HEARTBEAT", **beat)
        found.append(len(told(stage, address, "DOCUMENTS")))
    assert found == [0, 1, 0, 1, 0]
    for digest in ("", stage.broker.sharing.documents.digest):
        stage.now += 5.0
        stage.scale0(address, "HEARTBEAT", **beat | {"documents": digest})
        assert told(stage, address, "DOCUMENTS") == []


@pytest.mark.parametrize("have, want, answers, sent", [
    ({}, False, 0, 1), ({}, True, 1, 1), ({"y": [1, "z"]}, False, 1, 1), ({"x": [3, ""]}, False, 1, 0),
    ({"x": [1, "z"]}, False, 0, 1), ({"x": [3, ""]}, True, 1, 0),
])  # fmt: skip
def test_a_list_is_answered_with_what_it_lacks(stage: Stage, have: Any, want: bool, answers: int, sent: int) -> None:
    worker = stage.worker(b"w", "a")
    stage.scale0(worker, "PUBLISH", b"{}", **DOCUMENT | {"version": 2})
    address = peer(stage)
    stage.take(address)
    stage.scale0(address, "DOCUMENTS", have=have, want=want)
    heard = stage.told(address)
    assert [command for command, _, _ in heard].count("DOCUMENTS") == answers
    assert [command for command, _, _ in heard].count("PUBLISH") == sent
