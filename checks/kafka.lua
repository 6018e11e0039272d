local check = {
  summary = "A Kafka cluster: brokers, its controller, partitions without a leader or with replicas that are behind",
  needs = { "tcp" },
  timeout = "40s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address of one broker" },
    port = { type = "integer", default = 9092, min = 1, max = 65535, help = "the port of a listener without SASL" },
    tls = { type = "string", default = "off", choices = { "off", "on", "verify" }, help = "on accepts any certificate, verify a valid one" },
    ca = { type = "string", help = "PEM text of the authorities to trust with tls = \"verify\" instead of the system's" },
    topics = { type = "list", default = {}, help = "topics that have to be there" },
    ignore = { type = "list", default = {}, help = "topics that are not judged; * and ? are wildcards" },
    brokers_warn = { type = "range", help = "number of brokers, such as 3:" },
    brokers_crit = { type = "range", help = "number of brokers" },
    warn = { type = "range", default = "0", help = "partitions with fewer replicas in sync than they have" },
    crit = { type = "range", help = "partitions with fewer replicas in sync than they have" },
    offline_warn = { type = "range", help = "partitions without a leader" },
    offline_crit = { type = "range", default = "0", help = "partitions without a leader" },
  },
}

local API_VERSIONS, METADATA = 18, 3
-- The error of a partition whose leader isn't there, also where its number is told.
local NO_LEADER = 5
-- Topics and partitions that one answer may have: with more, the check takes too long.
local MOST_TOPICS, MOST_PARTITIONS = 20000, 50000

-- Sends a request with the header of version 1, and returns the body of its answer.
local function request(connection, key, version, body)
  local stream = require "stream"
  connection.turn = (connection.turn or 0) + 1
  local message = string.pack(">i2i2i4s2", key, version, connection.turn, "monitoring") .. body
  connection:send(string.pack(">s4", message))
  local length, turn = string.unpack(">i4i4", connection:take(8))
  if length < 4 or turn ~= connection.turn then stream.fail("protocol", "that is no Kafka broker") end
  return connection:take(length - 4)
end

-- Fails unless the broker takes version 1 of the request for metadata.
local function check_versions(body)
  local stream = require "stream"
  local fault, count, at = string.unpack(">i2i4", body)
  if fault ~= 0 or count < 1 or count > 1000 then stream.fail("protocol", "the broker does not tell what it takes") end
  for _ = 1, count do
    local key, least, most
    key, least, most, at = string.unpack(">i2i2i2", body, at)
    if key == METADATA and least <= 1 and most >= 1 then return end
  end
  stream.fail("unsupported", "the broker takes no request for metadata of version 1")
end

local function count_at(body, at, most)
  local count
  count, at = string.unpack(">i4", body, at)
  if count < 0 or count > most then require("stream").fail("protocol", "the broker announces a list of " .. count) end
  return count, at
end

local function text_at(body, at)
  local length = string.unpack(">i2", body, at)
  if length < 0 then return nil, at + 2 end
  return string.unpack(">s2", body, at)
end

-- Reads one partition. Returns its leader (-1 without one), the numbers of its replicas and of those in sync, and the position.
local function partition_at(body, at)
  local fault, _, leader, replicas, in_sync
  fault, _, leader, at = string.unpack(">i2i4i4", body, at)
  replicas, at = count_at(body, at, 1000)
  in_sync, at = count_at(body, at + 4 * replicas, 1000)
  return fault == NO_LEADER and -1 or leader, replicas, in_sync, at + 4 * in_sync
end

-- Reads the metadata. Calls take(name, leader, replicas, in_sync) for each partition, with leader -1 for one that is no broker; returns the number
-- of brokers, the controller (-1 for none that is a broker) and the topics by name: { fault (0 if there is none), partitions (their number) }.
local function read(body, take)
  local brokers, count, controller, at, topics, left, known = nil, nil, nil, 1, {}, MOST_PARTITIONS, {}
  brokers, at = count_at(body, at, 10000)
  for _ = 1, brokers do
    local id, _
    id, at = string.unpack(">i4", body, at)
    known[id] = true
    _, at = text_at(body, at)
    _, at = string.unpack(">i4", body, at)
    _, at = text_at(body, at)
  end
  controller, at = string.unpack(">i4", body, at)
  count, at = count_at(body, at, MOST_TOPICS)
  for _ = 1, count do
    local fault, name, partitions
    fault, at = string.unpack(">i2", body, at)
    name, at = text_at(body, at)
    partitions, at = count_at(body, at + 1, left)
    topics[name or ""], left = { fault = fault, partitions = partitions }, left - partitions
    for _ = 1, partitions do
      local leader, replicas, in_sync
      leader, replicas, in_sync, at = partition_at(body, at)
      take(name or "", known[leader] and leader or -1, replicas, in_sync)
    end
  end
  if at ~= #body + 1 then require("stream").fail("protocol", "the broker sends broken metadata") end
  return brokers, known[controller] and controller or -1, topics
end

-- Asks the broker. Returns the figures.
local function asked(args, host)
  local stream, patterns = require "stream", require "patterns"
  local connection = stream.open(host.tcp, args, 8)
  if args.tls ~= "off" then connection:secure(args.tls, args.ca) end
  check_versions(request(connection, API_VERSIONS, 0, ""))
  local found = { partitions = 0, behind = 0, offline = 0, ills = {} }
  local skipped = {}
  found.brokers, found.controller, found.topics = read(request(connection, METADATA, 1, string.pack(">i4", -1)), function(name, leader, replicas, in_sync)
    if skipped[name] == nil then skipped[name] = patterns.any(name, args.ignore) end
    if skipped[name] then return end
    found.partitions = found.partitions + 1
    if leader < 0 then found.offline = found.offline + 1 elseif in_sync < replicas then found.behind = found.behind + 1 end
    if (leader < 0 or in_sync < replicas) and found.ills[#found.ills] ~= name then found.ills[#found.ills + 1] = name end
  end)
  found.faults = {}
  for name, topic in pairs(found.topics) do
    if topic.fault ~= 0 and not patterns.any(name, args.ignore) then found.faults[#found.faults + 1] = string.format("%s (error %d)", name, topic.fault) end
  end
  table.sort(found.faults)
  found.took = connection.took
  connection:close("")
  return found
end

function check.run(args, host)
  local stream, words, worse = require "stream", require "words", require("status").worse
  local found, code, text = stream.guarded(asked, args, host)
  if not found then
    if code == "denied" or code == "bad-arguments" or code == "unsupported" or code == "budget" then return "unknown", text end
    return "critical", text
  end
  local worst, parts = "ok", {}
  local function judged(name, value, unit, warn, crit)
    worst = worse(worst, host.metric(name, value, { unit = unit, warn = warn, crit = crit, min = 0 }))
  end
  judged("brokers", found.brokers, "brokers", args.brokers_warn, args.brokers_crit)
  judged("behind", found.behind, "partitions", args.warn, args.crit)
  judged("offline", found.offline, "partitions", args.offline_warn, args.offline_crit)
  host.metric("partitions", found.partitions, { unit = "partitions", min = 0 })
  host.metric("time", found.took, { unit = "s", min = 0 })
  if found.controller < 0 or found.brokers == 0 then worst, parts[1] = "critical", "the cluster has no controller" end
  for _, name in ipairs(args.topics) do
    local topic = found.topics[name]
    if not topic then worst, parts[#parts + 1] = "critical", "there is no topic " .. name end
    if topic and topic.partitions == 0 then worst, parts[#parts + 1] = "critical", "there is no partition of the topic " .. name end
  end
  if #found.faults > 0 then worst, parts[#parts + 1] = worse(worst, "unknown"), "the broker doesn't tell the state of " .. words.list(found.faults, 4) end
  if found.offline > 0 then parts[#parts + 1] = words.count(found.offline, "partition has", "partitions have") .. " no leader" end
  if found.behind > 0 then parts[#parts + 1] = words.count(found.behind, "partition has", "partitions have") .. " replicas that are behind" end
  if #found.ills > 0 then parts[#parts + 1] = "topics: " .. words.list(found.ills, 4) end
  parts[#parts + 1] = string.format("%s, %s", words.count(found.brokers, "broker", "brokers"), words.count(found.partitions, "partition", "partitions"))
  return worst, table.concat(parts, ", ")
end

return check
