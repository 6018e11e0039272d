"""Tests claims that another Helen has an agent: those that are obeyed, and those that are shown."""

from __future__ import annotations

import pytest
from attrs import evolve
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from helen.cluster import attachments
from helen.cluster.attachments import Attachments
from helen.cluster.network_key import NetworkKey
from scale0.worker import Holder

KEY, OTHER = NetworkKey(Ed25519PrivateKey.generate()), NetworkKey(Ed25519PrivateKey.generate())
WALL, SERVICE = 1_800_000_000.0, "equus.web-1"
OWN = int(1000 * WALL) - 60_000


class Scene:
    """Holds Helen h1 with a clock by hand, and what other Helens say."""

    def __init__(self, key: NetworkKey | None = KEY) -> None:
        self.now = 0.0
        self.helen = Attachments("h1", key, lambda: self.now, lambda: WALL + self.now)

    def claim(self, epoch: int, identity: str = "h2", key: NetworkKey | None = KEY) -> Holder:
        sealer = Attachments(identity, key, lambda: 0.0, lambda: WALL)
        return Holder(identity, epoch, sealer.seal(SERVICE, epoch))

    def why(self, holder: Holder | None, own: int = OWN) -> str:
        return self.helen.why_not(SERVICE, "web-1", holder, own)


def test_a_later_attachment_that_is_sealed_is_obeyed() -> None:
    scene = Scene()
    assert scene.why(scene.claim(OWN + 1)) == ""
    assert scene.helen.troubles() == []


def faults() -> dict[str, tuple[Holder | None, str]]:
    good = Scene().claim(OWN + 5)
    ahead = int(1000 * (WALL + attachments.SKEW_SECONDS)) + 1
    return {
        "no seal": (evolve(good, seal=""), "without a seal"),
        "no base64": (evolve(good, seal="!"), "without a seal"),
        "another key": (Scene().claim(OWN + 5, key=OTHER), "without a seal"),
        "of another epoch": (evolve(good, epoch=OWN + 6), "without a seal"),
        "of another Helen": (evolve(good, identity="h3"), "without a seal"),
        "the future": (Scene().claim(ahead), "to come"),
        "the far future": (Scene().claim(2**50), "to come"),
        "not later": (Scene().claim(OWN), "before this Helen"),
        "nobody": (None, "not which"),
    }


@pytest.mark.parametrize("fault", faults())
def test_any_other_is_shown_and_not_obeyed(fault: str) -> None:
    """A claim with any fault is shown and not obeyed: a program that reaches a broker takes no agent from its Helen
    (F38).
    """
    scene = Scene()
    holder, said = faults()[fault]
    assert said in scene.why(holder)
    assert [trouble.partition(":")[0] for trouble in scene.helen.troubles()] == ["web-1 stays connected here"]
    scene.now = attachments.SHOWN_SECONDS + 1
    assert scene.helen.troubles() == []


def test_a_seal_is_for_one_agent() -> None:
    """A seal is refused for another agent (F38)."""
    scene = Scene()
    assert "without a seal" in scene.helen.why_not("equus.web-2", "web-2", scene.claim(OWN + 5), OWN)


def test_an_agent_that_comes_back_within_seconds_is_a_conflict() -> None:
    """An agent that comes back within seconds is a conflict, as it would be dropped again and again; later it has moved
    (F38).
    """
    scene = Scene()
    assert scene.why(scene.claim(OWN + 1)) == ""
    scene.now = 3.0
    assert "clone" in scene.why(scene.claim(OWN + 9), OWN + 3)
    scene.now = 3.0 + attachments.BACK_SECONDS
    assert scene.why(scene.claim(OWN + 20), OWN + 10) == ""


def test_without_a_network_key_the_roles_of_keys_decide() -> None:
    """A claim without a seal counts if there is no network key, but an agent that comes back is a conflict all the
    same.
    """
    scene = Scene(None)
    assert scene.claim(OWN, key=None).seal == "" and scene.why(None) == ""
    assert "clone" in scene.why(scene.claim(OWN + 1, key=None))


def test_little_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachments, "MOST", 3)
    scene = Scene()
    for number in range(9):
        scene.helen.why_not(f"equus.a{number}", f"a{number}", None, OWN)
    assert [trouble.split()[0] for trouble in scene.helen.troubles()] == ["a6", "a7", "a8"]
