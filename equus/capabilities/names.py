"""List the names of all host calls and the capability that grants each. The linter loads these names, and no call."""

_OF_KERNEL = (
    "pressure", "vmstat", "files", "conntrack", "sockets", "listeners", "sensors", "bonds", "reboot_required", "zfs",
    "btrfs",
)  # fmt: skip
CAPABILITY_OF: dict[str, str] = {
    **dict.fromkeys(("info", "uptime", "users", "clock", "swap", "raid", "mail_queue", "certificate"), "host"),
    **dict.fromkeys(("disk", "mounts"), "disk"),
    **dict.fromkeys(("file.stat", "file.list", "file.read", "file.tail", "file.checksum"), "file"),
    **dict.fromkeys(("systemd", "systemd_failed", "systemd_running"), "systemd"),
    **{f"kernel.{name}": "kernel" for name in _OF_KERNEL},
    **{f"crypto.{name}": "crypto" for name in ("digest", "hmac", "pbkdf2", "random", "encrypt", "decrypt")},
    **{name: name for name in ("cpu", "mem", "load", "disk_io", "net_io", "procs")},
    **{name: name for name in ("tcp", "udp", "unix", "icmp", "tls", "http", "dns", "plugin", "program", "journal")},
}
# Answered by the worker itself, whatever a check needs.
ALWAYS_THERE = ("metric", "log", "now", "state.get", "state.put")
CAPABILITIES = tuple(sorted({*CAPABILITY_OF.values(), "log", "state"}))
