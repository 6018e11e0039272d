"""Names the folders of the lake into which tasks on other machines write answers, and deletes what a kill has left.

LAKE/_answers/1790035200-5f0c...      the second in which it was made
"""

from __future__ import annotations

import time
import uuid
from pathlib import Path

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.places import make_folder, names_in, remove_empty, remove_tree

FOLDER = "_answers"
OLD_SECONDS = 86_400.0  # a report is read in less


def new_folder(lake: Lake) -> Path:
    """Make a folder for one answer, and return it. Raises OSError."""
    folder = lake.folder / FOLDER / f"{int(time.time())}-{uuid.uuid4().hex}"
    make_folder(folder)
    return folder


def sweep_folders(lake: Lake, now: float) -> int:
    """Delete the folders that are older than OLD_SECONDS, empty ones too, and return how many. Raises OSError."""
    base = lake.folder / FOLDER
    old = [
        name
        for name in names_in(base)
        if name.partition("-")[0].isdigit() and now - int(name.partition("-")[0]) > OLD_SECONDS
    ]
    for name in old:
        remove_tree(base / name)
    remove_empty(base)
    return len(old)
