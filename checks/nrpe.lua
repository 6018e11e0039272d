local check = {
  summary = "A command of an NRPE daemon on another host: its status and figures",
  needs = { "tcp" },
  timeout = "60s",
  args = {
    host = { type = "string", default = "localhost", help = "name or address" },
    port = { type = "integer", default = 5666, min = 1, max = 65535, help = "the port" },
    command = { type = "string", required = true, help = "the command, as the daemon's nrpe.cfg names it" },
    arguments = { type = "list", default = {}, help = "values for $ARG1$ ... of the command, if the daemon takes any" },
    version = { type = "string", default = "auto", choices = { "auto", "2", "3", "4" }, help = "of the packets; auto asks with 4, then with 2" },
    tls = {
      type = "string", default = "anonymous", choices = { "anonymous", "on", "verify", "off" },
      help = "anonymous speaks to daemons without a certificate, on accepts any, verify a valid one",
    },
    ca = { type = "string", help = "PEM text of the authorities to trust with tls = \"verify\" instead of the system's" },
    limit = { type = "duration", default = "20s", max = 25, help = "time an answer may take; more is critical" },
  },
}

local STATUS = { [0] = "ok", "warning", "critical" }
local TEXT_2, MOST = 1024, 65536

-- Returns a sentence for a question that no packet holds, else nil.
local function fault_of(version, text)
  if text:find("%c") then return "the command or an argument holds a control character" end
  if version == 2 and #text >= TEXT_2 then return string.format("command and arguments have %d bytes; 1023 are the most", #text) end
end

-- Asks once. Returns the answer, or nil, code, text.
local function ask(args, host, version, text)
  local bytes, nrpe = require "bytes", require "nrpe"
  local fault = fault_of(version, text)
  if fault then return nil, "bad-arguments", fault end
  local answer, code, why = host.tcp {
    host = args.host, port = args.port, send = bytes.hex(nrpe.packet(version, text)), hex = true, timeout = args.limit,
    limit = version == 2 and 1036 or MOST + 19,
    tls = args.tls ~= "off" or nil, anonymous = args.tls == "anonymous" or nil, verify = args.tls == "verify" or nil,
    ca = args.tls == "verify" and args.ca or nil,
  }
  if not answer then return nil, code, why end
  return nrpe.read(bytes.of(answer.received))
end

local function asked(args, host)
  local parts = { args.command }
  for _, argument in ipairs(args.arguments) do parts[#parts + 1] = argument end
  local text = table.concat(parts, "!")
  if args.version ~= "auto" then return ask(args, host, tonumber(args.version), text) end
  local answer, code, why = ask(args, host, 4, text)
  -- A daemon of version 2 hangs up on a packet that it doesn't know.
  if not answer and (code == "protocol" or code == "unreachable") then return ask(args, host, 2, text) end
  return answer, code, why
end

function check.run(args, host)
  local answer, code, text = asked(args, host)
  if not answer then
    if code == "denied" or code == "bad-arguments" then return "unknown", text end
    return "critical", text
  end
  local figures = require "plugin_figures"
  local read = figures.read(answer.text)
  if read.output ~= "" then print(read.output) end
  local plugin = figures.plugin_name(args.command)
  for _, metric in ipairs(read.metrics) do figures.add(host, metric, plugin) end
  local total = #read.metrics + read.lost
  if read.lost > 0 then print(string.format("%d of %d figures of the command cannot be read, or are too many", read.lost, total)) end
  local summary = read.summary ~= "" and read.summary or "the command says nothing"
  return STATUS[answer.result] or "unknown", summary
end

return check
