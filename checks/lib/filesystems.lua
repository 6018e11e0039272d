-- Which filesystems a check looks at: one path, or every real one that its arguments do not leave out.
local filesystems = {}

local NETWORK = { "nfs*", "cifs", "smb*", "9p", "ceph", "glusterfs", "fuse.*", "afs" }

-- Answers for the paths, in their order; those of mounts that may not be looked at are left out when nobody named them.
-- nil, text when a path that was asked for has no answer, or nothing is left.
function filesystems.chosen(args, host)
  local patterns = require "patterns"
  if args.path then
    local disk, _, text = host.disk(args.path)
    if not disk then return nil, text end
    return { disk }
  end
  local mounts, _, text = host.mounts()
  if not mounts then return nil, text end
  local found, seen, refusal = {}, {}, nil
  for _, mount in ipairs(mounts) do
    local wanted = not mount.pseudo and not patterns.any(mount.path, args.exclude)
      and not patterns.any(mount.type, args.exclude_types)
      and (args.network or not patterns.any(mount.type, NETWORK))
    -- A device that is mounted in several places (bind mounts, containers) is told once.
    if wanted and not seen[mount.device] then
      local disk, code, why = host.disk(mount.path)
      if disk and disk.total_bytes > 0 then
        seen[mount.device] = true
        found[#found + 1] = disk
      elseif code == "timeout" or code == "budget" then
        return nil, why
      else
        refusal = refusal or why
      end
    end
  end
  if #found == 0 then return nil, refusal or "this host has no filesystem that the arguments do not exclude" end
  return found
end

return filesystems
