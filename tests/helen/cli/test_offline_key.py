"""Tests that a key that Helen does not hold signs only its owner's wishes, whatever Helen answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hostile_helen import HostileHelen, hostile_helen

from equus_protocol import freshness, manifest, one_off, roots
from equus_protocol.manifest import key_id
from groundwork.file_lock import FileLock
from helen.cli.base.signing_record import read_record
from helen.cli.main import main
from helen.keys.signing_keys import load_private, make_private, public_pem

NOW = time.time()
CPU, DISK, OLD_DISK, EVIL = b"return 'cpu'", b"return 'disk 2'", b"return 'disk 1'", b"os.execute('evil')"
FOREIGN = Ed25519PrivateKey.from_private_bytes(b"m" * 32)
ONLINE = Ed25519PrivateKey.from_private_bytes(b"o" * 32)


@define
class Console:
    """Hold the folder of an operator with a key and files, and a Helen that cannot be trusted."""

    folder: Path
    helen: HostileHelen

    @property
    def key(self) -> Path:
        return self.folder / "release.key"

    @property
    def key_id(self) -> str:
        return key_id(load_private(self.key).public_key())

    def file(self, name: str, content: bytes) -> str:
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    def run(self, *words: str) -> Result:
        return CliRunner(env={"HELEN_STATE": None}).invoke(
            main, [*words, "--url", self.helen.url, "--token", "x"], prog_name="helen"
        )

    def push(self, *words: str) -> Result:
        return self.run("push", *words, "--key", str(self.key), "--detach")

    def stage(self, new: Any, undo: Any) -> None:
        staged = {"version": 1, "manifest": text_of(new), "undo": text_of(undo), "files": {}}
        shown = {"version": None, "agents": 0, "loaded": 0, "kept_old": {}, "can_sign": False, "staged": staged}
        self.helen.answers["GET /api/v1/push"] = shown | {"agent": None, "upgrade": None, "rollout": None}
        self.helen.answers["GET /api/v1/rollouts/current"] = {"version": 1}

    def signed(self) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self.helen.got.get("POST /api/v1/push/signed", [])
        return found

    def shows_keys(
        self, version: int, threshold: int, *keys: Ed25519PrivateKey, online: Ed25519PrivateKey = ONLINE
    ) -> None:
        listed = [{"id": "x", "pem": public_pem(key.public_key()), "here": False} for key in keys]
        shown = {"version": version, "threshold": threshold, "keys": listed, "waiting": False}
        shown["online"] = {"id": key_id(online.public_key()), "pem": public_pem(online.public_key())}
        self.helen.answers["GET /api/v1/keys"] = shown
        self.stage_nothing()

    def stage_nothing(self) -> None:
        self.stage(b"", b"")
        self.helen.answers["GET /api/v1/push"]["staged"] = None


def text_of(document: Any) -> Any:
    return document.decode() if isinstance(document, bytes) else document


def a_set(version: int, now: float = NOW, **files: bytes) -> bytes:
    return manifest.build({f"{name}.lua": text for name, text in files.items()}, version, now, now + 86_400 * 30)


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    """Provide a console whose key has signed versions 1 and 2 with cpu.lua and the first disk.lua."""
    with hostile_helen() as helen:
        made = Console(tmp_path, helen)
        make_private(made.key)
        made.stage(a_set(1, cpu=CPU, disk=OLD_DISK), a_set(2, cpu=CPU, disk=OLD_DISK))
        words = [made.file("cpu.lua", CPU), made.file("disk.lua", OLD_DISK), "--first"]
        result = made.push(*words)
        assert result.exit_code == 0, result.output
        made.file("disk.lua", DISK)
        helen.got.clear()
        yield made


GOOD, BACK = a_set(3, cpu=CPU, disk=DISK), a_set(4, cpu=CPU, disk=OLD_DISK)
ROOT = roots.build(2, [FOREIGN.public_key()], 1, ONLINE.public_key())
ORDER = one_off.build("0" * 32, "evil", {"evil.lua": EVIL}, {}, ["*"], NOW, NOW + 60)
WORD = freshness.build(manifest.read_unverified(manifest.seal(GOOD, [])), NOW)


def with_more(text: bytes, **more: Any) -> bytes:
    return json.dumps(json.loads(text) | more, separators=(",", ":"), sort_keys=True).encode()


# What Helen hands out as the manifest and as its undo, and a part of the sentence.
HOSTILE: dict[str, tuple[Any, Any, str]] = {
    "a root": (ROOT, BACK, "`manifest`, which Helen wants to be signed, is no manifest: a document of type"),
    "a root as undo": (GOOD, ROOT, "`undo`, which Helen wants to be signed, is no manifest: a document of type"),
    "an order": (ORDER, BACK, "a document of type 'equus-once'"),
    "an order as undo": (GOOD, ORDER, "a document of type 'equus-once'"),
    "freshness": (WORD, BACK, "a document of type 'equus-freshness'"),
    "freshness as undo": (GOOD, WORD, "a document of type 'equus-freshness'"),
    "the undo twice": (BACK, BACK, "the undo of version 4 is version 4, not 5"),
    "both exchanged": (BACK, GOOD, "the undo of version 4 is version 3, not 5"),
    "other hashes": (a_set(3, cpu=CPU, disk=EVIL), BACK, "disk.lua ("),
    "one that was not given": (a_set(3, cpu=EVIL, disk=DISK), BACK, "cpu.lua ("),
    "a file more": (a_set(3, cpu=CPU, disk=DISK, evil=EVIL), BACK, "evil.lua ("),
    "a file less": (a_set(3, disk=DISK), BACK, "leaves out cpu.lua: say `--remove cpu.lua`"),
    "without what is given": (a_set(3, cpu=CPU), BACK, "leaves out disk.lua, which you give"),
    "the old file": (a_set(3, cpu=CPU, disk=OLD_DISK), BACK, "disk.lua ("),
    "a version lower": (a_set(1, cpu=CPU, disk=DISK), a_set(2, cpu=CPU, disk=OLD_DISK), "have signed version 2"),
    "a version left out": (a_set(5, cpu=CPU, disk=DISK), a_set(6, cpu=CPU, disk=OLD_DISK), "asks for version 5"),
    "rings in it": (with_more(GOOD, rings=["1%"]), BACK, "has more in it than version, times and files"),
    "a field more": (GOOD, with_more(BACK, note="x"), "has more in it than version, times and files"),
    "another Equus": (with_more(GOOD, agent={"version": "9.9", "files": {}}), BACK, "another Equus (version 9.9)"),
    "spaces in it": (GOOD + b" ", BACK, "has more in it than version, times and files"),
    "of tomorrow": (a_set(3, NOW + 90_000, cpu=CPU, disk=DISK), BACK, "are both clocks right?"),
    "expired": (a_set(3, NOW - 86_400 * 31, cpu=CPU, disk=DISK), BACK, "are both clocks right?"),
    "for ever": (with_more(GOOD, expires=2**39), BACK, "are both clocks right?"),
    "a number": (3, BACK, "is no text of a manifest"),
    "nothing": (GOOD, None, "is no text of a manifest"),
    "no JSON": (b"{", BACK, "is no manifest: the manifest is no JSON"),
    "half a letter": ("\ud800", BACK, "is no text of a manifest"),
    "an endless one": ("x" * 1_100_000, BACK, "is no text of a manifest"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_but_the_operators_set_is_signed(console: Console, name: str) -> None:
    """A hostile document or another set in place of the operator's ends with 1, a sentence and no signature (F36)."""
    new, undo, sentence = HOSTILE[name]
    console.stage(new, undo)
    before = read_record(console.key, console.key_id)
    result = console.push(str(console.folder / "disk.lua"))
    assert (result.exit_code, console.signed()) == (1, [])
    assert "nothing was signed: " in result.stderr and sentence in result.stderr
    assert read_record(console.key, console.key_id) == before


@pytest.mark.parametrize("answer", [[], 3, None, "x", {"staged": []}, {"staged": 7, "agents": 1, "version": 1}])
def test_answers_that_are_none(console: Console, answer: Any) -> None:
    """Any other JSON in place of Helen's answer ends with 1, a sentence and no signature (F36)."""
    console.stage(GOOD, BACK)
    console.helen.answers["GET /api/v1/push"] = answer
    result = console.push(str(console.folder / "disk.lua"))
    assert (result.exit_code, console.signed(), "can't be read" in result.stderr) == (1, [], True)


def test_the_difference_is_shown_and_both_kinds_are_in_the_signatures(console: Console) -> None:
    """A push shows the difference to the record, signs both sets with their kind, and records them for the next one
    (F36)."""
    console.stage(GOOD, BACK)
    result = console.push(str(console.folder / "disk.lua"))
    assert result.exit_code == 0, result.output
    assert "version 3, against version 1: 2 files" in result.stderr
    assert (
        f"  ~ disk.lua {manifest.entry(DISK).sha256[:12]} (was {manifest.entry(OLD_DISK).sha256[:12]})" in result.stderr
    )
    assert "cpu.lua" not in result.stderr
    assert "version 4, kept for an undo: the files of version 1" in result.stderr
    [sent] = console.signed()
    public = {"x": load_private(console.key).public_key()}
    for name, text in (("manifest", GOOD), ("undo", BACK)):
        assert manifest.open_envelope(sent[name].encode())[0] == text
        assert manifest.is_signed(sent[name].encode(), public, 1, manifest.TYPE)
        assert manifest.is_signed(sent[name].encode(), public, 1)
    record = read_record(console.key, console.key_id)
    assert record is not None and (record.version, record.published) == (4, True)
    assert [each.version for each in record.sets] == [3, 4, 1, 2]


def test_a_set_that_helen_did_not_take_is_signed_again(console: Console) -> None:
    """The same version is signed again as long as Helen has not confirmed it, and not later (F36)."""
    console.stage(GOOD, BACK)
    assert console.push(str(console.folder / "disk.lua")).exit_code == 0
    again = console.push(str(console.folder / "disk.lua"))
    assert (again.exit_code, "have signed version 4" in again.stderr) == (1, True)
    path = console.folder / "release.key.signed"
    path.write_text(path.read_text().replace('"published": true', '"published": false'))
    console.file("disk.lua", b"return 'disk 3'")
    console.stage(a_set(3, cpu=CPU, disk=b"return 'disk 3'"), BACK)
    assert console.push(str(console.folder / "disk.lua")).exit_code == 0


NEW_CPU = b"return 'cpu 2'"
# After version 3, with a new disk.lua, was published: what Helen stages, what is said besides, and what goes back.
GOES_BACK: dict[str, tuple[bytes, bytes, tuple[str, ...], str]] = {
    "a fix": (a_set(5, cpu=NEW_CPU, disk=OLD_DISK), a_set(6, cpu=CPU, disk=OLD_DISK), (), "disk.lua"),
    "a fix, and the undo doesn't": (a_set(5, cpu=NEW_CPU, disk=OLD_DISK), a_set(6, cpu=CPU, disk=DISK), (), ""),
    "with a gap": (a_set(9, cpu=NEW_CPU, disk=OLD_DISK), a_set(10, cpu=CPU, disk=OLD_DISK), ("--first",), "disk.lua"),
    "all": (a_set(5, cpu=CPU, disk=OLD_DISK), a_set(6, cpu=CPU, disk=OLD_DISK), (), "disk.lua"),
}  # fmt: skip


@pytest.mark.parametrize("name", GOES_BACK)
def test_a_set_goes_back_only_by_consent(console: Console, name: str) -> None:
    """A set that goes back behind a signed one is refused without --undone, since a Helen could reuse old bytes."""
    console.stage(GOOD, BACK)
    assert console.push(str(console.folder / "disk.lua")).exit_code == 0
    console.helen.got.clear()
    new, undo, words, moved = GOES_BACK[name]
    console.stage(new, undo)
    files = [console.file("cpu.lua", NEW_CPU)] if name != "all" else []
    refused = console.push(*files, *words)
    assert (refused.exit_code, console.signed()) == (1, [])
    assert "goes back behind version 3" in refused.stderr if moved else "disk.lua (" in refused.stderr
    agreed = console.push(*files, *words, "--undone")
    assert (agreed.exit_code, len(console.signed())) == ((0, 1) if moved else (1, 0))
    assert (f"  < {moved}, as before version 3" in agreed.stderr) is bool(moved)


def test_the_newest_set_once_more_goes_back_nowhere(console: Console) -> None:
    """The newest set staged anew after thirty days is signed, and a set with the given files is no step back."""
    console.stage(GOOD, BACK)
    assert console.push(str(console.folder / "disk.lua")).exit_code == 0
    console.stage(a_set(5, cpu=CPU, disk=DISK), a_set(6, cpu=CPU, disk=OLD_DISK))
    assert console.push().exit_code == 0
    console.file("disk.lua", OLD_DISK)
    console.stage(a_set(7, cpu=CPU, disk=OLD_DISK), a_set(8, cpu=CPU, disk=DISK))
    again = console.push(str(console.folder / "disk.lua"))
    assert (again.exit_code, "  < " in again.stderr) == (0, False)


def test_a_file_leaves_the_set_by_name(console: Console) -> None:
    """--remove tells Helen and lets a set without the file be signed; a set that still has it is refused (F36)."""
    console.stage(a_set(3, disk=OLD_DISK), BACK)
    result = console.push("--remove", "cpu.lua")
    assert (result.exit_code, "  - cpu.lua" in result.stderr) == (0, True)
    assert console.helen.got["POST /api/v1/push"][0]["remove"] == ["cpu.lua"]
    console.stage(a_set(5, cpu=CPU, disk=OLD_DISK), a_set(6, disk=OLD_DISK))
    result = console.push("--remove", "cpu.lua")
    assert (result.exit_code, "still has cpu.lua, which you remove" in result.stderr) == (1, True)


@pytest.mark.parametrize("how", ["lost", "a gap"])
def test_first_begins_a_record(console: Console, how: str) -> None:
    """A lost record or a gap is refused until --first, which signs only given files and no unknown undo (F36)."""
    version = 7
    if how == "lost":
        (console.folder / "release.key.signed").unlink()
    console.stage(a_set(version, cpu=CPU, disk=DISK), a_set(version + 1, cpu=EVIL, disk=OLD_DISK))
    files = [str(console.folder / name) for name in ("cpu.lua", "disk.lua")]
    refused = console.push(*files)
    assert (refused.exit_code, "say --first" in refused.stderr, console.signed()) == (1, True, [])
    one = console.push(files[1], "--first")
    assert (one.exit_code, len(console.signed())) == ((1, 0) if how == "lost" else (0, 1))
    if how == "lost":
        assert "cpu.lua (" in one.stderr
        assert console.push(*files, "--first").exit_code == 0
    [sent] = console.signed()
    undo = manifest.read_unverified(sent["undo"].encode())
    assert (undo.version, undo.files) == (8, manifest.read_unverified(sent["manifest"].encode()).files)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "can't be used"), ("[]", "can't be used"), ('{"key": "x"}', "is the record of another key, x"),
        ('{"key": "KEY", "version": "a", "sets": [], "published": 1, "root": null, "sent": null}', "can't be used"),
    ],
)  # fmt: skip
def test_a_damaged_record(console: Console, content: str, sentence: str) -> None:
    """A damaged record is refused by a sentence, never taken for a lost one, and nothing is sent to Helen (F36)."""
    (console.folder / "release.key.signed").write_text(content.replace("KEY", console.key_id))
    console.stage(GOOD, BACK)
    result = console.push(str(console.folder / "disk.lua"), "--first")
    assert (result.exit_code, sentence in result.stderr, console.helen.got) == (1, True, {})


def test_one_command_at_a_time(console: Console) -> None:
    """A second command is refused while another one holds the lock of the record (F36)."""
    lock = FileLock(console.folder / "release.key.signed.lock")
    result = console.push(str(console.folder / "disk.lua"))
    lock.release()
    assert (result.exit_code, "another command signs with" in result.stderr) == (1, True)


def test_who_carries_a_file_does_not_choose_rings_unseen(console: Console) -> None:
    """Rings carried in a file with a signature are shown, must agree between files, and hold nothing else: nobody
    signs them."""
    console.stage(GOOD, BACK)
    one, other = console.folder / "one.json", console.folder / "other.json"
    console.push(str(console.folder / "disk.lua"), "--rings", "1%,100%", "--save", str(one))
    held = json.loads(one.read_text())
    assert held["plan"] == {"rings": "1%,100%"}
    other.write_text(json.dumps(held | {"plan": {"rings": "off"}}))
    carried = console.run("push", "--signed", str(other), "--detach")
    assert (carried.exit_code, 'rings, as the file says: "off"' in carried.stderr) == (0, True)
    chosen = console.run("push", "--signed", str(other), "--rings", "10%", "--detach")
    assert (chosen.exit_code, 'rings, as you say: "10%"' in chosen.stderr) == (0, True)
    assert [sent["rings"] for sent in console.signed()] == ["off", "10%"]
    both = console.run("push", "--signed", str(one), "--signed", str(other), "--detach")
    assert (both.exit_code, "name different rings or gates" in both.stderr) == (1, True)
    other.write_text(json.dumps(held | {"plan": {"replace": True}}))
    more = console.run("push", "--signed", str(other), "--detach")
    assert (more.exit_code, "its plan has 'replace'" in more.stderr, len(console.signed())) == (1, True, 2)


# ---------------------------------------------------------------------------------------------- roots


def test_a_rotation_shows_the_root_and_keeps_it(console: Console) -> None:
    """A first rotation needs --first and signs the local root; the next one shows the difference to the record
    (F36)."""
    ours = load_private(console.key)
    console.shows_keys(1, 1, ours)
    words = ["keys", "rotate", "--key", str(console.key)]
    refused = console.run(*words, "--new", str(console.key))
    assert (refused.exit_code, "say --first" in refused.stderr) == (1, True)
    made = console.run(*words, "--new", str(console.key), "--first")
    assert made.exit_code == 0, made.output
    [sent] = console.helen.got["POST /api/v1/keys"]
    root = roots.read(sent["root"].encode())
    assert (root.version, root.threshold, set(root.keys), root.typed) == (2, 1, {console.key_id}, True)
    assert roots.is_self_signed(sent["root"].encode(), root)
    console.shows_keys(2, 1, ours)
    other = console.folder / "cara.key"
    make_private(other)
    shown = console.run(*words, "--new", str(other), "--new", str(console.key), "--threshold", "2").stderr
    assert "root 3, against root 2: 2 of 2 keys must sign, and 1 of 1 before" in shown
    assert f"  + {key_id(load_private(other).public_key())}" in shown and f"    {console.key_id}" in shown


CLAIMS: dict[str, tuple[Callable[[Console], None], str]] = {
    "a foreign key": (lambda d: d.shows_keys(2, 1, load_private(d.key), FOREIGN), "these keys have signed root 2 of 1"),
    "only a foreign key": (lambda d: d.shows_keys(2, 1, FOREIGN), "these keys have signed root 2 of 1"),
    "an older root": (lambda d: d.shows_keys(1, 1, load_private(d.key)), "Helen shows root 1"),
    "a newer root": (lambda d: d.shows_keys(5, 1, load_private(d.key)), "say --first"),
    "another online key": (lambda d: d.shows_keys(2, 1, load_private(d.key), online=FOREIGN), "online key is now"),
    "no answer": (lambda d: d.helen.answers.update({"GET /api/v1/keys": []}), "can't be read"),
    "no keys": (lambda d: d.helen.answers.update({"GET /api/v1/keys": {"version": 2, "keys": [3]}}), "can't be read"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_about_the_keys(console: Console, name: str) -> None:
    """A false claim of Helen about its root or keys is refused, and nothing is signed (F36)."""
    console.shows_keys(1, 1, load_private(console.key))
    words = ["keys", "rotate", "--key", str(console.key)]
    assert console.run(*words, "--new", str(console.key), "--first").exit_code == 0
    claim, sentence = CLAIMS[name]
    console.helen.got.clear()
    claim(console)
    result = console.run(*words, "--threshold", "1")
    assert (result.exit_code, "POST /api/v1/keys" in console.helen.got) == (1, False)
    assert "nothing was signed: " in result.stderr and sentence in result.stderr


def test_a_first_rotation_takes_no_key_from_helen(console: Console) -> None:
    """A first rotation without --new refuses a key that only Helen names, even with --first (F36)."""
    console.shows_keys(1, 1, load_private(console.key), FOREIGN)
    result = console.run("keys", "rotate", "--key", str(console.key), "--threshold", "1", "--first")
    assert (result.exit_code, "POST /api/v1/keys" in console.helen.got) == (1, False)
    assert f"Helen names the key {key_id(FOREIGN.public_key())}" in result.stderr


def test_a_rotation_does_not_sign_a_set_that_is_not_known(console: Console) -> None:
    """A rotation is signed, but an unknown staged set that Helen hands out after it is not (F36)."""
    console.shows_keys(1, 1, load_private(console.key))
    console.stage(a_set(3, cpu=EVIL, disk=OLD_DISK), a_set(4, cpu=CPU, disk=OLD_DISK))
    result = console.run("keys", "rotate", "--key", str(console.key), "--new", str(console.key), "--first")
    assert (result.exit_code, console.signed()) == (0, [])
    assert "still waits for their signatures: nothing was signed: " in result.stderr and "cpu.lua (" in result.stderr


# ---------------------------------------------------------------------------------------------- orders


def test_an_order_is_shown_before_it_is_signed(console: Console) -> None:
    """The order of a dry run is of the local file, and is shown with its agents before it is signed (F36)."""
    pattern = "role=web"
    console.helen.answers["GET /api/v1/agents"] = {
        "agents": [{"name": "db-1", "claimed": {}, "labels": {"role": "web"}}]
    }
    result = console.run(
        "check", "dry-run", str(console.folder / "disk.lua"), "--on", pattern, "--key", str(console.key)
    )
    [body] = console.helen.got.get("POST /api/v1/once", [{}])
    order = json.loads(json.loads(body["order"])["signed"])
    assert order["type"] == one_off.TYPE
    assert f"{console.key_id} signs an order: run disk once on {', '.join(order['on'])}, until " in result.stderr
    assert f"  disk.lua {manifest.entry(DISK).sha256[:12]}" in result.stderr
