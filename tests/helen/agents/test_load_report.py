"""Tests what an agent says of itself: bounded, whatever it says."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equus_protocol import manifest
from equus_protocol.manifest import MAX_FILES, ManifestRefused
from helen.agents.load_report import MAX_LABELS, MAX_PARTS, LoadReport, newer_version, read_loaded

GOOD = {
    "files": {"cpu.lua": {"sha256": "a" * 64, "state": "active"},
              "disk.lua": {"sha256": "b" * 64, "state": "kept-old", "error": "line 3: no"}},
    "labels": {"role": "web"},
    "host": {"os": "Linux", "cpus": 4, "memory": 8e9},
    "equus": "0.1.0",
    "isolation": "strong",
    "policy": "c" * 64,
    "spool": {"id": "s1", "depth": 3, "first": 17},
}  # fmt: skip


def test_a_good_one() -> None:
    """A good report is read as docs/protocol.rst has it."""
    report = read_loaded(json.dumps(GOOD).encode())
    assert report == LoadReport(
        {"cpu.lua": {"sha256": "a" * 64, "state": "active", "error": None},
         "disk.lua": {"sha256": "b" * 64, "state": "kept-old", "error": "line 3: no"}},
        {"disk.lua": "line 3: no"}, {"role": "web"}, {"os": "Linux", "cpus": 4, "memory": 8e9}, "strong", "c" * 64,
        {"id": "s1", "depth": 3, "first": 17},
    )  # fmt: skip
    assert report.spool_begins == ("s1", 17)


@pytest.mark.parametrize(
    "blob", [b"", b"x", b"[]", b"1", b"[" * 100_000, b"\xff", b'{"files": 1, "labels": [], "host": "x", "spool": null}']
)
def test_what_is_none(blob: bytes) -> None:
    """A report that is none is read as an empty one, and nothing is raised."""
    assert read_loaded(blob) == LoadReport()


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"labels": {"a": 1, "": "x", "k" * 256: "v", "k": "v" * 256, "ok": ""}}, LoadReport(labels={"ok": ""})),
        ({"files": {"../x.lua": {}, "x.lua": 1, "y.lua": {"state": 5, "error": 6}}},
         LoadReport({"y.lua": {"sha256": None, "state": None, "error": None}}, {"y.lua": "None"})),
        ({"files": {"x.lua": {"state": "refused", "error": "e" * 999}}},
         LoadReport({"x.lua": {"sha256": None, "state": "refused", "error": "e" * 500}}, {"x.lua": "e" * 500})),
        ({"host": {"a": [], "b": {}, "c": None, "d": 10**30, "e": "x" * 999}}, LoadReport(host={"e": "x" * 255})),
        ({"spool": {"id": 5, "first": 2}}, LoadReport(spool={"first": 2})),
        ({"spool": {"id": "s", "first": True, "depth": -1}}, LoadReport(spool={"id": "s"})),
        ({"spool": {"id": "s", "first": 2**31}}, LoadReport(spool={"id": "s"})),
        ({"isolation": 1, "policy": "p" * 999}, LoadReport(policy="p" * 255)),
        ({"manifest": {"reason": "frozen", "text": "t" * 999}, "upgrade": {"reason": 1, "text": "x"}},
         LoadReport(troubles={"manifest": ("frozen: " + "t" * 999)[:500]})),
        ({"manifest": "x", "upgrade": {"reason": "undone", "text": "y"}, "schedule": ["entry 1: no", "entry 2: no"]},
         LoadReport(troubles={"upgrade": "undone: y", "schedule": "entry 1: no"})),
        ({"schedule": [1]}, LoadReport()),
    ],
)  # fmt: skip
def test_what_is_left_out(document: dict[str, object], expected: LoadReport) -> None:
    """Fields of a wrong kind and of a size that nobody should have to keep are left out."""
    assert read_loaded(json.dumps(document).encode()) == expected


def test_numbers_that_json_cannot_say_again() -> None:
    """NaN and infinite numbers are left out, since they would break every answer that shows them."""
    assert read_loaded(b'{"host": {"a": NaN, "b": Infinity, "c": -1e999, "d": 1}}').host == {"d": 1}


@pytest.mark.parametrize("first", [0, 1])
def test_a_spool_that_begins_at_the_beginning(first: int) -> None:
    """A spool that begins at the beginning has nothing below it."""
    assert read_loaded(json.dumps({"spool": {"id": "s", "first": first}}).encode()).spool_begins is None


def test_labels_are_bounded() -> None:
    """An agent has at most MAX_LABELS labels, always the first ones by name."""
    labels = {f"k{n:03}": "v" for n in range(MAX_LABELS + 5)}
    assert list(read_loaded(json.dumps({"labels": labels}).encode()).labels) == sorted(labels)[:MAX_LABELS]


@pytest.mark.parametrize(
    ("said", "version"),
    [("rollback: manifest 11 is older than 15, which is in use", 15), ("", 0), ("frozen: no statement", 0),
     ("rollback: another manifest with the same version 4 is in use", 0),
     (f"rollback: manifest 1 is older than {10**30}, which", 0)],
)  # fmt: skip
def test_the_version_that_an_agent_has_instead(said: str, version: int) -> None:
    """The version is read from the refusal of an older set alone, and no agent makes it absurd (J3)."""
    assert newer_version({"manifest": said} if said else {}) == version


def test_an_agent_names_it_in_these_words() -> None:
    """The sentence is the one that the protocol's own reading of a manifest gives."""
    key = Ed25519PrivateKey.generate()
    pinned = {"k": key.public_key()}
    old, new = (manifest.sign(manifest.build({}, version, 1.0, 9.0), [key]) for version in (3, 8))
    with pytest.raises(ManifestRefused) as refused:
        manifest.verify(old, pinned, 2.0, held=manifest.verify(new, pinned, 2.0))
    assert newer_version({"manifest": f"{refused.value.reason}: {refused.value}"}) == 8


@pytest.mark.parametrize("half", [r"\ud800", r"\uDFFF", r"\udabcx", r"\ude00\ud83d"])
def test_halves_of_letters(half: str) -> None:
    """No page and no file could hold them: each is a `?`, wherever an agent writes it; a whole pair stays."""
    text = f'"{half}"'
    blob = (
        f'{{"labels": {{"a{half}": {text}, "pair": "\\ud83d\\ude00"}}, "host": {{"os": {text}}}, "isolation": {text},'
        f' "manifest": {{"reason": "x", "text": {text}}}, "files": {{"a.lua": {{"state": {text}, "error": {text}}}}}}}'
    )
    report = read_loaded(blob.encode())
    said = half.replace(half[:6], "?", 1).replace(half[6:] if half[6:].startswith("\\") else "~", "?")
    assert report.labels == {f"a{said}": said, "pair": "\U0001f600"}
    assert (report.host, report.isolation, report.troubles) == ({"os": said}, said, {"manifest": f"x: {said}"})
    assert report.not_active == {"a.lua": said}


@pytest.mark.parametrize("beyond", [0, 1])
def test_parts_are_bounded(beyond: int) -> None:
    """A report of half a million lists would hold every thread; one of as many files as a set may have is read."""
    given = {"labels": {"a": ",[{"}, "x": [1] * (MAX_PARTS - 3 + beyond)}
    assert read_loaded(json.dumps(given).encode()).labels == ({} if beyond else {"a": ",[{"})
    file = {"sha256": "f" * 64, "state": "refused", "error": "x"}
    files = {f"{number}.lua": file for number in range(MAX_FILES)}
    assert len(read_loaded(json.dumps({"files": files}).encode()).files) == MAX_FILES


@pytest.mark.parametrize("digits", [300, 301, 5_000])
def test_numbers_of_many_digits(digits: int) -> None:
    """Numbers of many digits are left out, and take nothing from the rest."""
    blob = b'{"host": {"a": %b, "b": 1}, "spool": {"first": %b}}' % (b"7" * digits, b"7" * digits)
    read = read_loaded(blob)
    assert (read.host, read.spool) == ({"b": 1}, {})
