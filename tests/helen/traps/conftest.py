"""Makes a receiver of traps that has a community and some users."""

from __future__ import annotations

import pytest
from trap_messages import OURS, WATCH, Clock

from helen.cli.traps.security import Security
from helen.cli.traps.users import User


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def security(clock: Clock) -> Security:
    users = {user.name: user for user in (WATCH, User(b"open"), User(b"proved", "sha256", b"authentic"))}
    return Security(frozenset([b"public"]), users, OURS, 42, clock)
