"""Tests that the authority holds in memory what a restart would read, whatever was done and however hastily."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisted.internet.defer import DeferredList

from helen.identity.authority import Identity, NotEnrolled
from helen.storage import credential_rows
from helen.storage.enrolled_keys import EnrolledCertificate

NAMES = ("a", "b", "c")
STEPS = st.tuples(
    st.sampled_from(["enrol", "renew", "issue", "revoke", "seen", "refresh", "learn", "wait"]),
    st.sampled_from(NAMES),
    st.integers(0, 2),
    st.booleans(),
)


class Play:
    """Runs steps against a stage; `hurry` ones are not waited for until the end."""

    def __init__(self, stage: Any, request_of: Callable[..., str], now: float) -> None:
        self.stage, self.authority, self.request_of, self.now = stage, stage.authority, request_of, now
        self.open: list[Any] = []

    def step(self, what: str, name: str, which: int, hurry: bool) -> None:
        self.now += 1
        done = getattr(self, what)(name, which)
        if done is not None:
            self.open.append(done)
        if not hurry:
            self.settle()

    def settle(self) -> None:
        self.stage.wait(DeferredList(self.open, consumeErrors=True))
        self.open = []

    def csr(self) -> str:
        return self.request_of(ec.generate_private_key(ec.SECP256R1()))

    def enrol(self, name: str, which: int) -> Any:
        token = self.stage.token(name if which else None, now=self.now)
        return self.authority.enrol(name, token, self.csr(), "10.0.0.7", self.now)

    def renew(self, name: str, which: int) -> Any:
        identity = self.identity(name, which)
        return identity and self.authority.renew(identity, name, self.csr(), "10.0.0.7", self.now)

    def issue(self, name: str, which: int) -> Any:
        return self.authority.issue(name, self.csr(), self.now)

    def revoke(self, name: str, which: int) -> Any:
        return self.authority.revoke(name, self.now)

    def seen(self, name: str, which: int) -> None:
        identity = self.identity(name, which)
        if identity is not None:
            self.authority.seen(identity, self.now)

    def refresh(self, name: str, which: int) -> Any:
        return self.authority.refresh(self.now)

    def wait(self, name: str, which: int) -> None:
        """Let time pass: certificates expire, are long over, or a clock is set back."""
        self.now += (3.0, 50.0, -9.0)[which] * 86_400

    def learn(self, name: str, which: int) -> Any:
        key = f"{name}{which}".encode().hex().zfill(64)
        revoked_at = self.now if which == 2 else None
        return self.authority.learn([EnrolledCertificate(key, name, 1.0, self.now + 9e5, revoked_at=revoked_at)])

    def identity(self, name: str, which: int) -> Any:
        """Return the identity of one of the name's certificates that are in force."""
        keys = sorted(one.key_hash for one in self.authority.known if one.name == name)
        for key in keys[which:]:
            try:
                self.authority._keys.check_renewal(name, key, self.now, self.authority.grace)
            except NotEnrolled:
                continue
            return Identity(name, key, self.now + 9e5)
        return None


@settings(max_examples=15, deadline=None)
@example(steps=[("enrol", "a", 0, True), ("revoke", "a", 0, False)])
@given(steps=st.lists(STEPS, max_size=15))
def test_memory_is_what_the_store_has(make_stage: Any, request_of: Callable[..., str], now: float, steps: Any) -> None:
    """Memory and store agree on who is enrolled, used, retired and revoked after any run of steps,
    waited for or not.
    """
    with tempfile.TemporaryDirectory() as folder:
        stage = make_stage(Path(folder))
        try:
            play = Play(stage, request_of, now)
            for step in steps:
                play.step(*step)
            play.settle()
            stage.wait(stage.authority.refresh(play.now))
            stored = stage.wait(stage.store.call(credential_rows.live_certificates, play.now))
            assert sorted(stage.authority.known, key=by_key) == sorted(stored, key=by_key)
        finally:
            stage.close()


def by_key(known: Any) -> str:
    return str(known.key_hash)
