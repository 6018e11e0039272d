local BEGINNING = '{"version":"0.4","started":1700000000.0,"agents":{"known":20,"connected":18},'
  .. '"checks":{"ok":190,"warning":4,"critical":2,"unknown":1},"manifest":{"version":7,"digest":"ab"},'
local GOOD = BEGINNING .. '"assignments":{"revision":3,"fault":null},"journal":{"segment":"9","backlog":4096,"trouble":null},'
  .. '"store":{"trouble":null},"questions":0,"notifications":{"configured":true,"fault":null,"waiting":2,"dead":0}}'
local FULL = BEGINNING .. '"assignments":{"revision":3,"fault":null},"journal":{"segment":"9","backlog":4096,"trouble":"the disk is full"},"store":{"trouble":null}}'
local MISTAKEN = BEGINNING .. '"assignments":{"revision":3,"fault":"line 4: no such check"},"journal":{"backlog":0,"trouble":null},"store":{"trouble":null}}'
local UNSENT = BEGINNING .. '"assignments":{"fault":null},"journal":{"backlog":0,"trouble":null},"store":{"trouble":null},"notifications":{"fault":null,"waiting":0,"dead":3}}'

return {
  {
    name = "all is well",
    args = { token = "a-token" },
    host = { http = {
      args = { { url = "http://localhost:4167/api/v1/status", headers = { authorization = "Bearer a-token" } } },
      value = { status = 200, reason = "OK", body = GOOD, seconds = 0.004 },
    } },
    expect = {
      status = "ok", summary = "version 0.4, 18 of 20 agents connected",
      metrics = {
        away = { value = 10, unit = "%" }, agents = 20, connected = { value = 18, unit = "agents" }, backlog = { value = 4096, unit = "B" },
        ["checks{status=critical}"] = 2, messages_waiting = 2, messages_given_up = 0, time = 0.004,
      },
    },
  },
  {
    name = "by its socket, without a token",
    args = { socket = "/var/lib/helen/control.sock" },
    host = { unix = {
      args = { { path = "/var/lib/helen/control.sock", send = "GET /api/v1/status HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n" } },
      value = { seconds = 0.002, received = "HTTP/1.0 200 OK\r\n\r\n" .. GOOD, closed = true },
    } },
    expect = { status = "ok" },
  },
  {
    name = "too many agents are away",
    args = { away_warn = "5", away_crit = "50" },
    host = { http = { value = { status = 200, reason = "OK", body = GOOD, seconds = 0.004 } } },
    expect = { status = "warning" },
  },
  {
    name = "its disk is full",
    host = { http = { value = { status = 200, reason = "OK", body = FULL, seconds = 0.004 } } },
    expect = { status = "critical", summary = "the disk is full" },
  },
  {
    name = "the assignments have a fault",
    host = { http = { value = { status = 200, reason = "OK", body = MISTAKEN, seconds = 0.004 } } },
    expect = { status = "warning", summary = "the assignments are not in force: line 4: no such check" },
  },
  {
    name = "messages were given up",
    host = { http = { value = { status = 200, reason = "OK", body = UNSENT, seconds = 0.004 } } },
    expect = { status = "warning", metrics = { messages_given_up = { value = 3, unit = "messages", warn = "0" } } },
  },
  {
    name = "another token",
    args = { token = "a-token" },
    host = { http = { value = { status = 401, reason = "Unauthorized", body = "{}", seconds = 0.004 } } },
    expect = { status = "unknown", summary = "Helen refuses access: the token is not valid there", metrics = {} },
  },
  {
    name = "a token in plain text to another host",
    args = { token = "a-token", url = "http://helen.example:4167" },
    expect = { status = "unknown", summary = "the token would go to another host in plain text: give an https url", metrics = {} },
  },
  {
    name = "something else answers",
    host = { http = { value = { status = 200, reason = "OK", body = "<html>", seconds = 0.004 } } },
    expect = { status = "critical", summary = "http://localhost:4167 is no Helen: no value at byte 1", metrics = {} },
  },
  {
    name = "it is down",
    host = { http = { code = "refused", text = "127.0.0.1:4167 refused the connection" } },
    expect = { status = "critical", summary = "127.0.0.1:4167 refused the connection", metrics = {} },
  },
}
