"""Lists the methods of a broker, and checks the parameters of calls before the broker acts on them.

Pure; the methods themselves are in `broker.client_calls`, `broker.node_calls` and `broker.operator_calls`. Parameters
that came later than the first version are taken by name only, so that calls by position never change their meaning.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from groundwork.authority import Action
from zerotask import errors
from zerotask.errors import RpcError
from zerotask.tasks.connections import is_name
from zerotask.tasks.task import LONGEST, MOST_ATTEMPTS, Options
from zerotask.wire.actions import CHANGE_TASKS, LOOK_AT_TASKS, SUBMIT, WORK
from zerotask.wire.jsonrpc import MAX_TEXT, canonical

PREFIX = "zerotask.broker."
NEW_TASK = "zerotask.node.broker_new_task"
NODE_STATUS = "zerotask.node.broker_node_status"
CLIENT_STATUS = "zerotask.client.broker_client_status"  # to a client if another one wants its name; needs no answer
TASK_ENDED = "zerotask.client.task_ended"  # to a client that connected with `results`
CANCEL = "zerotask.node.broker_cancel"  # to the one node that holds a cancelled task

MAX_BODY = (
    MAX_TEXT - 64 * 1024
)  # bytes of params or of a result; the message that carries them on has to fit into one frame, too
MAX_METHOD = 256  # characters of a task's method
MAX_SERVED = 1_000  # methods of one node; each costs time whenever one of its slots becomes free
MAX_SLOTS = 1_000  # tasks at once of one node
MAX_HELD = 20_000  # tasks of one node with those that wait and take no slot
MAX_WAIT = 60.0  # seconds for which one call may wait for a result; a client that waits longer calls again
MAX_PAGE = 1_000  # tasks in one answer to an operator

POLICY_NAMES = ("priority", "delay", "time_limit", "max_attempts", "result_ttl")
OF_RUNS = "cron:"  # how the ids of a schedule's runs begin: a client that took one would take that run
_POLICY_SET = frozenset(POLICY_NAMES)


@frozen
class Method:
    """Describes a method: its parameters in order, how many are required, and those taken by name only (`extras`).

    A method that is `open` takes any further name. `action` is what a call asks for; one for `operator` is served on
    the control socket alone.
    """

    params: tuple[str, ...]
    required: int
    extras: frozenset[str] = frozenset()
    open: bool = False
    operator: bool = False
    action: Action = SUBMIT


def _method(text: str, extras: str = "", action: Action = SUBMIT, **flags: bool) -> Method:
    """Make a Method from a text such as `a b c?`; a question mark means that the parameter may be left out."""
    names = text.split()
    required = sum(not name.endswith("?") for name in names)
    return Method(
        tuple(name.rstrip("?") for name in names), required, frozenset(extras.split()), action=action, **flags
    )


METHODS: dict[str, Method] = {
    "client_connect": _method("client_id?", "results"),
    "client_disconnect": _method("client_id"),
    "client_new_task": _method("client_id method params task_id?", " ".join(POLICY_NAMES)),
    "client_task_status": _method("client_id task_id"),
    "client_task_result": _method("client_id task_id", "wait"),
    "node_connect": _method("node_id?", "methods slots tasks", action=WORK),
    "node_heartbeat": _method("node_id", action=WORK),
    "node_disconnect": _method("node_id", action=WORK),
    "node_task_request": _method("task_id", "details node_id", action=WORK),
    "task_status": _method("node_id task_id status", action=WORK, open=True),
    "node_task_finished": _method("task_id task_result", "node_id", action=WORK),
    "node_task_failed": _method("task_id error", "retry node_id", action=WORK),
    "node_task_waits": _method("task_id waits?", "node_id", action=WORK),
    "node_status": _method("", action=WORK),
    "client_task_cancel": _method("client_id task_id"),
    "client_task_close": _method("client_id task_id"),
    # Only over the control socket: the permissions of its file decide which users are operators.
    "broker_status": _method("", action=LOOK_AT_TASKS, operator=True),
    "tasks": _method("", "state method before limit", action=LOOK_AT_TASKS, operator=True),
    "task": _method("task_id", action=LOOK_AT_TASKS, operator=True),
    "task_result": _method("task_id", "wait", action=LOOK_AT_TASKS, operator=True),
    "task_retry": _method("task_id", action=CHANGE_TASKS, operator=True),
    "task_cancel": _method("task_id", action=CHANGE_TASKS, operator=True),
    "nodes": _method("", action=LOOK_AT_TASKS, operator=True),
    "node_drain": _method("node drain?", action=CHANGE_TASKS, operator=True),
    "damaged": _method("", "forget", action=CHANGE_TASKS, operator=True),
    "schedules": _method("", action=LOOK_AT_TASKS, operator=True),
    "schedule_add": _method(
        "name line method params", "zone catch_up " + " ".join(POLICY_NAMES), action=CHANGE_TASKS, operator=True
    ),
    "schedule_remove": _method("name", action=CHANGE_TASKS, operator=True),
}


def find(name: str) -> tuple[str, Method]:
    """Return the short name of a method and its description. Raises RpcError UNKNOWN_METHOD if there is none."""
    short = name.removeprefix(PREFIX)
    method = METHODS.get(short) if name.startswith(PREFIX) else None
    if method is None:
        raise RpcError(errors.UNKNOWN_METHOD, f"no method {name[:MAX_METHOD]}")
    return short, method


def bind(name: str, method: Method, given: list[Any] | dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name. Raises RpcError INVALID_PARAMS if the method doesn't take them."""
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
    """Return an error INVALID_PARAMS with this sentence."""
    return RpcError(errors.INVALID_PARAMS, text)


# --------------------------------------------------------------------------------------------------- arguments


def text(args: dict[str, Any], name: str) -> str:
    """Return a required argument. Raises RpcError if it is no text."""
    value = args[name]
    if not isinstance(value, str):
        raise wrong(f"{name} has to be a text")
    return value


def name_or_none(args: dict[str, Any], name: str) -> str | None:
    """Return an optional argument, None if it is missing or null. Raises RpcError if it is no text."""
    return None if args.get(name) is None else text(args, name)


def task_method(args: dict[str, Any]) -> str:
    """Return the method of a task. Raises RpcError if it is no text of 1 to MAX_METHOD characters."""
    method = text(args, "method")
    if not 0 < len(method) <= MAX_METHOD:
        raise wrong(f"method has to be of 1 to {MAX_METHOD} characters")
    return method


def params(args: dict[str, Any]) -> bytes:
    """Return the params of a task as JSON; equal values give equal texts, so that repetitions are recognised.

    Raises RpcError if they are no array or object, or too long.
    """
    value = args["params"]
    if not isinstance(value, list | dict):
        raise wrong("params have to be an array or an object")
    return body(value, "params")


def body(value: Any, what: str) -> bytes:
    """Return a value as JSON. Raises RpcError if it is longer than MAX_BODY; `what` names it in the sentence."""
    encoded = canonical(value)
    if len(encoded) > MAX_BODY:
        raise wrong(f"{what} of {len(encoded)} bytes, more than {MAX_BODY}; store it elsewhere and send where it is")
    return encoded


def given_task_id(args: dict[str, Any]) -> str | None:
    """Return the task id that a client chose, None if it chose none. Raises RpcError TASK_INVALID for a bad one."""
    value = args.get("task_id")
    if value is not None and not is_name(value):
        raise RpcError(errors.TASK_INVALID, "a task id is 1 to 128 characters of A-Za-z0-9._:-")
    if value is not None and str(value).startswith(OF_RUNS):
        raise RpcError(errors.TASK_INVALID, f"ids that begin with {OF_RUNS} are those of schedules; choose another")
    return None if value is None else str(value)


def task_error(args: dict[str, Any]) -> dict[str, Any]:
    """Return the error that a node reports, {"code": int, "message": str, "data": any}; data may be missing.

    Raises RpcError if it has another form.
    """
    error = args["error"]
    if not isinstance(error, dict) or not _is_error(error):
        raise wrong("error has to be an object with code (an integer), message (a text) and at most data")
    body(error, "error")
    return error


def _is_error(error: dict[str, Any]) -> bool:
    good = type(error.get("code")) is int and isinstance(error.get("message"), str)
    return good and not error.keys() - {"code", "message", "data"}


def flag(args: dict[str, Any], name: str, default: bool) -> bool:
    """Return an optional argument that is true or false. Raises RpcError if it is neither."""
    value = args.get(name, default)
    if not isinstance(value, bool):
        raise wrong(f"{name} has to be true or false")
    return value


def number(args: dict[str, Any], name: str, default: float, least: float, most: float) -> float:
    """Return an optional argument that is a number. Raises RpcError if it isn't, or out of its bounds."""
    value = args.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise wrong(f"{name} has to be a number of {least:g} to {most:g}")
    return value


def whole(args: dict[str, Any], name: str, default: int, least: int, most: int) -> int:
    """Return an optional argument that is a whole number. Raises RpcError if it isn't, or out of its bounds."""
    value = number(args, name, default, least, most)
    if not isinstance(value, int):
        raise wrong(f"{name} has to be a whole number of {least} to {most}")
    return value


def options(args: dict[str, Any], policy: Options) -> Options:
    """Return the options of a task: those of the submission, and the method's policy for the others.

    Raises RpcError if one is out of its bounds.
    """
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
    """Return the methods that a node serves, each with its policy: {"add": {"time_limit": 30}, "mdp:*": {}}.

    `name*` means all methods that begin with `name`. A policy has keys of POLICY_NAMES. Raises RpcError for another
    form.
    """
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
    """Return the ids of the tasks that a node still works on, None if it does not say. Raises RpcError if malformed."""
    value = args.get("tasks")
    if value is None:
        return None
    if not _is_list_of_texts(value) or len(value) > MAX_HELD:
        raise wrong(f"tasks has to be an array of at most {MAX_HELD} task ids")
    return list(value)


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
