local check = {
  summary = "Inodes used on mounted filesystems, which limit the number of files",
  needs = { "disk" },
  every = "5m",
  timeout = "20s",
  args = {
    path = { type = "string", help = "one mount point; without it all local filesystems" },
    exclude = { type = "list", default = { "/boot/efi", "/snap/*", "/var/lib/docker/*" }, help = "mount points to leave out" },
    exclude_types = { type = "list", default = { "iso9660" }, help = "types of filesystems to leave out" },
    network = { type = "boolean", default = false, help = "look at network filesystems as well" },
    warn = { type = "range", default = "80", help = "used inodes in percent" },
    crit = { type = "range", default = "90", help = "used inodes in percent" },
  },
}

function check.run(args, host)
  local status, words, filesystems = require "status", require "words", require "filesystems"
  local disks, text = filesystems.chosen(args, host)
  if not disks then return "unknown", text end
  local worst, fullest, alarms = text and "unknown" or "ok", nil, {}
  for _, disk in ipairs(disks) do
    -- Filesystems such as btrfs create inodes as needed and report no limit.
    if disk.inodes_total > 0 then
      local labels = { path = disk.path }
      local state = host.metric("inodes_used", disk.inodes_used_percent,
        { unit = "%", warn = args.warn, crit = args.crit, min = 0, max = 100, labels = labels })
      host.metric("inodes_free", disk.inodes_free, { unit = "inodes", min = 0, max = disk.inodes_total, labels = labels })
      worst = status.worse(worst, state)
      if state ~= "ok" then alarms[#alarms + 1] = disk.path end
      if not fullest or disk.inodes_used_percent > fullest.inodes_used_percent then fullest = disk end
    end
  end
  local summary = "no filesystem here limits its inodes"
  if fullest then
    summary = string.format("%s used %.1f %% of its inodes, %d free", fullest.path, fullest.inodes_used_percent, fullest.inodes_free)
  end
  if #alarms > 0 then summary = summary .. " (over a limit: " .. words.list(alarms, 5) .. ")" end
  if text then summary = summary .. "; " .. text end
  return worst, summary
end

return check
