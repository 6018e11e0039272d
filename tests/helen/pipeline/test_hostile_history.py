"""Tests damage and malice in a history: nothing is lost, nothing is run, nothing grows."""

from __future__ import annotations

import base64
import gzip
import os
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from helen.journal.document import read_document
from helen.pipeline.lake.errors import BadSegment
from helen.pipeline.lake.lake import Lake

PICKLES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
ROOT = Path(__file__).parents[3]
T = 1_790_000_000.0
PRODUCT = ("equus", "equus_protocol", "groundwork", "helen", "scale0", "zerotask")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.mark.adversary(69)
def test_a_damaged_segment_stops_the_pipeline_and_loses_nothing(lake: Lake, history: Any, take_in: Any) -> None:
    """A damaged segment stops the pipeline there; once it is whole again, the lake has each result once."""
    for n in range(3):
        history.segment(history.result("web1/disk", T + n))
    path = sorted(history.segments.glob("seg-*.parquet"))[1]
    whole = path.read_bytes()
    for damaged in (whole[:40], bytes(len(whole)), b"", whole[:-8] + bytes(8)):
        path.write_bytes(damaged)
        with pytest.raises(BadSegment, match=f"{path} can't be read"):
            take_in(lake, history.state)
        assert not (history.folder / "committed").exists()  # Helen deletes none of them
    path.write_bytes(whole)
    take_in(lake, history.state)
    assert sorted(row["at"] for row in lake.rows("results")) == [1, 2, 3]
    take_in(lake, history.state)
    assert len(lake.rows("results")) == 3


class Bomb:
    """Make a folder in /tmp when a pickle of this is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (f"/tmp/unpickled-{os.getpid()}",))


BLOBS = {
    "pickle": pickle.dumps(Bomb()),
    "pickle of text": pickle.dumps(Bomb(), 0),
    "bomb": gzip.compress(bytes(64 << 20), 9),  # 64 MiB in 64 KiB
    "bomb in text": b'{"status":"ok","summary":"' + base64.b64encode(gzip.compress(bytes(64 << 20), 9)) + b'"}',
}


@pytest.mark.adversary(70)
@pytest.mark.parametrize("name", BLOBS)
def test_a_pickle_and_a_bomb_are_text(lake: Lake, history: Any, take_in: Any, name: str) -> None:
    """A pickle or a compressed bomb in an agent's result stays text: it is neither run nor unpacked."""
    blob = BLOBS[name]
    document = read_document("disk", blob)
    assert document.status == (0 if name == "bomb in text" else 3)
    history.segment(history.result("web1/disk", T, blob=blob))
    take_in(lake, history.state)
    (row,) = lake.rows("results")
    assert (row["status"], row["summary"]) == (document.status, document.summary)
    assert len(repr(row)) < 8 * len(blob) + 2_000
    assert not Path(f"/tmp/unpickled-{os.getpid()}").exists()


@pytest.mark.adversary(70)
def test_nothing_of_an_agent_is_unpickled() -> None:
    """No module of the packages imports a reader of pickles or of marshalled code."""
    found = [
        (path.relative_to(ROOT), line)
        for room in PRODUCT
        for path in (ROOT / room).rglob("*.py")
        for line in path.read_text().splitlines()
        if (words := line.split()) and words[0] in ("import", "from") and PICKLES & set(re.split(r"[\s.,]+", line))
    ]
    assert found == []
