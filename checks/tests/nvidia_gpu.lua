return {
  {
    name = "two in order",
    args = { gpus = 2 },
    host = {
      program = { args = { { name = "nvidia-smi" } }, value = { text = "0, NVIDIA A100, 45, 80, 20480, 40960, 250.50, 0\n1, NVIDIA A100, 50, 0, 0, 40960, [N/A], [N/A]\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = {
      status = "ok",
      summary = "2 GPUs in order (NVIDIA A100)",
      metrics = {
        ["temperature{gpu=0}"] = { value = 45, unit = "Cel", warn = "85", crit = "92" },
        ["utilization{gpu=0}"] = { value = 80, unit = "%" },
        ["memory_used{gpu=0}"] = 50,
        ["memory{gpu=0}"] = { value = 21474836480, unit = "B" },
        ["power{gpu=0}"] = { value = 250.5, unit = "W" },
        ["errors{gpu=0}"] = 0,
      },
    },
  },
  {
    name = "it is hot",
    host = {
      program = { args = { { name = "nvidia-smi" } }, value = { text = "0, NVIDIA A100, 95, 80, 20480, 40960, 250.50, 0\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "GPU 0 (NVIDIA A100): 95 °C" },
  },
  {
    name = "errors of its memory",
    host = {
      program = { args = { { name = "nvidia-smi" } }, value = { text = "0, NVIDIA A100, 45, 80, 20480, 40960, 250.50, 3\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "warning", summary = "GPU 0 (NVIDIA A100): 3 errors of its memory" },
  },
  {
    name = "one is missing",
    args = { gpus = 2 },
    host = {
      program = { args = { { name = "nvidia-smi" } }, value = { text = "0, NVIDIA A100, 45, 80, 20480, 40960, 250.50, 0\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "there are 1 of 2 GPUs" },
  },
  {
    name = "one does not answer",
    host = {
      program = { args = { { name = "nvidia-smi" } }, value = { text = "0, NVIDIA A100, [Unknown Error], [Unknown Error], 0, 0, ERR!, [N/A]\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "GPU 0 (NVIDIA A100): tells no temperature ([Unknown Error])" },
  },
  {
    name = "one is lost",
    host = {
      program = { args = { { name = "nvidia-smi" } }, value = { text = "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.\n", errors = "", exit_status = 15, seconds = 0.1 } },
    },
    expect = { status = "critical", summary = "nvidia-smi fails (exit status 15): Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.", metrics = {} },
  },
  {
    name = "other columns",
    host = {
      program = { args = { { name = "nvidia-smi" } }, value = { text = "0, NVIDIA A100, 45\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "the program nvidia-smi does not write the columns of docs/checks.rst", metrics = {} },
  },
  {
    name = "no line",
    host = {
      program = { args = { { name = "nvidia-smi" } }, value = { text = "", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "it hangs",
    host = {
      program = { code = "timeout", text = "program nvidia-smi did not end within 30 s" },
    },
    expect = { status = "critical", metrics = {} },
  },
  {
    name = "the policy does not name it",
    host = {
      program = { code = "denied", text = "program nvidia-smi is not granted: add it to /etc/equus/policy.toml, section [programs.nvidia-smi]" },
    },
    expect = { status = "unknown", metrics = {} },
  },
  {
    name = "errors that cannot be read",
    host = {
      program = { args = { { name = "nvidia-smi" } }, value = { text = "0, NVIDIA L4, 51, 7, 1000, 24000, 30.1, [Unknown Error]\n", errors = "", exit_status = 0, seconds = 0.1 } },
    },
    expect = { status = "unknown", summary = "GPU 0 (NVIDIA L4): tells no errors ([Unknown Error])", metrics = { ["temperature{gpu=0}"] = 51 } },
  },
}
