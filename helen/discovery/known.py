"""Names what discovery knows by itself: programs, ports, and parts of a host with the checks that look at them. Pure.

A name that an agent sends counts only if it stands here, so that no answer brings a word of its own into assignments.
"""

from __future__ import annotations

from attrs import frozen


@frozen
class Daemon:
    """Describes a program that is known by its name in the kernel: its title, its usual ports, the services it is
    started by.
    """

    title: str
    ports: tuple[int, ...] = ()
    services: tuple[str, ...] = ()


DAEMONS: dict[str, Daemon] = {
    "nginx": Daemon("nginx", (80, 443, 8080, 8443), ("nginx",)),
    "apache2": Daemon("Apache", (80, 443, 8080), ("apache2",)),
    "httpd": Daemon("Apache", (80, 443, 8080), ("httpd",)),
    "haproxy": Daemon("HAProxy", (80, 443), ("haproxy",)),
    "caddy": Daemon("Caddy", (80, 443), ("caddy",)),
    "sshd": Daemon("OpenSSH", (22,), ("ssh", "sshd")),
    "postgres": Daemon("postgresql", (5432,), ("postgresql",)),
    "mariadbd": Daemon("MariaDB", (3306,), ("mariadb",)),
    "mysqld": Daemon("MySQL", (3306,), ("mysql", "mysqld")),
    "mongod": Daemon("MongoDB", (27017,), ("mongod",)),
    "redis-server": Daemon("Redis", (6379,), ("redis-server", "redis")),
    "valkey-server": Daemon("Valkey", (6379,), ("valkey-server", "valkey")),
    "memcached": Daemon("memcached", (11211,), ("memcached",)),
    "exim4": Daemon("Exim", (25, 587), ("exim4",)),
    "dovecot": Daemon("Dovecot", (110, 143, 993, 995), ("dovecot",)),
    "named": Daemon("BIND", (53,), ("named", "bind9")),
    "unbound": Daemon("Unbound", (53,), ("unbound",)),
    "dnsmasq": Daemon("dnsmasq", (53,), ("dnsmasq",)),
    "slapd": Daemon("OpenLDAP", (389, 636), ("slapd",)),
    "mosquitto": Daemon("Mosquitto", (1883, 8883), ("mosquitto",)),
    "nats-server": Daemon("NATS", (4222,), ("nats-server",)),
    "prometheus": Daemon("Prometheus", (9090,), ("prometheus",)),
    "etcd": Daemon("etcd", (2379,), ("etcd",)),
    "upsd": Daemon("NUT", (3493,), ("nut-server",)),
    "cron": Daemon("cron", (), ("cron",)),
    "crond": Daemon("cron", (), ("crond",)),
    "rsyslogd": Daemon("rsyslog", (), ("rsyslog",)),
    "chronyd": Daemon("chrony", (), ("chrony", "chronyd")),
    "dockerd": Daemon("Docker", (), ("docker",)),
    "containerd": Daemon("containerd", (), ("containerd",)),
    "keepalived": Daemon("keepalived", (), ("keepalived",)),
    "fail2ban-server": Daemon("fail2ban", (), ("fail2ban",)),
    "auditd": Daemon("auditd", (), ("auditd",)),
    "libvirtd": Daemon("libvirt", (), ("libvirtd",)),
}
# Ports by what usually listens there, for sentences, where no program that is known tells it.
PORTS = {
    21: "FTP", 22: "SSH", 25: "SMTP", 53: "DNS", 80: "HTTP", 110: "POP3", 143: "IMAP", 389: "LDAP", 443: "HTTPS",
    465: "SMTP over TLS", 587: "SMTP", 636: "LDAP over TLS", 993: "IMAP over TLS", 995: "POP3 over TLS",
    2049: "NFS", 3306: "MySQL", 5432: "postgresql", 5672: "AMQP", 6379: "Redis", 6443: "Kubernetes", 8080: "HTTP",
    8443: "HTTPS", 9090: "Prometheus", 9092: "Kafka", 9200: "Elasticsearch", 11211: "memcached", 27017: "MongoDB",
}  # fmt: skip


@frozen
class Facility:
    """Describes a part of a host: its title, and the checks that look at it, of which the first that is published is
    proposed.
    """

    title: str
    checks: tuple[str, ...]


FACILITIES: dict[str, Facility] = {
    "raid": Facility("software RAID", ("raid",)),
    "mail_queue": Facility("the queue of a mail server", ("mail_queue",)),
    "certificate": Facility("the agent's own certificate", ("certificate_self",)),
    "clock": Facility("the clock", ("clock", "ntp")),
    "containers": Facility("containers of Docker or Podman", ("docker",)),
    "units": Facility("units of systemd", ("systemd_unit",)),
    "nginx_status": Facility("the status page of nginx", ("nginx",)),
    "apache_status": Facility("the status page of Apache", ("apache",)),
    "sensors": Facility("temperatures, fans and voltages", ("sensors",)),
    "bonds": Facility("bonded interfaces", ("bonding",)),
    "conntrack": Facility("tracked connections", ("kernel_limits",)),
    "zfs": Facility("pools of ZFS", ("zfs",)),
    "btrfs": Facility("filesystems of Btrfs", ("btrfs",)),
}
# Services that come with every system, or that a session brings and takes: that one stops is nobody's concern.
USUAL_SERVICES = (
    "systemd-", "user@", "user-runtime-dir@", "getty@", "serial-getty@", "console-getty", "session-", "dbus", "polkit",
    "udisks2", "accounts-daemon", "packagekit", "ModemManager", "rtkit-daemon", "init-", "run-", "equus.", "helen.",
)  # fmt: skip
