"""Test what a result says: statuses, summaries, arguments, host calls, and texts that are cut."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from equus.sandbox.blocking import Sandbox
from equus.sandbox.document import FLOOD_LIMIT, OUTPUT_LIMIT, SUMMARY_LIMIT
from equus.sandbox.frames import LOG_LINE, LOG_LINES
from equus.sandbox.job import Job

Outcome = Callable[..., dict[str, Any]]
MakeJob = Callable[..., Job]

RETURNS = {
    "a status and a text": ('return "critical", "down"', {"status": "critical", "summary": "down"}),
    "a status alone": ('return "ok"', {"status": "ok", "summary": "ok"}),
    "a number as the text": ('return "ok", 1.5', {"status": "ok", "summary": "1.5"}),
    "a table as the text": ('return "ok", {}', {"status": "ok", "summary": "table"}),
    "text beyond ASCII": ('return "ok", "wörld ☃ 😀"', {"status": "ok", "summary": "wörld ☃ 😀"}),
    "bytes that are no UTF-8": (r'return "ok", "a\xffb"', {"status": "ok", "summary": r"a\xffb"}),
    "control characters": (r'return "ok", "\27[31m\0\r\n\t"', {"status": "ok", "summary": "\\x1b[31m\\x00\\x0d\n\t"}),
    "nothing at all": ("", {"status": "unknown", "reason": "crashed",
                            "summary": "run returned no status and gave no metric"}),
    "only a text": ('return nil, "hm"', {"status": "unknown", "reason": "crashed",
                                         "summary": "run returned no status and gave no metric (it said: hm)"}),
    "another word": ('return "fine"', {
        "status": "unknown", "reason": "crashed",
        "summary": 'run returned the status "fine"; there are ok, warning, critical, unknown'}),
    "true": ("return true", {
        "status": "unknown", "reason": "crashed",
        "summary": 'run returned the status "true"; there are ok, warning, critical, unknown'}),
}  # fmt: skip


@pytest.mark.parametrize("name", RETURNS)
def test_what_run_returns(outcome: Outcome, name: str) -> None:
    """Status and summary are those that run() returns, and any other value has its own outcome."""
    body, expected = RETURNS[name]
    assert outcome(body) == expected


def test_thresholds_decide(outcome: Outcome) -> None:
    """Without a status the worst metric decides, and the summary says which one and why."""
    document = outcome(
        'host.metric("used", 93.1, {unit = "%", warn = 80, crit = "90", labels = {path = "/"}, max = 100})'
        'host.metric("free", 7, {kind = "counter", warn = "10:"})'
        'print(host.metric("fine", 1, {warn = 2}))'
    )
    assert document == {
        "status": "critical",
        "summary": "used 93.1 % is above critical 90 (path /)",
        "output": "ok\n",
        "metrics": [
            {"name": "used", "value": 93.1, "unit": "%", "kind": "gauge", "labels": {"path": "/"}, "warn": "80",
             "crit": "90", "max": 100},
            {"name": "free", "value": 7, "unit": "", "kind": "counter", "warn": "10:"},
            {"name": "fine", "value": 1, "unit": "", "kind": "gauge", "warn": "2"},
        ],
    }  # fmt: skip


def test_a_status_beats_thresholds(outcome: Outcome) -> None:
    """A status that a check returns counts before the thresholds of its metrics."""
    document = outcome('host.metric("m", 5, {crit = 1}) return "ok", "known trouble"')
    assert (document["status"], document["summary"]) == ("ok", "known trouble")


@pytest.mark.parametrize(
    ("third", "truncated"),
    [
        ("{ output = 70000, metrics = 3 }", {"output": 70000, "metrics": 3}), ("{ metrics = 0 }", {"metrics": 0}),
        ("{ output = 1.5, metrics = -1, other = 1 }", None), ("'text'", None), ("{}", None), ("5", None),
        ("setmetatable({}, { __index = function() return 7 end })", None),
    ],
)  # fmt: skip
def test_what_a_check_leaves_out_itself(outcome: Outcome, third: str, truncated: dict[str, int] | None) -> None:
    """A third value of run() has the true sizes of what a check left out, and other values are passed over (F21)."""
    document = outcome(f'return "ok", "fine", {third}')
    assert (document["status"], document["summary"], document.get("truncated")) == ("ok", "fine", truncated)


def test_an_error_tells_where(outcome: Outcome) -> None:
    """An error has its file, its line and a traceback without frames of the sandbox, below the text that was printed
    before.
    """
    document = outcome('print("first") local function f() error("it broke") end f()', before="-- line 1")
    assert document == {
        "status": "unknown",
        "reason": "crashed",
        "summary": "t.lua:4: it broke",
        "output": "first\n\nstack traceback:\n\t[C]: in function 'error'\n\tt.lua:4: in local 'f'\n"
        "\tt.lua:4: in function <t.lua:3>",
    }


ARGUMENTS = {
    "an unknown one": (b'{"x": 1}', 'there is no argument "x"; this check takes n, path'),
    "a missing one": (b"{}", 'the argument "n" is missing'),
    "an ill-typed one": (b'{"n": "1"}', 'the argument "n" must be a whole number'),
    "one too large": (b'{"n": 10}', 'the argument "n" must be at most 9'),
    "no object": (b"[1]", "the arguments are not a JSON object"),
    "no UTF-8": (b'{"n": 1, "path": "\xff"}', "the arguments are not UTF-8"),
    "too deep": (b'{"n": ' + b"[" * 100_000, "the arguments are nested too deep"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_bad_arguments(sandbox: Sandbox, job: MakeJob, name: str) -> None:
    """Wrong arguments end as `bad-arguments`, and the summary names what is wrong."""
    given, summary = ARGUMENTS[name]
    table = "{n = {type = 'integer', max = 9, required = true}, path = {type = 'string', default = '/'}}"
    asked = job("return 'ok'", args=table)
    document = json.loads(sandbox.run(Job("t", asked.source, args=given)))
    assert (document["status"], document["reason"], document["summary"]) == ("unknown", "bad-arguments", summary)


def test_arguments_of_every_type(sandbox: Sandbox) -> None:
    """run() sees arguments of each type, given and by default."""
    table = (
        "{s = {type='string', default='d'}, i = {type='integer', default=7}, n = {type='number'}, "
        "b = {type='boolean', default=true}, r = {type='range', default=90}, d = {type='duration', default='1m'}, "
        "l = {type='list', default={'x', 'y'}}}"
    )
    body = (
        "run = function(a) return 'ok', table.concat({a.s, math.type(a.i) .. a.i, tostring(a.n), tostring(a.b), a.r, "
        "tostring(a.d), table.concat(a.l, '+')}, ' ') end"
    )
    source = f"return {{summary='s', args={table}, {body}}}".encode()

    def seen(args: bytes) -> str:
        return json.loads(sandbox.run(Job("t", source, args=args)))["summary"]

    assert seen(b"") == "d integer7 nil true 90 60.0 x+y"
    given = b'{"s": "", "i": 3.0, "n": 2.5, "b": false, "r": "@1:2", "d": "500ms", "l": []}'
    assert seen(given) == " integer3 2.5 false @1:2 0.5 "


# ------------------------------------------------------------------------------------------------ host calls


CALLS = {
    "plain data there and back": (
        'local v = host.echo(1, 2.5, "ä\\0\\xff", true, nil, {1, 2}, {a = {b = 1}}) '
        'return "ok", v[1] .. math.type(v[1]) .. v[2] .. #v[3] .. tostring(v[4]) .. tostring(v[5]) .. v[6][2] '
        ".. v[7].a.b",
        "1integer2.54truenil21"),
    "a nested name": ('return "ok", host.group.echo("x")[1]', "x"),
    "an error has a code and a text": (
        'local v, c, t = host.refuse("not-found", "gone") return "ok", tostring(v) .. c .. t', "nilnot-foundgone"),
    "a fault of ours": ('local v, c, t = host.broken() return "ok", c .. ": " .. t',
                        "failed: host.broken failed: KeyError: 'a bug'"),
    "an answer that is no data": ('local v, c, t = host.unplain() return "ok", c', "failed"),
    "a function as argument": ('local v, c, t = host.echo(print) return "ok", c .. ": " .. t',
                               "bad-arguments: host.echo: a function is no plain data"),
    "a table in itself": ('local t = {} t.t = t local v, c = host.echo(t) return "ok", c', "bad-arguments"),
    "an unknown name": ('return "ok", tostring(host.nothing)', "nil"),
    "a call in a coroutine": ('return "ok", coroutine.wrap(function() return host.echo("co")[1] end)()', "co"),
    "a call in a sort": (
        'local t = {2, 1} table.sort(t, function(a, b) return host.echo(a < b)[1] end) return "ok", t[1]', "1"),
    "the clock": ('return "ok", type(host.now())', "number"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_host_calls(outcome: Outcome, name: str) -> None:
    """Values of host calls travel as plain data, and a call that fails returns nil, a code and a text."""
    body, text = CALLS[name]
    assert outcome(body) == {"status": "ok", "summary": text}


def test_a_capability_that_is_not_needed(outcome: Outcome) -> None:
    """A call whose capability is not in the table's needs is denied without asking the broker."""
    body = "local v, code, text = host.echo() return 'unknown', code .. ': ' .. text"
    assert outcome(body, ()) == {
        "status": "unknown",
        "reason": "denied",
        "summary": 'denied: the check does not list "host" in its needs',
    }


def test_a_capability_that_is_not_granted(outcome: Outcome) -> None:
    """A capability that is not granted ends as `denied`, with the lines to write and the file for them."""
    body = "local v, code, text = host.secret() return 'unknown', text"
    assert outcome(body, ("file",)) == {
        "status": "unknown",
        "reason": "denied",
        "summary": 'this host does not grant "file": add to /etc/equus/policy.toml, section [caps.file]: '
        'paths = ["/var/log"]',
    }


@pytest.mark.parametrize(("count", "code"), [(200, "nil"), (201, "budget")])
def test_the_budget_of_calls(outcome: Outcome, count: int, code: str) -> None:
    """A run gets answers to 200 calls, and not to the next."""
    body = f"local v, c for i = 1, {count} do v, c = host.echo(i) end return 'ok', tostring(c)"
    assert outcome(body)["summary"] == code


def test_the_budget_of_bytes(outcome: Outcome) -> None:
    """A run may move 8 MiB by its host calls, both ways together."""
    body = "local n = 0 while host.blob(2^20) do n = n + 1 end return 'ok', n .. select(2, host.blob(2^20))"
    assert outcome(body)["summary"] == "7budget"


def test_calls_end_with_the_run(sandbox: Sandbox, job: MakeJob) -> None:
    """A call gets the deadline of the run that makes it."""
    body = "local left = host.wait(0) return 'ok', tostring(left > 15 and left <= 60)"  # the check's own would be 10 s
    document = json.loads(sandbox.run(job(body, timeout=60.0)))
    assert document["summary"] == "true"


def test_state_lasts(outcome: Outcome) -> None:
    """host.state lasts from run to run for each owner, and nil removes a key."""
    put = "host.state.put('seen', {n = 41, list = {'a'}}) return 'ok'"
    get = "local s = host.state.get('seen') return 'ok', s and s.n + 1 .. s.list[1] or 'nothing'"
    outcome(put, state_key="one")
    assert outcome(get, state_key="one")["summary"] == "42a"
    assert outcome(get, state_key="two")["summary"] == "nothing"
    outcome("host.state.put('seen', nil) return 'ok'", state_key="one")
    assert outcome(get, state_key="one")["summary"] == "nothing"


def test_state_is_bounded(outcome: Outcome) -> None:
    """A state holds at most 64 KiB, and a larger one is refused and leaves the one before."""
    body = (
        "host.state.put('k', 'small') local v, code = host.state.put('k', string.rep('x', 70000)) "
        "return 'ok', code .. host.state.get('k')"
    )
    assert outcome(body, state_key="big")["summary"] == "too-largesmall"


def test_a_recording_answers(outcome: Outcome) -> None:
    """Recorded answers replace the broker and the clock."""
    asked: list[Any] = []

    def answer(name: str, args: list[Any]) -> dict[str, Any]:
        asked.append((name, args))
        return {"value": 7} if name == "echo" else {"error": ["not-found", "not recorded"]}

    body = "local s, c = host.state.get('k') return 'ok', host.echo(1, {a = 2}) .. c .. host.now()"
    assert outcome(body, answer=answer, now=1000.5)["summary"] == "7not-found1000.5"
    assert asked == [("state.get", ["k"]), ("echo", [1, {"a": 2}])]


# ------------------------------------------------------------------------------------------------ what is cut


@pytest.mark.parametrize("length", [SUMMARY_LIMIT, SUMMARY_LIMIT + 1, 2 * 1_048_576, FLOOD_LIMIT])
def test_a_long_summary_is_cut_loudly(outcome: Outcome, length: int) -> None:
    """A long summary is cut, its true length is in `truncated`, and the status stays."""
    document = outcome(f'return "ok", string.rep("x", {length})')
    assert document["status"] == "ok"
    assert len(document["summary"]) == min(length, SUMMARY_LIMIT)
    assert document.get("truncated", {}) == ({"summary": length} if length > SUMMARY_LIMIT else {})


def test_a_cut_is_never_within_a_character(outcome: Outcome) -> None:
    """A text is never cut within a character of UTF-8."""
    document = outcome('return "ok", "x" .. string.rep("ü", 40000)')
    assert document["truncated"] == {"summary": 80_001}
    assert document["summary"] == "x" + "ü" * ((SUMMARY_LIMIT - 1) // 2)


@pytest.mark.parametrize("lines", [OUTPUT_LIMIT // 64, OUTPUT_LIMIT // 64 + 1])
def test_long_output_is_cut_loudly(outcome: Outcome, lines: int) -> None:
    """Output above 64 KiB is cut, and its true length is in `truncated`."""
    document = outcome(f'for i = 1, {lines} do print(string.rep("y", 63)) end return "ok"')
    assert document["output"] == ("y" * 63 + "\n") * (OUTPUT_LIMIT // 64)
    assert document.get("truncated", {}) == ({"output": lines * 64} if lines * 64 > OUTPUT_LIMIT else {})


FLOODS = {
    "printing for ever": 'while true do print(string.rep("z", 1000)) end',
    "one print too large": 'print(string.rep("z", 5 * 1048576))',
    "a summary too large": 'return "ok", string.rep("z", 4 * 1048576 + 1)',
}


@pytest.mark.adversary(35)
@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_ends_the_run(outcome: Outcome, name: str) -> None:
    """Text above 4 MiB ends the run with reason `output`."""
    document = outcome(FLOODS[name])
    assert (document["status"], document["reason"]) == ("unknown", "output")


@pytest.mark.parametrize("count", [1000, 1001])
def test_metrics_beyond_a_thousand_are_counted(outcome: Outcome, count: int) -> None:
    """A thousand metrics are kept, and the number of all is in `truncated`."""
    document = outcome(f'for i = 1, {count} do host.metric("m", i) end')
    assert len(document["metrics"]) == 1000
    assert document.get("truncated", {}) == ({"metrics": count} if count > 1000 else {})


@pytest.mark.adversary(35)
def test_a_result_is_never_more_than_a_mebibyte(outcome: Outcome) -> None:
    """A result with the largest texts, escaped at their worst, has at most a mebibyte, and metrics are left out for
    that.
    """
    body = (
        r'print(string.rep("\1", 65535)) local labels = {} '
        r'for i = 1, 16 do labels["l" .. i] = string.rep("☃", 200) end '
        r'for i = 1, 1000 do host.metric("m", i, {labels = labels}) end return "critical", string.rep("\2", 65536)'
    )
    document = outcome(body)
    assert document["status"] == "critical"
    assert document["truncated"] == {"summary": 4 * 65_536, "output": 4 * 65_535 + 1, "metrics": 1000}
    assert 50 < len(document["metrics"]) < 1000


def test_log_lines_reach_the_agent(new_sandbox: Callable[..., Sandbox], job: MakeJob) -> None:
    """A run logs at most 20 lines, each bounded and escaped, and host.log returns false beyond that."""
    lines: list[tuple[str, str]] = []
    with new_sandbox(log=lambda check, text: lines.append((check, text))) as sandbox:
        body = (
            r'host.log("a\27[0m\nb") host.log(string.rep("l", 5000)) local last '
            r'for i = 1, 30 do last = host.log(i) end return "ok", tostring(last)'
        )
        assert json.loads(sandbox.run(job(body, check="c")))["summary"] == "false"
    assert len(lines) == LOG_LINES
    assert lines[:3] == [("c", r"a\x1b[0m\nb"), ("c", "l" * LOG_LINE), ("c", "1")]
