"""Tests values between Helen and Scale0: codes, questions, identities, keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from equus_protocol.codec import MAX_BLOB
from helen.cluster.helen_network import identity_of
from helen.cluster.hosted_brokers import Admitted
from helen.cluster.scale0_backend import read_question, to_reply
from helen.queries.live_queries import Target
from scale0.config.keys import Pair
from scale0.worker import Refused, Reply

OURS, THEIRS = "o" * 40, "t" * 40


@pytest.mark.parametrize(
    ("target", "reply"),
    [
        (Target("a", "answered", {}, None, b"{}"), Reply([b"{}"])),
        (Target("a", "answered", {}), Reply([b""])),
        (Target("a", "refused", {}, "not here", b"{}"), Reply([b"{}"], 403, "not_allowed")),
        (Target("a", "refused", why="64 are open"), Reply([b"64 are open"], 429, "too_many")),
        (Target("a", "offline", why="not connected"), Reply([b"not connected"], 404, "unknown_agent")),
        (Target("a", "failed", why="it went away"), Reply([b"it went away"], 502, "worker_lost")),
        (Target("a", "expired", why="no answer"), Reply([b"no answer"], 504, "deadline")),
    ],
)
def test_every_outcome_has_a_code(target: Target, reply: Reply) -> None:
    """The answer of an agent goes on as it is; else there is a sentence."""
    assert to_reply(target) == reply


@pytest.mark.parametrize(
    ("body", "question"),
    [
        ([b"disk"], ("disk", b"{}")),
        ([b"disk", b""], ("disk", b"{}")),
        ([b"disk", b'{"path":"/"}'], ("disk", b'{"path":"/"}')),
        ([b"disk", bytes(MAX_BLOB)], ("disk", bytes(MAX_BLOB))),
    ],
)
def test_a_question(body: list[bytes], question: tuple[str, bytes]) -> None:
    """A question may lack arguments; they are passed on unread."""
    assert read_question(body) == question


@pytest.mark.parametrize(
    ("body", "code"),
    [([], 400), ([b"a", b"{}", b""], 400), ([b""], 400), ([b"a b"], 400), ([b"\xff"], 400), ([b"a\n"], 400),
     ([b"a", bytes(MAX_BLOB + 1)], 413)],
)  # fmt: skip
def test_what_no_agent_can_be_asked(body: list[bytes], code: int) -> None:
    with pytest.raises(Refused) as refused:
        read_question(body)
    assert refused.value.reply.code == code


@pytest.mark.parametrize(
    ("names", "identity"),
    [(("mon.example", "10.0.0.1"), "mon.example"), (("::1",), "1"), (("a b",), "a-b"), (("x" * 300,), "x" * 100),
     (("--",), "helen")],
)  # fmt: skip
def test_an_identity_out_of_a_name(names: tuple[str, ...], identity: str) -> None:
    assert identity_of(names) == identity


def test_helen_is_admitted_by_her_own_broker(tmp_path: Path) -> None:
    """Helen's own key may use any name, a key of the folder its own name alone, and an unknown key none."""
    (tmp_path / "desk.key").write_text(f'curve\n    public-key = "{THEIRS}"\n')
    keys = Admitted(tmp_path, Pair(OURS, "s" * 40))
    assert [keys.is_authorized(key) for key in (OURS, THEIRS, "n" * 40)] == [True, True, False]
    assert [keys.bound_to(key) for key in (OURS, THEIRS)] == [None, "desk"]
