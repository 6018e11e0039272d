"""Test the calls `systemd` and `plugin`, which run programs for a check."""

import os
import time

import pytest

from equus.capabilities.programs import systemd
from equus.policy.policy import Policy
from equus.processes.spawn import close_spawner

SEES_ALL = Policy.parse(b'[caps.systemd]\nunits = ["*"]\n', None)


@pytest.fixture(autouse=True, scope="module")
def _no_spawner_left():
    """End the process that forks programs after these tests."""
    yield
    close_spawner()


@pytest.fixture
def script(tmp_path):
    """Writes a program that only its owner can change; answers its path."""

    def write(text: str, name: str = "program", mode: int = 0o755) -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(mode)
        return str(path)

    return write


SHOW = """[ "$*" = "show --property=$(echo "$2" | cut -d= -f2) -- nginx.service" ] || exit 9
cat <<'END'
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
Description=A web server: with = signs
Result=success
MainPID=901
NRestarts=2
MemoryCurrent=18446744073709551615
TasksCurrent=[not set]
StateChangeTimestampMonotonic=5000000
END"""


def test_a_unit(call, script, plant, monkeypatch):
    """A unit has its properties under names of this call, without those that systemd does not keep."""
    monkeypatch.setattr(systemd, "SYSTEMCTL", script(SHOW))
    before = time.time()
    answer = call("systemd", "nginx", policy=SEES_ALL, root=plant({"/proc/uptime": "65.0 1.0\n"}))
    assert before - 61 < answer.pop("since_at") < time.time() - 59
    assert answer == {
        "unit": "nginx.service",
        "load_state": "loaded",
        "active_state": "active",
        "sub_state": "running",
        "unit_file_state": "enabled",
        "description": "A web server: with = signs",
        "result": "success",
        "main_pid": 901,
        "restarts": 2,
    }


def test_a_unit_that_does_not_exist(failure, script, monkeypatch):
    """A unit that does not exist is reported as not found, although systemctl prints properties for it."""
    monkeypatch.setattr(systemd, "SYSTEMCTL", script("echo LoadState=not-found"))
    expected = ("not-found", "this host has no unit nginy.service")
    assert failure("systemd", "nginy.service", policy=SEES_ALL) == expected


@pytest.mark.parametrize("unit", ["--all", "a b", "a;b", "", "x" * 256, "../x", "a\nb", 5, "$(id).service"])
def test_what_is_no_unit(failure, unit):
    """A name of a unit that could be an option or a second word does not reach systemctl."""
    assert failure("systemd", unit, policy=SEES_ALL)[0] == "bad-arguments"


@pytest.mark.parametrize(
    "unit", ["-.mount", "-.slice", r"\x2esnapshots.mount", r"dev-disk-by\x2duuid-1.device", "_x.service", ":0.service"]
)
def test_units_that_begin_with_another_character(call, script, monkeypatch, unit):
    """A unit may begin with another character, as mounts do: that of `/` is a hyphen (F76)."""
    monkeypatch.setattr(systemd, "SYSTEMCTL", script('echo LoadState=loaded; echo "Description=$4"'))
    answer = call("systemd", unit, policy=SEES_ALL)
    assert (answer["unit"], answer["load_state"], answer["description"]) == (unit, "loaded", unit)
    assert call("systemd", unit, policy=Policy.parse(f"[caps.systemd]\nunits = ['{unit}']\n".encode(), None))


def test_units_need_a_grant(failure, call, script, monkeypatch):
    """A unit outside of the grant is denied, and not counted among the failed ones."""
    policy = Policy.parse(b'[caps.systemd]\nunits = ["web-*"]\n', None)
    assert failure("systemd", "ssh.service", policy=policy)[0] == "denied"
    listed = "web-1.service loaded failed failed Web\nssh.service loaded failed failed SSH"
    monkeypatch.setattr(systemd, "SYSTEMCTL", script(f"echo '{listed}'"))
    assert call("systemd_failed", policy=policy) == {"units": ["web-1.service"], "count": 1}
    assert call("systemd_failed", policy=SEES_ALL)["count"] == 2


def test_services_that_run(call, script, monkeypatch):
    """Running services are listed by name, as far as the policy grants them."""
    listed = "nginx.service loaded active running Web\nssh.service loaded active running OpenBSD\n"
    text = f"""[ "$*" = "list-units --type=service --state=running --plain --no-legend --full" ] && printf '{listed}'"""
    monkeypatch.setattr(systemd, "SYSTEMCTL", script(text))
    assert call("systemd_running", policy=SEES_ALL) == {"units": ["nginx.service", "ssh.service"], "count": 2}
    policy = Policy.parse(b'[caps.systemd]\nunits = ["ng*"]\n', None)
    assert call("systemd_running", policy=policy) == {"units": ["nginx.service"], "count": 1}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("echo 'System has not been booted with systemd as init system' >&2; exit 1", "unsupported"),
        ("echo 'Access denied' >&2; exit 4", "failed"),
        ("sleep 60", "timeout"),
    ],
)
def test_hosts_without_systemd(failure, script, monkeypatch, text, code):
    """A host without systemd is reported as unsupported, and one whose systemd refuses or hangs as failed or
    timeout.
    """
    monkeypatch.setattr(systemd, "SYSTEMCTL", script(text))
    monkeypatch.setattr(systemd, "SYSTEMCTL_SECONDS", 0.5 if code == "timeout" else 60.0)
    assert failure("systemd", "a.service", policy=SEES_ALL)[0] == code


def test_no_systemctl_at_all(failure, monkeypatch):
    """A host without systemctl is reported as unsupported."""
    monkeypatch.setattr(systemd, "SYSTEMCTL", "/does/not/exist")
    assert failure("systemd", "a.service", policy=SEES_ALL)[0] == "unsupported"


def granting(path: str, more: str = "", command: str = "") -> Policy:
    return Policy.parse(f'[plugins.check_it]\ncommand = ["{path}"{command}]\n{more}'.encode(), None)


def test_a_nagios_plugin(call, script):
    """The exit status of a Nagios plugin is the state, and its performance data become metrics with thresholds."""
    path = script("echo \"DISK WARNING - free: $1 | '/ x'=31709986816B;243497277849;;0;100\"; echo long text; exit 1")
    policy = granting(path, '[plugins.check_it.slots.warn]\ntype = "percent"\n', ', "{warn}"')
    answer = call("plugin", "check_it", {"warn": 20}, policy=policy)
    assert answer.pop("seconds") > 0
    assert answer == {
        "status": "warning",
        "summary": "DISK WARNING - free: 20",
        "metrics": [
            {
                "name": "/ x",
                "value": 31709986816.0,
                "unit": "B",
                "kind": "gauge",
                "warn": "243497277849",
                "min": 0.0,
                "max": 100.0,
            }
        ],
        "output": "long text",
        "exit_status": 1,
        "truncated": False,
    }


def test_an_agent_plugin(call, script):
    """Text of an agent plugin of Cloudkick or Rackspace is read, and its status line counts before the exit
    status 0.
    """
    path = script("echo 'status err it is down'; echo 'metric requests counter 12'; echo 'metric state string down'")
    answer = call("plugin", "check_it", policy=granting(path))
    assert (answer["status"], answer["summary"], answer["exit_status"]) == ("critical", "it is down", 0)
    assert [(one["name"], one["value"], one["kind"]) for one in answer["metrics"]] == [
        ("requests", 12.0, "counter"),
        ("state", "down", "gauge"),
    ]


@pytest.mark.parametrize(
    ("text", "status", "summary"),
    [
        ("exit 0", "ok", "plugin check_it said nothing (exit status 0)"),
        ("echo strange; exit 77", "unknown", "strange"),
        ("echo missing library >&2; exit 127", "unknown", "missing library"),
        ("kill -9 $$", "unknown", "plugin check_it was killed by signal 9"),
        (
            "while :; do echo 'OK - a line of text'; done",
            "unknown",
            "plugin check_it was killed: it wrote more than 4 MiB",
        ),
        ("yes | head -c 5000000 >&2; exec yes", "unknown", "plugin check_it was killed: it wrote more than 4 MiB"),
    ],
)
def test_plugins_that_say_little(call, script, text, status, summary):
    """A plugin that says little has a summary in any case, and only exit statuses 0 to 2 are states."""
    answer = call("plugin", "check_it", policy=granting(script(text)))
    assert (answer["status"], answer["summary"]) == (status, summary)


@pytest.mark.parametrize(("timeout", "said"), [("200ms", "0.2 s"), ("0.35s", "0.35 s"), ("1s", "1 s")])
def test_a_plugin_that_hangs(failure, script, timeout, said):
    """A plugin that hangs ends at the time that was set, even if ending the program takes longer (F77)."""
    policy = granting(script("trap '' TERM; while :; do sleep 0.05; done"), f'timeout = "{timeout}"\n')
    code, text = failure("plugin", "check_it", policy=policy)
    assert (code, text) == ("timeout", f"plugin check_it timed out after {said}")


@pytest.mark.parametrize(
    ("text", "status", "summary"),
    [
        ("echo 'status ok everything is fine'; kill -SEGV $$", "unknown", "plugin check_it was killed by signal 11"),
        ("echo 'OK - fine | a=1'; kill -TERM $$", "unknown", "plugin check_it was killed by signal 15"),
        ("echo 'status ok fine'; exit 1", "warning", "fine (exit status 1)"),
        ("echo 'status ok fine' >&2; exit 2", "critical", "fine (exit status 2)"),
        ("echo 'status ok fine'; exit 9", "unknown", "fine (exit status 9)"),
        ("printf 'CRITICAL - 1 is down\\n  status ok\\n'; exit 2", "critical", "CRITICAL - 1 is down (exit status 2)"),
        ("echo 'DISK OK - fine'; exit 2", "critical", "DISK OK - fine (exit status 2)"),
        ("echo 'DISK CRITICAL - full'; exit 2", "critical", "DISK CRITICAL - full"),
        ("echo 'status err down'; exit 2", "critical", "down"),
    ],
)
def test_an_exit_status_wins_over_a_text(call, script, text, status, summary):
    """A program that fails is not ok, whatever its text says; where they differ, the summary names the exit (F10)."""
    answer = call("plugin", "check_it", policy=granting(script(text)))
    assert (answer["status"], answer["summary"]) == (status, summary)


@pytest.mark.parametrize(
    ("before", "end", "kept", "total"),
    [
        ("OK - x | a=1 ", "last=1234567890", ["a"], 2),
        ("OK - x | a=1 ", "b=7 last=123456789", ["a", "b"], 3),
        ("OK - x | a=1 'so it is ", "a=7 b'=3", ["a"], 2),
        ("status ok x\nmetric a int 1\n", "metric b int 1234567", ["a"], 2),
        ("OK - x\nlong\n", "a=1 b=2 and so on", [], None),
    ],
)
def test_a_figure_at_the_cut(call, script, tmp_path, before, end, kept, total):
    """A figure at the place where the output is cut is dropped, since its rest would be another figure (F21)."""
    output = before + " " * (65_536 - len(before) - len(end) + 4) + end + " more=5"
    (tmp_path / "output").write_text(output)
    answer = call("plugin", "check_it", policy=granting(script(f"cat {tmp_path}/output")))
    assert (answer["truncated"], answer["output_bytes"]) == (True, len(output))
    assert ([one["name"] for one in answer["metrics"]], answer.get("metrics_total")) == (kept, total)


def test_figures_beyond_the_most_are_counted(call, script):
    """The first thousand figures are read, and all are counted (F21)."""
    answer = call("plugin", "check_it", policy=granting(script("echo 'OK |'; seq -f 'm%g=1' 1200 | sed '1s/^/|/'")))
    assert (len(answer["metrics"]), answer["metrics_total"], answer["truncated"]) == (1000, 1200, False)


def test_a_plugin_that_writes_too_much(call, script):
    """Output above 64 KiB is cut, and `truncated` says so."""
    path = script(
        "echo first; i=0; while [ $i -lt 3000 ]; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; i=$((i+1)); done"
    )
    answer = call("plugin", "check_it", policy=granting(path))
    assert (answer["summary"], answer["truncated"]) == ("first", True)
    assert len(answer["output"]) <= 65_536


def test_nothing_of_the_agents_environment_reaches_a_plugin(call, script, monkeypatch):
    """A plugin does not see a token in the agent's environment."""
    monkeypatch.setenv("EQUUS_JOIN", "secret")
    answer = call("plugin", "check_it", policy=granting(script("env | tr '\\n' ' '")))
    assert "secret" not in answer["summary"]
    assert "LC_ALL=C" in answer["summary"]


@pytest.mark.adversary(41)
@pytest.mark.parametrize("value", ["-x", "a\nb", "101", "-5", "$(id)", "", "x" * 1_000_000, None, [1]])
def test_slots_take_only_what_their_type_says(failure, script, value):
    """A slot refuses options, line ends and a megabyte before anything runs."""
    policy = granting(script("echo ran"), '[plugins.check_it.slots.warn]\ntype = "percent"\n', ', "{warn}"')
    assert failure("plugin", "check_it", {"warn": value}, policy=policy)[0] == "bad-arguments"


def test_only_what_the_policy_names(failure, script):
    """Only a plugin that the policy names runs: no other name, no path, and no unknown slot."""
    policy = granting(script("echo ran"))
    for name in ("other", "/bin/sh", "../check_it"):
        assert failure("plugin", name, policy=policy)[0] == "denied"
    assert failure("plugin", "check_it", {"x": 1}, policy=policy)[0] == "bad-arguments"
    assert failure("plugin", "check_it", "x", policy=policy)[0] == "bad-arguments"


@pytest.mark.adversary(43)
def test_a_plugin_that_others_can_change(failure, script, tmp_path):
    """A plugin is denied if other users can write the program or a folder above it."""
    path = script("echo ran", mode=0o777)
    code, text = failure("plugin", "check_it", policy=granting(path))
    assert code == "denied"
    assert "can be written by others" in text
    os.chmod(path, 0o755)
    folder = tmp_path / "open"
    folder.mkdir()
    os.chmod(folder, 0o777)
    os.rename(path, folder / "program")
    assert failure("plugin", "check_it", policy=granting(str(folder / "program")))[0] == "denied"


def test_a_program_that_is_not_there(failure, tmp_path):
    """A missing program fails with a sentence that names the plugin."""
    code, text = failure("plugin", "check_it", policy=granting(str(tmp_path / "gone")))
    assert code == "failed"
    assert "check_it" in text
