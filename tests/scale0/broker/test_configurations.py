"""Tests the configurations that a broker holds, verdict by verdict: its file's, and those that the network sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from scale0.broker.configurations import Configurations
from scale0.broker.startup import load_file
from scale0.broker.state_folder import Record, StoredDocument
from scale0.config.config import ConfigFault
from scale0.documents.publication import ALL, Publication

SOURCE = ("tcp://127.0.0.1:9",)


class Stage:
    """Loads configurations of a file that a case writes."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "b1.json"

    def load(self, **config: Any) -> Any:
        tree = {"identity": "b1", "frontend_port": 0, "backend_port": 0} | config
        self.file.write_bytes(msgspec.json.encode(tree))
        return load_file(self.file)

    def held(self, record: Record | None = None, key: Any = None, **config: Any) -> Configurations:
        return Configurations(self.load(**config), record, key)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def shared(version: int, **tree: Any) -> Publication:
    return Publication("scale0", ALL, version, "JSON", msgspec.json.encode(tree))


def own(version: int, identity: str = "b1", **tree: Any) -> Publication:
    whole = {"identity": identity, "frontend_port": 0, "backend_port": 0} | tree
    return Publication("scale0", identity, version, "JSON", msgspec.json.encode(whole))


def test_only_what_is_newer_than_the_file_is_news(stage: Stage) -> None:
    """The file's version says nothing of what all share."""
    held = stage.held(config_sub_ports=SOURCE)
    mine = held.own_version
    assert [held.judge(own(version)) for version in (mine - 1, mine, mine + 1)] == ["old", "old", "news"]
    assert held.judge(shared(1, spill_ms=1)) == "news"
    held.accept(shared(5, spill_ms=1), held.config)
    assert [held.judge(shared(version, spill_ms=1)) for version in (4, 5, 6)] == ["old", "known", "news"]


def test_a_configuration_keeps_what_all_share(stage: Stage) -> None:
    held = stage.held(config_sub_ports=SOURCE, spill_ms=3)
    config = held.accept(shared(5, spill_ms=7), held.read(shared(5, spill_ms=7), held.config))
    assert config.spill_ms == 7
    new = own(held.own_version + 1, services=["tea"], config_sub_ports=SOURCE)
    config = held.accept(new, held.read(new, config))
    assert (config.spill_ms, config.services) == (7, ("tea",)) and set(held.seen.newest) == {ALL, "b1"}


@pytest.mark.parametrize("new, why", [
    (own(9, identity="b2"), "b2 is another broker"), (shared(9, spill_ms="long"), "spill_ms"),
    (Publication("scale0", "b1", 9, "JSON", b"{"), "line 1: "),
])  # fmt: skip
def test_what_does_not_fit_is_refused(stage: Stage, new: Publication, why: str) -> None:
    held = stage.held(config_sub_ports=SOURCE)
    with pytest.raises(ConfigFault, match=why) as refusal:
        held.read(new, held.config)
    assert refusal.value.faults[0].line == 1


def test_a_signature_is_demanded_and_cannot_be_signed_away(stage: Stage) -> None:
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    mine = key.public_key().public_bytes_raw().hex()
    held = stage.held(config_sub_ports=SOURCE, config_key=[mine])
    for new in (own(9), own(9).signed(other)):
        with pytest.raises(ConfigFault, match="not signed by any of `config_key`") as refusal:
            held.read(new, held.config)
        assert refusal.value.faults[0].line == 1
    assert held.read(own(9).signed(key), held.config).config_key == held.config.config_key != ()
    again = other.public_key().public_bytes_raw().hex()
    assert held.read(own(9, config_key=[again]).signed(key), held.config).config_key != held.config.config_key


def test_a_reloaded_file_is_newer_and_ends_what_was_received_for_this_broker(stage: Stage) -> None:
    held = stage.held(config_sub_ports=SOURCE)
    held.accept(shared(5, spill_ms=7), held.config)
    held.accept(own(held.own_version + 1), held.config)
    loaded = stage.load(config_sub_ports=SOURCE, spill_ms=2)
    config = held.reload(loaded, loaded.changed_ms + 10)
    assert (config.spill_ms, held.own_version, set(held.seen.newest)) == (7, loaded.changed_ms + 11, {ALL})
    assert held.loaded is loaded
    config = held.reload(loaded, 1)
    assert held.own_version == loaded.changed_ms
    source = stage.load(spill_ms=2)
    assert held.reload(source, 1).spill_ms == 2  # it says itself what its network shares


def test_a_shared_part_that_does_not_fit_a_new_file_leaves_all_as_it_was(stage: Stage) -> None:
    held = stage.held(config_sub_ports=SOURCE)
    before = held.loaded, held.own_version
    held.seen.take(Publication("scale0", ALL, 5, "JSON", b"{"))
    with pytest.raises(ConfigFault):
        held.reload(stage.load(config_sub_ports=SOURCE, spill_ms=2), 99)
    assert (held.loaded, held.own_version) == before


# ---------------------------------------------------------------------------------------- restarts


def stored(new: Publication) -> StoredDocument:
    return StoredDocument(new.version, new.syntax, new.document, new.signature)


@pytest.mark.parametrize("same_file", [True, False])
def test_what_was_received_is_taken_up_again(stage: Stage, same_file: bool) -> None:
    """The shared part is taken up in any case; the own one as long as the file is the same."""
    loaded = stage.load(config_sub_ports=SOURCE, spill_ms=3)
    later = loaded.changed_ms + 50
    received = {
        "b1": stored(own(later, spill_ms=8, config_sub_ports=SOURCE)),
        ALL: stored(shared(later + 1, max_skew=9)),
    }
    record = Record("active", 5, loaded.digest if same_file else "other", received)
    held = Configurations(loaded, record, None)
    assert (held.config.spill_ms, held.config.max_skew) == ((8 if same_file else 3), 9.0)
    assert set(held.seen.newest) == ({ALL, "b1"} if same_file else {ALL}) and held.left_out == []
    assert held.own_version == (5 if same_file else loaded.changed_ms) and held.version == later + 1


def test_a_stored_configuration_that_cannot_be_read_is_left_out(stage: Stage) -> None:
    loaded = stage.load(config_sub_ports=SOURCE)
    broken = StoredDocument(9, "JSON", b"{", b"")
    held = Configurations(loaded, Record("active", 5, loaded.digest, {ALL: broken}), None)
    assert len(held.left_out) == 1 and held.seen.newest == {} and held.config == loaded.config


@pytest.mark.parametrize("is_source", [True, False])
def test_what_survives_a_restart(stage: Stage, is_source: bool) -> None:
    """A source keeps no shared part: its file says that."""
    held = stage.held(config_sub_ports=() if is_source else SOURCE)
    held.seen.take(shared(5, spill_ms=7))
    held.seen.take(own(held.own_version + 1))
    record = held.record("disabled")
    assert (record.state, record.version, record.file_digest) == ("disabled", held.own_version, held.loaded.digest)
    assert set(record.received) == ({"b1"} if is_source else {"b1", ALL})
    assert record.received["b1"] == stored(own(held.own_version + 1)) and held.is_source is is_source


# ---------------------------------------------------------------------------------------- published


def test_a_source_publishes_what_all_share_and_others_what_they_received(stage: Stage) -> None:
    key = Ed25519PrivateKey.generate()
    held = stage.held(key=key, spill_ms=3)
    mine, whole = held.publications(held.config, 7)
    assert (mine.scope, mine.version, mine.document) == ("b1", 7, b"")
    assert (whole.scope, whole.version) == (ALL, 7) and msgspec.json.decode(whole.document)["spill_ms"] == 3
    assert whole.signature and not mine.signature
    assert held.publications(held.config, 8)[0].version == 7
    held.changed()
    assert held.publications(held.config, 8)[0].version == 8
    other = stage.held(config_sub_ports=SOURCE)
    assert [each.scope for each in other.publications(other.config, 7)] == ["b1"]
    other.seen.take(shared(5, spill_ms=7))
    other.changed()
    assert [each.scope for each in other.publications(other.config, 7)] == ["b1", ALL]


def test_names_may_be_shared_from_python(stage: Stage) -> None:
    held = stage.held()
    config = held.share({"spill_ms": 11}, held.config, 9)
    assert config.spill_ms == 11 and held.seen.newest[ALL].version == 9
    assert "identity" not in msgspec.json.decode(held.seen.newest[ALL].document)
    with pytest.raises(ConfigFault):
        held.share({"spill_ms": "long"}, held.config, 10)
    assert held.seen.newest[ALL].version == 9
