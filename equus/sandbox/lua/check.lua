-- Loads one check and its libraries, and runs it. The zygote calls it once as check(native, codec, env, raw, tostring);
-- it returns the functions that the worker calls, each of which takes and returns bytes (codec.lua).
local native, codec, env, raw, plain_tostring = ...
local encode, encode_list, decode = codec.encode, codec.encode_list, codec.decode
local type, error, raw_pcall = raw.type, raw.error, raw.pcall

local sources = {}  -- library name -> source text
local loaded = {}   -- library name -> value; LOADING while its chunk runs
local LOADING = {}
local capability_of = {}
local needed = { metric = true, log = true, state = true, now = true }
local host = {}
local check

local api = {}

-- Returns the message of an error and its traceback, without the frames of these files.
local function explain(fault)
  if type(fault) == "userdata" then native.die("memory") end
  local text = plain_tostring(fault)
  if type(fault) == "table" and text == "table" then text = "error object: a table without __tostring" end
  local trace = raw.gsub(raw.traceback(nil, 2), "\n[^\n]*%[sandbox%][^\n]*", "")
  trace = raw.gsub(trace, "\n%s*%[C%]: in function 'xpcall'$", "")
  return { fault = text, trace = trace }
end

local function guarded(action, ...)
  local results = raw.pack(raw.xpcall(action, explain, ...))
  if results[1] then return results end
  local fault = results[2]
  if fault == "not enough memory" then native.die("memory") end
  -- An error inside `explain` itself, such as a stack overflow, comes as a string.
  return { false, type(fault) == "table" and fault or { fault = plain_tostring(fault), trace = "" } }
end

local function compile(source, name)
  local chunk, fault = raw.load(source, "@" .. name .. ".lua", "t", env)
  if not chunk and fault == "not enough memory" then native.die("memory") end
  return chunk, fault
end

function env.require(name)
  local found = loaded[name]
  if found == LOADING then error("the library " .. name .. " requires itself", 2) end
  if found ~= nil then return found end
  local source = type(name) == "string" and sources[name]
  if not source then error("there is no library " .. plain_tostring(name) .. " in this set of checks", 2) end
  local chunk, fault = compile(source, "lib/" .. name)
  if not chunk then error(fault, 0) end
  loaded[name] = LOADING
  local value = chunk(name)
  loaded[name] = value == nil and true or value
  return loaded[name]
end

-- Compiles without running. Returns {} or {fault = ...}.
function api.compile(source, name)
  local chunk, fault = compile(source, name)
  return encode({ fault = not chunk and fault or nil })
end

function api.library(name, source) sources[name] = source end

-- Runs a check's chunk and keeps its table. Returns {table = ...} without its run, or {fault = ..., trace = ...}.
-- If the table is known it returns nil in place of the first.
function api.load(source, name, is_known)
  local chunk, fault = compile(source, name)
  if not chunk then return encode({ fault = fault }) end
  local results = guarded(chunk)
  if not results[1] then return encode(results[2]) end
  check = results[2]
  if type(check) ~= "table" then return encode({ fault = name .. ".lua must return a table, not a " .. type(check) }) end
  if type(raw.rawget(check, "run")) ~= "function" then
    return encode({ fault = name .. ".lua: the table has no function run(args, host)" })
  end
  if is_known then return encode(nil) end
  local fields = {}
  for key, value in raw.next, check do
    if key ~= "run" then fields[key] = value end
  end
  local ok, bytes = raw_pcall(encode, { table = fields })
  if ok then return bytes end
  if bytes == "not enough memory" then native.die("memory") end
  return encode({ fault = name .. ".lua: its table is not data: " .. bytes })
end

function api.seed(number) raw.randomseed(number) end

-- Returns an integer that is no less than 0, or nil.
local function whole(value) return raw.mathtype(value) == "integer" and value >= 0 and value or nil end

function api.need(capability) needed[capability] = true end

-- Calls the check. Returns {status = ..., summary = ..., length = bytes of the uncut summary, output = uncut length or
-- nil, metrics = uncut number or nil}, or {fault = ..., trace = ...}.
function api.run(args)
  local results = guarded(check.run, decode(args), host)
  if not results[1] then return encode(results[2]) end
  local status, summary, lengths = results[2], results[3], type(results[4]) == "table" and results[4] or {}
  if summary ~= nil then summary = plain_tostring(summary) end
  local cut = summary and #summary > native.output_kept and raw.sub(summary, 1, native.output_kept) or summary
  return encode({
    status = status ~= nil and plain_tostring(status) or nil, summary = cut, length = summary and #summary,
    output = whole(raw.rawget(lengths, "output")), metrics = whole(raw.rawget(lengths, "metrics")),
  })
end

-- Host calls ------------------------------------------------------------------------------------------

local function call(name, ...)
  local capability = capability_of[name]
  if not needed[capability] then
    native.denied()
    return nil, "denied", 'the check does not list "' .. capability .. '" in its needs'
  end
  local ok, bytes = raw_pcall(encode_list, { ... }, raw.select("#", ...))
  if not ok then
    if bytes == "not enough memory" then native.die("memory") end
    return nil, "bad-arguments", "host." .. name .. ": " .. bytes
  end
  local answer = decode(native.call(name, bytes))
  if answer.code == "denied" then native.denied() end
  if answer.code then return nil, answer.code, answer.text end
  return answer.value
end

-- Defines a host call; one named "a.b" becomes host.a.b.
function api.offer(name, capability)
  capability_of[name] = capability
  local place, last = host, name
  for group in raw.gmatch(name, "([^.]+)%.") do
    place[group] = type(place[group]) == "table" and place[group] or {}
    place = place[group]
    last = raw.match(name, "[^.]+$")
  end
  place[last] = function(...) return call(name, ...) end
end

function host.metric(name, value, options)
  local answer = native.metric(encode_list({ name, value, options }, 3))
  local fault = raw.match(answer, "^!(.*)")
  if fault then error(fault, 2) end
  return answer
end

function host.log(text)
  text = plain_tostring(text)
  return native.log(#text > native.line_kept and raw.sub(text, 1, native.line_kept) or text)
end

function host.now() return native.now() end

return api
