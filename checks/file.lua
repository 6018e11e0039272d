local check = {
  summary = "A file: it exists, its age, its size, its checksum",
  needs = { "file" },
  timeout = "15s",
  args = {
    path = { type = "string", required = true, help = "a path below a root that the policy grants" },
    missing = { type = "string", default = "critical", choices = { "ok", "warning", "critical", "unknown" }, help = "the status if the file is missing" },
    age_warn = { type = "range", help = "seconds since the last change; 90000 warns after 25 hours" },
    age_crit = { type = "range", help = "seconds since the last change" },
    size_warn = { type = "range", help = "bytes; 1: warns when the file is empty" },
    size_crit = { type = "range", help = "bytes" },
    sha256 = { type = "string", help = "the checksum that the file must have, as 64 hexadecimal digits; another is critical" },
  },
}

function check.run(args, host)
  local words, status = require "words", require "status"
  local file, code, text = host.file.stat(args.path)
  if not file then
    if code == "not-found" then return args.missing, text end
    return "unknown", text
  end
  local labels = { path = args.path }
  local worst = status.worse(
    host.metric("age", file.age_seconds, { unit = "s", warn = args.age_warn, crit = args.age_crit, labels = labels }),
    host.metric("size", file.size_bytes, { unit = "B", warn = args.size_warn, crit = args.size_crit, min = 0, labels = labels }))
  local summary = string.format("%s %s, changed %s ago", args.path, words.bytes(file.size_bytes), words.duration(file.age_seconds))
  if args.sha256 then
    local sum, _, why = host.file.checksum(args.path, "sha256")
    if not sum then return "unknown", why end
    if sum.digest ~= args.sha256:lower() then
      return "critical", string.format("%s holds something else: its SHA-256 is %s", args.path, sum.digest)
    end
    summary = summary .. ", SHA-256 as expected"
  end
  return worst, summary
end

return check
