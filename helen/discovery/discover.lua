-- Looks at what a host has, and answers it as JSON, for `helen discover`. It changes nothing, and reads nothing but names,
-- ports and certificates. On ports that are known it asks what any client would ask; others are not even connected to.
local check = {
  summary = "What there is on a host that checks could look at",
  needs = { "disk", "host", "http", "kernel", "procs", "systemd", "tcp", "tls", "unix" },
  timeout = "45s",
  args = { daemons = { type = "list", default = {}, help = "names of programs to look for" } },
}

local FIRST_PASSING_PORT = 32768
local MOST_TRIED = 40 -- ports that are connected to: each takes a call or three of the run's 200
local MOST = 300 -- of each kind; Helen reads no more
local GREETS = { [22] = true, [25] = true, [110] = true, [143] = true, [587] = true, [2222] = true }
local PAGES = { [80] = true, [3000] = true, [8000] = true, [8008] = true, [8080] = true, [8081] = true, [8888] = true, [9090] = true }
local HAVE_TLS = { [443] = true, [465] = true, [636] = true, [993] = true, [995] = true, [5671] = true, [6443] = true,
  [8443] = true, [8883] = true, [9443] = true }
local ASKED = { [6379] = { "PING\r\n", "+PONG", "redis" }, [11211] = { "version\r\n", "VERSION ", "memcached" } }

-- Writes JSON ---------------------------------------------------------------------------------------------------

local function text_of(value)
  return '"' .. value:gsub('[%c"\\]', function(c) return string.format("\\u%04x", c:byte()) end) .. '"'
end

local function json_of(value)
  if type(value) == "string" then return text_of(value) end
  if type(value) ~= "table" then return tostring(value) end
  local parts = {}
  if value.list then
    for at = 1, math.min(#value.list, MOST) do parts[at] = json_of(value.list[at]) end
    return "[" .. table.concat(parts, ",") .. "]"
  end
  for key, inner in pairs(value) do parts[#parts + 1] = text_of(key) .. ":" .. json_of(inner) end
  table.sort(parts)
  return "{" .. table.concat(parts, ",") .. "}"
end

-- Ports ---------------------------------------------------------------------------------------------------------

-- Returns the name or address that checks of this host connect to; nil for an address that others reach.
local function host_of(address)
  if address == "0.0.0.0" or address == "::" or address == "127.0.0.1" or address == "::1" then return "localhost" end
  return address:find("^127%.") and address or nil
end

local function begins(text, start) return text:sub(1, #start) == start end

local function greeting(host, at, port)
  local answer = host.tcp { host = at, port = port, some = true, limit = 128, timeout = 2 }
  local text = answer and answer.received or ""
  if begins(text, "SSH-") then return "ssh" end
  if begins(text, "* OK") then return "imap" end
  if begins(text, "+OK") then return "pop3" end
  return begins(text, "220") and "smtp" or nil
end

local function reply(host, at, port, asked)
  local answer = host.tcp { host = at, port = port, send = asked[1], ["until"] = "\r\n", limit = 128, timeout = 2 }
  return answer and begins(answer.received, asked[2]) and asked[3] or nil
end

-- Returns true, and if a page without an error comes: then a check of that page would be content.
local function page(host, at, port)
  local answer = host.http { url = "http://" .. at .. ":" .. port .. "/", limit = 1024, timeout = 3 }
  if answer then return "http", answer.status < 400 end
end

-- Returns if there is TLS, if clients accept its certificate for a name that is in it, and that name.
local function certificate(host, at, port)
  local first = host.tls { host = at, port = port, timeout = 3 }
  if not first then return end
  for _, name in ipairs(first.certificate.names) do
    if not name:find("*", 1, true) then
      local second = host.tls { host = at, port = port, server_name = name, timeout = 3 }
      return "tls", second ~= nil and second.verified, { list = { name } }
    end
  end
  return "tls", false
end

local function what_speaks(host, at, port)
  if GREETS[port] then return greeting(host, at, port) end
  if ASKED[port] then return reply(host, at, port, ASKED[port]) end
  if PAGES[port] then return page(host, at, port) end
  if HAVE_TLS[port] then return certificate(host, at, port) end
end

local function listeners(host, found)
  local answer, _, text = host.kernel.listeners()
  if not answer then return { text } end
  local seen, tried, beyond = {}, 0, 0
  for _, one in ipairs(answer.list) do
    local at = host_of(one.address)
    if one.protocol == "tcp" and one.port < FIRST_PASSING_PORT and not at then beyond = beyond + 1 end
    local key = at and at .. " " .. one.port
    if one.protocol == "tcp" and one.port < FIRST_PASSING_PORT and at and not seen[key] then
      local speaks, fine, names
      if tried < MOST_TRIED then speaks, fine, names = what_speaks(host, at, one.port) end
      tried = tried + (speaks and 1 or 0)
      seen[key] = true
      found[#found + 1] = { port = one.port, address = one.address, speaks = speaks or "", fine = fine == true, names = names or { list = {} } }
    end
  end
  if beyond > 0 then return { beyond .. " ports are open on addresses beyond this host alone: no check is proposed for them" } end
  return {}
end

-- The rest of the host --------------------------------------------------------------------------------------------

local function mounts(host)
  local found = { list = {} }
  for _, one in ipairs(host.mounts() or {}) do
    if not one.pseudo then found.list[#found.list + 1] = { path = one.path, type = one.type } end
  end
  return found
end

local function processes(host, daemons)
  local found, wanted = { list = {} }, {}
  for _, name in ipairs(daemons) do wanted[name] = true end
  local answer = host.procs { limit = 200 }
  for _, one in ipairs(answer and answer.list or {}) do
    if wanted[one.name] then found.list[#found.list + 1] = one.name end
    wanted[one.name] = nil
  end
  return found
end

local function body_of(host, url, words)
  local answer = host.http { url = url, limit = 65536, timeout = 3 }
  return answer and answer.status == 200 and answer.body:find(words, 1, true) ~= nil
end

local function containers(host)
  local asked = "GET /containers/json HTTP/1.0\r\nHost: localhost\r\n\r\n"
  local answer = host.unix { path = "/run/docker.sock", send = asked, limit = 65536, timeout = 3 }
  return answer and answer.received:find("^HTTP/1%.%d 200 ") and answer.received:find('"Id"', 1, true)
end

local function filled(list) return list and #list > 0 end

local function facilities(host, has_pages)
  local clock, zfs, tracked = host.clock(), nil, nil
  local found = {
    raid = filled(host.raid()), mail_queue = host.mail_queue(), certificate = host.certificate(),
    clock = clock and clock.synchronized, containers = containers(host), units = host.systemd_failed(),
    nginx_status = has_pages and body_of(host, "http://localhost/nginx_status", "Active connections"),
    apache_status = has_pages and body_of(host, "http://localhost/server-status?auto", "BusyWorkers"),
  }
  if host.kernel then
    zfs, tracked = host.kernel.zfs(), host.kernel.conntrack()
    found.sensors, found.bonds = filled(host.kernel.sensors()), filled(host.kernel.bonds())
    found.btrfs, found.zfs = filled(host.kernel.btrfs()), zfs and filled(zfs.pools)
    found.conntrack = tracked and tracked.count > 0
  end
  local names = { list = {} }
  for name, is_there in pairs(found) do
    if is_there then names.list[#names.list + 1] = name end
  end
  table.sort(names.list)
  return names
end

local function services(host, notes)
  if not host.systemd_running then return { list = {} } end
  local answer, code, text = host.systemd_running()
  if not answer and code ~= "unsupported" then notes[#notes + 1] = "services: " .. text end
  return { list = answer and answer.units or {} }
end

function check.run(args, host)
  local notes, ports = { "this agent is too old to name open ports: upgrade it" }, {}
  if host.kernel then notes = listeners(host, ports) end
  local has_pages = false
  for _, one in ipairs(ports) do has_pages = has_pages or one.port == 80 and one.speaks == "http" end
  local answer = {
    discover = 1, listeners = { list = ports }, mounts = mounts(host), services = services(host, notes),
    processes = processes(host, args.daemons), facilities = facilities(host, has_pages),
  }
  answer.notes = { list = notes }
  return "ok", json_of(answer)
end

return check
