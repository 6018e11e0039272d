"""The methods of the seed, each by its name and its arity; and that calls of any other shape are refused."""

from __future__ import annotations

import re

import pytest

from zerotask import errors, methods

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
    """Before anything is done; every number between the bounds gets past that."""
    params, required, is_open = METHODS[name]
    for count in range(len(params) + 3):
        answer = bench.ask("c", name, *["x"] * count)
        is_refused = isinstance(answer, tuple) and answer[0] == errors.INVALID_PARAMS and name in answer[1]
        assert is_refused == (not required <= count <= len(params)), count
    named = dict.fromkeys(params, "x")
    unknown = bench.ask("c", name, **named, no_such="x")
    assert is_open or (unknown[0] == errors.INVALID_PARAMS and "['no_such']" in unknown[1])


def test_what_goes_beyond_the_seed_is_taken_by_name_only():
    """So that a call by position means what it always meant."""
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
