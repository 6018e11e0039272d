"""Test values that no check has reason to give: as arguments of host calls, as results, metrics, errors and output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Outcome = Callable[..., dict[str, Any]]
ODD = """
local cycle = {} cycle.me = cycle
local deep = {} local at = deep for i = 1, 20000 do at.x = {} at = at.x end
local function no() error("no") end
local refuses = setmetatable({}, {__index = no, __pairs = no, __len = no, __tostring = no, __concat = no, __eq = no})
local liar = setmetatable({}, {__len = function() return 2^40 end, __index = function(t, k) return k end})
local endless = setmetatable({}, {__pairs = function(t) return function(_, k) return (k or 0) + 1, k end, t, nil end})
local odd = {
  coroutine.create(print), print, host, cycle, deep, refuses, liar, endless, 0/0, 1/0, -1/0, -0.0, 2^63,
  math.mininteger, math.maxinteger, "\\0", "\\xff\\xfe", ("x"):rep(2^20), {[1]=1, [3]=3}, {[1.5]=1}, {[true]=1},
  {[{}]=1}, {[print]=1}, {["\\xff"]=1}, setmetatable({}, {__close = print}), setmetatable({}, {__metatable = "x"}),
  string, _G, {}, {{}}, "",
}
"""
COUNT = 31
CALLS = (
    "host.echo(v)",
    "host.echo{host = v, port = v}",
    "host.echo(v, v, v)",
    "host.echo{[v] = v}",
    "host.group.echo(v)",
)
RETURNS = (
    "return odd[{}]", "return 'ok', odd[{}]", "return odd[{}], odd[{}]", "error(odd[{}])", "return 'ok', 'x', odd[{}]",
    "host.metric('a', odd[{}]) return 'ok'", "host.metric(odd[{}], 1) return 'ok'", "print(odd[{}]) return 'ok'",
    "return {{status = 'ok', summary = odd[{}]}}", "local t <close> = odd[{}] return 'ok'",
    "pcall(error, odd[{}]) return 'ok'", "xpcall(error, function() return odd[{}] end) error(odd[{}])",
)  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_as_arguments(outcome: Outcome, call: str) -> None:
    """An odd argument is accepted or is an error that the check can catch, and ends neither the worker nor the
    broker.
    """
    body = f"""{ODD}
    local tried, strange = 0, 0
    for i = 1, #odd do
      local v = odd[i]
      local ok, why = pcall(function() return {call} end)
      tried = tried + 1
      if not ok and why == nil then strange = strange + 1 end
    end
    return "ok", tried .. " " .. strange"""
    assert outcome(body, timeout=60.0)["summary"] == f"{COUNT} 0"
    assert outcome("return 'ok', host.echo('still here')[1]")["summary"] == "still here"


@pytest.mark.parametrize("way", RETURNS)
def test_as_what_a_check_says(outcome: Outcome, way: str) -> None:
    """An odd value as a result gives a document or `crashed`, never a failure of the sandbox itself."""
    for number in range(1, COUNT + 1):
        document = outcome(ODD + way.format(number, number), timeout=60.0)
        assert document["status"] in ("ok", "unknown"), (number, document)
        assert document.get("reason") in (None, "crashed", "memory"), (number, document)
        assert "sandbox failed" not in str(document.get("summary", "")), (number, document)
