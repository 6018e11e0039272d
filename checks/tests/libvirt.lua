return {
  {
    name = "two run and one does not",
    args = { machines = { "web-*" } },
    host = {
      program = { args = { { name = "virsh" } }, value = { text = " Id   Name       State\n----------------------------\n 1    web-1      running\n 2    db 1       idle\n -    old        shut off\n\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = {
      status = "ok",
      summary = "2 machines running, 1 stopped",
      metrics = {
        running = { value = 2, unit = "machines" },
        stopped = 1,
        crashed = 0,
      },
    },
  },
  {
    name = "one that has to run does not",
    args = { machines = { "web-1" } },
    host = {
      program = { args = { { name = "virsh" } }, value = { text = " Id   Name       State\n----------------------------\n -    web-1      shut off\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "web-1 is shut off, 0 machines running, 1 stopped" },
  },
  {
    name = "one is not there",
    args = { machines = { "mail" } },
    host = {
      program = { args = { { name = "virsh" } }, value = { text = " Id   Name       State\n----------------------------\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "there is no machine mail, 0 machines running, 0 stopped" },
  },
  {
    name = "one has crashed",
    host = {
      program = { args = { { name = "virsh" } }, value = { text = " Id   Name       State\n----------------------------\n -    old        crashed\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "old is crashed, 0 machines running, 0 stopped" },
  },
  {
    name = "one is paused",
    host = {
      program = { args = { { name = "virsh" } }, value = { text = " Id   Name       State\n----------------------------\n 3    web-1      paused\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "warning" },
  },
  {
    name = "which does not matter",
    args = { ignore = { "web-1" } },
    host = {
      program = { args = { { name = "virsh" } }, value = { text = " Id   Name       State\n----------------------------\n 3    web-1      paused\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "ok" },
  },
  {
    name = "a state that nobody knows",
    host = {
      program = { args = { { name = "virsh" } }, value = { text = " Id   Name       State\n----------------------------\n 3    web-1      dreaming\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "web-1 is dreaming, 0 machines running, 0 stopped" },
  },
  {
    name = "an old virsh",
    host = {
      program = { args = { { name = "virsh" } }, value = { text = " Id    Name                           State\n----------------------------------------------------\n 1     web-1                          running\n\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "ok" },
  },
  {
    name = "libvirt does not answer",
    host = {
      program = { args = { { name = "virsh" } }, value = { text = "", errors = "error: failed to connect to the hypervisor\n", exit_status = 1, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "virsh fails (exit status 1): error: failed to connect to the hypervisor", metrics = {} },
  },
  {
    name = "another program",
    host = {
      program = { args = { { name = "virsh" } }, value = { text = "hello\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "the program virsh writes no list of virsh", metrics = {} },
  },
  {
    name = "lines that are none",
    host = {
      program = { args = { { name = "virsh" } }, value = { text = " Id   Name       State\n----------------------------\nhello\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "it hangs",
    host = {
      program = { code = "timeout", text = "program virsh did not end within 40 s" },
    },
    expect = { status = "critical", metrics = {} },
  },
  {
    name = "no machine at all",
    args = {},
    host = {
      program = { args = { { name = "virsh" } }, value = { text = " Id   Name       State\n----------------------------\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "the program virsh lists no machine: see which libvirt it asks (--connect qemu:///system), or give machines, warn or crit", metrics = {} },
  },
  {
    name = "none is what there should be",
    args = { crit = "0" },
    host = {
      program = { args = { { name = "virsh" } }, value = { text = " Id   Name       State\n----------------------------\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "ok", summary = "0 machines running, 0 stopped", metrics = { running = 0 } },
  },
  {
    name = "none, and some should run",
    args = { crit = "1:" },
    host = {
      program = { args = { { name = "virsh" } }, value = { text = " Id   Name       State\n----------------------------\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "0 machines running, 0 stopped" },
  },
}
