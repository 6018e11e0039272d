"""Test tables that the first worker sends and later ones need not: the results are the same."""

import json
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from equus.sandbox import known_tables
from equus.sandbox.blocking import Sandbox
from equus.sandbox.check_table import read_table
from equus.sandbox.frames import TABLE_LIMIT
from equus.sandbox.job import SHORTEST_TIMEOUT, Job
from equus.sandbox.known_tables import (
    ARGUMENTS_LIMIT,
    MOST_ARGUMENTS,
    MOST_LIBRARIES,
    MOST_TABLES,
    SOURCE_LIMIT,
    KnownTable,
    KnownTables,
)
from equus.sandbox.value_codec import NotPlain, decode, encode

PATIENCE = 60.0  # seconds for anything on a busy machine
MakeJob = Callable[..., Job]

ARGS = """{
  name = { type = "string", default = "x\\xff", choices = { "x\\xff", "y" }, help = "which" },
  most = { type = "number", default = 1.5, min = -1, max = 2.5 }, many = { type = "integer", default = 2^40 | 0 },
  fast = { type = "boolean", default = false }, warn = { type = "range", default = 80 },
  since = { type = "duration", default = "5m", min = "1s" }, wait = { type = "duration" },
  parts = { type = "list", default = { "a", "b" } }, none = { type = "list", default = {} } }"""
SHOW = """
  local names = {}
  for name, value in pairs(args) do
    if type(value) == "table" then value = "list " .. table.concat(value, ",") end
    names[#names + 1] = name .. "=" .. math_type(value) .. " " .. tostring(value)
  end
  table.sort(names)
  return "ok", table.concat(names, "; ")"""
BEFORE = "local function math_type(value) return math.type(value) or type(value) end"


def twice(sandbox: Sandbox, job: Job) -> tuple[list[dict[str, Any]], list[bool]]:
    """Run a job twice, and return both results without fields that differ from run to run, and if the table was
    known.
    """
    results: list[dict[str, Any]] = []
    known = []
    for number in (1, 2):
        run = sandbox.runner.run(job, lambda blob: results.append(json.loads(blob)))
        sandbox.loop.until(lambda number=number: len(results) == number, PATIENCE)
        known.append(run.known is not None)
    return [{name: each[name] for name in each if name in ("status", "summary", "reason", "output", "metrics")}
            for each in results], known  # fmt: skip


@pytest.mark.parametrize(
    "given", [{}, {"name": "y", "warn": "@1:2", "wait": "2s", "parts": [], "most": 2, "many": 7.0}]
)
def test_arguments_are_the_same(sandbox: Sandbox, job: MakeJob, given: dict[str, Any]) -> None:
    """Arguments of each type, given and by default, are the same for a known table: whole numbers, and bytes that are
    no text, too.
    """
    (first, second), known = twice(sandbox, job(SHOW, args=ARGS, before=BEFORE, args_given=given))
    assert (first, known) == (second, [False, True])
    assert first["status"] == "ok"


@pytest.fixture
def job() -> MakeJob:
    """Return a function that makes a job of a check that no other test has run."""

    def make(body: str, args: str = "{}", before: str = "", args_given: Any = None, needs: str = '{ "host" }',
             table: str = "", **settings: Any) -> Job:  # fmt: skip
        mark = random.SystemRandom().getrandbits(64)
        source = (
            f"-- {mark}\n{before}\nreturn {{ summary = 's', needs = {needs}, args = {args}, {table}\n"
            f"run = function(args, host)\n{body}\nend }}"
        )
        return Job("t", source.encode(), args=json.dumps(given).encode() if (given := args_given) else b"", **settings)

    return make


@pytest.mark.parametrize(
    ("body", "settings"),
    [
        ("host.metric('m', 5, { warn = '3' })", {}),
        ("return 'ok', host.echo('x')[1]", {}),
        ("local _, code = host.echo('x') return 'ok', code", {"needs": "{}"}),
        ("print('out') error('no')", {}),
        ("return 'ok', require('lib')", {"libraries": {"lib": b"return 'of the library'"}}),
        ("while true do end", {"timeout": 0.3}),
        ("return 'ok', os.time", {"args": "{ n = { type = 'integer', default = 3, required = false } }"}),
    ],
)
def test_results_are_the_same(sandbox: Sandbox, job: MakeJob, body: str, settings: dict[str, Any]) -> None:
    """Results are the same with a known table: metrics, calls, missing needs, faults, libraries and limits."""
    (first, second), known = twice(sandbox, job(body, **settings))
    assert (first, known) == (second, [False, True])


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"args_given": {"m": 1}}, "bad-arguments"),
        ({"args_given": [1]}, "bad-arguments"),
        ({"args": "{ n = { type = 'nothing' } }"}, "load-error"),
        ({"before": "error('at once')"}, "load-error"),
    ],
)
def test_what_is_wrong_is_told_each_time(sandbox: Sandbox, job: MakeJob, settings: dict[str, Any], reason: str) -> None:
    """A faulty run fails each time in the same words, told by the worker, and its table is not kept."""
    (first, second), known = twice(sandbox, job("return 'ok'", **settings))
    assert (first, known) == (second, [False, False])
    assert first["reason"] == reason


def test_bad_arguments_for_a_table_that_is_known(sandbox: Sandbox, job: MakeJob) -> None:
    """Bad arguments for a known table are read again by the worker, which says what is wrong."""
    good = job("return 'ok'", args="{ n = { type = 'integer' } }")
    bad = Job("t", good.source, args=b'{"n": "x"}')
    assert twice(sandbox, good)[1] == [False, True]
    (result, _), known = twice(sandbox, bad)
    assert (result["summary"], known) == ('the argument "n" must be a whole number', [False, False])


@pytest.mark.parametrize("longer", [0, 1])
def test_a_table_that_is_too_long(sandbox: Sandbox, job: MakeJob, longer: int) -> None:
    """A table above TABLE_LIMIT is not kept: each worker reads it again, and the results are the same."""
    bare = len(encode({"summary": "s", "needs": ["host"], "args": {"n": {"type": "string", "help": ""}}}))
    args = f"{{ n = {{ type = 'string', help = '{'h' * (TABLE_LIMIT - bare + longer)}' }} }}"
    (first, second), known = twice(sandbox, job("return 'ok'", args=args))
    assert (first, known) == (second, [False, not longer])
    assert first["status"] == "ok"


def test_a_source_that_fails_later(sandbox: Sandbox, job: MakeJob) -> None:
    """The chunk of a source runs each time, so that it can fail although its table is known."""
    flaky = job("return 'ok'", before="if require('lib') then error('by the library') end", libraries={"lib": b"x = 1"})
    first = Job("t", flaky.source, {"lib": b"return false"})
    assert twice(sandbox, first)[1] == [False, True]
    (result, _), known = twice(sandbox, Job("t", flaky.source, {"lib": b"return true"}))
    assert (result["reason"], known) == ("load-error", [False, False])


def test_the_timeout_of_a_known_table(sandbox: Sandbox, job: MakeJob) -> None:
    """The timeout of a known table counts from the beginning, and the worker declares none."""
    endless = job("while true do end", table="timeout = '300ms',")
    results: list[dict[str, Any]] = []
    for _ in range(2):
        run = sandbox.runner.run(endless, lambda blob: results.append(json.loads(blob)))
        sandbox.loop.until(lambda: results, PATIENCE)
        assert results.pop()["summary"] == "no result within 0.3 s"
    assert (run.timeout, run.declared, run.known is not None) == (0.3, False, True)


# ------------------------------------------------------------------------------------------------ without processes

TABLE = {
    "summary": "s", "needs": ["disk", "net"], "every": "1m", "timeout": "2.5s", "attempts": 3, "runbook": "https://x",
    "args": {
        "name": {"type": "string", "default": "\udcff", "choices": ["\udcff", "b"], "help": "h"},
        "size": {"type": "number", "min": -1, "max": 2.5, "default": 0.1},
        "many": {"type": "integer", "required": True},
        "warn": {"type": "range", "default": "@1:2"},
        "since": {"type": "duration", "default": "5m", "min": "1s", "max": "1h"},
        "parts": {"type": "list", "default": ["a"]},
        "fast": {"type": "boolean", "default": False},
    },
}  # fmt: skip
SOURCE = b"return {}"
TOLD = encode(TABLE)


def test_what_is_known_is_of_one_source_and_its_libraries() -> None:
    tables, args = KnownTables(), b'{"many": 1}'
    job = Job("t", SOURCE, {"lib": b"1"}, args=args)
    assert tables.find(job) is None
    assert tables.learn(job, TOLD)
    found = tables.find(Job("other", SOURCE, {"lib": b"1"}, args=args))
    assert found is not None
    assert (found.timeout, found.needs) == (2.5, ("disk", "net"))
    assert decode(found.arguments)["many"] == 1
    assert found.document() == {"timeout": 2.5, "needs": ("disk", "net")}
    for other in (
        Job("t", SOURCE + b" ", {"lib": b"1"}, args=args),
        Job("t", SOURCE, {"lib": b"2"}, args=args),
        Job("t", SOURCE, {"lib": b"1"}, args=args, pushed=False),
        Job("t", SOURCE, {"lib": b"1"}),
        Job("t", SOURCE, {"lib": b"1"}, args=b"{"),
        Job("t", SOURCE, {"lib": b"1"}, args=args + b" " * ARGUMENTS_LIMIT),
    ):
        assert tables.find(other) is None


def test_what_is_kept_is_bounded() -> None:
    """The tables, their arguments and the source that are kept are bounded, and arguments with a secret are not
    kept.
    """
    assert (MOST_TABLES, MOST_ARGUMENTS, SOURCE_LIMIT, ARGUMENTS_LIMIT, TABLE_LIMIT) == (256, 8, 65_536, 4096, 8192)
    tables = KnownTables()
    for number in range(MOST_TABLES + 5):
        assert tables.learn(Job("t", b"%d" % number), TOLD)
    assert (len(tables._told), tables.find(Job("t", b"4", args=b'{"many": 1}'))) == (MOST_TABLES, None)
    assert tables.learn(Job("t", b"x" * (SOURCE_LIMIT + 1)), TOLD)
    assert len(tables._told) == MOST_TABLES
    for number in range(MOST_ARGUMENTS + 5):
        assert tables.find(Job("t", b"9", args=b'{"many": %d}' % number))
    kept = tables._told[b"9", True].arguments
    assert len(kept) == MOST_ARGUMENTS
    assert tables.find(Job("t", b"9", args=b'{"many": 1, "name": "b"}', secrets=("b",)))
    assert b'{"many": 1, "name": "b"}' not in kept


def test_libraries_that_are_kept_are_bounded() -> None:
    """The libraries that are kept are bounded, and the same ones are held once with all their tables."""
    assert MOST_LIBRARIES == 4
    tables = KnownTables()
    for number in range(MOST_LIBRARIES + 2):
        for source in (b"a%d" % number, b"b%d" % number):
            assert tables.learn(Job("t", source, {"lib": b"%d" % number}), TOLD)
    assert len({id(told.libraries) for told in tables._told.values()}) == len(tables._libraries) == MOST_LIBRARIES
    args = b'{"many": 1}'
    for number in range(MOST_LIBRARIES + 2):
        found = tables.find(Job("t", b"b%d" % number, {"lib": b"%d" % number}, args=args))
        assert (found is not None) is (number >= 2)


def test_the_first_table_of_a_source_stays() -> None:
    """The first table of a source stays; another one counts only with other libraries, and no other table is dropped
    for it.
    """
    tables = KnownTables()
    for number in range(MOST_TABLES):
        assert tables.learn(Job("t", b"%d" % number), TOLD)
    args = b'{"many": 1}'
    for libraries, timeout in (({}, 2.5), ({"lib": b""}, 9.0)):
        assert tables.learn(Job("t", b"7", libraries), encode(TABLE | {"timeout": "9s"}))
        found = tables.find(Job("t", b"7", libraries, args=args))
        assert found is not None
        assert found.timeout == timeout
    assert tables.find(Job("t", b"0", args=args))


@pytest.mark.parametrize("levels", [1, 30])
def test_a_key_that_is_no_text_is_refused(levels: int) -> None:
    """A key that is no text is refused, because nested keys would double their backslashes at each level."""
    text = encode("\\")
    for _ in range(levels):
        text = b"o\1\0\0\0" + text + b"n"
    if levels == 1:
        assert decode(text) == {"\\": None}
        return
    with pytest.raises(NotPlain, match="a key that is no text"):
        decode(text)
    assert not KnownTables().learn(Job("t", SOURCE), text)


def test_the_shortest_timeout_is_the_same(sandbox: Sandbox, job: MakeJob) -> None:
    """A shorter timeout of a known table is raised to SHORTEST_TIMEOUT."""
    run = sandbox.runner.run(job("return 'ok'"), lambda blob: None)
    run.known = KnownTable(0.001, (), b"")
    assert run.longest(300.0) == SHORTEST_TIMEOUT == 0.05
    sandbox.loop.until(lambda: run.delivered, PATIENCE)


def test_nothing_that_a_worker_tells_raises() -> None:
    """A table from a worker raises nothing: it is refused, or it can be used whatever was changed in it."""
    for text in (b"n", b"a\0\0\0\0", b"\xff", b"a\1\0\0\0" * 1000, TOLD[:-1], TOLD + b"n", encode({}),
                 encode(TABLE | {"timeout": math.nan}), encode(TABLE | {"needs": [1]}), encode(TABLE | {"args": [[]]}),
                 encode(TABLE | {"summary": "s" * TABLE_LIMIT})):  # fmt: skip
        assert not KnownTables().learn(Job("t", SOURCE, pushed=False), text)
    order = random.Random(7)
    odd = [None, True, -1, 2**62, math.nan, math.inf, "", "x", "\udcff", [], [[]], {}, {"type": []}, [None, 1]]
    taken = 0
    for _ in range(1000):
        tables, table = KnownTables(), json.loads(json.dumps(TABLE))
        place = order.choice([table, table["args"], *table["args"].values()])
        place[order.choice([*place, "type", "min", "choices", "default", "new"])] = order.choice(odd)
        taken += tables.learn(Job("t", SOURCE), encode(table))
        for args in (b"", b'{"many": 1}', b'{"many": 1e999, "size": NaN, "warn": 1%s}' % (b"0" * 400)):
            tables.find(Job("t", SOURCE, args=args))
    for _ in range(1000):
        at = order.randrange(len(TOLD))
        KnownTables().learn(Job("t", SOURCE), TOLD[:at] + order.randbytes(2) + TOLD[at + 2 :])
    assert 30 < taken < 970


def test_the_rules_are_in_one_place() -> None:
    """The agent reads tables and arguments by the functions that workers use."""
    assert known_tables.read_table is read_table
