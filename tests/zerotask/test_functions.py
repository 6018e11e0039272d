"""Tests functions of a node: how they are marked, found and called."""

from __future__ import annotations

import pytest

from zerotask import errors
from zerotask.errors import TaskFailed
from zerotask.functions import Context, LoadError, load, perform, task


def test_parameters_by_position_and_by_name_and_the_context():
    said = []
    context = Context("t", 2, lambda status, detail: said.append((status, detail)))

    @task("f")
    def function(a, b, context):
        context.status("x", y=a)
        return a - b, context.task_id, context.attempt

    served = {"f": None}
    from_mark = load.__globals__["_one"](function)
    assert from_mark.keys() == served.keys()
    assert perform(from_mark["f"], [3, 1], context) == (2, "t", 2)
    assert perform(from_mark["f"], {"b": 5, "a": 4}, context) == (-1, "t", 2)
    assert said == [("x", {"y": 3}), ("x", {"y": 4})]
    for wrong in ([1], [1, 2, 3, 4], {"a": 1, "c": 2}):
        with pytest.raises(TaskFailed) as failure:
            perform(from_mark["f"], wrong, context)
        assert (failure.value.code, failure.value.retry) == (errors.INVALID_PARAMS, False)


def test_marks_are_checked_where_they_are_made():
    with pytest.raises(Exception, match="priority has to be"):
        task("f", priority=11)
    with pytest.raises(Exception, match="1 to 256 characters"):
        task("x" * 257)(lambda: None)


def test_modules_that_serve_nothing_are_refused():
    for modules, words in (
        (["json"], "no function marked"),
        (["no.such.module"], "cannot be imported"),
        ([], "nothing to serve"),
    ):
        with pytest.raises(LoadError, match=words):
            load(modules, with_entry_points=False)
