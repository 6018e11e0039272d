local check = {
  summary = "Limits of the kernel: tracked connections of the firewall, open files, sockets, full queues of listeners",
  needs = { "kernel" },
  timeout = "20s",
  args = {
    conntrack_warn = { type = "range", default = "80", help = "tracked connections in percent of their limit; at 100 new ones are dropped" },
    conntrack_crit = { type = "range", default = "95", help = "tracked connections in percent of their limit" },
    files_warn = { type = "range", default = "80", help = "open files of the whole host in percent of their limit" },
    files_crit = { type = "range", default = "95", help = "open files of the whole host in percent of their limit" },
    orphans_warn = { type = "range", default = "80", help = "TCP connections without a program in percent of their limit" },
    orphans_crit = { type = "range", default = "95", help = "TCP connections without a program in percent of their limit" },
    dropped_warn = { type = "range", default = "0", help = "connections that the firewall could not track in the last minutes" },
    dropped_crit = { type = "range", help = "connections that the firewall could not track in the last minutes" },
    overflows_warn = { type = "range", default = "50", help = "connections that a listening program was too slow to take, in the last minutes" },
    overflows_crit = { type = "range", help = "connections that a listening program was too slow to take, in the last minutes" },
  },
}

-- Adds one figure if there is one, and keeps what is over its limit. Returns false if there is none.
local function judge(host, found, name, value, unit, warn, crit, said)
  if not value then return false end
  local status = host.metric(name, value, { unit = unit, warn = warn, crit = crit, min = 0 })
  found.worst = require("status").worse(found.worst, status)
  if status ~= "ok" then found.parts[#found.parts + 1] = string.format(said, require("words").short(value)) end
  return true
end

local function share(used, most)
  return used and most and most > 0 and used * 100 / most or nil
end

function check.run(args, host)
  local words, recent = require "words", require "recent"
  local files, _, text = host.kernel.files()
  if not files then return "unknown", text end
  local sockets, _, why = host.kernel.sockets()
  if not sockets then return "unknown", why end
  local found = { worst = "ok", parts = {} }
  local lacking = {}
  if not judge(host, found, "files_used", share(files.open, files.most), "%", args.files_warn, args.files_crit, "%s %% of all files are open") then lacking[1] = "the limit of open files" end
  host.metric("files", files.open, { unit = "files", min = 0 })
  -- Without a firewall that tracks connections there is no table of them.
  local tracked, code, sentence = host.kernel.conntrack()
  if tracked then
    judge(host, found, "conntrack_used", share(tracked.count, tracked.most), "%", args.conntrack_warn, args.conntrack_crit, "%s %% of the tracked connections in use")
    host.metric("conntrack", tracked.count, { unit = "connections", min = 0 })
    local lost = recent.growth(host, "conntrack", (tracked.drop or 0) + (tracked.early_drop or 0))
    judge(host, found, "conntrack_dropped", lost, "connections", args.dropped_warn, args.dropped_crit, "%s connections dropped because the table is full")
  elseif code ~= "unsupported" then
    return "unknown", sentence
  end
  local tcp = sockets.tcp or {}
  judge(host, found, "orphans_used", share(tcp.orphans, sockets.tcp_most_orphans), "%", args.orphans_warn, args.orphans_crit, "%s %% of the connections without a program in use")
  for name, value in pairs { time_wait = tcp.time_wait or false, established = sockets.established or false } do
    if value then host.metric(name, value, { unit = "connections", min = 0 }) end
  end
  if sockets.used then host.metric("sockets", sockets.used, { unit = "sockets", min = 0 }) end
  local full = sockets.listen_overflows and recent.growth(host, "overflows", sockets.listen_overflows)
  judge(host, found, "listen_overflows", full, "connections", args.overflows_warn, args.overflows_crit, "%s connections lost at full queues of listeners")
  if #found.parts > 0 then return require("lacking").verdict(found.worst, lacking, table.concat(found.parts, ", ")) end
  local table_text = tracked and string.format(", %.0f of %.0f tracked connections", tracked.count, tracked.most) or ""
  return require("lacking").verdict(found.worst, lacking,
    string.format("%s open%s, %s", words.count(files.open, "file", "files"), table_text, words.count(sockets.used or 0, "socket", "sockets")))
end

return check
