"""Keeps the order of one-off code that runs as a job: it is good for as long as agents are waited for.

    STATE/jobs/ID.once       what agents are sent: the signed order with its files, written before the task is

`keep` and `kept` block; call them in a thread.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from groundwork.atomic_write import PRIVATE, write_durably
from helen.files.state_dir import make_folder
from helen.queries.job_request import order_life
from helen.queries.one_off_code import Code

ENDING = ".once"


def order_of(blob: bytes) -> dict[str, Any]:
    """Return the signed document of an order that was read and verified before; docs/protocol.rst has its keys."""
    order: dict[str, Any] = json.loads(json.loads(blob)["order"]["signed"])
    return order


def code_of(blob: bytes, wait: float, timeout: float) -> Code:
    """Return the code of an order, to be signed anew: an agent takes an order once, and the old one may have expired.

    `wait` and `timeout`: seconds, as in `order_life`, which raises ValueError.
    """
    order, files = order_of(blob), json.loads(blob)["files"]
    contents = {name: base64.b64decode(text) for name, text in files.items()}
    return Code(order["check"], contents, order["args"], tuple(order["on"]), order_life(wait, timeout))


def keep(folder: Path, job_id: str, blob: bytes) -> None:
    """Write an order. Raises OSError if that fails."""
    make_folder(folder)
    write_durably(folder / f"{job_id}{ENDING}", blob, PRIVATE)


def kept(folder: Path, job_id: str) -> bytes:
    """Read an order. Raises OSError if there is none."""
    return (folder / f"{job_id}{ENDING}").read_bytes()
