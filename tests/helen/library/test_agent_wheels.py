"""Tests which files are an Equus that agents can take."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile

import pytest

from equus_protocol.manifest import MAX_FILE
from equus_protocol.pieces import split
from helen.library.agent_only import agent_only
from helen.library.agent_wheels import MAX_BYTES, MAX_WHEELS, UPLOAD_SECONDS, NotAnEquus, Uploads, version_of


def archive() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        made.writestr("equus/x.py", "")
    return held.getvalue()


ZIP = archive()
OURS = "helen_equus-0.2.0-py3-none-any.whl"


def test_good_ones() -> None:
    """A wheel of Equus gives the version, alone or together with the wheels that it needs."""
    assert version_of({OURS: ZIP}) == "0.2.0"
    assert version_of({OURS: ZIP, "attrs-25.1.0-py3-none-any.whl": ZIP}) == "0.2.0"


@pytest.mark.parametrize(
    ("wheels", "why"),
    [
        ({}, "1 to 8 wheels"),
        ({f"x{n}-1-py3-none-any.whl": ZIP for n in range(MAX_WHEELS + 1)}, "1 to 8 wheels"),
        ({"attrs-25.1.0-py3-none-any.whl": ZIP}, "one of the wheels must be helen_equus"),
        ({"helen_equus-0.2rc1-py3-none-any.whl": ZIP}, "VERSION of numbers and dots"),
        ({"helen_equus-0.2.0-cp311-cp311-linux_x86_64.whl": ZIP}, "no wheel of pure Python"),
        ({"../helen_equus-0.2.0-py3-none-any.whl": ZIP}, "no wheel of pure Python"),
        ({OURS: b"text"}, "is no archive"),
        ({OURS: b" " * (MAX_BYTES + 1)}, "16777216 is the most that agents take"),
        ({OURS: ZIP, "attrs-25.1.0-py3-none-any.whl": b" " * MAX_BYTES}, "is the most that agents take"),
    ],
)
def test_bad_ones(wheels: dict[str, bytes], why: str) -> None:
    """Wheels that are no Equus are refused with the reason before anything is signed."""
    with pytest.raises(NotAnEquus, match=why):
        version_of(wheels)


def padded(size: int) -> bytes:
    """Return a wheel of Equus of `size` bytes, by bytes in front of the archive, which a reader of zip files
    ignores."""
    return b"#" * (size - len(ZIP)) + ZIP


@pytest.mark.parametrize("size", [MAX_FILE, MAX_FILE + 1, 3 * MAX_FILE, MAX_BYTES])
def test_a_wheel_that_is_longer_than_a_blob(size: int) -> None:
    """An Equus above the limit of a request arrives in pieces, and peek puts the pieces of one caller together (J1)."""
    uploads, whole = Uploads(), {OURS: padded(size)}
    assert version_of(whole) == "0.2.0"
    *before, last = split(whole).items()
    for name, piece in before:
        uploads.add("eva", {name: piece}, 5.0)
    assert uploads.peek("eva", dict([last])) == whole
    if before:
        with pytest.raises(NotAnEquus, match="send them all again"):
            uploads.peek("bob", dict([last]))  # the others are not of this caller
    uploads.forget("eva")
    assert uploads.peek("eva", {}) == {}


def test_what_is_kept_for_a_later_request_is_bounded() -> None:
    """Pieces of uploads are bounded in bytes over all callers, and expire after UPLOAD_SECONDS (J1)."""
    uploads, piece = Uploads(), b"x" * MAX_FILE
    for number in range(16):
        uploads.add("eva", {f"{OURS}/{number:02d}": piece}, 0.0)
    with pytest.raises(NotAnEquus, match="the most that agents take"):
        uploads.add("bob", {f"{OURS}/00": piece}, UPLOAD_SECONDS - 1)
    uploads.add("bob", {f"{OURS}/00": piece}, UPLOAD_SECONDS)
    assert uploads.peek("eva", {}) == {}
    assert uploads.peek("bob", {}) == {OURS: piece}


def product(*left_out: str) -> bytes:
    held = io.BytesIO()
    names = [
        "equus/main.py", "equus/lua/x.lua", "equus_protocol/codec.py", "groundwork/event.py", "helen_checks/disk.lua",
        "helen/tap.py", "scale0/ctl.py", "twisted/plugins/helen.py", "helen_equus-0.2.0.dist-info/METADATA",
        "helen_equus-0.2.0.dist-info/RECORD",
    ]  # fmt: skip
    with zipfile.ZipFile(held, "w") as made:
        for name in names:
            if not name.startswith(left_out or ("-",)):
                made.writestr(name, f"of {name}")
    return held.getvalue()


def test_a_wheel_of_the_agent_alone() -> None:
    """The wheel made for agents holds the agent and the packages it imports; its RECORD has every file with its hash
    (J1)."""
    with zipfile.ZipFile(io.BytesIO(agent_only(product()))) as made:
        names = made.namelist()
        record = made.read("helen_equus-0.2.0.dist-info/RECORD").decode().splitlines()
        assert made.read("equus/lua/x.lua") == b"of equus/lua/x.lua"
    assert names == [
        "equus/main.py", "equus/lua/x.lua", "equus_protocol/codec.py", "groundwork/event.py", "helen_checks/disk.lua",
        "helen_equus-0.2.0.dist-info/METADATA", "helen_equus-0.2.0.dist-info/RECORD",
    ]  # fmt: skip
    assert [line.split(",")[0] for line in record] == names
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"of equus/main.py").digest()).rstrip(b"=").decode()
    assert record[0] == f"equus/main.py,sha256={digest},16"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"text", "no wheel that can be read"),
        (product("equus/"), "lacks equus"),
        (product("groundwork/", "helen_checks/"), "lacks groundwork, helen_checks"),
        (product("helen_equus-0.2.0.dist-info/RECORD"), "lacks one RECORD"),
    ],
)
def test_no_wheel_of_the_product(content: bytes, why: str) -> None:
    """A file that is no wheel of the product is refused by a sentence that says what it lacks."""
    with pytest.raises(NotAnEquus, match=why):
        agent_only(content)
