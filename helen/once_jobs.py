"""Code that runs once, as a job: the order is good for as long as agents are waited for, and is kept for a retry.

    STATE/jobs/ID.once       what agents are sent: the signed order with its files, written before the task is

The two functions at the end block; call them in a thread.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from helen.one_shots import Code
from helen.question import order_life
from helen.statedir import PRIVATE, make_folder, write_whole

ENDING = ".once"


def order_of(blob: bytes) -> dict[str, Any]:
    """The signed text of an order that was read and verified before."""
    order: dict[str, Any] = json.loads(json.loads(blob)["order"]["signed"])
    return order


def again(blob: bytes, wait: float, timeout: float) -> Code:
    """The same code, to be signed anew: an agent takes an order once, and the old one may have expired."""
    order, files = order_of(blob), json.loads(blob)["files"]
    contents = {name: base64.b64decode(text) for name, text in files.items()}
    return Code(order["check"], contents, order["args"], tuple(order["on"]), order_life(wait, timeout))


def keep(folder: Path, job_id: str, blob: bytes) -> None:
    make_folder(folder)
    write_whole(folder / f"{job_id}{ENDING}", blob, PRIVATE)


def kept(folder: Path, job_id: str) -> bytes:
    return (folder / f"{job_id}{ENDING}").read_bytes()
