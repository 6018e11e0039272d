"""Tests sets that are signed elsewhere: a Helen with public keys alone stages the set of the folder."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from library_world import KEY, WHEEL, World, sign

from equus_protocol import manifest
from helen.library.published import PushRefused
from helen.library.releases import LIFE_SECONDS


def test_staged_until_somebody_signs(keyless: World) -> None:
    """A set waits as staged, and is offered only once it is signed; an undo then has its signed set, too."""
    keyless.write(cpu="a").look().look()
    assert (keyless.offered(), keyless.library.staged.version) == (None, 1)
    assert sign(keyless) == 1
    assert (keyless.offered(), keyless.library.staged) == ((1, {"cpu": "a"}), None)
    keyless.write(cpu="b").look()
    assert keyless.offered() == (1, {"cpu": "a"})
    sign(keyless)
    keyless.restart()
    assert keyless.offered() == (3, {"cpu": "b"})
    assert (keyless.undo(), keyless.offered()) == (4, (4, {"cpu": "a"}))


def test_an_equus_that_is_signed_elsewhere(keyless: World) -> None:
    """A new Equus is staged with the set, and offered only once that is signed."""
    sign(keyless.write(cpu="a").look())
    keyless.inbox.wait(keyless.library.offer_agent("0.2.0", {WHEEL: b"wheel"}, "operator"))
    assert keyless.library.published.document.agent is None
    sign(keyless)
    assert keyless.library.published.document.agent["version"] == "0.2.0"
    assert keyless.library.file(manifest.entry(b"wheel").sha256) == b"wheel"


def test_signed_by_a_stranger(keyless: World) -> None:
    """A signature by a key that is not in --signing-keys is refused."""
    keyless.write(cpu="a").look()
    with pytest.raises(PushRefused, match="`helen keys` lists the keys that are known here"):
        sign(keyless, Ed25519PrivateKey.generate())


def test_signed_too_late(keyless: World) -> None:
    """Signatures of a staged set are refused once the folder has changed."""
    keyless.write(cpu="a").look()
    staged = keyless.library.staged
    keyless.write(cpu="b").look()
    signed = [manifest.sign(each, [KEY]) for each in (staged.pair.new, staged.pair.undo)]
    with pytest.raises(PushRefused, match="the folder has changed since that was signed"):
        keyless.inbox.wait(keyless.library.accept(*signed, "operator"))


def test_the_folder_goes_back_to_what_is_published(keyless: World) -> None:
    """Nothing stays staged once the folder is again as published, and a signature is refused."""
    sign(keyless.write(cpu="a").look())
    keyless.write(cpu="b").look()
    keyless.write(cpu="a").look()
    assert keyless.library.staged is None
    with pytest.raises(PushRefused, match="nothing is staged"):
        keyless.inbox.wait(keyless.library.accept(b"", b"", "operator"))


def test_a_renewal_is_staged_once(keyless: World) -> None:
    """A renewal stages the same set once, and further looks keep that one."""
    sign(keyless.write(cpu="a").look())
    keyless.now += LIFE_SECONDS / 2
    staged = keyless.look().library.staged
    assert staged is not None
    assert keyless.look().library.staged is staged
    assert (sign(keyless), keyless.offered()) == (3, (3, {"cpu": "a"}))
