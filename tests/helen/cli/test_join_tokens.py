"""Tests `helen token` for many machines and `helen tokens`, against a real Helen."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner
from helen_running import Running

from helen.cli.main import main

pytestmark = pytest.mark.integration
Shell = Callable[..., str]


@pytest.fixture
def helen(fleet: Running) -> Shell:
    def run(*words: str, status: int = 0) -> str:
        done = CliRunner().invoke(main, [*words, "--state", str(fleet.state)])
        assert done.exit_code == status, done.output
        return str(done.output)

    return run


def test_tokens_are_made_listed_and_revoked(helen: Shell) -> None:
    """The secret of a token is printed once; the list has its other properties, and a revoked token is not in it."""
    words = ["--uses", "500", "--names", "asg-*", "--labels", "role=web,env=prod", "--ephemeral", "24h"]
    made = json.loads(helen("token", *words, "--expires", "30d", "--output", "json"))
    assert {name: made[name] for name in ("agent", "names", "uses", "ttl", "labels", "ephemeral")} == {
        "agent": None, "names": "asg-*", "uses": 500, "ttl": 2_592_000.0, "labels": {"role": "web", "env": "prod"},
        "ephemeral": 86_400.0,
    }  # fmt: skip
    assert made["join"] == f"equus --server {made['address']} --join {made['token']}"
    secret = made["token"].partition(".")[2]
    (line,) = [line for line in helen("tokens").splitlines() if line.startswith(secret[:12])]
    assert "asg-*" in line and "0 of 500" in line and "env=prod, role=web" in line and "24 h" in line
    assert secret[12:] not in helen("tokens", "--output", "json")
    assert f"{secret[:12]} lets no agent in any more; it was used 0 times" in helen("tokens", "revoke", secret[:12])
    assert secret[:12] not in helen("tokens")
    assert "no token has the id nope" in helen("tokens", "revoke", "nope", status=3)


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--uses", "0"), "a token may be good for 1 to 10,000 agents, not 0"),
     (("web-1", "--names", "web-*"), "the token is for web-1: a pattern of names beside it says nothing"),
     (("--names", "Web *"), "'Web *' fits no name"), (("--ephemeral", "5s"), "10 s to 30 days, not 5 s"),
     (("--ephemeral", "soon"), "'soon' is not a duration"), (("--expires", "31d"), "up to 30 days")],
)  # fmt: skip
def test_what_cannot_be_made(helen: Shell, words: tuple[str, ...], said: str) -> None:
    """A token that cannot be made is refused by a sentence with the limit, and none is made."""
    before = helen("tokens", "--output", "json")
    assert said in helen("token", *words, status=2)
    assert helen("tokens", "--output", "json") == before
