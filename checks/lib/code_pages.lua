-- Reads text of devices that do not write UTF-8: of Windows' code page 1252, that of Western Europe. Pure text; no host.
local code_pages = {}

-- 0x80 to 0x9f; five of them are no character. Those behind them are Latin-1.
local HIGH = {
  [0x80] = 0x20ac, [0x82] = 0x201a, [0x83] = 0x0192, [0x84] = 0x201e, [0x85] = 0x2026, [0x86] = 0x2020, [0x87] = 0x2021,
  [0x88] = 0x02c6, [0x89] = 0x2030, [0x8a] = 0x0160, [0x8b] = 0x2039, [0x8c] = 0x0152, [0x8e] = 0x017d,
  [0x91] = 0x2018, [0x92] = 0x2019, [0x93] = 0x201c, [0x94] = 0x201d, [0x95] = 0x2022, [0x96] = 0x2013, [0x97] = 0x2014,
  [0x98] = 0x02dc, [0x99] = 0x2122, [0x9a] = 0x0161, [0x9b] = 0x203a, [0x9c] = 0x0153, [0x9e] = 0x017e, [0x9f] = 0x0178,
}
local CHARACTERS = {}
for code = 0x20, 0x7e do CHARACTERS[code] = code end
for byte, code in pairs(HIGH) do CHARACTERS[code] = byte end
for code = 0xa0, 0xff do CHARACTERS[code] = code end

-- "B\252ro" -> "Büro"; nil for a text with control characters, and with bytes that are none in this code page
function code_pages.western(text)
  local parts = {}
  for at = 1, #text do
    local byte = text:byte(at)
    local code = HIGH[byte] or byte
    if not CHARACTERS[code] then return nil end
    parts[at] = utf8.char(code)
  end
  return table.concat(parts)
end

-- True if a text in UTF-8 can be written in this code page.
function code_pages.is_western(text)
  if not utf8.len(text) then return false end
  for _, code in utf8.codes(text) do
    if not CHARACTERS[code] then return false end
  end
  return true
end

return code_pages
