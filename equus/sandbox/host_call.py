"""Read a host call as a worker sends it. Pure."""

from __future__ import annotations

from typing import Any

from equus.sandbox.frames import CALL
from equus.sandbox.value_codec import decode


def read_call(message: bytes) -> tuple[str, list[Any], float]:
    """Return the call's name, its arguments and the worker's deadline in monotonic seconds.

    Raises ValueError or struct.error if the message is no host call.
    """
    deadline, length = CALL.unpack_from(message)
    end = CALL.size + length
    args = decode(message[end:])
    if not isinstance(args, list) or deadline != deadline:
        raise ValueError("no list of arguments, or no deadline")
    return message[CALL.size : end].decode(), args, deadline
