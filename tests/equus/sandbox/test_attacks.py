"""Test hostile checks against real workers: one result each, in time, and the next check is right."""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from equus.sandbox.blocking import Sandbox
from equus.sandbox.job import Job

Outcome = Callable[..., dict[str, Any]]
MakeJob = Callable[..., Job]

TIMEOUT = 0.25
# Seconds. An idle machine takes 0.1 s more than the timeout; one that other programs keep busy may take many.
LATEST = 30.0
PATIENCE = 60.0  # seconds for anything on a busy machine

ENDLESS = {
    "a plain loop": "while true do end",
    "a loop that catches": "while true do pcall(function() while true do end end) end",
    "a loop in a coroutine": "coroutine.wrap(function() while true do end end)()",
    "a loop in coroutine.create": "coroutine.resume(coroutine.create(function() while true do end end))",
    "a loop in an xpcall handler": "xpcall(error, function() while true do end end)",
    "a loop in __close": "do local x <close> = setmetatable({}, {__close = function() while true do end end}) end",
    "a loop in __tostring": "print(setmetatable({}, {__tostring = function() while true do end end}))",
    "a loop in __index": "local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
    "a loop while loading": None,
    "a pattern that backtracks": 'string.find(string.rep("a", 40), string.rep(".-", 12) .. "b")',
    "a pattern of brackets": 'string.find(string.rep("(", 200000), "%b()")',
    "string.rep of nothing": "for i = 1, 1e9 do string.rep('', 1e6) end",
    "table.move over everything": "table.move({}, 1, math.maxinteger - 1, 2)",
    "table.insert with a lying length": "table.insert(setmetatable({}, {__len = function() return 1 << 50 end}), 1, 1)",
    "table.concat over an __index": (
        "table.concat(setmetatable({}, {__index = function() return '' end}), '', 1, 1 << 30)"
    ),
    "a sort that never agrees": "table.sort({3, 2, 1}, function() while true do end end)",
    "a goto": "::again:: goto again",
}  # fmt: skip


def run_all(sandbox: Sandbox, job: MakeJob, attacks: dict[str, Job]) -> dict[str, dict[str, Any]]:
    """Run all attacks side by side with a benign check behind each, and return the result documents of the attacks."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in attacks}
    benign: list[str] = []
    for name, attack in attacks.items():
        sandbox.runner.run(attack, lambda blob, into=found[name]: into.append(json.loads(blob)))
        sandbox.runner.run(job(f'return "ok", "after {name}"'), lambda blob: benign.append(json.loads(blob)["summary"]))
    sandbox.loop.until(lambda: all(found.values()) and len(benign) == len(attacks), PATIENCE)
    sandbox.loop.until(lambda: not sandbox.runner.running, PATIENCE)
    assert sorted(benign) == sorted(f"after {name}" for name in attacks)
    assert {len(documents) for documents in found.values()} == {1}
    return {name: documents[0] for name, documents in found.items()}


@pytest.mark.adversary(32)
def test_endless_checks_end_at_their_timeout(sandbox: Sandbox, job: MakeJob) -> None:
    """An endless check ends with reason `timeout` at its deadline, whatever it does, and the check behind it is
    right.
    """
    attacks = {
        name: job(body, timeout=TIMEOUT) if body else job("", before="while true do end", timeout=TIMEOUT)
        for name, body in ENDLESS.items()
    }
    documents = run_all(sandbox, job, attacks)
    endings = {name: (document["status"], document["reason"]) for name, document in documents.items()}
    assert endings == dict.fromkeys(ENDLESS, ("unknown", "timeout"))
    assert all(TIMEOUT * 1000 <= document["took_ms"] <= LATEST * 1000 for document in documents.values())


HUNGRY = {
    "a doubled string": 'local s = "x" while true do s = s .. s end',
    "a table without end": "local t = {} while true do t[#t + 1] = {} end",
    "a table that catches": "local t = {} while true do pcall(function() while true do t[#t + 1] = {} end end) end",
    "in a coroutine": 'coroutine.wrap(function() local s = "x" while true do s = s .. s end end)()',
    "in an xpcall handler": 'xpcall(error, function() local s = "x" while true do s = s .. s end end)',
    "table.concat of itself": 'local t = {string.rep("x", 2^20)} while true do t[#t + 1] = table.concat(t) end',
    "gsub that grows": 'local s = string.rep("x", 2^20) while true do s = s:gsub(".", "%0%0") end',
    "closures": "local f = function() end while true do local g = f f = function() return g() end end",
    "many coroutines": "local t = {} while true do t[#t + 1] = coroutine.create(print) end",
    "a host call that answers too much": (
        'local t = {} while true do t[#t + 1] = string.rep("x", 2^20) .. #t '
        "if #t % 8 == 7 then t[#t + 1] = host.blob(2^19) end end"
    ),
    "printing while full": 'local t = {} while true do t[#t + 1] = string.rep("x", 2^18) .. #t print(#t) end',
    "metrics while full": 'local t = {} while true do t[#t + 1] = string.rep("x", 2^18) .. #t host.metric("m", #t) end',
}


@pytest.mark.adversary(32)
def test_hungry_checks_run_out_of_their_own_memory(sandbox: Sandbox, job: MakeJob) -> None:
    """A check that takes memory without an end ends as `memory`, and the check behind it is right."""
    documents = run_all(sandbox, job, {name: job(body, timeout=30.0) for name, body in HUNGRY.items()})
    endings = {name: (document["status"], document["reason"]) for name, document in documents.items()}
    assert endings == dict.fromkeys(HUNGRY, ("unknown", "memory"))


ERRORS = {
    "recursion in gsub": 'local function f() return (string.gsub("x", "x", f)) end f()',
    "recursion in resume": "local function f() return coroutine.wrap(f)() end f()",
    "recursion in a metamethod": "local t = setmetatable({}, {__index = function(s, k) return s[k] end}) return t.x",
    "recursion in sort": "local function f() table.sort({3, 2, 1}, f) end f()",
    "a long pattern": 'string.find(string.rep("a", 300000), string.rep("a?", 300000) .. "b")',
    "an endless format": 'string.format("%99999d", 1)',
    "too many results": "table.unpack({}, 1, 1e7)",
    "an error that is nil": "error(nil)",
    "an error that is a table": "error({})",
    "an error in an error": "error(setmetatable({}, {__tostring = function() error('again') end}))",
    "an error that says nothing": "error(setmetatable({}, {__tostring = function() return 7 end}))",
}


@pytest.mark.adversary(32)
@pytest.mark.parametrize("name", ERRORS)
def test_checks_that_break_are_results(outcome: Outcome, name: str) -> None:
    """Errors of every kind end as `crashed` or `memory` with a summary, and never crash the VM."""
    document = outcome(ERRORS[name], timeout=PATIENCE)
    assert document["status"] == "unknown"
    assert document["reason"] in ("crashed", "memory")
    assert document["summary"]


ABSENT = (
    "io debug package load loadstring loadfile dofile python collectgarbage warn os.execute os.exit os.getenv os.remove"
    " os.rename os.tmpname os.setlocale os.date string.dump coroutine.xyz"
).split()


@pytest.mark.parametrize("name", ABSENT)
def test_what_is_not_there(outcome: Outcome, name: str) -> None:
    """Names that are not in the list of the environment are nil, also under _G."""
    assert outcome(f'return "ok", tostring({name}) .. tostring(_G["{name}"])')["summary"] == "nilnil"


CLAIMS = {
    "a finalizer is refused": ("setmetatable({}, {__gc = print})", "__gc is not available"),
    "an address by %p is refused": ('string.format("%p", {})', "%p shows an address"),
    "a long string.rep is refused": ('string.rep("xx", 2^40)', "too long"),
    "an address by %5p is refused": ('string.format("%-5p", {})', "%p shows an address"),
    "an address behind a percent sign is refused": ('string.format("%%%p", {})', "%p shows an address"),
    "a library that is not there": ('require("os")', "no library os"),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_refusals_are_errors(outcome: Outcome, name: str) -> None:
    """A function that is taken away raises an error that says so."""
    body, text = CLAIMS[name]
    document = outcome(body)
    assert document["reason"] == "crashed"
    assert text in document["summary"]


ANSWERS = {
    "no addresses": ('return "ok", tostring({}) .. tostring(print) .. string.format("%s|%10s", {}, print)',
                     "tablefunctiontable|  function"),
    "the string metatable is locked": (
        'return "ok", tostring(getmetatable("")) .. tostring(pcall(setmetatable, "", {}))', "nilfalse"),
    "methods of strings are the same": ('return "ok", ("x"):rep(3) .. tostring(("x").dump)', "xxxnil"),
    "poisoned globals poison nobody else": (
        "_G.tostring = nil _G.error = nil string.format = nil _G.next = nil setmetatable(_G, {__index = error}) "
        'return "ok", "poison"', "poison"),
    "pcall gives errors": ('return "ok", select(2, pcall(error, "x", 0)) .. tostring(pcall(type, 1))', "xtrue"),
    "xpcall gives errors": ('return "ok", select(2, xpcall(error, function(e) return e .. "!" end, "x", 0))', "x!"),
    "coroutines work": ('local f = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b * 2 end) '
                        'return "ok", f(1) .. "," .. f(5)', "2,10"),
    "errors pass a coroutine": (
        'local ok, e = pcall(coroutine.wrap(function() error("in", 0) end)) return "ok", e', "in"),
    "times": ('return "ok", type(os.time()) .. type(os.clock()) .. os.difftime(5, 3)', "numbernumber2.0"),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_lua_still_works(outcome: Outcome, name: str) -> None:
    """A function of Lua that the sandbox wraps behaves as in the manual."""
    body, text = ANSWERS[name]
    assert outcome(body) == {"status": "ok", "summary": text}


def test_the_next_run_starts_clean(outcome: Outcome) -> None:
    """A run leaves nothing for the next one, because each is a process of its own."""
    outcome("_G.left = 'behind' string.left = 'behind' return 'ok'")
    assert outcome("return 'ok', tostring(left) .. tostring(string.left)")["summary"] == "nilnil"


def test_random_numbers_differ(outcome: Outcome) -> None:
    """Random numbers differ from worker to worker, although all are copies of one process."""
    body = 'return "ok", tostring(math.random(0))'
    assert len({outcome(body)["summary"] for _ in range(4)}) == 4


@pytest.fixture(scope="module")
def bytecode() -> bytes:
    """Return compiled Lua of this very VM, made outside of the sandbox."""
    code = (
        "import sys; from lupa.lua54 import LuaRuntime;"
        "f = LuaRuntime(encoding=None).eval(b'string.dump(function() return {summary=\"b\", run=print} end)');"
        "sys.stdout.buffer.write(f)"
    )

    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout


@pytest.mark.adversary(33)
@pytest.mark.parametrize(
    "before",
    [b"", b"\xef\xbb\xbf", b"#!/usr/bin/lua\n", b"\xef\xbb\xbf#!/usr/bin/lua\n", b"\n \n", b"#\n\n\t"],
    ids=repr,
)
def test_bytecode_is_refused(sandbox: Sandbox, bytecode: bytes, before: bytes) -> None:
    """Compiled Lua never reaches the VM, whatever stands before it."""
    assert bytecode.startswith(b"\x1bLua")
    document = json.loads(sandbox.run(Job("t", before + bytecode)))
    assert document["reason"] == "load-error"
    assert "compiled Lua" in document["summary"] or "load" in document["summary"]
    assert "compiled Lua" in sandbox.inspect(before + bytecode)["error"]


def test_bytecode_in_a_library_is_refused(sandbox: Sandbox, job: MakeJob, bytecode: bytes) -> None:
    """Compiled Lua in a library is refused as in the check itself."""
    assert json.loads(sandbox.run(job("return 'ok'", libraries={"x": bytecode})))["reason"] == "load-error"


@pytest.mark.adversary(33)
def test_mutated_bytecode_is_refused_or_no_lua(sandbox: Sandbox, bytecode: bytes) -> None:
    """Random changes of compiled Lua give a load error each, and no crash."""
    random_numbers = random.Random(4)
    waiting: list[bytes] = []
    for _ in range(60):
        mutant = bytearray(bytecode)
        for _ in range(random_numbers.randrange(1, 6)):
            mutant[random_numbers.randrange(len(mutant))] = random_numbers.randrange(256)
        sandbox.runner.run(Job("t", bytes(mutant)), waiting.append)
    sandbox.loop.until(lambda: len(waiting) == 60, PATIENCE)
    assert {json.loads(blob)["reason"] for blob in waiting} == {"load-error"}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ('string.format("%d%%packets", 5)', "5%packets"),
        ('string.format("100%%p")', "100%p"),
        ('string.format("%%%%p %s", "x")', "%%p x"),
        ('("%.1f%% per day"):format(2.55)', "2.5% per day"),
    ],
)
def test_a_percent_sign_before_a_p_is_no_address(outcome: Outcome, call: str, text: str) -> None:
    """Two percent signs in a format stand for one, also before a `p` (F70)."""
    assert outcome(f'return "ok", {call}')["summary"] == text


REPLACED = ("sub", "gsub", "match", "gmatch", "find", "format", "rep", "byte", "char", "len", "pack", "unpack")


@pytest.mark.parametrize("name", REPLACED)
def test_a_check_that_replaces_functions_harms_itself_alone(outcome: Outcome, name: str) -> None:
    """A check that replaces functions harms itself alone: its result is its own, and the sandbox has not failed
    (F71).
    """
    body = f"""
        string.{name} = function() return 7 end
        local long = {{}}
        for i = 1, 7000 do long[i] = "0123456789" end
        long = table.concat(long)
        print(long)
        host.log(long)
        host.metric("m", 1)
        return "warning", long
    """
    document = outcome(body)
    assert (document["status"], document["summary"][:10]) == ("warning", "0123456789")
    broken = outcome(f'string.{name} = function() return {{}} end error("it broke")')
    assert (broken["reason"], "it broke" in broken["summary"]) == ("crashed", True)
    refused = outcome(f'string.{name} = function() return 7 end host.metric("no name", 1)')
    assert (refused["reason"], "sandbox" in refused["summary"]) == ("crashed", False)


@pytest.mark.parametrize("table", ["math", "table", "utf8", "os", "coroutine"])
def test_a_check_that_replaces_all_of_a_table_harms_itself_alone(outcome: Outcome, table: str) -> None:
    """A check that replaces a whole table harms itself alone, because the sandbox uses functions of its own (F71)."""
    body = f"""
        local last = string.rep("x", 70000)
        for name in pairs({table}) do {table}[name] = function() return {{}} end end
        print(last)
        return "warning", last, {{ output = 70000 }}
    """
    document = outcome(body)
    assert (document["status"], document["summary"][:3]) == ("warning", "xxx")
    assert outcome(f'{table} = nil string = nil error("it broke")')["reason"] == "crashed"
