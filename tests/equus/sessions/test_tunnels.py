"""Test tunnels of an agent in memory: they go to the program of their kind, and are refused where there is none."""

import json

from equus.policy.policy import Policy
from equus_protocol import messages as m

EMPTY = m.Schedule(1, b"[]")


class Program:
    """Keeps the streams that it was given."""

    def __init__(self):
        self.opened, self.came, self.ended = [], bytearray(), False

    def open(self, description, stream):
        self.opened.append((description, stream))
        stream.attach(self)

    def report(self):
        return {"shell": {"host_key": "ssh-ed25519 AAAA"}}

    def policy_changed(self):
        self.changed = True

    def write(self, data):
        self.came += data

    def pauseProducing(self):
        pass

    def loseConnection(self):
        self.ended = True


def of_tunnels(heard):
    return [message for message in heard if isinstance(message, m.Bytes | m.Window | m.Close)]


def test_a_kind_that_is_unknown_is_closed_and_nothing_else_changes(memory_agent, folder):
    """A tunnel of an unknown kind is closed with that reason, the connection goes on, and the id may be used again."""
    helen = memory_agent(checks=folder).meet()
    helen.say(EMPTY)
    for _ in range(3):
        assert of_tunnels(helen.say(m.Tunnel(5, "ssh", 1_000, b"{}"))) == [m.Close(5, "unknown-kind")]
        helen.say(m.Close(5, "done"))
    assert helen.say(m.Ping(1)) == [m.Pong(1)]


def test_bytes_go_to_the_program_and_back(memory_agent, folder):
    """Bytes go to the program and back, and the description reaches it as it was sent."""
    agent = memory_agent(checks=folder)
    program = Program()
    agent.agent.programs["ssh"] = program
    helen = agent.meet()
    helen.say(EMPTY)
    assert of_tunnels(helen.say(m.Tunnel(5, "ssh", 1_000, b'{"caller":"ops"}'))) == [m.Window(5, 262_144)]
    assert program.opened[0][0] == b'{"caller":"ops"}'
    helen.say(m.Bytes(5, b"hello"))
    assert program.came == b"hello"
    program.opened[0][1].read(b"x" * 1_500)
    assert of_tunnels(helen.hear()) == [m.Bytes(5, b"x" * 1_000)]
    assert of_tunnels(helen.say(m.Window(5, 600))) == [m.Bytes(5, b"x" * 500)]


def test_a_lost_connection_ends_the_program(memory_agent, folder):
    """A lost connection ends the program of its tunnel, and the next connection begins without it."""
    agent = memory_agent(checks=folder)
    program = agent.agent.programs["ssh"] = Program()
    helen = agent.meet()
    helen.say(EMPTY, m.Tunnel(5, "ssh", 1_000, b"{}"))
    agent.part(helen)
    assert program.ended
    helen = agent.meet()
    helen.say(EMPTY)
    assert m.Window(5, 262_144) in helen.say(m.Tunnel(5, "ssh", 1_000, b"{}"))


def test_results_go_before_a_tunnel_when_helen_reads_again(memory_agent, folder):
    """Nothing of a tunnel is written while Helen does not read, and results go first afterwards."""
    agent = memory_agent(checks=folder)
    program = agent.agent.programs["ssh"] = Program()
    helen = agent.meet()
    helen.say(EMPTY, m.Tunnel(5, "ssh", 100_000, b"{}"))
    helen.equus.pauseProducing()
    program.opened[0][1].read(b"x" * 100)
    agent.writer.append("disk", b"{}")
    agent.writer.work()
    assert helen.hear() == []
    helen.equus.resumeProducing()
    agent.writer.work()
    heard = helen.hear()
    assert [type(message) for message in heard] == [m.Report, m.Bytes]


def test_the_load_report_names_the_kinds_and_what_programs_say(memory_agent, folder):
    """The load report names the kinds of tunnels and what their programs report, or says nothing of tunnels without
    any.
    """
    agent = memory_agent(checks=folder)
    [loaded] = agent.meet().say(EMPTY)
    assert json.loads(loaded.blob).keys().isdisjoint({"tunnels", "shell"})
    agent.agent.programs["ssh"] = Program()
    [loaded] = agent.meet().say(EMPTY)
    said = json.loads(loaded.blob)
    assert (said["tunnels"], said["shell"]) == (["ssh"], {"host_key": "ssh-ed25519 AAAA"})


def test_a_change_of_the_policy_ends_the_tunnels(memory_agent, folder):
    """Another [shell] in the policy ends the tunnels with the reason, and a change elsewhere leaves them alone."""
    agent = memory_agent(checks=folder)
    program = agent.agent.programs["ssh"] = Program()
    helen = agent.meet()
    helen.say(EMPTY, m.Tunnel(5, "ssh", 1_000, b"{}"))
    agent.agent.reread(lambda: Policy.parse(b"[limits]\nparallel = 3\n", None))
    assert of_tunnels(helen.hear()) == []
    shell = b'[shell]\nallow = true\nusers = ["ops"]\nauthorized_keys = "/etc/equus/keys"\n'
    agent.agent.reread(lambda: Policy.parse(shell, None))
    assert of_tunnels(helen.hear()) == [m.Close(5, "changed")]
    assert program.ended and program.changed
