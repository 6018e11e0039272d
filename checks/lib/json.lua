-- Decodes JSON texts (RFC 8259) into Lua values, and writes strings. null is left out of tables; in lists it is json.null.
-- Pure; no host.
local json = { null = setmetatable({}, { __tostring = function() return "null" end }) }

-- Answers of the servers that checks read are less deep.
local MOST_DEPTH = 64
local ESCAPES = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }
local WORDS = { ["true"] = true, ["false"] = false, null = json.null }

local function fail(at, what)
  error({ json = string.format("%s at byte %d", what, at) }, 0)
end

local function skip(text, at)
  return text:find("[^ \t\r\n]", at) or #text + 1
end

-- Reads \uXXXX, or two of them for a character beyond the first 65,536.
local function character(text, at)
  local unit = tonumber(text:match("^\\u(%x%x%x%x)", at) or fail(at, "a bad escape"), 16)
  if unit >= 0xD800 and unit < 0xDC00 then
    local low = tonumber(text:match("^\\u([Dd][C-Fc-f]%x%x)", at + 6) or "", 16)
    if low then return utf8.char(0x10000 + (unit - 0xD800) * 1024 + low - 0xDC00), at + 12 end
  end
  if unit >= 0xD800 and unit < 0xE000 then unit = 0xFFFD end -- half of a pair
  return utf8.char(unit), at + 6
end

local function string_at(text, at)
  local parts, from = {}, at + 1
  while true do
    local stop = text:find('["\\%c]', from)
    if not stop then fail(at, "a text without an end") end
    parts[#parts + 1] = text:sub(from, stop - 1)
    local byte = text:sub(stop, stop)
    if byte == '"' then return table.concat(parts), stop + 1 end
    if byte ~= "\\" and byte ~= "\127" then fail(stop, "a control character") end
    local plain = byte == "\127" and byte or ESCAPES[text:sub(stop + 1, stop + 1)]
    if plain then
      parts[#parts + 1], from = plain, stop + (byte == "\127" and 1 or 2)
    else
      parts[#parts + 1], from = character(text, stop)
    end
  end
end

local function number_at(text, at)
  local literal = text:match("^-?%d+%.?%d*[eE]?[+-]?%d*", at)
  if not literal or literal:find("^-?0%d") or literal:find("%.$") or literal:find("%.[eE]") then fail(at, "no value") end
  return tonumber(literal) or fail(at, "a bad number"), at + #literal
end

local value_at

local function items(text, at, depth, close, take)
  at = skip(text, at + 1)
  if text:sub(at, at) == close then return at + 1 end
  while true do
    at = skip(text, take(at, depth))
    local mark = text:sub(at, at)
    if mark == close then return at + 1 end
    if mark ~= "," then fail(at, "a comma is missing") end
    at = skip(text, at + 1)
  end
end

function value_at(text, at, depth)
  if depth > MOST_DEPTH then fail(at, "too deep") end
  local first = text:sub(at, at)
  if first == '"' then return string_at(text, at) end
  if first ~= "{" and first ~= "[" then
    local word = text:match("^%l+", at)
    if word and WORDS[word] ~= nil then return WORDS[word], at + #word end
    return number_at(text, at)
  end
  local found = {}
  if first == "[" then
    at = items(text, at, depth, "]", function(here)
      found[#found + 1], here = value_at(text, here, depth + 1)
      return here
    end)
    return found, at
  end
  at = items(text, at, depth, "}", function(here)
    if text:sub(here, here) ~= '"' then fail(here, "a name is missing") end
    local name, value
    name, here = string_at(text, here)
    here = skip(text, here)
    if text:sub(here, here) ~= ":" then fail(here, "a colon is missing") end
    value, here = value_at(text, skip(text, here + 1), depth + 1)
    if value ~= json.null then found[name] = value else found[name] = nil end
    return here
  end)
  return found, at
end

-- Returns the value of a whole text, or nil and what is wrong with it.
function json.decode(text)
  local ok, value, at = pcall(value_at, text, skip(text, 1), 1)
  if not ok then
    if type(value) ~= "table" then error(value, 0) end
    return nil, value.json
  end
  at = skip(text, at)
  if at <= #text then return nil, string.format("something follows at byte %d", at) end
  return value
end

-- Returns a text as a JSON string.
function json.quoted(text)
  return '"' .. text:gsub('[%c"\\\127]', function(one) return string.format("\\u%04x", one:byte()) end) .. '"'
end

return json
