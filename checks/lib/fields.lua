-- Reads values out of decoded documents of which nothing is certain: a value of another type is as good as none. Pure; no host.
local words = require "words"

local fields = {}

-- Returns the value under names, one inside the other, or nil.
function fields.at(document, ...)
  local value = document
  for _, name in ipairs { ... } do
    if type(value) ~= "table" then return nil end
    value = value[name]
  end
  return value
end

-- Returns a finite number, also one that is written as text; or nil.
function fields.number(document, ...)
  local value = fields.at(document, ...)
  return (type(value) == "number" or type(value) == "string") and words.number(value) or nil
end

-- Returns a text that is not empty, or nil.
function fields.text(document, ...)
  local value = fields.at(document, ...)
  if type(value) == "string" and value ~= "" then return value end
end

-- Returns a table; an empty one if there is none.
function fields.list(document, ...)
  local value = fields.at(document, ...)
  return type(value) == "table" and value or {}
end

return fields
