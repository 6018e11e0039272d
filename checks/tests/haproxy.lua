local HEAD = "# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq,dresp,ereq,econ,eresp,wretr,wredis,status,weight,act,bck,chkfail,chkdown,lastchg,downtime,qlimit,pid,iid,sid,throttle,lbtot,tracked,type,rate,hrsp_5xx,last_chk,\n"
local OTHER_HEAD = "# pxname,svname,qcur,qmax,cur,smax,slim,stot,bin,bout,dreq,dresp,ereq,econ,eresp,wretr,wredis,status,weight,act,bck,chkfail,chkdown,lastchg,downtime,qlimit,pid,iid,sid,throttle,lbtot,tracked,type,rate,hrsp_5xx,last_chk,\n"
local FRONT = "web,FRONTEND,,,8,9,10,250,4096,81920,0,0,3,,,,,OPEN,,,,,,,,,1,2,0,,,,0,4,2,,\n"
local UP = 'app,a,0,0,1,2,,99,100,200,,0,,0,0,0,0,UP,1,1,0,0,0,60,0,,1,3,1,,99,,2,1,0,"Layer7 check passed, code ""200""",\n'
local DOWN = "app,b,0,0,0,2,,50,100,200,,0,,7,0,0,0,DOWN 1/2,1,1,0,1,1,20,20,,1,3,2,,50,,2,0,0,Connection refused,\n"
local MAINT = "app,c,0,0,0,0,,0,0,0,,0,,0,0,0,0,MAINT (via x/y),1,1,0,,,60,,,1,3,3,,0,,2,0,0,,\n"
local BACK = "app,BACKEND,4,9,1,4,100,149,200,400,0,0,,7,0,0,0,UP,1,1,0,,0,60,0,,1,3,0,,149,,1,1,5,,\n"
local DEAD = "old,x,0,0,0,0,,0,0,0,,0,,0,0,0,0,DOWN,1,1,0,1,1,20,20,,1,4,1,,0,,2,0,0,,\nold,BACKEND,0,0,0,0,1,0,0,0,0,0,,0,0,0,0,DOWN,0,0,0,,1,20,20,,1,4,0,,0,,1,0,0,,\n"
local ODD = "app,d,0,0,0,0,,0,0,0,,0,,0,0,0,0,SLEEPY,1,1,0,,,60,,,1,3,4,,0,,2,0,0,,\n"
local F = "f,FRONTEND,,,0,0,10,0,0,0,0,0,0,,,,,OPEN,,,,,,,,,1,2,0,,,,0,4,2,,\n"
local F10 = F .. F .. F .. F .. F .. F .. F .. F .. F .. F
local MANY = F10 .. F10 .. F10 .. F10 .. F10

return {
  {
    name = "all servers up",
    host = { http = {
      args = { { url = "http://localhost:8404/stats;csv", redirects = 0 } },
      value = { status = 200, reason = "OK", body = HEAD .. FRONT .. UP .. MAINT .. BACK, truncated = false, seconds = 0.01 },
    } },
    expect = {
      status = "ok", summary = "1 server up, 0 down, 1 in maintenance",
      metrics = {
        ["sessions_used{proxy=web,side=frontend}"] = { value = 80, unit = "%", warn = "80", crit = "95" },
        ["sessions{proxy=web,side=frontend}"] = { value = 8, unit = "sessions" },
        ["received{proxy=web,side=frontend}"] = { value = 4096, unit = "B", kind = "counter" },
        ["errors{proxy=web,side=frontend}"] = { value = 3, unit = "c", kind = "counter" },
        ["queue{proxy=app,side=backend}"] = { value = 4, unit = "requests" },
        ["errors{proxy=app,side=backend}"] = 7, ["responses_5xx{proxy=app,side=backend}"] = 5,
        servers_up = { value = 1, unit = "servers" }, servers_down = { value = 0, warn = "0" }, servers_maintenance = 1,
      },
    },
  },
  {
    name = "a server is down",
    host = { http = { value = { status = 200, reason = "OK", body = HEAD .. UP .. DOWN .. BACK, seconds = 0.01 } } },
    expect = { status = "warning", summary = "app/b is down, 1 server up, 1 down, 0 in maintenance", metrics = { servers_down = 1 } },
  },
  {
    name = "a backend has no server left",
    host = { http = { value = { status = 200, reason = "OK", body = HEAD .. UP .. BACK .. DEAD, seconds = 0.01 } } },
    expect = { status = "critical", summary = "no server is left for old, old/x is down, 1 server up, 1 down, 0 in maintenance" },
  },
  {
    name = "which nobody cares for",
    args = { ignore = { "old", "app/b" } },
    host = { http = { value = { status = 200, reason = "OK", body = HEAD .. UP .. DOWN .. BACK .. DEAD, seconds = 0.01 } } },
    expect = { status = "ok", summary = "1 server up, 0 down, 0 in maintenance", metrics = { servers_down = 0 } },
  },
  {
    name = "a backend is not there at all",
    args = { backends = { "app", "shop" } },
    host = { http = { value = { status = 200, reason = "OK", body = HEAD .. UP .. BACK, seconds = 0.01 } } },
    expect = { status = "critical", summary = "there is no backend shop, 1 server up, 0 down, 0 in maintenance" },
  },
  {
    name = "nearly all sessions in use, and a queue",
    args = { warn = "50", queue_crit = "3" },
    host = { http = { value = { status = 200, reason = "OK", body = HEAD .. FRONT .. UP .. BACK, seconds = 0.01 } } },
    expect = { status = "critical", metrics = { ["queue{proxy=app,side=backend}"] = { value = 4, crit = "3" } } },
  },
  {
    name = "a state that nobody knows is never ok",
    host = { http = { value = { status = 200, reason = "OK", body = HEAD .. UP .. ODD .. BACK, seconds = 0.01 } } },
    expect = { status = "unknown", summary = 'app/d is "SLEEPY", which this check does not know, 1 server up, 0 down, 0 in maintenance' },
  },
  {
    name = "more proxies than have all metrics: the last one is judged all the same",
    args = { queue_crit = "3" },
    host = { http = { value = { status = 200, reason = "OK", body = HEAD .. UP .. MANY .. BACK, seconds = 0.01 } } },
    expect = { status = "critical", metrics = { ["queue{proxy=app,side=backend}"] = { value = 4, crit = "3" }, ["sessions{proxy=f,side=frontend}"] = 0 } },
  },
  {
    name = "by its socket",
    args = { socket = "/run/haproxy/admin.sock" },
    host = { unix = {
      args = { { path = "/run/haproxy/admin.sock", send = "show stat\n" } },
      value = { seconds = 0.002, received = HEAD .. UP .. BACK .. "\n", closed = true },
    } },
    expect = { status = "ok" },
  },
  {
    name = "by its socket, cut off",
    args = { socket = "/run/haproxy/admin.sock" },
    host = { unix = { value = { seconds = 0.002, received = HEAD, closed = false } } },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "the page for people",
    host = { http = { value = { status = 200, reason = "OK", body = "<!DOCTYPE HTML><html>", seconds = 0.01 } } },
    expect = { status = "unknown", summary = "http://localhost:8404/stats;csv is no statistics page of HAProxy in CSV; the url ends with ;csv", metrics = {} },
  },
  {
    name = "a page without a row",
    host = { http = { value = { status = 200, reason = "OK", body = HEAD, seconds = 0.01 } } },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "a page that is too long",
    host = { http = { value = { status = 200, reason = "OK", body = HEAD .. UP .. BACK, truncated = true, seconds = 0.01 } } },
    expect = { status = "unknown", summary = "http://localhost:8404/stats;csv answers with more than 1 MiB", metrics = {} },
  },
  {
    name = "with a login",
    args = { user = "watch", password = "correct horse" },
    host = { http = {
      args = { { headers = { authorization = "Basic d2F0Y2g6Y29ycmVjdCBob3JzZQ==" } } },
      value = { status = 401, reason = "Unauthorized", body = "", seconds = 0.01 },
    } },
    expect = { status = "unknown", metrics = {},
      summary = "http://localhost:8404/stats;csv refuses access (401): check the login, and what it may read" },
  },
  {
    name = "a login in plain text to another host",
    args = { url = "http://192.0.2.1:8404/stats;csv", user = "watch", password = "correct horse" },
    expect = { status = "unknown", summary = "the login would go to another host in plain text: give an https url", metrics = {} },
  },
  {
    name = "it does not run",
    host = { http = { code = "refused", text = "127.0.0.1:8404 refused the connection" } },
    expect = { status = "critical", summary = "127.0.0.1:8404 refused the connection", metrics = {} },
  },
  {
    name = "sessions are not told",
    host = { http = {
      args = { { url = "http://localhost:8404/stats;csv", redirects = 0 } },
      value = { status = 200, reason = "OK", body = OTHER_HEAD .. FRONT .. UP .. MAINT .. BACK, truncated = false, seconds = 0.01 },
    } },
    expect = { status = "unknown", summary = "nothing is told of web/FRONTEND, app/BACKEND, 1 server up, 0 down, 1 in maintenance" },
  },
}
