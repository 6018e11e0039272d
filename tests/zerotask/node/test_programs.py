"""Tests programs that a function runs: what they print, how they end, and that none outlives its task."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from zerotask import errors
from zerotask.errors import TaskFailed
from zerotask.functions import Context
from zerotask.node.programs import LAST_LINES, LINE_MOST, run_program


def shell(script, most=1_000):
    """Return what it printed, what it said in the end, and the statuses on its way."""
    told = []
    ended = run_program(["sh", "-c", script], Context("t", 1, lambda *words: told.append(words)), most)
    return ended.output, ended.said, told


def failed(script, most=1_000):
    with pytest.raises(TaskFailed) as failure:
        shell(script, most)
    return failure.value


def test_output_is_the_answer_and_errors_are_the_status():
    """A program gets no input; its first line is told at once, and the last one always."""
    output, said, told = shell("cat; echo answer; echo one >&2; echo two >&2; printf three >&2")
    assert (output, said) == ("answer\n", ["one", "two", "three"])
    assert told[-1] == ("running", {"said": "three"})
    assert 1 <= len(told) <= 3


ENDS = {
    "exit 1": ("echo why >&2; echo >&2; exit 1", errors.FUNCTION_RAISED, "why (exit status 1)", True),
    "wrong words": (
        "echo 'no such option' >&2; exit 2",
        errors.INVALID_PARAMS,
        "no such option (exit status 2)",
        False,
    ),
    "in silence": ("exit 7", errors.FUNCTION_RAISED, "it wrote nothing to standard error (exit status 7)", True),
    "killed": ("kill -9 $$", errors.FUNCTION_RAISED, "it wrote nothing to standard error (signal 9)", True),
}


@pytest.mark.parametrize("script, code, message, retry", ENDS.values(), ids=ENDS)
def test_how_it_ends(script, code, message, retry):
    error = failed(script)
    assert (error.code, error.message, error.retry) == (code, message, retry)


def test_what_is_no_program():
    with pytest.raises(TaskFailed, match="/nowhere cannot be started: No such file"):
        run_program(["/nowhere"], Context("t", 1, lambda *words: None), 10)


def test_output_has_a_limit():
    """An endless output is ended, and not tried again, as it would be endless the next time."""
    assert shell("printf 12345", most=5)[0] == "12345"
    error = failed("yes", most=100_000)
    assert (error.retry, "more than 100000 bytes" in error.message) == (False, True)


def test_what_is_kept_of_many_words():
    """The last lines are kept, and the beginning of each; a line without end is cut as well."""
    said = shell(f"seq 1 100 >&2; head -c 300000 /dev/zero | tr '\\0' x >&2; echo >&2; echo {'y' * 600} >&2")[1]
    assert [len(line) for line in said[-2:]] == [LINE_MOST, LINE_MOST]
    assert (len(said), said[:2]) == (LAST_LINES, ["83", "84"])


def test_who_is_left_behind_is_not_waited_for():
    """A program that has ended is told at once, although its child still holds its pipes."""
    child, said = shell("sleep 600 & echo $! done")[0].split()
    assert said == "done"
    os.kill(int(child), signal.SIGKILL)  # raises ProcessLookupError if it has been waited for


def test_output_is_read_while_errors_come():
    """A program that writes much to both pipes ends, as neither runs full while the other is read."""
    script = "import sys\nfor _ in range(40): sys.stdout.write('a' * 9999); sys.stderr.write('b' * 9999 + '\\n')"
    ended = run_program([sys.executable, "-c", script], Context("t", 1, lambda *words: None), 500_000)
    assert (len(ended.output), len(ended.said)) == (399_960, LAST_LINES)
