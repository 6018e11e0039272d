"""Make the definitions of a check's table, of its arguments, and of the globals that the sandbox has. Pure."""

from __future__ import annotations

from equus.authoring.lua_meta.annotations import alias, remark
from equus.authoring.lua_meta.manual import Manual
from equus.capabilities.names import CAPABILITIES
from equus.sandbox.check_table import ARGUMENT_FIELDS, FIELDS, TYPES

# Types that differ from text; a field that check_table.py gets and this lacks is a text.
FIELD_TYPES = {
    "needs": "equus.Capability[]", "every": "equus.Duration", "timeout": "equus.Duration", "attempts": "integer",
    "args": "table<string, equus.Argument>",
    "run": "fun(args: table<string, any>, host: equus.Host): equus.Status?, string?, table?",
}  # fmt: skip
ARGUMENT_TYPES = {
    "type": "equus.ArgumentType", "default": "any", "required": "boolean", "choices": "any[]",
    "min": "number|string", "max": "number|string",
}  # fmt: skip
# `run` is required too, but most checks add it behind the table: `function check.run(args, host)`.
REQUIRED = ("summary", "type")

# The part of Lua's libraries that environment.lua passes on changed; `.luarc.json` switches Lua's own off.
GLOBALS = """---@meta

--- Loads lib/NAME.lua of the same set, and nothing else.
---@param name string
---@return any
function require(name) end

---@class oslib
os = {}

--- Seconds since 1970.
---@param time? table
---@return integer
function os.time(time) end

--- Seconds of processor time that the run has used.
---@return number
function os.clock() end

---@param later integer
---@param earlier integer
---@return number
function os.difftime(later, earlier) end
"""


def check_file(known: Manual) -> str:
    """Return the text of check.lua."""
    lines = ["---@meta", "", *alias("equus.Capability", CAPABILITIES), ""]
    lines += [*alias("equus.ArgumentType", TYPES), ""]
    lines += ['--- Such as "10s", "1.5h", "7 d"; a number is seconds.', "---@alias equus.Duration string|number", ""]
    lines += ["--- Describes one argument of a check.", "---@class equus.Argument"]
    lines += [_field(name, ARGUMENT_TYPES, "") for name in ARGUMENT_FIELDS]
    lines += ["", *remark("The table that the file of a check returns."), "---@class equus.Check"]
    lines += [_field(name, FIELD_TYPES, known.fields[name]) for name in FIELDS]
    return "\n".join([*lines, ""])


def _field(name: str, types: dict[str, str], meaning: str) -> str:
    optional = "" if name in REQUIRED else "?"
    return f"---@field {name}{optional} {types.get(name, 'string')}{f' # {meaning}' if meaning else ''}"
