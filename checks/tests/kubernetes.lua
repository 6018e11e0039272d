local READY = { args = { { url = "https://k:6443/readyz", headers = { authorization = "Bearer a.b.c" } } }, value = { status = 200, reason = "OK", body = "ok", seconds = 0.01 } }
local NODE_COLUMNS = '{"kind":"Table","metadata":{},"columnDefinitions":[{"name":"Name"},{"name":"Status"},{"name":"Roles"}],"rows":'
local NODES = { args = { { url = "https://k:6443/api/v1/nodes?limit=500&includeObject=None" } }, value = { status = 200, reason = "OK", seconds = 0.01,
  body = NODE_COLUMNS .. '[{"cells":["n1","Ready","control-plane"]},{"cells":["n2","Ready,SchedulingDisabled","<none>"]}]}' } }
local LOST_NODE = { args = { { url = "https://k:6443/api/v1/nodes?limit=500&includeObject=None" } }, value = { status = 200, reason = "OK", seconds = 0.01,
  body = NODE_COLUMNS .. '[{"cells":["n1","Ready","control-plane"]},{"cells":["n2","NotReady","<none>"]}]}' } }
local WORK_COLUMNS = '{"kind":"Table","metadata":{},"columnDefinitions":[{"name":"Name"},{"name":"Ready"},{"name":"Age"}],"rows":'
local DEPLOYMENTS = { args = { { url = "https://k:6443/apis/apps/v1/deployments?limit=500&includeObject=None" } }, value = { status = 200, reason = "OK", seconds = 0.01,
  body = WORK_COLUMNS .. '[{"cells":["web","3/3","5d"]},{"cells":["off","0/0","5d"]}]}' } }
local SHORT = { args = { { url = "https://k:6443/apis/apps/v1/deployments?limit=500&includeObject=None" } }, value = { status = 200, reason = "OK", seconds = 0.01,
  body = WORK_COLUMNS .. '[{"cells":["web","1/3","5d"]},{"cells":["mail","0/2","5d"]}]}' } }
local STATEFUL = { args = { { url = "https://k:6443/apis/apps/v1/statefulsets?limit=500&includeObject=None" } }, value = { status = 200, reason = "OK", seconds = 0.01,
  body = WORK_COLUMNS .. '[{"cells":["db","1/1","5d"]}]}' } }
local DAEMONS = { args = { { url = "https://k:6443/apis/apps/v1/daemonsets?limit=500&includeObject=None" } }, value = { status = 200, reason = "OK", seconds = 0.01,
  body = '{"kind":"Table","columnDefinitions":[{"name":"Name"},{"name":"Desired"},{"name":"Current"},{"name":"Ready"}],"rows":[{"cells":["proxy",2,2,2]}]}' } }
local POD_COLUMNS = '"columnDefinitions":[{"name":"Name"},{"name":"Ready"},{"name":"Status"},{"name":"Restarts"}],"rows":'
local PODS = { args = { { url = "https://k:6443/api/v1/pods?limit=500&includeObject=None" } }, value = { status = 200, reason = "OK", seconds = 0.01,
  body = '{"metadata":{"continue":"ey=/+"},' .. POD_COLUMNS .. '[{"cells":["web-1","1/1","Running",0]},{"cells":["job-1","0/1","Completed",0]}]}' } }
local MORE_PODS = { args = { { url = "https://k:6443/api/v1/pods?limit=500&includeObject=None&continue=ey%3D%2F%2B" } }, value = { status = 200, reason = "OK", seconds = 0.01,
  body = '{"metadata":{},' .. POD_COLUMNS .. '[{"cells":["web-2","1/1","Running",1]},{"cells":["web-3","0/1","Init:0/2",0]}]}' } }
local SICK_PODS = { args = { { url = "https://k:6443/api/v1/pods?limit=500&includeObject=None" } }, value = { status = 200, reason = "OK", seconds = 0.01,
  body = '{"metadata":{},' .. POD_COLUMNS .. '[{"cells":["web-1","0/1","CrashLoopBackOff",9]},{"cells":["web-2","0/1","Init:Error",0]},{"cells":["web-3","1/1","Running",0]}]}' } }

return {
  {
    name = "a cluster that is well",
    args = { url = "https://k:6443", token = "a.b.c" },
    host = { http = { READY, NODES, DEPLOYMENTS, STATEFUL, DAEMONS, PODS, MORE_PODS } },
    expect = {
      status = "ok", summary = "2 of 2 nodes ready, 2 pods run, 1 pending",
      metrics = {
        nodes = { value = 2, unit = "nodes" }, nodes_ready = 2, ["workloads{kind=deployments}"] = 2, ["workloads_short{kind=daemonsets}"] = 0,
        pods = { value = 2, unit = "pods" }, pods_pending = 1, pods_in_trouble = { value = 0, warn = "0" }, time = { value = 0.01, unit = "s" },
      },
    },
  },
  {
    name = "pods in trouble",
    args = { url = "https://k:6443", token = "a.b.c" },
    host = { http = { READY, NODES, DEPLOYMENTS, STATEFUL, DAEMONS, SICK_PODS } },
    expect = { status = "warning", summary = "2 of 2 nodes ready, web-1: CrashLoopBackOff, web-2: Init:Error, 1 pods run, 0 pending", metrics = { pods_in_trouble = 2 } },
  },
  {
    name = "some of which do not matter",
    args = { url = "https://k:6443", token = "a.b.c", ignore = { "web-?" } },
    host = { http = { READY, NODES, DEPLOYMENTS, STATEFUL, DAEMONS, SICK_PODS } },
    expect = { status = "ok" },
  },
  {
    name = "a node is lost, and workloads are short",
    args = { url = "https://k:6443", token = "a.b.c" },
    host = { http = { READY, LOST_NODE, SHORT, STATEFUL, DAEMONS, PODS, MORE_PODS } },
    expect = {
      status = "critical",
      summary = "node n2 is NotReady, mail has 0 of 2 pods ready, web has 1 of 3 pods ready, 1 of 2 nodes ready, 2 pods run, 1 pending",
      metrics = { nodes_ready = 1, ["workloads_short{kind=deployments}"] = 2 },
    },
  },
  {
    name = "one namespace, without nodes",
    args = { url = "https://k:6443", token = "a.b.c", namespaces = { "shop" }, nodes = false },
    host = { http = { READY,
      { args = { { url = "https://k:6443/apis/apps/v1/namespaces/shop/deployments?limit=500&includeObject=None" } }, value = { status = 200, reason = "OK", seconds = 0.01, body = WORK_COLUMNS .. "[]}" } },
      { args = { { url = "https://k:6443/apis/apps/v1/namespaces/shop/statefulsets?limit=500&includeObject=None" } }, value = { status = 200, reason = "OK", seconds = 0.01, body = WORK_COLUMNS .. "[]}" } },
      { args = { { url = "https://k:6443/apis/apps/v1/namespaces/shop/daemonsets?limit=500&includeObject=None" } }, value = { status = 200, reason = "OK", seconds = 0.01,
        body = '{"columnDefinitions":[{"name":"Name"},{"name":"Desired"},{"name":"Ready"}],"rows":[]}' } },
      { args = { { url = "https://k:6443/api/v1/namespaces/shop/pods?limit=500&includeObject=None" } }, value = { status = 200, reason = "OK", seconds = 0.01, body = '{' .. POD_COLUMNS .. '[{"cells":["till-1","1/1","Running",0]}]}' } },
    } },
    expect = { status = "ok", summary = "1 pods run, 0 pending" },
  },
  {
    name = "a namespace that there is not",
    args = { url = "https://k:6443", token = "a.b.c", namespaces = { "shop" }, nodes = false },
    host = { http = { READY,
      { args = { { url = "https://k:6443/apis/apps/v1/namespaces/shop/deployments?limit=500&includeObject=None" } }, value = { status = 200, reason = "OK", seconds = 0.01, body = WORK_COLUMNS .. "[]}" } },
      { args = { { url = "https://k:6443/apis/apps/v1/namespaces/shop/statefulsets?limit=500&includeObject=None" } }, value = { status = 200, reason = "OK", seconds = 0.01, body = WORK_COLUMNS .. "[]}" } },
      { args = { { url = "https://k:6443/apis/apps/v1/namespaces/shop/daemonsets?limit=500&includeObject=None" } }, value = { status = 200, reason = "OK", seconds = 0.01,
        body = '{"columnDefinitions":[{"name":"Name"},{"name":"Desired"},{"name":"Ready"}],"rows":[]}' } },
      { args = { { url = "https://k:6443/api/v1/namespaces/shop/pods?limit=500&includeObject=None" } }, value = { status = 200, reason = "OK", seconds = 0.01, body = '{' .. POD_COLUMNS .. "[]}" } },
    } },
    expect = { status = "unknown", summary = "the namespace shop has no workload and no pod, or there is none of that name, 0 pods run, 0 pending" },
  },
  {
    name = "nodes that the account may not see",
    args = { url = "https://k:6443", token = "a.b.c" },
    host = { http = { READY, { args = { { url = "https://k:6443/api/v1/nodes?limit=500&includeObject=None" } }, value = { status = 403, reason = "Forbidden", body = "{}", seconds = 0.01 } },
      DEPLOYMENTS, STATEFUL, DAEMONS, PODS, MORE_PODS } },
    expect = { status = "unknown", summary = "https://k:6443/api/v1/nodes?limit=500&includeObject=None refuses access (403): check the login, and what it may read, 2 pods run, 1 pending" },
  },
  {
    name = "a workload in odd words",
    args = { url = "https://k:6443", token = "a.b.c" },
    host = { http = { READY, NODES, { args = { { url = "https://k:6443/apis/apps/v1/deployments?limit=500&includeObject=None" } },
      value = { status = 200, reason = "OK", seconds = 0.01, body = WORK_COLUMNS .. '[{"cells":["web","many","5d"]}]}' } }, STATEFUL, DAEMONS, PODS, MORE_PODS } },
    expect = { status = "unknown", summary = 'cannot be read: deployments web: "many", 2 of 2 nodes ready, 2 pods run, 1 pending' },
  },
  {
    name = "a server that does not make tables",
    args = { url = "https://k:6443", token = "a.b.c" },
    host = { http = { READY, { value = { status = 200, reason = "OK", body = '{"kind":"NodeList","items":[]}', seconds = 0.01 } } } },
    expect = { status = "critical" },
  },
  {
    name = "pages without end",
    args = { url = "https://k:6443", token = "a.b.c" },
    host = { http = { READY, { value = { status = 200, reason = "OK", seconds = 0.01, body = '{"metadata":{"continue":"again"},"columnDefinitions":[{"name":"Name"},{"name":"Status"},'
      .. '{"name":"Ready"},{"name":"Desired"}],"rows":[{"cells":["a","Ready","1/1","1"]}]}' } } } },
    expect = { status = "unknown" },
  },
  {
    name = "the API is not ready",
    args = { url = "https://k:6443", token = "a.b.c" },
    host = { http = { value = { status = 500, reason = "Internal Server Error", body = "[-]etcd failed", seconds = 0.01 } } },
    expect = { status = "critical", summary = "https://k:6443/readyz answers 500 Internal Server Error", metrics = {} },
  },
  {
    name = "a token in plain text",
    args = { url = "http://k:8080", token = "a.b.c" },
    expect = { status = "unknown", summary = "the login would go to another host in plain text: give an https url", metrics = {} },
  },
  {
    name = "it is not there",
    args = { url = "https://k:6443", token = "a.b.c" },
    host = { http = { code = "timeout", text = "https://k:6443/readyz did not answer within 10 s" } },
    expect = { status = "critical", metrics = {} },
  },
  {
    name = "a cluster without a node",
    args = { url = "https://k:6443", token = "a.b.c" },
    host = { http = { READY, { args = { { url = "https://k:6443/api/v1/nodes?limit=500&includeObject=None" } }, value = { status = 200, reason = "OK", seconds = 0.01, body = NODE_COLUMNS .. "[]}" } },
      DEPLOYMENTS, STATEFUL, DAEMONS, PODS, MORE_PODS } },
    expect = { status = "unknown", summary = "the cluster tells no node, 2 pods run, 1 pending" },
  },
}
