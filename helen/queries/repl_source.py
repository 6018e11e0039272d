"""Makes a check of a line typed at `helen repl`, and reads from its result what the next line has to know. Pure.

Every line runs in a worker of its own, so the globals of one line go along with the next: plain values of global names
come back with the result, written as Lua, and definitions of functions are kept as they were typed. The frame prints
the values of the line; the kept names are the result's summary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import field, frozen

CHECK = "repl"
FILE = f"{CHECK}.lua"
TIMEOUT = "60s"  # of one line, unless the host's policy says less
MOST_KEPT = 49_152  # bytes of kept values: they are the summary of a result, which has 64 KiB
# All that a host may grant; its policy says what it does grant. Kept in step by tests/helen/cli/test_trying.py.
CAPABILITIES = (
    "cpu", "crypto", "disk", "disk_io", "dns", "file", "host", "http", "icmp", "journal", "kernel", "load", "log",
    "mem", "net_io", "plugin", "procs", "program", "state", "systemd", "tcp", "tls", "udp", "unix",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEFINITION = re.compile(r"\s*function\s+([A-Za-z_][A-Za-z0-9_]*)\s*\(")
# What begins so is no expression, so it isn't tried as one first.
_STATEMENT = re.compile(
    r"\s*(?:(?:local|for|while|repeat|if|do|function|return|break|goto)\b|::|[A-Za-z_][\w.\[\]\"', ]*=(?!=))"
)
_PLACE = re.compile(rf"\b{CHECK}\.lua:(\d+)")
_OF_THE_FRAME = re.compile(r" \(to close '\w+' at line (\d+)\)")

_FRAME = r"""-- helen repl
local __known, __most, __depth = {}, @MOST@, 16
local __type, __next, __tostring, __format, __mtype = type, next, tostring, string.format, math.type
local __concat, __sort, __pack, __print, __byte = table.concat, table.sort, table.pack, print, string.byte
for name in __next, _G do __known[name] = true end

local function __keys(value)
  local keys = {}
  for key in __next, value do keys[#keys + 1] = key end
  __sort(keys, function(a, b)
    if __type(a) == __type(b) and __type(a) ~= "boolean" then return a < b end
    return __type(a) < __type(b)
  end)
  return keys
end

local function __number(value)
  if __mtype(value) == "integer" then return __format("%d", value) end
  if value ~= value then return "(0/0)" end
  if value == 1/0 or value == -1/0 then return value > 0 and "(1/0)" or "(-1/0)" end
  return __format("%.17g", value)
end

local function __literal(value, depth)
  local kind = __type(value)
  if kind == "number" then return __number(value) end
  if kind == "boolean" then return __tostring(value) end
  if kind == "string" then
    return '"' .. value:gsub("[^%w _./-]", function(c) return __format("\\%03d", __byte(c)) end) .. '"'
  end
  if kind ~= "table" or depth > __depth then return nil end
  local parts = {}
  for _, key in ipairs(__keys(value)) do
    local name, inner = __type(key) ~= "table" and __literal(key, depth + 1), __literal(value[key], depth + 1)
    if not name or not inner then return nil end
    parts[#parts + 1] = "[" .. name .. "]=" .. inner
  end
  return "{" .. __concat(parts, ",") .. "}"
end

local __shown = 0
local function __show(value, indent)
  local kind = __type(value)
  if kind == "string" then
    return '"' .. value:gsub('[%c"\\]', function(c)
      return (c == '"' or c == "\\") and "\\" .. c or __format("\\%d", __byte(c))
    end) .. '"'
  end
  if kind == "number" then return __format(__mtype(value) == "integer" and "%d" or "%.14g", value) end
  if kind ~= "table" then return __tostring(value) end
  if #indent > 12 then return "{...}" end
  local parts, more = {}, indent .. "  "
  for _, key in ipairs(__keys(value)) do
    __shown = __shown + 1
    if __shown > 500 then parts[#parts + 1] = "..." break end
    local inner = __show(value[key], more)
    if __mtype(key) == "integer" and key == #parts + 1 then parts[#parts + 1] = inner
    elseif __type(key) == "string" and key:find("^[%a_][%w_]*$") then parts[#parts + 1] = key .. " = " .. inner
    else parts[#parts + 1] = "[" .. __show(key, more) .. "] = " .. inner end
  end
  if #parts == 0 then return "{}" end
  local line = "{ " .. __concat(parts, ", ") .. " }"
  if #line + #indent <= 76 and not line:find("\n") then return line end
  return "{\n" .. more .. __concat(parts, ",\n" .. more) .. "\n" .. indent .. "}"
end

local function __end(results)
  local texts = {}
  for index = 1, results.n do texts[index] = __show(results[index], "") end
  if results.n > 0 then __print(__concat(texts, "  ")) end
  local kept, size = {}, 0
  for _, name in ipairs(__keys(_G)) do
    if not __known[name] and __type(name) == "string" and name:find("^[%a_][%w_]*$") then
      local literal = __type(_G[name]) == "function" and "*" or __literal(_G[name], 1) or "?"
      if size + #literal > __most then literal = "?" end
      kept[#kept + 1], size = name .. "=" .. literal, size + #name + #literal + 2
    end
  end
  return "ok", "=" .. __concat(kept, ";")
end

local __check = { summary = "a line of helen repl", needs = { @NEEDS@ }, timeout = "@TIMEOUT@" }
function __check.run(_, host)
"""
HEAD = (
    _FRAME.replace("@MOST@", str(MOST_KEPT))
    .replace("@NEEDS@", ", ".join(f'"{name}"' for name in CAPABILITIES))
    .replace("@TIMEOUT@", TIMEOUT)
)
TAIL = """
end)()))
end

return __check
"""


@frozen
class Memory:
    """Holds the globals of a prompt of `helen repl`: values by name, as Lua text, and functions as they were typed."""

    values: Mapping[str, str] = field(factory=dict)
    functions: Mapping[str, str] = field(factory=dict)


@frozen
class Framed:
    """Holds the source of a check that runs one line of `helen repl`. The line begins behind `offset` lines of the
    frame.
    """

    source: str
    offset: int

    def place(self, text: str) -> str:
        """Return a message of Lua's with the numbers of the lines that were typed."""
        last = self.source.count("\n") - TAIL.count("\n") - self.offset + 1

        def close(found: re.Match[str]) -> str:
            line = int(found[1]) - self.offset
            return "" if line < 1 else f" (to close what line {line} opens)"

        placed = _PLACE.sub(lambda found: f"line {min(max(1, int(found[1]) - self.offset), last)}", text)
        return _OF_THE_FRAME.sub(close, placed)


def frame(line: str, memory: Memory, as_expression: bool) -> Framed:
    """Return the check for a line, taken as an expression that is shown, or as statements."""
    restored = "".join(f"{name} = {literal}\n" for name, literal in memory.values.items())
    defined = "".join(f"{text}\n" for text in memory.functions.values())
    before = f"{HEAD}{restored}{defined}return __end(__pack((function()\n"
    return Framed(f"{before}{'return ' if as_expression else ''}{line}{TAIL}", before.count("\n"))


def is_statement(line: str) -> bool:
    """Return True if the line can't be an expression, as far as its beginning says."""
    return _STATEMENT.match(line) is not None


def line_of(source: str) -> str | None:
    """Return the text inside the frame (kept globals, then the line itself); None for a source without a frame."""
    if not (source.startswith(HEAD) and source.endswith(TAIL)):
        return None
    return source[len(HEAD) : -len(TAIL)]


def remember(memory: Memory, line: str, summary: str) -> tuple[Memory, list[str]]:
    """Return the globals after a line that ran, and the names that could not be kept."""
    values: dict[str, str] = {}
    functions: dict[str, str] = {}
    lost = []
    defined = _DEFINITION.match(line)
    for part in filter(None, summary.removeprefix("=").split(";")):
        name, _, literal = part.partition("=")
        if not _NAME.fullmatch(name):
            continue
        if literal == "*" and defined is not None and defined[1] == name:
            functions[name] = line
        elif literal == "*" and name in memory.functions:
            functions[name] = memory.functions[name]
        elif literal in ("*", "?"):
            lost.append(name)
        else:
            values[name] = literal
    return Memory(values, functions), lost


# ---------------------------------------------------------------------------------------------------- is it whole?

_TOKEN = re.compile(
    r"--\[(=*)\[(?:.*?\]\1\]|.*\Z)|--[^\n]*|\[(=*)\[(?:.*?(?P<long>\]\2\])|.*\Z)"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*|.",
    re.S,
)
_OPENS = dict.fromkeys(("do", "if", "function", "repeat", "(", "{", "["), 1) | dict.fromkeys(
    ("end", "until", ")", "}", "]"), -1
)


def is_open(text: str) -> bool:
    """Return True if more lines have to follow: a block, a bracket or a long string is not closed yet."""
    depth = 0
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word.startswith("[") and len(word) > 1 and token["long"] is None:
            return True
        depth += _OPENS.get(word, 0)
    return depth > 0
