"""The error codes of ZeroTask, and the exception that carries one from any depth to the reply.

Numbers below -32099 are JSON-RPC's own; -32001 to -32099 are the range it leaves to servers. It does not format
messages for the wire: `jsonrpc` does.
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
CHILD_DIED = -32029  # the process of a node's function ended before its answer
STORING_FAILED = -32030
SCHEDULE_INVALID = -32040
SCHEDULE_UNKNOWN = -32041


class RpcError(Exception):
    """A refusal: what JSON-RPC calls an error object."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class TaskFailed(RpcError):
    """What became of a task: the error that its node stored. Raised by a function, it says what is to be stored.

    With `retry` false the failure is final, whatever attempts are left.
    """

    def __init__(self, code: int, message: str, data: Any = None, retry: bool = True) -> None:
        super().__init__(code, message, data)
        self.retry = retry


class NoAnswer(Exception):
    """The broker did not answer in time, or the connection is gone. What was asked may have happened or not."""
