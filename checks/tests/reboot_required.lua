return {
  {
    name = "no",
    host = {
      ["kernel.reboot_required"] = { value = { asked = false, packages = {}, running = "6.1.0-18-amd64", kernels = { "6.1.0-17-amd64", "6.1.0-18-amd64" }, modules = true } },
    },
    expect = {
      status = "ok",
      summary = "no restart is needed, 6.1.0-18-amd64 runs",
      metrics = {
        required = { value = 0 },
      },
    },
  },
  {
    name = "packages ask for it",
    host = {
      ["kernel.reboot_required"] = { value = { asked = true, packages = { "libc6", "linux-image-amd64" }, running = "6.1.0-18-amd64", kernels = { "6.1.0-17-amd64", "6.1.0-18-amd64" }, modules = true } },
    },
    expect = {
      status = "warning",
      summary = "the host has to be restarted: packages ask for it: libc6, linux-image-amd64",
      metrics = {
        required = 1,
      },
    },
  },
  {
    name = "a newer kernel is installed, though its text sorts before",
    host = {
      ["kernel.reboot_required"] = { value = { asked = false, packages = {}, running = "6.1.0-9-amd64", kernels = { "6.1.0-10-amd64", "6.1.0-9-amd64" }, modules = true } },
    },
    expect = { status = "warning", summary = "the host has to be restarted: 6.1.0-10-amd64 is installed, 6.1.0-9-amd64 runs" },
  },
  {
    name = "a newer kernel of another kind",
    host = {
      ["kernel.reboot_required"] = { value = { asked = false, packages = {}, running = "6.1.0-18-amd64", kernels = { "6.1.0-18-amd64", "6.1.0-20-cloud-amd64" }, modules = true } },
    },
    expect = { status = "ok" },
  },
  {
    name = "kernels of Red Hat",
    args = { status = "critical" },
    host = {
      ["kernel.reboot_required"] = { value = { asked = false, packages = {}, running = "5.14.0-427.13.1.el9_4.x86_64", kernels = { "5.14.0-427.13.1.el9_4.x86_64", "5.14.0-503.11.1.el9_5.x86_64" }, modules = true } },
    },
    expect = { status = "critical" },
  },
  {
    name = "kernels do not matter",
    args = { kernels = false },
    host = {
      ["kernel.reboot_required"] = { value = { asked = false, packages = {}, running = "6.1.0-17-amd64", kernels = { "6.1.0-17-amd64", "6.1.0-18-amd64" }, modules = true } },
    },
    expect = { status = "ok" },
  },
  {
    name = "the modules are gone",
    host = {
      ["kernel.reboot_required"] = { value = { asked = false, packages = {}, running = "6.1.0-18-amd64", kernels = {}, modules = false } },
    },
    expect = { status = "warning", summary = "the host has to be restarted: the modules of the running kernel 6.1.0-18-amd64 are gone" },
  },
  {
    name = "a container without a kernel of its own",
    host = {
      ["kernel.reboot_required"] = { value = { asked = false, packages = {}, running = "6.1.0-18-amd64", kernels = {}, modules = nil } },
    },
    expect = { status = "ok" },
  },
  {
    name = "the policy does not grant it",
    host = {
      ["kernel.reboot_required"] = { code = "denied", text = "kernel is not granted" },
    },
    expect = { status = "unknown", metrics = {} },
  },
}
