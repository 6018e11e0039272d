"""Tests the methods of the seed, each by its name and its arity; calls of any other shape are refused."""

from __future__ import annotations

import re

import pytest

from zerotask import errors
from zerotask.errors import RpcError
from zerotask.tasks.task import LONGEST, MOST_ATTEMPTS, Options
from zerotask.wire import methods

# As the message spec of the first ZeroTask has them: what is in brackets may be left out, ** takes names.
SEED = """
client_connect([client_id])
client_disconnect(client_id)
client_new_task(client_id, method, params, [task_id])
client_task_status(client_id, task_id)
client_task_result(client_id, task_id)
node_connect([node_id])
node_heartbeat(node_id)
node_disconnect(node_id)
node_task_request(task_id)
task_status(node_id, task_id, status, **kwargs)
node_task_finished(task_id, task_result)
node_task_failed(task_id, error)
node_status()
"""
TOLD = {"broker_new_task": "zerotask.node.broker_new_task", "broker_node_status": "zerotask.node.broker_node_status"}


def read(line):
    """Name, parameters, how many of them are required, and whether further names are taken."""
    name, inside = re.fullmatch(r"(\w+)\((.*)\)", line).groups()
    words = [word.strip() for word in inside.split(",") if word.strip()]
    plain = [word.strip("[]") for word in words if not word.startswith("**")]
    return name, tuple(plain), sum(not word.startswith(("[", "**")) for word in words), "**" in inside


METHODS = {read(line)[0]: read(line)[1:] for line in SEED.split("\n") if line}


@pytest.mark.parametrize("name", METHODS)
def test_the_seeds_methods_are_the_seeds(name):
    method = methods.METHODS[name]
    assert (method.params, method.required, method.open) == METHODS[name]
    assert not method.operator


def test_what_nodes_are_told_has_the_seeds_names():
    assert {methods.NEW_TASK, methods.NODE_STATUS} == set(TOLD.values())


@pytest.mark.parametrize("name", METHODS)
def test_too_few_and_too_many_parameters_are_refused(bench, name):
    """A call with a wrong number is refused before anything is done; every number between the bounds gets past that."""
    params, required, is_open = METHODS[name]
    for count in range(len(params) + 3):
        answer = bench.ask("c", name, *["x"] * count)
        is_refused = isinstance(answer, tuple) and answer[0] == errors.INVALID_PARAMS and name in answer[1]
        assert is_refused == (not required <= count <= len(params)), count
    named = dict.fromkeys(params, "x")
    unknown = bench.ask("c", name, **named, no_such="x")
    assert is_open or (unknown[0] == errors.INVALID_PARAMS and "['no_such']" in unknown[1])


def test_what_goes_beyond_the_seed_is_taken_by_name_only():
    """Options beyond the seed are taken by name only, so that a call by position means what it always meant."""
    beyond = {name: method.extras for name, method in methods.METHODS.items() if name in METHODS and method.extras}
    assert beyond == {
        "client_connect": {"results"},
        "client_new_task": set(methods.POLICY_NAMES),
        "client_task_result": {"wait"},
        "node_connect": {"methods", "slots", "tasks"},
        "node_task_request": {"details", "node_id"},
        "node_task_finished": {"node_id"},
        "node_task_failed": {"retry", "node_id"},
    }


@pytest.mark.adversary(65)
@pytest.mark.parametrize(
    "name", ["_x", "__init__", "__class__", "node_connect ", "NODE_CONNECT", "", "rpc.discover", "\0"]
)
def test_names_that_are_no_methods(bench, name):
    """A method is looked up in the table of methods, and nowhere else."""
    assert bench.code("c", name) == errors.UNKNOWN_METHOD


# ------------------------------------------------------------------------- arguments at both sides of each limit


def refused(call, *given):
    with pytest.raises(RpcError) as caught:
        call(*given)
    return caught.value.code, caught.value.message


def test_the_limits_are_those_of_the_documentation():
    assert (methods.MAX_BODY, methods.MAX_METHOD, methods.MAX_SERVED) == (8_323_072, 256, 1_000)
    assert (methods.MAX_SLOTS, methods.MAX_HELD, methods.MAX_WAIT, methods.MAX_PAGE) == (1_000, 20_000, 60.0, 1_000)


def test_which_methods_are_for_operators_and_what_they_ask_for():
    operator = {name: method.action.name for name, method in methods.METHODS.items() if method.operator}
    look, change = methods.LOOK_AT_TASKS.name, methods.CHANGE_TASKS.name
    assert {name for name, action in operator.items() if action == look} == {
        "broker_status", "tasks", "task", "task_result", "nodes", "schedules",
    }  # fmt: skip
    assert {name for name, action in operator.items() if action == change} == {
        "task_retry", "task_cancel", "node_drain", "damaged", "schedule_add", "schedule_remove",
    }  # fmt: skip
    assert [name for name, method in methods.METHODS.items() if method.open] == ["task_status"]
    assert methods.METHODS["node_drain"] == methods.Method(
        ("node", "drain"), 1, operator=True, action=methods.CHANGE_TASKS
    )
    assert methods.METHODS["node_task_waits"].required == 1 and methods.METHODS["schedule_add"].required == 4


def test_a_method_is_found_by_its_whole_name():
    assert methods.find("zerotask.broker.tasks") == ("tasks", methods.METHODS["tasks"])
    for name in ("tasks", "zerotask.broker.", "zerotask.broker.zerotask.broker.tasks"):
        assert refused(methods.find, name) == (errors.UNKNOWN_METHOD, f"no method {name}")
    assert refused(methods.find, "x" * 300)[1] == "no method " + "x" * 256


def test_calls_are_bound_by_position_and_by_name():
    method = methods.METHODS["client_new_task"]
    assert methods.bind("n", method, ["c", "m", []]) == {"client_id": "c", "method": "m", "params": []}
    assert methods.bind("n", method, ["c", "m", [], "t"])["task_id"] == "t"
    for given in (["c", "m"], ["c", "m", [], "t", "u"]):
        text = "n takes (client_id, method, params, task_id), of which 3 are required"
        assert refused(methods.bind, "n", method, given) == (errors.INVALID_PARAMS, text)
    named = {"client_id": "c", "method": "m", "params": [], "priority": 5}
    assert methods.bind("n", method, named) == named
    assert refused(methods.bind, "n", method, {"client_id": "c", "z": 1, "a": 2})[1] == (
        "n: missing ['method', 'params'], unknown ['a', 'z']"
    )
    assert (
        methods.bind("s", methods.METHODS["task_status"], {"node_id": 1, "task_id": 2, "status": 3, "any": 4})["any"]
        == 4
    )


@pytest.mark.parametrize(
    "call, name, good, bad",
    [
        (lambda args: methods.text(args, "a"), "a", ["", "x"], [1, None, ["x"]]),
        (lambda args: methods.name_or_none(args, "a"), "a", [None, "x"], [1, False]),
        (methods.task_method, "method", ["m", "m" * 256], ["", "m" * 257, 5]),
        (lambda args: methods.flag(args, "a", default=True), "a", [True, False], [0, 1, None, "true"]),
        (lambda args: methods.number(args, "a", 1, 0, 9), "a", [0, 9, 0.5, 8.9], [-0.1, 9.1, True, "1", None]),
        (lambda args: methods.whole(args, "a", 1, 0, 9), "a", [0, 9], [-1, 10, 1.0, True, "1"]),
        (methods.given_task_id, "task_id", [None, "t", "x" * 128, "A-Za-z0-9._:-", "cron"],
         ["", "x" * 129, "a b", 5, "cron:", "cron:x"]),
        (methods.held_tasks, "tasks", [None, [], ["t"], ["t"] * 20_000], [["t"] * 20_001, [1], "t", {}]),
        (methods.task_error, "error", [{"code": 1, "message": ""}, {"code": -5, "message": "m", "data": [1]}],
         [{}, {"code": 1}, {"message": "m"}, {"code": True, "message": "m"}, {"code": 1, "message": 2}, [1],
          {"code": 1, "message": "m", "more": 1}]),
    ],
)  # fmt: skip
def test_each_argument_at_its_limits(call, name, good, bad):
    for value in good:
        assert call({name: value}) == value
    for value in bad:
        code, message = refused(call, {name: value})
        assert code in (errors.INVALID_PARAMS, errors.TASK_INVALID) and message


def test_what_is_left_out_has_its_default():
    assert (
        methods.name_or_none({}, "a") is None and methods.given_task_id({}) is None and methods.held_tasks({}) is None
    )
    assert methods.flag({}, "a", default=True) is True and methods.flag({}, "a", default=False) is False
    assert methods.number({}, "a", 5, 0, 9) == 5 and methods.whole({}, "a", 6, 0, 9) == 6
    assert methods.served({}) == {} and methods.served({"methods": None}) == {}


def test_refusals_name_the_argument_and_its_bounds():
    assert refused(methods.number, {"a": 99}, "a", 1, 0.001, 9)[1] == "a has to be a number of 0.001 to 9"
    assert refused(methods.whole, {"a": 1.5}, "a", 1, 0, 9)[1] == "a has to be a whole number of 0 to 9"
    assert refused(methods.task_method, {"method": ""})[1] == "method has to be of 1 to 256 characters"
    assert refused(methods.given_task_id, {"task_id": "a b"})[0] == errors.TASK_INVALID
    assert refused(methods.given_task_id, {"task_id": "cron:a"})[0] == errors.TASK_INVALID


def test_params_are_an_array_or_an_object_of_a_bounded_length(monkeypatch):
    monkeypatch.setattr(methods, "MAX_BODY", 12)
    assert methods.params({"params": [1, 2, 3, 4567]}) == b"[1,2,3,4567]" and methods.params({"params": {}}) == b"{}"
    assert methods.body("x" * 10, "result") == b'"' + b"x" * 10 + b'"'
    assert refused(methods.body, "x" * 11, "result") == (
        errors.INVALID_PARAMS, "result of 13 bytes, more than 12; store it elsewhere and send where it is",
    )  # fmt: skip
    for value in ("text", 5, None):
        assert refused(methods.params, {"params": value})[1] == "params have to be an array or an object"
    assert refused(methods.task_error, {"error": {"code": 1, "message": "long enough"}})[1].startswith("error of ")


def test_equal_params_give_equal_texts():
    assert methods.params({"params": {"b": 1, "a": [{"d": 1, "c": 2}]}}) == b'{"a":[{"c":2,"d":1}],"b":1}'


BOUNDS = [
    ("priority", [0, 9], [-1, 10, 1.5]),
    ("delay", [0, LONGEST], [-0.1, LONGEST + 1]),
    ("time_limit", [0.001, LONGEST], [0, 0.0009, LONGEST + 1]),
    ("max_attempts", [1, MOST_ATTEMPTS], [0, MOST_ATTEMPTS + 1]),
    ("result_ttl", [0, LONGEST], [-1, LONGEST + 1]),
]


@pytest.mark.parametrize("name, good, bad", BOUNDS, ids=[name for name, _, _ in BOUNDS])
def test_options_of_a_task_at_their_limits(name, good, bad):
    policy = Options(priority=7, delay=3.0, time_limit=4.0, max_attempts=5, result_ttl=6.0)
    for value in good:
        told = methods.options({name: value}, policy)
        wanted = {"priority": 7, "delay": 3.0, "time_limit": 4.0, "max_attempts": 5, "result_ttl": 6.0} | {name: value}
        assert {each: getattr(told, each) for each in wanted} == wanted
    for value in bad:
        assert refused(methods.options, {name: value}, policy)[0] == errors.INVALID_PARAMS
    assert methods.options({"client_id": "c"}, policy) is policy


def test_what_a_node_serves(monkeypatch):
    assert methods.served({"methods": ["a", "b*"]}) == {"a": {}, "b*": {}}
    assert methods.served({"methods": {"a": {"time_limit": 30}}}) == {"a": {"time_limit": 30}}
    for bad in (["a", 1], "a", {"a": 5}, {"a": {"other": 1}}, {"a": {"priority": 10}}, {"": {}}, {"m" * 257: {}}):
        assert refused(methods.served, {"methods": bad})[0] == errors.INVALID_PARAMS
    assert len(methods.served({"methods": [str(n) for n in range(1_000)]})) == 1_000
    assert "1000 at most" in refused(methods.served, {"methods": [str(n) for n in range(1_001)]})[1]
