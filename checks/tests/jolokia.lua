return {
  {
    name = "a machine at work",
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"status\":200,\"value\":{\"HeapMemoryUsage\":{\"used\":500,\"max\":1000},\"NonHeapMemoryUsage\":{\"used\":70,\"max\":-1}}},{\"status\":200,\"value\":{\"ThreadCount\":42,\"DaemonThreadCount\":30}},{\"status\":200,\"value\":{\"Uptime\":3600000,\"VmName\":\"OpenJDK 64-Bit Server VM\",\"VmVersion\":\"17\"}},{\"status\":200,\"value\":{\"java.lang:name=G1 Old,type=GarbageCollector\":{\"CollectionCount\":2,\"CollectionTime\":1500},\"java.lang:name=G1 Young,type=GarbageCollector\":{\"CollectionCount\":8,\"CollectionTime\":500}}},{\"status\":200,\"value\":{\"OpenFileDescriptorCount\":50,\"MaxFileDescriptorCount\":100}}]", seconds = 0.02 }, args = { { url = "http://localhost:8778/jolokia", method = "POST", body = "[{\"type\":\"read\",\"mbean\":\"java.lang:type=Memory\",\"attribute\":[\"HeapMemoryUsage\",\"NonHeapMemoryUsage\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=Threading\",\"attribute\":[\"ThreadCount\",\"DaemonThreadCount\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=Runtime\",\"attribute\":[\"Uptime\",\"VmName\",\"VmVersion\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=GarbageCollector,*\",\"attribute\":[\"CollectionCount\",\"CollectionTime\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=OperatingSystem\",\"attribute\":[\"OpenFileDescriptorCount\",\"MaxFileDescriptorCount\"]}]" } } },
      state = { ["recent collection part"] = { older = 1000, newer = 1000, at = 1699999900 }, ["recent collection whole"] = { older = 3500000, newer = 3500000, at = 1699999900 } },
    },
    expect = {
      status = "ok",
      summary = "OpenJDK 64-Bit Server VM, heap 500 B of 1000 B, 42 threads, up for 1 h 0 min",
      metrics = {
        heap_used = { value = 50, unit = "%", warn = "90", crit = "97" },
        heap = { value = 500, unit = "B" },
        non_heap = 70,
        threads = { value = 42, unit = "threads" },
        uptime = { value = 3600, unit = "s" },
        collections = { value = 10, unit = "c", kind = "counter" },
        collection_time = { value = 2, unit = "s", kind = "counter" },
        collection_share = { value = 1, unit = "%" },
        files_used = 50,
      },
    },
  },
  {
    name = "little heap is left",
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"status\":200,\"value\":{\"HeapMemoryUsage\":{\"used\":950,\"max\":1000},\"NonHeapMemoryUsage\":{\"used\":70,\"max\":-1}}},{\"status\":200,\"value\":{\"ThreadCount\":42,\"DaemonThreadCount\":30}},{\"status\":200,\"value\":{\"Uptime\":3600000,\"VmName\":\"OpenJDK 64-Bit Server VM\",\"VmVersion\":\"17\"}},{\"status\":200,\"value\":{\"java.lang:name=G1 Old,type=GarbageCollector\":{\"CollectionCount\":2,\"CollectionTime\":1500},\"java.lang:name=G1 Young,type=GarbageCollector\":{\"CollectionCount\":8,\"CollectionTime\":500}}},{\"status\":200,\"value\":{\"OpenFileDescriptorCount\":50,\"MaxFileDescriptorCount\":100}}]", seconds = 0.02 }, args = { { url = "http://localhost:8778/jolokia", method = "POST", body = "[{\"type\":\"read\",\"mbean\":\"java.lang:type=Memory\",\"attribute\":[\"HeapMemoryUsage\",\"NonHeapMemoryUsage\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=Threading\",\"attribute\":[\"ThreadCount\",\"DaemonThreadCount\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=Runtime\",\"attribute\":[\"Uptime\",\"VmName\",\"VmVersion\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=GarbageCollector,*\",\"attribute\":[\"CollectionCount\",\"CollectionTime\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=OperatingSystem\",\"attribute\":[\"OpenFileDescriptorCount\",\"MaxFileDescriptorCount\"]}]" } } },
    },
    expect = { status = "warning" },
  },
  {
    name = "a heap without a limit",
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"status\":200,\"value\":{\"HeapMemoryUsage\":{\"used\":500,\"max\":-1},\"NonHeapMemoryUsage\":{\"used\":70,\"max\":-1}}},{\"status\":200,\"value\":{\"ThreadCount\":42,\"DaemonThreadCount\":30}},{\"status\":200,\"value\":{\"Uptime\":3600000,\"VmName\":\"OpenJDK 64-Bit Server VM\",\"VmVersion\":\"17\"}},{\"status\":200,\"value\":{\"java.lang:name=G1 Old,type=GarbageCollector\":{\"CollectionCount\":2,\"CollectionTime\":1500},\"java.lang:name=G1 Young,type=GarbageCollector\":{\"CollectionCount\":8,\"CollectionTime\":500}}},{\"status\":200,\"value\":{\"OpenFileDescriptorCount\":50,\"MaxFileDescriptorCount\":100}}]", seconds = 0.02 }, args = { { url = "http://localhost:8778/jolokia", method = "POST", body = "[{\"type\":\"read\",\"mbean\":\"java.lang:type=Memory\",\"attribute\":[\"HeapMemoryUsage\",\"NonHeapMemoryUsage\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=Threading\",\"attribute\":[\"ThreadCount\",\"DaemonThreadCount\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=Runtime\",\"attribute\":[\"Uptime\",\"VmName\",\"VmVersion\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=GarbageCollector,*\",\"attribute\":[\"CollectionCount\",\"CollectionTime\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=OperatingSystem\",\"attribute\":[\"OpenFileDescriptorCount\",\"MaxFileDescriptorCount\"]}]" } } },
    },
    expect = { status = "ok", summary = "OpenJDK 64-Bit Server VM, heap 500 B, 42 threads, up for 1 h 0 min" },
  },
  {
    name = "it does little but collect garbage",
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"status\":200,\"value\":{\"HeapMemoryUsage\":{\"used\":500,\"max\":1000},\"NonHeapMemoryUsage\":{\"used\":70,\"max\":-1}}},{\"status\":200,\"value\":{\"ThreadCount\":42,\"DaemonThreadCount\":30}},{\"status\":200,\"value\":{\"Uptime\":3600000,\"VmName\":\"OpenJDK 64-Bit Server VM\",\"VmVersion\":\"17\"}},{\"status\":200,\"value\":{\"java.lang:name=G1 Old,type=GarbageCollector\":{\"CollectionCount\":2,\"CollectionTime\":59500},\"java.lang:name=G1 Young,type=GarbageCollector\":{\"CollectionCount\":8,\"CollectionTime\":500}}},{\"status\":200,\"value\":{\"OpenFileDescriptorCount\":50,\"MaxFileDescriptorCount\":100}}]", seconds = 0.02 }, args = { { url = "http://localhost:8778/jolokia", method = "POST", body = "[{\"type\":\"read\",\"mbean\":\"java.lang:type=Memory\",\"attribute\":[\"HeapMemoryUsage\",\"NonHeapMemoryUsage\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=Threading\",\"attribute\":[\"ThreadCount\",\"DaemonThreadCount\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=Runtime\",\"attribute\":[\"Uptime\",\"VmName\",\"VmVersion\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=GarbageCollector,*\",\"attribute\":[\"CollectionCount\",\"CollectionTime\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=OperatingSystem\",\"attribute\":[\"OpenFileDescriptorCount\",\"MaxFileDescriptorCount\"]}]" } } },
      state = { ["recent collection part"] = { older = 0, newer = 0, at = 1699999900 }, ["recent collection whole"] = { older = 3500000, newer = 3500000, at = 1699999900 } },
    },
    expect = {
      status = "critical",
      metrics = {
        collection_share = 60,
      },
    },
  },
  {
    name = "nearly all files are open",
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"status\":200,\"value\":{\"HeapMemoryUsage\":{\"used\":500,\"max\":1000},\"NonHeapMemoryUsage\":{\"used\":70,\"max\":-1}}},{\"status\":200,\"value\":{\"ThreadCount\":42,\"DaemonThreadCount\":30}},{\"status\":200,\"value\":{\"Uptime\":3600000,\"VmName\":\"OpenJDK 64-Bit Server VM\",\"VmVersion\":\"17\"}},{\"status\":200,\"value\":{\"java.lang:name=G1 Old,type=GarbageCollector\":{\"CollectionCount\":2,\"CollectionTime\":1500},\"java.lang:name=G1 Young,type=GarbageCollector\":{\"CollectionCount\":8,\"CollectionTime\":500}}},{\"status\":200,\"value\":{\"OpenFileDescriptorCount\":96,\"MaxFileDescriptorCount\":100}}]", seconds = 0.02 }, args = { { url = "http://localhost:8778/jolokia", method = "POST", body = "[{\"type\":\"read\",\"mbean\":\"java.lang:type=Memory\",\"attribute\":[\"HeapMemoryUsage\",\"NonHeapMemoryUsage\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=Threading\",\"attribute\":[\"ThreadCount\",\"DaemonThreadCount\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=Runtime\",\"attribute\":[\"Uptime\",\"VmName\",\"VmVersion\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=GarbageCollector,*\",\"attribute\":[\"CollectionCount\",\"CollectionTime\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=OperatingSystem\",\"attribute\":[\"OpenFileDescriptorCount\",\"MaxFileDescriptorCount\"]}]" } } },
    },
    expect = { status = "critical" },
  },
  {
    name = "a value",
    args = { mbean = "Catalina:type=ThreadPool,name=\"http-nio-8080\"", attribute = "currentThreadsBusy", value_warn = "180" },
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"status\":200,\"value\":{\"HeapMemoryUsage\":{\"used\":500,\"max\":1000},\"NonHeapMemoryUsage\":{\"used\":70,\"max\":-1}}},{\"status\":200,\"value\":{\"ThreadCount\":42,\"DaemonThreadCount\":30}},{\"status\":200,\"value\":{\"Uptime\":3600000,\"VmName\":\"OpenJDK 64-Bit Server VM\",\"VmVersion\":\"17\"}},{\"status\":200,\"value\":{\"java.lang:name=G1 Old,type=GarbageCollector\":{\"CollectionCount\":2,\"CollectionTime\":1500},\"java.lang:name=G1 Young,type=GarbageCollector\":{\"CollectionCount\":8,\"CollectionTime\":500}}},{\"status\":200,\"value\":{\"OpenFileDescriptorCount\":50,\"MaxFileDescriptorCount\":100}},{\"status\":200,\"value\":190}]", seconds = 0.02 }, args = { { url = "http://localhost:8778/jolokia", method = "POST", body = "[{\"type\":\"read\",\"mbean\":\"java.lang:type=Memory\",\"attribute\":[\"HeapMemoryUsage\",\"NonHeapMemoryUsage\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=Threading\",\"attribute\":[\"ThreadCount\",\"DaemonThreadCount\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=Runtime\",\"attribute\":[\"Uptime\",\"VmName\",\"VmVersion\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=GarbageCollector,*\",\"attribute\":[\"CollectionCount\",\"CollectionTime\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=OperatingSystem\",\"attribute\":[\"OpenFileDescriptorCount\",\"MaxFileDescriptorCount\"]},{\"type\":\"read\",\"mbean\":\"Catalina:type=ThreadPool,name=\\u0022http-nio-8080\\u0022\",\"attribute\":\"currentThreadsBusy\"}]" } } },
    },
    expect = {
      status = "warning",
      metrics = {
        ["value{attribute=currentThreadsBusy}"] = { value = 190, warn = "180" },
      },
    },
  },
  {
    name = "a part of a value",
    args = { mbean = "x:type=y", attribute = "State", path = "inner/word", equals = "RUNNING" },
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"status\":200,\"value\":{\"HeapMemoryUsage\":{\"used\":500,\"max\":1000},\"NonHeapMemoryUsage\":{\"used\":70,\"max\":-1}}},{\"status\":200,\"value\":{\"ThreadCount\":42,\"DaemonThreadCount\":30}},{\"status\":200,\"value\":{\"Uptime\":3600000,\"VmName\":\"OpenJDK 64-Bit Server VM\",\"VmVersion\":\"17\"}},{\"status\":200,\"value\":{\"java.lang:name=G1 Old,type=GarbageCollector\":{\"CollectionCount\":2,\"CollectionTime\":1500},\"java.lang:name=G1 Young,type=GarbageCollector\":{\"CollectionCount\":8,\"CollectionTime\":500}}},{\"status\":200,\"value\":{\"OpenFileDescriptorCount\":50,\"MaxFileDescriptorCount\":100}},{\"status\":200,\"value\":\"RUNNING\"}]", seconds = 0.02 }, args = { { url = "http://localhost:8778/jolokia", method = "POST", body = "[{\"type\":\"read\",\"mbean\":\"java.lang:type=Memory\",\"attribute\":[\"HeapMemoryUsage\",\"NonHeapMemoryUsage\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=Threading\",\"attribute\":[\"ThreadCount\",\"DaemonThreadCount\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=Runtime\",\"attribute\":[\"Uptime\",\"VmName\",\"VmVersion\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=GarbageCollector,*\",\"attribute\":[\"CollectionCount\",\"CollectionTime\"]},{\"type\":\"read\",\"mbean\":\"java.lang:type=OperatingSystem\",\"attribute\":[\"OpenFileDescriptorCount\",\"MaxFileDescriptorCount\"]},{\"type\":\"read\",\"mbean\":\"x:type=y\",\"attribute\":\"State\",\"path\":\"inner/word\"}]" } } },
    },
    expect = { status = "ok", summary = "State/inner/word is RUNNING, OpenJDK 64-Bit Server VM, heap 500 B of 1000 B, 42 threads, up for 1 h 0 min" },
  },
  {
    name = "a value that is not as it should be",
    args = { mbean = "Catalina:type=ThreadPool,name=\"http-nio-8080\"", attribute = "currentThreadsBusy", equals = "true" },
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"status\":200,\"value\":{\"HeapMemoryUsage\":{\"used\":500,\"max\":1000},\"NonHeapMemoryUsage\":{\"used\":70,\"max\":-1}}},{\"status\":200,\"value\":{\"ThreadCount\":42,\"DaemonThreadCount\":30}},{\"status\":200,\"value\":{\"Uptime\":3600000,\"VmName\":\"OpenJDK 64-Bit Server VM\",\"VmVersion\":\"17\"}},{\"status\":200,\"value\":{\"java.lang:name=G1 Old,type=GarbageCollector\":{\"CollectionCount\":2,\"CollectionTime\":1500},\"java.lang:name=G1 Young,type=GarbageCollector\":{\"CollectionCount\":8,\"CollectionTime\":500}}},{\"status\":200,\"value\":{\"OpenFileDescriptorCount\":50,\"MaxFileDescriptorCount\":100}},{\"status\":200,\"value\":false}]", seconds = 0.02 } },
    },
    expect = { status = "critical" },
  },
  {
    name = "a value that is a table",
    args = { mbean = "Catalina:type=ThreadPool,name=\"http-nio-8080\"", attribute = "currentThreadsBusy" },
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"status\":200,\"value\":{\"HeapMemoryUsage\":{\"used\":500,\"max\":1000},\"NonHeapMemoryUsage\":{\"used\":70,\"max\":-1}}},{\"status\":200,\"value\":{\"ThreadCount\":42,\"DaemonThreadCount\":30}},{\"status\":200,\"value\":{\"Uptime\":3600000,\"VmName\":\"OpenJDK 64-Bit Server VM\",\"VmVersion\":\"17\"}},{\"status\":200,\"value\":{\"java.lang:name=G1 Old,type=GarbageCollector\":{\"CollectionCount\":2,\"CollectionTime\":1500},\"java.lang:name=G1 Young,type=GarbageCollector\":{\"CollectionCount\":8,\"CollectionTime\":500}}},{\"status\":200,\"value\":{\"OpenFileDescriptorCount\":50,\"MaxFileDescriptorCount\":100}},{\"status\":200,\"value\":{\"a\":1}}]", seconds = 0.02 } },
    },
    expect = { status = "unknown", summary = "currentThreadsBusy is no single value: name a part of it (path), OpenJDK 64-Bit Server VM, heap 500 B of 1000 B, 42 threads, up for 1 h 0 min" },
  },
  {
    name = "a value that is no number",
    args = { mbean = "Catalina:type=ThreadPool,name=\"http-nio-8080\"", attribute = "currentThreadsBusy", value_warn = "1" },
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"status\":200,\"value\":{\"HeapMemoryUsage\":{\"used\":500,\"max\":1000},\"NonHeapMemoryUsage\":{\"used\":70,\"max\":-1}}},{\"status\":200,\"value\":{\"ThreadCount\":42,\"DaemonThreadCount\":30}},{\"status\":200,\"value\":{\"Uptime\":3600000,\"VmName\":\"OpenJDK 64-Bit Server VM\",\"VmVersion\":\"17\"}},{\"status\":200,\"value\":{\"java.lang:name=G1 Old,type=GarbageCollector\":{\"CollectionCount\":2,\"CollectionTime\":1500},\"java.lang:name=G1 Young,type=GarbageCollector\":{\"CollectionCount\":8,\"CollectionTime\":500}}},{\"status\":200,\"value\":{\"OpenFileDescriptorCount\":50,\"MaxFileDescriptorCount\":100}},{\"status\":200,\"value\":\"x\"}]", seconds = 0.02 } },
    },
    expect = { status = "unknown" },
  },
  {
    name = "no such MBean",
    args = { mbean = "Catalina:type=ThreadPool,name=\"http-nio-8080\"", attribute = "currentThreadsBusy" },
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"status\":200,\"value\":{\"HeapMemoryUsage\":{\"used\":500,\"max\":1000},\"NonHeapMemoryUsage\":{\"used\":70,\"max\":-1}}},{\"status\":200,\"value\":{\"ThreadCount\":42,\"DaemonThreadCount\":30}},{\"status\":200,\"value\":{\"Uptime\":3600000,\"VmName\":\"OpenJDK 64-Bit Server VM\",\"VmVersion\":\"17\"}},{\"status\":200,\"value\":{\"java.lang:name=G1 Old,type=GarbageCollector\":{\"CollectionCount\":2,\"CollectionTime\":1500},\"java.lang:name=G1 Young,type=GarbageCollector\":{\"CollectionCount\":8,\"CollectionTime\":500}}},{\"status\":200,\"value\":{\"OpenFileDescriptorCount\":50,\"MaxFileDescriptorCount\":100}},{\"status\":404,\"error\":\"javax.management.InstanceNotFoundException : x\"}]", seconds = 0.02 } },
    },
    expect = { status = "critical", summary = "currentThreadsBusy cannot be read: javax.management.InstanceNotFoundException : x, OpenJDK 64-Bit Server VM, heap 500 B of 1000 B, 42 threads, up for 1 h 0 min" },
  },
  {
    name = "an MBean that it may not read",
    args = { mbean = "Catalina:type=ThreadPool,name=\"http-nio-8080\"", attribute = "currentThreadsBusy" },
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"status\":200,\"value\":{\"HeapMemoryUsage\":{\"used\":500,\"max\":1000},\"NonHeapMemoryUsage\":{\"used\":70,\"max\":-1}}},{\"status\":200,\"value\":{\"ThreadCount\":42,\"DaemonThreadCount\":30}},{\"status\":200,\"value\":{\"Uptime\":3600000,\"VmName\":\"OpenJDK 64-Bit Server VM\",\"VmVersion\":\"17\"}},{\"status\":200,\"value\":{\"java.lang:name=G1 Old,type=GarbageCollector\":{\"CollectionCount\":2,\"CollectionTime\":1500},\"java.lang:name=G1 Young,type=GarbageCollector\":{\"CollectionCount\":8,\"CollectionTime\":500}}},{\"status\":200,\"value\":{\"OpenFileDescriptorCount\":50,\"MaxFileDescriptorCount\":100}},{\"status\":403,\"error\":\"forbidden\"}]", seconds = 0.02 } },
    },
    expect = { status = "unknown" },
  },
  {
    name = "an answer is missing",
    args = { mbean = "Catalina:type=ThreadPool,name=\"http-nio-8080\"", attribute = "currentThreadsBusy" },
    host = {
      http = { value = { status = 200, reason = "OK", body = "[{\"status\":200,\"value\":{\"HeapMemoryUsage\":{\"used\":500,\"max\":1000},\"NonHeapMemoryUsage\":{\"used\":70,\"max\":-1}}},{\"status\":200,\"value\":{\"ThreadCount\":42,\"DaemonThreadCount\":30}},{\"status\":200,\"value\":{\"Uptime\":3600000,\"VmName\":\"OpenJDK 64-Bit Server VM\",\"VmVersion\":\"17\"}},{\"status\":200,\"value\":{\"java.lang:name=G1 Old,type=GarbageCollector\":{\"CollectionCount\":2,\"CollectionTime\":1500},\"java.lang:name=G1 Young,type=GarbageCollector\":{\"CollectionCount\":8,\"CollectionTime\":500}}},{\"status\":200,\"value\":{\"OpenFileDescriptorCount\":50,\"MaxFileDescriptorCount\":100}}]", seconds = 0.02 } },
    },
    expect = { status = "unknown" },
  },
  {
    name = "half a value",
    args = { mbean = "x:type=y" },
    expect = { status = "unknown", summary = "a value needs both mbean and attribute", metrics = {} },
  },
  {
    name = "it lets nobody read",
    host = {
      http = { value = { status = 200, reason = "OK", body = "{\"status\":403,\"error\":\"Origin is not allowed\"}", seconds = 0.02 } },
    },
    expect = { status = "unknown", summary = "http://localhost:8778/jolokia answers: Origin is not allowed", metrics = {} },
  },
  {
    name = "something else answers",
    host = {
      http = { value = { status = 200, reason = "OK", body = "[]", seconds = 0.02 } },
    },
    expect = { status = "unknown", summary = "http://localhost:8778/jolokia is no Jolokia of a Java virtual machine", metrics = {} },
  },
  {
    name = "a page for people",
    host = {
      http = { value = { status = 200, reason = "OK", body = "<html>", seconds = 0.02 } },
    },
    expect = { status = "critical", summary = "http://localhost:8778/jolokia answers with what is no JSON document (no value at byte 1)", metrics = {} },
  },
  {
    name = "it does not run",
    host = {
      http = { code = "refused", text = "127.0.0.1:8778 refused the connection" },
    },
    expect = { status = "critical", summary = "127.0.0.1:8778 refused the connection", metrics = {} },
  },
  {
    name = "nothing of its garbage collection, nor the limit of its heap",
    host = {
      http = { value = { status = 200, reason = "OK", seconds = 0.02, body = "[{\"status\":200,\"value\":{\"HeapMemoryUsage\":{\"used\":600}}},{\"status\":200,\"value\":{\"ThreadCount\":9}},{\"status\":200,\"value\":{\"Uptime\":60000}},{\"status\":403,\"error\":\"denied\"},{\"status\":404}]" } },
    },
    expect = { status = "unknown", summary = "nothing is told of the limit of its heap and its garbage collection, a machine, heap 600 B, 9 threads, up for 1 min 0 s" },
  },
}
