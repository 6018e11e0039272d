"""Tests what is proposed for which finding, what counts as watched already, and how it is written down."""

import json
from pathlib import Path
from typing import Any

import pytest

from helen.assignments.assignments_text import read as read_assignments
from helen.assignments.schedule import CheckTable, schedule
from helen.discovery.answers import Findings, Listener, Mount
from helen.discovery.entries import Proposed, can_be_named, with_entries
from helen.discovery.known import DAEMONS, FACILITIES
from helen.discovery.proposals import propose
from helen.discovery.report import MOST_SERIES, result_of
from helen.discovery.watched import Schedule

# The checks that are shipped, as the linter has found them.
VERDICTS = json.loads((Path(__file__).parents[3] / "checks" / "verdicts.json").read_text())["files"]
TABLES = {
    name.removesuffix(".lua"): CheckTable(name.removesuffix(".lua"), each["table"]["every"], args=each["table"]["args"])
    for name, each in VERDICTS.items()
    if each.get("table")
}


def proposed(findings: Findings, text: str = "", agent: str = "web-1") -> list[tuple[str, str, dict[str, Any]]]:
    """Return check, id and arguments of each proposal for an agent with these assignments."""
    running = schedule(read_assignments(text), TABLES, agent, {})
    return [
        (each.check, each.id, dict(each.args))
        for each in propose(findings, Schedule(agent, running, TABLES), TABLES)[0]
    ]


@pytest.mark.parametrize(
    ("listener", "check", "check_id", "args"),
    [
        (Listener(5432, "localhost"), "tcp", "tcp-5432", {"port": 5432}),
        (Listener(53, "127.0.0.53"), "tcp", "tcp-53", {"host": "127.0.0.53", "port": 53}),
        (Listener(22, "localhost", "ssh"), "ssh_banner", "ssh_banner-22", {}),
        (Listener(2222, "localhost", "ssh"), "ssh_banner", "ssh_banner-2222", {"port": 2222}),
        (Listener(25, "localhost", "smtp"), "smtp", "smtp-25", {}),
        (Listener(6379, "127.0.0.9", "redis"), "redis", "redis-6379", {"host": "127.0.0.9"}),
        (Listener(11211, "localhost", "memcached"), "memcached", "memcached-11211", {}),
        (Listener(80, "localhost", "http", True), "http", "http-80", {"url": "http://localhost/"}),
        (Listener(8080, "127.0.0.2", "http", True), "http", "http-8080", {"url": "http://127.0.0.2:8080/"}),
        (Listener(8080, "localhost", "http"), "tcp", "tcp-8080", {"port": 8080}),
        (Listener(443, "localhost", "tls", True, ("www.example.org",)), "tls_certificate", "tls-443",
         {"host": "localhost", "port": 443, "server_name": "www.example.org"}),
        (Listener(8443, "localhost", "tls"), "tls_certificate", "tls-8443",
         {"host": "localhost", "port": 8443, "verify": False}),
        (Listener(143, "localhost", "imap"), "tcp", "tcp-143", {"port": 143}),
    ],
)  # fmt: skip
def test_a_port(listener: Listener, check: str, check_id: str, args: dict[str, Any]) -> None:
    """A port gets the check that fits what speaks there and would be content now; else one that the port is open."""
    assert proposed(Findings((listener,))) == [(check, check_id, args)]


def test_ports_of_clients() -> None:
    """A port that the kernel gives out for a while is not proposed, as it does not stay."""
    assert proposed(Findings((Listener(32_768, "localhost"), Listener(50_000, "localhost", "http", True)))) == []


@pytest.mark.parametrize(
    ("entry", "is_watched"),
    [
        ('check = "postgresql"', True),
        ('check = "postgresql"\nargs = { port = 5433 }', False),
        ('check = "tcp"\nargs = { port = 5432 }', True),
        ('check = "tcp"\nargs = { port = 5432, host = "127.0.0.1" }', True),
        ('check = "tcp"\nargs = { port = 5432, host = "web-1" }', True),
        ('check = "tcp"\nargs = { port = 5432, host = "web-1.example.org" }', True),
        ('check = "tcp"\nargs = { port = 5432, host = "db.example.org" }', False),
        ('check = "http"\nargs = { url = "http://localhost:5432/x" }', True),
        ('check = "http"\nargs = { url = "http://localhost:99999/" }', False),
        ('check = "http"\nargs = { url = "http://[bad" }', False),
        ('check = "tcp"\nagents = ["web-2"]\nargs = { port = 5432 }', False),
    ],
)
def test_a_port_that_is_watched(entry: str, is_watched: bool) -> None:
    """A port is watched by a check of this agent that connects to it on this host, its defaults included."""
    found = proposed(Findings((Listener(5432, "localhost"),)), f'[[assign]]\ncheck = "*"\n[[assign]]\n{entry}\n')
    assert (found == []) is is_watched


def test_a_certificate_is_watched_by_its_name() -> None:
    """A certificate is watched by a check of the public name of a site that is served here."""
    listener = Listener(443, "localhost", "tls", True, ("www.example.org",))
    text = '[[assign]]\ncheck = "http"\nargs = { url = "https://www.example.org/" }\n'
    assert proposed(Findings((listener,)), text) == []
    assert proposed(Findings((listener,)), text.replace("www.", "other.")) != []


MOUNTS = (Mount("/"), Mount("/mnt/nfs", is_network=True), Mount("/srv/a b"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[[assign]]\ncheck = "*"\n', [("disk-mnt-nfs", {"path": "/mnt/nfs"})]),
        ('[[assign]]\ncheck = "load"\n', [("disk", {}), ("disk-mnt-nfs", {"path": "/mnt/nfs"})]),
        ('[[assign]]\ncheck = "disk"\nargs = { path = "/" }\n',
         [("disk-mnt-nfs", {"path": "/mnt/nfs"}), ("disk-srv-a-b", {"path": "/srv/a b"})]),
        ('[[assign]]\ncheck = "disk"\nargs = { network = true, exclude = ["/srv/*"] }\n', []),
        ('[[assign]]\ncheck = "disk"\nargs = { exclude = ["/mnt/*"] }\n', []),
    ],
)  # fmt: skip
def test_mounts(text: str, expected: list[tuple[str, dict[str, Any]]]) -> None:
    """A mount that `disk` covers or was told to leave out is watched; without `disk` it is proposed once for all."""
    assert [(check_id, args) for _, check_id, args in proposed(Findings(mounts=MOUNTS), text)] == expected


def test_services() -> None:
    """Services of the system itself are no findings; a named one is watched, with or without its kind."""
    names = ("dbus.service", "getty@tty1.service", "nginx.service", "pg@16-main.service", "systemd-logind.service")
    text = '[[assign]]\ncheck = "systemd_unit"\nid = "web"\nargs = { unit = "nginx" }\n'
    expected = ("systemd_unit", "unit-pg@16-main", {"unit": "pg@16-main.service"})
    assert proposed(Findings(services=names), text) == [expected]


def test_processes() -> None:
    """A program that is seen by its port or service needs no check by its name."""
    cron = ("process", "process-cron", {"name": "cron"})
    assert proposed(Findings(processes=("cron", "nginx"))) == [cron, ("process", "process-nginx", {"name": "nginx"})]
    ports = (Listener(80, "localhost", "http", True),)
    found = proposed(Findings(ports, processes=("nginx",), services=("cron.service",)))
    assert [check for check, _, _ in found] == ["http", "systemd_unit"]
    text = '[[assign]]\ncheck = "process"\nargs = { name = "cron" }\n'
    assert proposed(Findings(processes=("cron",)), text) == []
    text = '[[assign]]\ncheck = "systemd_unit"\nargs = { unit = "cron.service" }\n'
    assert proposed(Findings(processes=("cron",)), text) == []


def test_the_sentence_names_the_program() -> None:
    """The sentence names the program that runs there, if it is known; else the one that usually listens there."""
    found = Findings(
        (Listener(80, "localhost"), Listener(5432, "localhost"), Listener(9, "localhost")), processes=("nginx",)
    )
    said = [each.what for each in propose(found, Schedule("web-1", [], TABLES), TABLES)[0]]
    assert said == ["nginx listens on port 80", "postgresql listens on port 5432", "a program listens on port 9"]


def test_facilities() -> None:
    """Each part of the host has its check, if one is published; a check of one unit is none of all units."""
    found = proposed(Findings(facilities=("raid", "units", "nginx_status")))
    assert found == [("raid", "raid", {}), ("systemd_unit", "systemd_unit", {}), ("nginx", "nginx", {})]
    text = '[[assign]]\ncheck = "raid"\n[[assign]]\ncheck = "systemd_unit"\nargs = { unit = "a.service" }\n'
    found = proposed(Findings(facilities=("raid", "units")), text)
    assert found == [("systemd_unit", "systemd_unit-2", {})]
    unknown = {name: table for name, table in TABLES.items() if name != "raid"}
    assert propose(Findings(facilities=("raid",)), Schedule("web-1", [], unknown), unknown)[0] == []


def test_checks_that_take_other_arguments() -> None:
    """A check of the same name that is an operator's own is not proposed with arguments that it refuses."""
    tables = {"tcp": CheckTable("tcp", args={"address": {"type": "string", "required": True}})}
    assert propose(Findings((Listener(80, "localhost"),)), Schedule("web-1", [], tables), tables) == ([], 0)


def test_everything_known_has_its_check() -> None:
    """A known facility has a shipped check, and a known program a name as the kernel has it."""
    assert all(len(name) <= 15 and daemon.title for name, daemon in DAEMONS.items())
    shipped = {name for name, facility in FACILITIES.items() if set(facility.checks) & TABLES.keys()}
    assert shipped >= {
        "raid",
        "mail_queue",
        "certificate",
        "clock",
        "containers",
        "units",
        "nginx_status",
        "apache_status",
    }


def test_entries() -> None:
    """Agents with the same proposal share an entry; the default set stays, and so does every word of the file."""
    before = '# ours\n[[assign]]\ncheck = "load"   # hot\nagents = ["db-*"]\n'
    ports = Findings((Listener(5432, "localhost"),))
    both = propose(ports, Schedule("x", [], TABLES), TABLES)[0]
    raid = propose(Findings(facilities=("raid",)), Schedule("x", [], TABLES), TABLES)[0]
    after = with_entries(
        before,
        [Proposed("web-2", both, has_default_set=True), Proposed("web-1", [*both, *raid], has_default_set=True),
         Proposed("db-1", both), Proposed("idle", [], has_default_set=True)],
    )  # fmt: skip
    assert after == before + (
        "\n# Found by `helen discover`.\n\n"
        '# the default set, which these agents would lose by the entries below\n[[assign]]\ncheck = "*"\n'
        'agents = ["web-1", "web-2"]\n\n'
        '# this host has software RAID\n[[assign]]\ncheck = "raid"\nid = "raid"\nagents = ["web-1"]\n\n'
        '# postgresql listens on port 5432\n[[assign]]\ncheck = "tcp"\nid = "tcp-5432"\n'
        'agents = ["db-1", "web-1", "web-2"]\nargs = {port = 5432}\n'
    )
    assignments, old = read_assignments(after), read_assignments("")
    ids = {each.id for each in schedule(assignments, TABLES, "web-1", {})}
    assert ids == {each.id for each in schedule(old, TABLES, "web-1", {})} | {"tcp-5432", "raid"}
    assert {each.id for each in schedule(assignments, TABLES, "db-1", {})} == {"load", "tcp-5432"}


def test_nothing_to_write() -> None:
    """The file stays as it is, to the byte."""
    assert with_entries("# x  \n\n\n", [Proposed("web-1", [], has_default_set=True)]) == "# x  \n\n\n"


@pytest.mark.parametrize(("agent", "can_be"), [("web-1", True), ("web-*", False), ("a?", False), ("[ab]", False)])
def test_names_that_are_patterns(agent: str, can_be: bool) -> None:
    """An agent's name that is a pattern gets no entry, which would be one for others."""
    assert can_be_named(agent) is can_be


def test_a_result_of_the_number() -> None:
    """A result has the sum, the agents that said nothing, and a series for each agent, the greatest first."""
    made = result_of("fleet", "unwatched", {"a": 0, "b": 3, "c": 1}, [])
    assert (made["host"], made["check"], made["status"]) == ("fleet", "unwatched", "ok")
    assert made["summary"] == "4 findings without a check on 3 agents"
    assert [(each["name"], each["value"], each.get("labels")) for each in made["metrics"]] == [
        ("unwatched", 4, None), ("silent", 0, None), ("unwatched_on", 3, {"agent": "b"}),
        ("unwatched_on", 1, {"agent": "c"}), ("unwatched_on", 0, {"agent": "a"}),
    ]  # fmt: skip
    partly = result_of("fleet", "unwatched", {"a": 1}, ["b"])
    assert (partly["status"], partly["summary"]) == (
        "unknown",
        "1 finding without a check on 1 agent; 1 agent did not answer",
    )
    many = result_of("fleet", "unwatched", {f"web-{at}": 1 for at in range(2000)}, [])
    assert (len(many["metrics"]), many["metrics"][0]["value"]) == (MOST_SERIES + 2, 2000)
