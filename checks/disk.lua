local check = {
  summary = "Space used on mounted filesystems",
  needs = { "disk" },
  every = "1m",
  timeout = "20s",
  args = {
    path = { type = "string", help = "one mount point; without it all local filesystems" },
    exclude = { type = "list", default = { "/boot/efi", "/snap/*", "/var/lib/docker/*" }, help = "mount points to leave out" },
    exclude_types = { type = "list", default = { "iso9660" }, help = "types of filesystems to leave out" },
    network = { type = "boolean", default = false, help = "look at network filesystems as well" },
    read_only = { type = "list", default = {}, help = "mount points that are read-only on purpose; others are critical when they are" },
    warn = { type = "range", default = "80", help = "used space in percent" },
    crit = { type = "range", default = "90", help = "used space in percent" },
    free_warn = { type = "range", help = "free space in bytes, such as 1073741824: for less than 1 GiB" },
    free_crit = { type = "range", help = "free space in bytes" },
  },
}

function check.run(args, host)
  local words, status, filesystems, patterns = require "words", require "status", require "filesystems", require "patterns"
  local disks, text = filesystems.chosen(args, host)
  if not disks then return "unknown", text end
  local worst, fullest, alarms, locked = text and "unknown" or "ok", disks[1], {}, {}
  for _, disk in ipairs(disks) do
    local labels = { path = disk.path }
    local used = host.metric("used", disk.used_percent,
      { unit = "%", warn = args.warn, crit = args.crit, min = 0, max = 100, labels = labels })
    local free = host.metric("free", disk.available_bytes,
      { unit = "B", warn = args.free_warn, crit = args.free_crit, min = 0, max = disk.total_bytes, labels = labels })
    host.metric("total", disk.total_bytes, { unit = "B", labels = labels })
    local state = status.worse(used, free)
    worst = status.worse(worst, state)
    if state ~= "ok" then alarms[#alarms + 1] = disk.path end
    if filesystems.read_only(disk) and not patterns.any(disk.path, args.read_only) then
      worst, locked[#locked + 1] = "critical", disk.path
    end
    if disk.used_percent > fullest.used_percent then fullest = disk end
  end
  local summary = string.format("%s used %.1f %%, %s free", fullest.path, fullest.used_percent, words.bytes(fullest.available_bytes))
  if #disks > 1 then summary = string.format("fullest of %d filesystems: %s", #disks, summary) end
  if #alarms > 0 then summary = summary .. " (over a limit: " .. words.list(alarms, 5) .. ")" end
  if #locked > 0 then summary = summary .. " (read-only: " .. words.list(locked, 5) .. ")" end
  if text then summary = summary .. "; " .. text end
  return worst, summary
end

return check
