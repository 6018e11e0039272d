"""Tests `helen renewals` with a real Helen and agents that were away: back by the grace, by a token, or not at all."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from authority_stage import Agent, AuthorityStage
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from helen_running import EQUUS, Program, Running, wait_until
from inbox import Inbox

from helen.cli.main import main
from helen.identity.renewals import USUAL_GRACE

pytestmark = pytest.mark.integration
DAY = 86_400.0


class Away:
    """Start a Helen that is back after a long time, with the folders of its agents still there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = time.time()
        stage = AuthorityStage(folder / "state", Inbox(), self.now - 300 * DAY)
        for name, days in (("away", 30), ("late", 250), ("fired", 20), ("soon", 6.5), ("well", 1)):
            self.keep(stage, stage.enrol(name, now=self.now - days * DAY), name)
        stage.wait(stage.authority.revoke("fired", self.now - DAY))
        stage.close()
        self.helen = Running(folder).up()
        self.agents: list[Program] = []

    def keep(self, stage: AuthorityStage, agent: Agent, name: str) -> None:
        """Write the files that the agent wrote when it enrolled."""
        own = self.folder / name
        own.mkdir()
        (own / "agent.pem").write_bytes(agent.certificate.public_bytes(Encoding.PEM))
        (own / "agent.key").write_bytes(agent.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        (own / "agent.key").chmod(0o600)
        (own / "ca.pem").write_text(stage.authority.bundle)

    def start(self, name: str, *more: str) -> Program:
        """Start an agent in its old folder."""
        words = [*EQUUS, "--server", self.helen.run["agents"], "--state", str(self.folder / name), *more]
        self.agents.append(Program(words, self.folder / f"{name}.log"))
        return self.agents[-1]

    def __call__(self, *words: str, status: int = 0) -> Result:
        runner = CliRunner(env={"HELEN_STATE": str(self.helen.state), "HELEN_URL": None, "HELEN_TOKEN": None})
        result = runner.invoke(main, ["renewals", *words], prog_name="helen")
        assert result.exit_code == status, (result.output, result.stderr, result.exception)
        return result

    def states(self) -> dict[str, str]:
        found = self.helen.client.get("/api/v1/renewals?all=true")
        return {one["agent"]: one["state"] for one in found["agents"]}

    def is_connected(self, name: str) -> Any:
        return self.helen.client.get(f"/api/v1/agents/{name}")["connected"]

    def end(self) -> None:
        for agent in self.agents:
            agent.end()
        self.helen.end()


@pytest.fixture(scope="module")
def away(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Away]:
    made = Away(tmp_path_factory.mktemp("away"))
    try:
        yield made
    finally:
        made.end()


def test_the_list(away: Away) -> None:
    """`helen renewals` lists agents that need help within a day and the way back for each, and no revoked agent."""
    shown = away().stdout.splitlines()
    assert shown[0] == "Expired certificates are renewed for 90 days; those of revoked agents never are."
    rows = {line.split()[0]: line for line in shown[1:]}
    assert list(rows) == ["AGENT", "away", "late", "soon"]
    assert "renewed when it comes, until" in rows["away"]
    assert rows["late"].endswith("it needs a token")
    assert rows["soon"].endswith("it renews it by itself")
    assert away.states() == {"away": "grace", "late": "over", "soon": "good", "well": "good"}
    found = away.helen.client.get("/api/v1/renewals?on=aw*")
    [row] = found["agents"]
    assert (found["grace"], row["connected"]) == (USUAL_GRACE, False)
    assert row["renewed_until"] - row["ends"] == USUAL_GRACE
    assert row["ends"] == pytest.approx(away.now - 23 * DAY, abs=2)


def test_the_grace_is_set(away: Away) -> None:
    """A new grace counts at once and is in the audit; a dry run changes nothing, `off` ends it, and a bad value is
    refused."""
    assert "renewed for 5 days" in away("--grace", "5d", "--dry-run").stdout
    assert away.states()["away"] == "grace"
    assert "renewed for 5 days" in away("--grace", "5d").stdout
    assert away.states()["away"] == "over"
    assert away("--grace", "off").stdout == "Expired certificates are not renewed: their agents need a token.\n"
    assert away().stdout.startswith("Expired certificates are not renewed")
    assert "or off" in away("--grace", "soon", status=2).output
    assert "the grace is 0 (off) to 366 days, not 400" in away("--grace", "400d", status=2).output
    assert "two commands" in away("--grace", "1d", "--tokens", "*", status=2).output
    away("--grace", "90d")
    audit = away.helen.client.get("/api/v1/audit?limit=3")["audit"]
    assert [(one["action"], one["detail"]) for one in audit] == [
        ("renewal-grace", "7776000 s"), ("renewal-grace", "0 s"), ("renewal-grace", "432000 s")
    ]  # fmt: skip


def test_one_in_the_grace_comes_back_by_itself(away: Away) -> None:
    """An agent in the grace proves its old key, gets a new certificate, and reconnects with it."""
    agent = away.start("away")
    wait_until(lambda: away.is_connected("away") and away.states()["away"] == "good", "renewed certificate")
    wait_until(lambda: "coming back with the new certificate" in agent.said, "second connection")
    assert "the certificate of away expired on" in agent.said
    assert "the certificate of away expired on" in away.helen.program.said
    [entry] = away.helen.client.get("/api/v1/audit?subject=away&limit=1")["audit"]
    assert (entry["actor"], entry["action"]) == ("agent:away", "enrol")
    assert "days after its end" in entry["detail"]


def test_the_revoked_one_does_not(away: Away) -> None:
    """A revoked agent is refused as expired and gets no token."""
    agent = away.start("fired")
    wait_until(lambda: "Helen refused our certificate as expired" in agent.said, "refusal")
    assert not away.is_connected("fired")
    assert "no agent that is not revoked fits fired" in away("--tokens", "fired", status=3).output


def test_one_beyond_the_grace_comes_back_with_its_line(away: Away) -> None:
    """An agent beyond the grace comes back with the token's line on its old folder; lines are only for listed agents
    that fit."""
    assert away("--tokens", "late", "--tokens", "well", "--dry-run").stdout == "late would get a token\n"
    assert "--all makes tokens" in away("--tokens", "well").stdout
    assert away("--tokens", "*", "--all", "--dry-run").stdout.count("would get a token") == 4
    comment, line = away("--tokens", "l*").stdout.splitlines()
    words = shlex.split(line)
    assert (comment, words[0], words[-2:]) == ("# late", "equus", ["--name", "late"])
    away.start("late", *words[words.index("--join") :])
    wait_until(lambda: away.is_connected("late") and away.states()["late"] == "good", "new certificate")
    assert [one.split()[0] for one in away().stdout.splitlines()[2:]] == ["soon"]
