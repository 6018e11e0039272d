"""Tests two networks of one key that become one: whose keys count was decided at one of them, whose checks at the
other.
"""

from __future__ import annotations

import signal
from typing import Any

import pytest
from helen_running import Running, pulse, wait_until
from mesh_stage import Stage, network_key

pytestmark = pytest.mark.integration
PATIENCE = 60.0


def shared(helen: Running) -> dict[str, Any]:
    found: dict[str, Any] = helen.client.get("/api/v1/status")["network"]["shared"]
    return found


def settled(*helens: Running) -> bool:
    told = [shared(helen) for helen in helens]
    return all(each["settled"] for each in told) and len({each["digest"] for each in told}) == 1


def checks(helen: Running) -> set[str]:
    return {check["name"] for check in helen.client.get("/api/v1/checks")["checks"]}


def signers(helen: Running) -> list[str]:
    return [key["id"] for key in helen.client.get("/api/v1/keys")["keys"]]


class Apart:
    """Runs two networks: keys are newer at h1, checks at h2; the brokers don't know each other yet."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.key = stage, network_key(stage.folder)
        self.brokers = {name: stage.broker(name, peers=[]).up() for name in ("h1", "h2")}
        self.second, self.first = self.helen("h2"), self.helen("h1")
        self.second.client.post("/api/v1/push", {"files": {"new.lua": pulse("new", "1h")}, "rings": "off"}, PATIENCE)
        wait_until(lambda: settled(self.second), "network", PATIENCE)
        assert signers(self.first) != signers(self.second)

    def helen(self, name: str) -> Running:
        words = ("--scale0", self.brokers[name].run["backend"], "--scale0-identity", name)
        helen = self.stage.helen(name, *words, "--network-key", str(self.key), plain=False).up()
        wait_until(lambda: settled(helen) and "checks" in shared(helen)["documents"], "network", PATIENCE)
        return helen

    def join(self) -> None:
        broker = self.brokers["h2"]
        broker.program.process.send_signal(signal.SIGTERM)
        broker.program.wait()
        broker.configure(peers=[self.brokers["h1"].run["peer"]])
        broker.again()


def test_the_helen_whose_checks_are_everybodys_signs_them_anew(stage: Stage) -> None:
    """The Helen whose checks count signs them by the keys that are everybody's."""
    both = Apart(stage)
    first, second, keys = both.first, both.second, signers(both.first)
    both.join()
    wait_until(lambda: checks(first) == checks(second) == {"new"}, "one set", PATIENCE)
    wait_until(lambda: settled(first, second), "one network", PATIENCE)
    assert signers(first) == signers(second) == keys


def test_a_push_replaces_checks_that_nobody_can_verify(stage: Stage) -> None:
    """Checks whose signer and keys are gone are replaced by a push; they would keep all later ones out."""
    both = Apart(stage)
    first = both.first
    both.second.signal(signal.SIGKILL)
    both.second.program.wait()
    both.join()
    wait_until(lambda: "0 good signature" in str(shared(first)["troubles"]), "word of it", PATIENCE)
    first.client.post("/api/v1/push", {"files": {"more.lua": pulse("more", "1h")}, "rings": "off"}, PATIENCE)
    wait_until(lambda: settled(first), "one network", PATIENCE)
    again = both.helen("h2")
    wait_until(lambda: settled(first, again), "one network", PATIENCE)
    assert checks(first) == checks(again) == {"more"}
    assert signers(first) == signers(again)
