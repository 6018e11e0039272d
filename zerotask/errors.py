"""Names the error codes of ZeroTask, and the exceptions that carry one from any depth of the code to the reply.

Codes below -32099 are JSON-RPC's own; it leaves -32000 to -32099 to servers. The texts for the wire are made in
`wire.jsonrpc`.
"""

from __future__ import annotations

from typing import Any

PARSE = -32700
INVALID_REQUEST = -32600
UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603

FUNCTION_RAISED = -32000  # a node's function ended in an exception
UNAUTHORISED = -32001
DISABLED = -32002
OVERLOADED = -32003
CLIENT_TAKEN = -32010
CLIENT_INVALID = -32011
CLIENT_UNKNOWN = -32012
NODE_TAKEN = -32013
NODE_INVALID = -32014
NODE_UNKNOWN = -32015
TASK_TAKEN = -32020
TASK_INVALID = -32021
TASK_UNKNOWN = -32022
NOT_FINISHED = -32023
EXPIRED = -32024
NOT_YOUR_LEASE = -32025
NODE_LOST = -32026
TIME_LIMIT = -32027
CANCELLED = -32028
CHILD_DIED = -32029  # the process of a node's function ended before it answered
STORING_FAILED = -32030
SCHEDULE_INVALID = -32040
SCHEDULE_UNKNOWN = -32041


class RpcError(Exception):
    """Refuses a call; on the wire it is JSON-RPC's error object."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


def has_lost_name(error: RpcError, unknown: int) -> bool:
    """Return True if a call failed as its caller holds no name at the broker any more: it may connect and call again.

    `unknown` is the code of an unknown client or node. UNAUTHORISED with data is a refusal that stands, for want of a
    role or for a foreign name.
    """
    return error.code == unknown or (error.code == UNAUTHORISED and error.data is None)


class TaskFailed(RpcError):
    """Carries the error of a task: a client gets the one that the node stored, a function raises the one to store.

    With `retry` false the failure is final, whatever attempts are left.
    """

    def __init__(self, code: int, message: str, data: Any = None, retry: bool = True) -> None:
        super().__init__(code, message, data)
        self.retry = retry


class NoAnswer(Exception):
    """Tells that the broker did not answer in time, or that the connection is gone; the call may have been obeyed."""
