"""The methods of a broker: names, parameters, and the checks that a call passes before anybody acts on it.

The first group and its arities are the seed's. What a method takes beyond the seed is taken by name only, so that calls
by position stay the seed's for ever. Pure; what the methods do is in `client_calls`, `node_calls` and `operator_calls`.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from zerotask import errors
from zerotask.errors import RpcError
from zerotask.jsonrpc import MAX_TEXT, canonical
from zerotask.ledger import LONGEST, MOST_ATTEMPTS, Options
from zerotask.roster import is_name

PREFIX = "zerotask.broker."
NEW_TASK = "zerotask.node.broker_new_task"
NODE_STATUS = "zerotask.node.broker_node_status"
CLIENT_STATUS = "zerotask.client.broker_client_status"  # to one whose name somebody else wants; needs no answer
TASK_ENDED = "zerotask.client.task_ended"  # to a client that asked for results as they come
CANCEL = "zerotask.node.broker_cancel"  # to the one node that holds a cancelled task

MAX_BODY = MAX_TEXT - 64 * 1024  # bytes of params or of a result: what it is sent on in must fit into one frame as well
MAX_METHOD = 256  # characters of a task's method
MAX_SERVED = 1_000  # methods of one node, which are looked at for each of its slots
MAX_SLOTS = 1_000  # tasks at once of one node
MAX_WAIT = 60.0  # seconds for which one call may wait for a result; longer waits are asked again
MAX_PAGE = 1_000  # tasks in one answer to an operator

POLICY_NAMES = ("priority", "delay", "time_limit", "max_attempts", "result_ttl")
_POLICY_SET = frozenset(POLICY_NAMES)


@frozen
class Method:
    """Parameters in order, how many must be there, and those by name only. `open` takes any name."""

    params: tuple[str, ...]
    required: int
    extras: frozenset[str] = frozenset()
    open: bool = False
    operator: bool = False


def _method(text: str, extras: str = "", **flags: bool) -> Method:
    """`a b c?`: the marked ones may be left out."""
    names = text.split()
    required = sum(not name.endswith("?") for name in names)
    return Method(tuple(name.rstrip("?") for name in names), required, frozenset(extras.split()), **flags)


METHODS: dict[str, Method] = {
    "client_connect": _method("client_id?", "results"),
    "client_disconnect": _method("client_id"),
    "client_new_task": _method("client_id method params task_id?", " ".join(POLICY_NAMES)),
    "client_task_status": _method("client_id task_id"),
    "client_task_result": _method("client_id task_id", "wait"),
    "node_connect": _method("node_id?", "methods slots tasks"),
    "node_heartbeat": _method("node_id"),
    "node_disconnect": _method("node_id"),
    "node_task_request": _method("task_id", "details node_id"),
    "task_status": _method("node_id task_id status", open=True),
    "node_task_finished": _method("task_id task_result", "node_id"),
    "node_task_failed": _method("task_id error", "retry node_id"),
    "node_status": _method(""),
    # Beyond the seed.
    "client_task_cancel": _method("client_id task_id"),
    "client_task_close": _method("client_id task_id"),
    # Only over the control socket, whose file permissions say who is an operator.
    "broker_status": _method("", operator=True),
    "tasks": _method("", "state method before limit", operator=True),
    "task": _method("task_id", operator=True),
    "task_result": _method("task_id", "wait", operator=True),
    "task_retry": _method("task_id", operator=True),
    "task_cancel": _method("task_id", operator=True),
    "nodes": _method("", operator=True),
    "schedules": _method("", operator=True),
    "schedule_add": _method("name line method params", "zone catch_up " + " ".join(POLICY_NAMES), operator=True),
    "schedule_remove": _method("name", operator=True),
}


def find(name: str) -> tuple[str, Method]:
    """A method by its full name."""
    short = name.removeprefix(PREFIX)
    method = METHODS.get(short) if name.startswith(PREFIX) else None
    if method is None:
        raise RpcError(errors.UNKNOWN_METHOD, f"no method {name[:MAX_METHOD]}")
    return short, method


def bind(name: str, method: Method, given: list[Any] | dict[str, Any]) -> dict[str, Any]:
    """The arguments by name; INVALID_PARAMS if they are not what the method takes."""
    if isinstance(given, list):
        if not method.required <= len(given) <= len(method.params):
            raise wrong(f"{name} takes ({', '.join(method.params)}), of which {method.required} are required")
        return dict(zip(method.params, given, strict=False))
    missing = [wanted for wanted in method.params[: method.required] if wanted not in given]
    unknown = [] if method.open else sorted(given.keys() - set(method.params) - method.extras)
    if missing or unknown:
        raise wrong(f"{name}: missing {missing}, unknown {unknown}")
    return given


def wrong(text: str) -> RpcError:
    return RpcError(errors.INVALID_PARAMS, text)


# --------------------------------------------------------------------------------------------------- arguments


def text(args: dict[str, Any], name: str) -> str:
    value = args[name]
    if not isinstance(value, str):
        raise wrong(f"{name} has to be a text")
    return value


def name_or_none(args: dict[str, Any], name: str) -> str | None:
    return None if args.get(name) is None else text(args, name)


def task_method(args: dict[str, Any]) -> str:
    method = text(args, "method")
    if not 0 < len(method) <= MAX_METHOD:
        raise wrong(f"method has to be of 1 to {MAX_METHOD} characters")
    return method


def params(args: dict[str, Any]) -> bytes:
    """Parameters of a task as JSON in which equal values are equal texts."""
    value = args["params"]
    if not isinstance(value, list | dict):
        raise wrong("params have to be an array or an object")
    return body(value, "params")


def body(value: Any, what: str) -> bytes:
    encoded = canonical(value)
    if len(encoded) > MAX_BODY:
        raise wrong(f"{what} of {len(encoded)} bytes, more than {MAX_BODY}; store it elsewhere and send where it is")
    return encoded


def given_task_id(args: dict[str, Any]) -> str | None:
    value = args.get("task_id")
    if value is not None and not is_name(value):
        raise RpcError(errors.TASK_INVALID, "a task id is 1 to 128 characters of A-Za-z0-9._:-")
    return value


def task_error(args: dict[str, Any]) -> dict[str, Any]:
    """What a node says of a failure: an error object of JSON-RPC."""
    error = args["error"]
    good = isinstance(error, dict) and type(error.get("code")) is int and isinstance(error.get("message"), str)
    if not good or error.keys() - {"code", "message", "data"}:
        raise wrong("error has to be an object with code (an integer), message (a text) and at most data")
    body(error, "error")
    return error


def flag(args: dict[str, Any], name: str, default: bool) -> bool:
    value = args.get(name, default)
    if not isinstance(value, bool):
        raise wrong(f"{name} has to be true or false")
    return value


def number(args: dict[str, Any], name: str, default: float, least: float, most: float) -> float:
    value = args.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise wrong(f"{name} has to be a number of {least:g} to {most:g}")
    return value


def whole(args: dict[str, Any], name: str, default: int, least: int, most: int) -> int:
    value = number(args, name, default, least, most)
    if not isinstance(value, int):
        raise wrong(f"{name} has to be a whole number of {least} to {most}")
    return value


def options(args: dict[str, Any], policy: Options) -> Options:
    """What the submission says, else what the method's policy says."""
    if _POLICY_SET.isdisjoint(args):
        return policy
    return Options(
        priority=whole(args, "priority", policy.priority, 0, 9),
        delay=float(number(args, "delay", policy.delay, 0, LONGEST)),
        time_limit=float(number(args, "time_limit", policy.time_limit, 0.001, LONGEST)),
        max_attempts=whole(args, "max_attempts", policy.max_attempts, 1, MOST_ATTEMPTS),
        result_ttl=float(number(args, "result_ttl", policy.result_ttl, 0, LONGEST)),
    )


def served(args: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The methods that a node says it serves, each with its policy. `name*` stands for all that begin so."""
    value = args.get("methods") or {}
    methods: dict[str, dict[str, Any]]
    methods = {method: {} for method in value} if _is_list_of_texts(value) else value
    if not isinstance(methods, dict) or len(methods) > MAX_SERVED:
        raise wrong(f"methods has to be an object, method -> policy, or an array of texts; {MAX_SERVED} at most")
    for method, policy in methods.items():
        task_method({"method": method})
        if not isinstance(policy, dict) or policy.keys() - set(POLICY_NAMES):
            raise wrong(f"the policy of {method} has to be an object of {', '.join(POLICY_NAMES)}")
        options(policy, Options())
    return methods


def held_tasks(args: dict[str, Any]) -> list[str] | None:
    value = args.get("tasks")
    if value is None:
        return None
    if not _is_list_of_texts(value) or len(value) > MAX_SLOTS:
        raise wrong(f"tasks has to be an array of at most {MAX_SLOTS} task ids")
    return list(value)


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
