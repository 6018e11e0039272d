"""Tests that the documents of manifests just built are equal to those that an agent reads from them."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equus_protocol import manifest
from helen.library.published import Pair, PushRefused, Signed, all_files, build

KEY = Ed25519PrivateKey.generate()
FILES = {name: manifest.entry(name.encode()) for name in ("b.lua", "a.lua", "lib/x.lua")}
AGENT = {"version": "1.2", "files": {"equus-1.2.whl": {"sha256": "a" * 64, "size": 7}}}


@pytest.mark.parametrize("agent", [None, {}, AGENT])
def test_the_document_of_what_was_built_is_what_agents_read(agent: dict[str, Any] | None) -> None:
    """A built pair has the same files in the same order, times, digest and Equus as its manifests when read."""
    new, new_document = build(FILES, agent, 7, 1_800_000_000, 1_800_000_100.5)
    undo, undo_document = build({}, None, 8, 1_800_000_000, 1_800_000_100.5)
    pair = Pair(new, undo, new_document, undo_document)
    signed = pair.signed(manifest.sign(new, [KEY]), manifest.sign(undo, [KEY]))
    assert [Signed.read(each.envelope) for each in signed] == list(signed)
    assert list(signed[0].document.files) == list(Signed.read(signed[0].envelope).document.files)
    assert pair.version == 7
    assert len(all_files(new_document)) == 3 + bool(agent)


def test_names_that_no_manifest_can_have() -> None:
    """Names that no manifest can hold are refused by a sentence when the manifest is built."""
    with pytest.raises(PushRefused, match="no manifest can name these files"):
        build({"../x": manifest.entry(b"")}, None, 1, 1.0, 2.0)
