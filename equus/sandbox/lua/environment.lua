-- Builds the globals that a check sees instead of Lua's own. This prevents accidents; the security boundary is the
-- process (docs/sandbox.rst). The zygote calls it once as environment(native); it returns the table of globals, the
-- originals that checks must not reach, and a safe tostring.
local native = ...

local raw = {
  load = load, pcall = pcall, xpcall = xpcall, error = error, next = next, tostring = tostring, type = type,
  getmetatable = getmetatable, setmetatable = setmetatable, rawget = rawget, select = select,
  create = coroutine.create, resume = coroutine.resume, close = coroutine.close,
  rep = string.rep, sub = string.sub, gsub = string.gsub, match = string.match, gmatch = string.gmatch,
  traceback = debug.traceback, mathtype = math.type, randomseed = math.randomseed, concat = table.concat, pack = table.pack, unpack = table.unpack,
}
local error, type, select, raw_getmetatable = error, type, select, getmetatable
-- Checks may replace all that they see, so that these files go by locals, and never call a method of a string.
local string_find, string_format, string_gsub, string_sub = string.find, string.format, string.gsub, string.sub
local math_max, math_tointeger = math.max, math.tointeger

-- string.rep("", 2^31) takes minutes inside one C call and allocates nothing. No useful result is this long.
local LONGEST_REP = 32 * 1024 * 1024

-- Ends the worker on errors that no check may catch: memory is used up, or Python raised (its exception is an object
-- that a check must not get).
local function survivable(ok, fault, ...)
  if not ok and (fault == "not enough memory" or type(fault) == "userdata") then native.die("memory") end
  return ok, fault, ...
end

local function plain_tostring(value)
  local kind = type(value)
  if kind == "string" or kind == "number" or kind == "boolean" or kind == "nil" then return raw.tostring(value) end
  local meta = kind == "table" and raw_getmetatable(value)
  local shown = type(meta) == "table" and raw.rawget(meta, "__tostring")
  if not shown then return kind end -- Lua would add the address
  local text = shown(value)
  if type(text) ~= "string" then error("'__tostring' must return a string", 2) end
  return text
end

local env = {
  _VERSION = _VERSION, assert = assert, error = error, ipairs = ipairs, next = next, pairs = pairs,
  rawequal = rawequal, rawget = rawget, rawlen = rawlen, rawset = rawset, select = select,
  tonumber = tonumber, tostring = plain_tostring, type = type,
  math = math, utf8 = utf8,
  table = {
    concat = table.concat, insert = table.insert, move = table.move, pack = table.pack, remove = table.remove,
    sort = table.sort, unpack = table.unpack,
  },
  os = { time = os.time, clock = os.clock, difftime = os.difftime },
}
env._G = env

function env.pcall(...) return survivable(raw.pcall(...)) end

function env.xpcall(action, explain, ...)
  if type(explain) ~= "function" then return survivable(raw.xpcall(action, explain, ...)) end
  return survivable(raw.xpcall(action, function(fault)
    survivable(false, fault)
    return explain(fault)
  end, ...))
end

function env.getmetatable(value)
  if type(value) ~= "table" then return nil end
  return raw_getmetatable(value)
end

function env.setmetatable(value, meta)
  if type(meta) == "table" and raw.rawget(meta, "__gc") ~= nil then error("__gc is not available to checks", 2) end
  return raw.setmetatable(value, meta)
end

function env.print(...)
  local texts = {}
  for index = 1, select("#", ...) do texts[index] = plain_tostring((select(index, ...))) end
  local line = raw.concat(texts, "\t") .. "\n"
  native.print(#line > native.output_kept and string_sub(line, 1, native.output_kept) or line, #line)
end

env.string = {}
for name, value in next, string do env.string[name] = value end
env.string.dump = nil

function env.string.rep(text, count, separator)
  local whole = math_tointeger(count)
  local unit = math_max(#text, 1) + (separator and #separator or 0)
  if whole and whole > LONGEST_REP // unit then error("string.rep: the result would be too long", 2) end
  return raw.rep(text, count, separator)
end

function env.string.format(text, ...)
  if string_find(string_gsub(text, "%%%%", ""), "%%[^%a%%]*p") then error("string.format: %p shows an address", 2) end
  local values = raw.pack(...)
  for index = 1, values.n do
    local kind = type(values[index])
    if kind == "table" or kind == "function" or kind == "thread" then values[index] = plain_tostring(values[index]) end
  end
  return string_format(text, raw.unpack(values, 1, values.n))
end

local strings = raw_getmetatable("")
strings.__index, strings.__metatable = env.string, "locked"

env.coroutine = {
  create = coroutine.create, yield = coroutine.yield, status = coroutine.status,
  isyieldable = coroutine.isyieldable, running = coroutine.running,
}
function env.coroutine.resume(...) return survivable(raw.resume(...)) end
function env.coroutine.close(...) return survivable(raw.close(...)) end

local function results_or_error(ok, ...)
  if not ok then error((...), 0) end
  return ...
end
function env.coroutine.wrap(action)
  local thread = raw.create(action)
  return function(...) return results_or_error(survivable(raw.resume(thread, ...))) end
end

return env, raw, plain_tostring
