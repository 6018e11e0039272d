"""What is an Equus that agents can take."""

from __future__ import annotations

import io
import zipfile

import pytest

from equus_protocol.manifest import MAX_FILE
from helen.wheels import MAX_WHEELS, NotAnEquus, version_of


def archive() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        made.writestr("equus/x.py", "")
    return held.getvalue()


ZIP = archive()
OURS = "helen_equus-0.2.0-py3-none-any.whl"


def test_good_ones() -> None:
    """Ours, alone or with what it needs."""
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
        ({OURS: ZIP.ljust(MAX_FILE + 1)}, "is the most that fits into one blob"),
    ],
)
def test_bad_ones(wheels: dict[str, bytes], why: str) -> None:
    """Said before anything is signed."""
    with pytest.raises(NotAnEquus, match=why):
        version_of(wheels)
