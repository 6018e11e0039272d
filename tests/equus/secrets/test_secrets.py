"""Test secrets by reference: who may write them, which checks get them, and every place where a value must not show."""

import json
import os
import random
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from equus import logs
from equus.capabilities.address import endpoints
from equus.capabilities.calls import CallFailed, Context
from equus.main import main
from equus.policy.destinations import may_travel, read_all, read_destination
from equus.policy.policy import Policy
from equus.sandbox.blocking import Sandbox
from equus.sandbox.frames import CONTROL_LIMIT
from equus.sandbox.job import Job
from equus.schedule.secret_runner import SecretRunner, redact_result
from equus.secrets import references
from equus.secrets.redaction import CUT_FROM, LEAST, MASK, Redaction
from equus.secrets.references import (
    MAX_DESTINATIONS,
    MAX_OF_RUN,
    MAX_TO,
    MAX_VALUE,
    Resolved,
    Secrets,
    SecretsError,
)
from equus.tap import StartRefused, run

VALUE = 'pa"ss wörd/1'
GOOD = 'redis = \'pa"ss wörd/1\'\n[db]\nvalue = "tiger-tiger"\nchecks = ["postgres"]\n'


@pytest.fixture(autouse=True)
def no_default(tmp_path, monkeypatch):
    """Replace the default path of the file of secrets, so that a file of this machine does not count."""
    monkeypatch.setattr(references, "DEFAULT_PATH", tmp_path / "none.toml")


def written(folder, text=GOOD, mode=0o600):
    path = folder / "secrets.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def known(folder, text=GOOD, environment=None):
    found = Secrets(written(folder, text), environment or {})
    found.read()
    return found


# ---------------------------------------------------------------------------------------------------- who gets what


def test_a_reference_becomes_the_value(tmp_path):
    """A reference becomes the value, at the top and in lists; arguments without a reference stay as they are, to the
    byte.
    """
    found = known(tmp_path)
    args = {"password": {"secret": "redis"}, "all": [{"secret": "redis"}, "x"], "n": 1, "t": {"a": {"secret": "x"}}}
    resolved = found.resolve("redis", json.dumps(args).encode())
    assert json.loads(resolved.args) == args | {"password": VALUE, "all": [VALUE, "x"]}
    assert resolved.values == (VALUE, VALUE)
    for raw in (
        b"",
        b"{}",
        b'{ "a":1 }',
        b'{"secret": 1}',
        b'["secret"]',
        b'{"secret"',
        b'{"a": {"secret": "b", "c": 1}}',
    ):
        assert found.resolve("redis", raw) == Resolved(raw)


@pytest.mark.parametrize(
    ("check", "reference", "why"),
    [
        ("redis", {"secret": "nope"}, "args.p: this host has no secret 'nope': add it to "),
        ("redis", {"secret": "db"}, "args.p: the secret 'db' is not for the check 'redis'"),
        ("redis", {"secret": "../x"}, "a secret is named by letters"),
        ("redis", {"secret": None}, "a secret is named by letters"),
        ("redis", [{"secret": "redis"}] * (MAX_OF_RUN + 1), f"{MAX_OF_RUN} are allowed"),
    ],
)
def test_a_reference_that_leads_nowhere(tmp_path, check, reference, why):
    """A reference that leads nowhere is named with the step to take, and no value is in the sentence."""
    sentence = known(tmp_path).resolve(check, json.dumps({"p": reference}).encode())
    assert why in sentence and VALUE not in sentence and "tiger" not in sentence
    assert isinstance(known(tmp_path).resolve("postgres", b'{"p": {"secret": "db"}}'), Resolved)


def test_credentials_of_systemd(tmp_path):
    """Credentials of systemd are read by name without a line end, the file of secrets counts first, and a faulty one is
    reported.
    """
    folder = tmp_path / "credentials"
    folder.mkdir()
    for name, content in {
        "token": b"from-systemd\n",
        "redis": b"other-one",
        "bin": b"\xff\xff\xff\xff",
        "two": b"abcd\nef",
    }.items():
        (folder / name).write_bytes(content)
    found = known(tmp_path, environment={"CREDENTIALS_DIRECTORY": str(folder)})
    assert found.resolve("c", b'{"a": {"secret": "token"}, "b": {"secret": "redis"}}').values == ("from-systemd", VALUE)
    assert "can't be read as text" in found.resolve("c", b'{"a": {"secret": "bin"}}')
    assert "a control character or a line end" in found.resolve("c", b'{"a": {"secret": "two"}}')
    with pytest.raises(SecretsError, match=r"CREDENTIALS_DIRECTORY .* cannot be read"):
        Secrets(None, {"CREDENTIALS_DIRECTORY": str(tmp_path / "no")}).read()


# ---------------------------------------------------------------------------------------------------- the file


@pytest.mark.adversary(31)
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o622])
def test_a_file_that_others_can_read_or_write(tmp_path, mode):
    """A file that others can read or write is refused with the chmod to use."""
    with pytest.raises(SecretsError, match="chmod"):
        Secrets(written(tmp_path, mode=mode), {}).read()


def test_a_folder_that_others_can_write(tmp_path):
    """A file in a folder that others can write is refused: they could choose which secret is sent to which server."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(SecretsError, match="can be written by others"):
        Secrets(written(tmp_path / "open"), {}).read()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("redis = 5", "must be a text in quotes"),
        ('redis = "abc"', f"at least {LEAST} characters"),
        (f'redis = "{"x" * (MAX_VALUE + 1)}"', f"at most {MAX_VALUE} bytes"),
        ('redis = "two\\nlines"', "a control character or a line end"),
        ('"a b" = "good-one"', "is not a name of a secret"),
        ('[redis]\nvalue = "good-one"\nextra = 1', "no field 'extra'"),
        ('[redis]\nvalue = "good-one"\nchecks = "x"', "is a list of names"),
        ('redis = "unfinished-secret', "is not TOML"),
        ("x" * 65_537, "is larger than"),
    ],
)
def test_a_file_that_is_none(tmp_path, text, why):
    """A faulty file is refused with its name and never with a value, and the secrets known before stay."""
    found = known(tmp_path)
    written(tmp_path, text)
    with pytest.raises(SecretsError, match=why) as refused:
        found.read()
    assert "unfinished-secret" not in str(refused.value) and "good-one" not in str(refused.value)
    assert found.resolve("c", b'{"a": {"secret": "redis"}}').values == (VALUE,)


def test_limits_on_the_good_side(tmp_path):
    """The shortest and the longest value are accepted, and as many as a run may have."""
    found = known(tmp_path, f'a = "{"x" * LEAST}"\nb = "{"y" * MAX_VALUE}"\n')
    assert found.resolve("c", b'{"a": {"secret": "a"}, "b": {"secret": "b"}}').values == ("x" * LEAST, "y" * MAX_VALUE)
    assert len(found.resolve("c", json.dumps({"p": [{"secret": "b"}] * MAX_OF_RUN}).encode()).values) == MAX_OF_RUN


def test_no_file_at_all():
    """Without a file no secret is known, and the sentence says where to add it."""
    found = Secrets(None, {})
    found.read()
    assert "this host has no secret 'redis': add it to" in found.resolve("c", b'{"a": {"secret": "redis"}}')


# ---------------------------------------------------------------------------------------------------- what is hidden


@pytest.mark.parametrize(
    "text",
    [VALUE, f"AUTH {VALUE} failed", json.dumps(VALUE), json.dumps(VALUE, ensure_ascii=False), repr(VALUE),
     "redis://:pa%22ss%20w%C3%B6rd%2F1@h", "?p=pa%22ss+w%C3%B6rd%2F1", VALUE * 3],
)  # fmt: skip
def test_every_way_in_which_it_is_written(text):
    """A value is hidden as JSON, Python and URLs write it."""
    assert "ss" not in Redaction([VALUE]).text(text) and MASK in Redaction([VALUE]).text(text)


def test_a_text_that_was_cut_within_a_secret():
    """The beginning of a value at the end of a text is hidden where the text is long enough to have been cut."""
    hide = Redaction(["hunter2-hunter2"])
    assert hide.text("x" * CUT_FROM + "hunter2-") == "x" * CUT_FROM + MASK
    assert hide.text("x" * CUT_FROM + "hun") == "x" * CUT_FROM + "hun"
    assert hide.text("see hunter") == "see hunter"


def test_plain_data_is_hidden_all_through():
    """A value is hidden in all texts of plain data, also in names of labels, and the document does not grow."""
    document = {"summary": VALUE, "metrics": [{"name": "m", "value": 1.5, "labels": {VALUE: f"at {VALUE}"}}], "x": None}
    blob = json.dumps(document).encode()
    found = Redaction([VALUE]).document(blob)
    metric = {"name": "m", "value": 1.5, "labels": {MASK: f"at {MASK}"}}
    assert json.loads(found) == {"summary": MASK, "metrics": [metric], "x": None}
    assert len(found) <= len(blob)
    assert Redaction(()).document(b"not even JSON") == b"not even JSON"


def test_the_log_of_the_agent(tmp_path):
    """A value is hidden in each line that the agent logs."""
    lines = []
    observer = logs.LineObserver(lines.append, False, logs.LogLevel.info, known(tmp_path).hide)
    observer({"log_level": logs.LogLevel.info, "log_namespace": "equus", "log_format": "it said {x}", "x": VALUE})
    assert lines and MASK in lines[0] and "ss w" not in lines[0]


VALUES = (VALUE, "hunter2-hunter2", "1234", "a\\b/c", "täglich☃")
PIECES = (
    *VALUES, *(value[:length] for value in VALUES for length in (3, 4, 5)), "\\", '"', "\n", "\t", "/", "u", "\\u0031",
    "n", "status", " ", "x" * CUT_FROM, "☃", json.dumps(VALUE), repr(VALUE), "C:\\users",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_document_is_hidden_as_its_texts_are(seed, ascii_only):
    """Hiding a document gives the same as decoding it, hiding each text, and encoding it again."""
    chance, hide, masked = random.Random(seed), Redaction(VALUES), 0

    def text():
        return "".join(chance.choice(PIECES) for _ in range(chance.randrange(6)))

    for _ in range(200):
        document = {
            "status": "ok", "summary": text(), "n": 0.5, "k": {f"l{number}{text()}": text() for number in range(3)},
            "m": [text(), None, True, 7],
        }  # fmt: skip
        blob = json.dumps(document, ensure_ascii=ascii_only, separators=(",", ":")).encode()
        found = hide.document(blob)
        assert json.loads(found) == hide.value(document)
        assert len(found) <= len(blob)
        masked += found != blob
    assert masked


def test_a_document_without_a_value_is_not_decoded(monkeypatch):
    """A document without a value stays byte for byte and is not decoded; of one with a value, that text alone is
    decoded.
    """
    decoded, honest = [], json.loads
    monkeypatch.setattr(json, "loads", lambda text: decoded.append(text) or honest(text))
    hide = Redaction(VALUES)
    clean = b'{"status":"ok","summary":"all is well","metrics":[{"name":"m","value":1.50,"labels":{"a":"b"}}]}'
    assert (hide.document(clean), decoded) == (clean, [])
    dirty = b'{"status":"ok","summary":"see hunter2-hunter2","metrics":[{"name":"m","value":1.50}]}'
    assert hide.document(dirty) == b'{"status":"ok","summary":"see ****","metrics":[{"name":"m","value":1.50}]}'
    assert decoded == [b'"see hunter2-hunter2"']


@pytest.mark.parametrize(
    "blob", [b'{"a": hunter2-hunter2}', b'{"a": "hunter2-hunter2', b'{"a": "hunter2-hunter2\xff"}']
)
def test_a_value_in_what_is_no_json_is_not_passed_on(blob):
    """A result that is no JSON and holds a value is replaced by an `unknown` result."""
    document = json.loads(redact_result(Redaction(["hunter2-hunter2"]), "redis", blob))
    assert (document["status"], document["reason"]) == ("unknown", "crashed")


def test_a_number_that_is_a_value_stays():
    """A number that equals a value stays, since only texts are hidden, and the document stays valid."""
    blob = b'{"summary":"1234 of 12345","value":1234}'
    assert Redaction(["1234"]).document(blob) == b'{"summary":"**** of ****5","value":1234}'


def test_arguments_that_come_again_are_resolved_once(tmp_path, monkeypatch):
    """Equal arguments are resolved once until secrets are read anew; a sentence about a missing one is made
    each time.
    """
    decoded, honest = [], json.loads
    monkeypatch.setattr(json, "loads", lambda text: decoded.append(text) or honest(text))
    found, args = known(tmp_path), b'{"p": {"secret": "redis"}}'
    first = found.resolve("redis", args)
    assert found.resolve("redis", args) is first
    assert decoded == [args]
    assert found.resolve("other", b'{"p": {"secret": "db"}}') == found.resolve("other", b'{"p": {"secret": "db"}}')
    written(tmp_path, 'redis = "another-one"')
    found.read()
    assert found.resolve("redis", args).values == ("another-one",)
    assert found.resolve("redis", args).redaction.text("another-one") == MASK
    monkeypatch.setattr(references, "MOST_KEPT", 3)
    for number in range(10):
        assert found.resolve("redis", args + b" " * number).values == ("another-one",)
        assert len(found._resolved) <= 3
    long = b'{"p": {"secret": "redis"}, "x": "' + b"y" * references.MAX_KEPT_ARGS + b'"}'
    assert found.resolve("redis", long) is not found.resolve("redis", long)


# ---------------------------------------------------------------------------------------------------- in the sandbox

LEAKS = """return { summary = "leaks", needs = { "log", "file", "plugin", "program", "state", "systemd" },
args = { password = { type = "string", required = true }, way = { type = "string", required = true } },
run = function(args, host)
  local p = args.password
  print("printed " .. p)
  host.log("logged " .. p)
  host.metric("m", 1, { labels = { at = "label " .. p } })
  if args.way == "error" then error("failed with " .. p) end
  if args.way == "status" then return p, "no status" end
  if args.way == "denied" then return "unknown", select(3, host.file.read("/" .. p)) end
  if args.way == "plugin" then return "unknown", select(3, host.plugin("echo", { text = p })) end
  if args.way == "inner" then return "unknown", select(3, host.plugin("echo", { text = "x" .. p .. "y" })) end
  if args.way == "program" then return "unknown", select(3, host.program { name = "say", args = { text = p } }) end
  if args.way == "unit" then return "unknown", select(3, host.systemd(p .. ".service")) end
  if args.way == "long" then return "ok", string.rep("z", 65536 - 8) .. p end
  return "ok", "said " .. p
end }
"""
POLICY = """[caps.file]
paths = ["/nowhere"]
[caps.systemd]
units = ["*"]
[plugins.echo]
command = ["/bin/echo", "{text}"]
slots.text = { type = "word" }
[programs.say]
command = ["/bin/echo", "{text}"]
slots.text = { type = "word" }
"""
PASSWORD = "hunter2-hunter2"


@pytest.fixture(scope="module")
def leaking(tmp_path_factory):
    """Yield a real sandbox, its folder with policy and state, and the texts that it logs."""
    folder = tmp_path_factory.mktemp("leaking")
    (folder / "policy.toml").write_text(POLICY)
    (folder / "state").mkdir()
    logged = []
    with Sandbox(folder / "policy.toml", folder / "state", log=lambda check, text: logged.append(text)) as sandbox:
        yield sandbox, folder, logged


@pytest.mark.parametrize("way", ["error", "status", "denied", "plugin", "program", "inner", "unit", "long", "fine"])
def test_no_way_out_of_a_real_sandbox(leaking, tmp_path, way):
    """A value is in no summary, output, metric, error or audit line of a real sandbox, and is given to no program."""
    sandbox, folder, _ = leaking
    found = known(tmp_path, f'redis = "{PASSWORD}"\n')
    runner = SecretRunner(sandbox.loop, sandbox.runner, found)
    results = []
    job = Job(
        "leaks", LEAKS.encode(), args=json.dumps({"password": {"secret": "redis"}, "way": way}).encode(), pushed=False
    )
    runner.run(job, results.append)
    sandbox.loop.until(lambda: results, 60)
    assert b"hunter2" not in results[0]
    document = json.loads(results[0])
    assert MASK in document["output"] and document["check"] == "leaks"
    if way in ("plugin", "program", "inner", "unit"):
        assert "a secret is never an argument of a program" in document["summary"]
    if way == "long":
        assert document["truncated"]["summary"] == 65_536 - 8 + len(PASSWORD)
    audit = folder / "state" / "audit.log"
    assert not audit.exists() or "hunter2" not in audit.read_text()
    if way in ("denied", "plugin"):
        assert MASK in audit.read_text().splitlines()[-1]


def test_a_result_is_neither_decoded_nor_encoded_again(leaking, tmp_path, monkeypatch):
    """A result is neither decoded nor encoded again, with a secret or without: the agent adds its fields to the
    bytes.
    """
    sandbox, _, _ = leaking
    quiet = (
        'return { summary = "s", args = { password = { type = "string" } }, run = function() return "ok", "well" end }'
    )
    runner = SecretRunner(sandbox.loop, sandbox.runner, known(tmp_path, f'redis = "{PASSWORD}"\n'))
    decoded, encoded, loads, dumps = [], [], json.loads, json.dumps
    monkeypatch.setattr(json, "loads", lambda text, **more: decoded.append(text) or loads(text, **more))
    monkeypatch.setattr(json, "dumps", lambda value, **more: encoded.append(value) or dumps(value, **more))
    for args in (b"{}", b'{"password": {"secret": "redis"}}'):
        results = []
        runner.run(Job("quiet", quiet.encode(), args=args, pushed=False), results.append)
        sandbox.loop.until(lambda results=results: results, 60)
        assert loads(results[0])["summary"] == "well"
    assert [text for text in decoded if "status" in str(text)] == []
    assert [value for value in encoded if "status" in value] == []


def test_an_unknown_secret_is_a_result(leaking, tmp_path):
    """An unknown secret gives one result with `bad-arguments` after `run` has returned, and nothing runs."""
    sandbox, _, _ = leaking
    results = []
    runner = SecretRunner(sandbox.loop, sandbox.runner, known(tmp_path))
    job = Job("leaks", LEAKS.encode(), args=b'{"password": {"secret": "nope"}, "way": "fine"}')
    runner.run(job, results.append).cancel()
    assert results == []
    sandbox.loop.until(lambda: results, 60)
    [document] = map(json.loads, results)
    assert (document["status"], document["reason"]) == ("unknown", "bad-arguments")
    assert "no secret 'nope'" in document["summary"]


def test_a_result_that_cannot_be_read_is_not_let_through():
    """A result that cannot be read, as of a captured worker, is replaced by one that can."""

    class Hostile:
        inspect = None

        def run(self, job, done):
            done(b'{"a":' + b"[" * 100_000 + b"hunter2}")

    class Known:
        def resolve(self, check, args):
            return Resolved(args, (PASSWORD,))

    results = []
    SecretRunner(None, Hostile(), Known()).run(Job("c", b""), results.append)
    assert json.loads(results[0])["reason"] == "crashed" and b"hunter2" not in results[0]


def test_equus_run(tmp_path, capsys):
    """`equus run` resolves secrets too, and an unknown one is UNKNOWN with its name."""
    (tmp_path / "leaks.lua").write_text(LEAKS)
    path = written(tmp_path, f'redis = "{PASSWORD}"\n')
    shown = []
    for name, status in (("redis", 0), ("nope", 3)):
        args = json.dumps({"password": {"secret": name}, "way": "fine"})
        words = ["run", "leaks", "--checks", str(tmp_path), "--secrets", str(path), "--args", args]
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == status
        captured = capsys.readouterr()
        shown.append(captured.out + captured.err)
    assert "said ****" in shown[0] and "logged ****" in shown[0] and "hunter2" not in "".join(shown)
    assert "this host has no secret 'nope'" in shown[1]


def test_a_bad_file_stops_the_start(tmp_path):
    """A bad file of secrets stops the start before the agent dials, with the command that mends it."""

    class Settings:
        secrets = written(tmp_path, mode=0o644)
        log_level = "info"

    with pytest.raises(StartRefused, match="chmod 600"):
        run(Settings(), None, None)


def test_no_process_shows_it(leaking, tmp_path):
    """No process of the agent shows a value in its arguments or in its environment, as `ps` would print them."""
    sandbox, _, _ = leaking
    for pid in {os.getpid(), sandbox.processes.zygote.pid, sandbox.processes.broker.pid}:
        for name in ("cmdline", "environ"):
            assert PASSWORD.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()


# ---------------------------------------------------------------------------------------------------- destinations

SENDS = """return { summary = "sends", needs = { "tcp", "udp", "unix", "plugin", "program", "http", "dns", "icmp" },
args = { password = { type = "string", required = true }, call = { type = "string" }, host = { type = "string" },
  port = { type = "integer" }, path = { type = "string" } },
run = function(args, host)
  local p = args.password
  local answer, code, text
  local where = { host = args.host, port = args.port, send = p, timeout = 50 }
  if args.call == "tcp" then answer, code, text = host.tcp(where) end
  if args.call == "udp" then answer, code, text = host.udp(where) end
  if args.call == "http" then
    local url = "http://" .. args.host .. ":" .. args.port .. "/"
    answer, code, text = host.http { url = url, headers = { ["X-Key"] = p } }
  end
  if args.call == "icmp" then answer, code, text = host.icmp { host = args.host, count = 1, timeout = 0.1 } end
  if args.call == "dns" then
    answer, code, text = host.dns { name = "a.example", server = args.host, port = args.port, timeout = 0.1 }
  end
  if args.call == "unix" then answer, code, text = host.unix { path = args.path, send = p, timeout = 5 } end
  if args.call == "plugin" then answer, code, text = host.plugin("echo", { text = "x" }) end
  if args.call == "program" then answer, code, text = host.program { name = "say" } end
  return "ok", answer and "done" or code .. ": " .. text
end }
"""


@pytest.fixture
def listening():
    """Yield the port of a server on loopback, and the bytes that each connection brought."""
    heard = []

    def take(listener):
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    heard.append(connection.recv(4096))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=take, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1], heard
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(60)


@pytest.fixture(scope="module")
def sending(tmp_path_factory):
    """Yield a real sandbox whose policy grants loopback, a socket of this host and a program, and its folder."""
    folder = tmp_path_factory.mktemp("sending")
    grants = f'[caps.unix]\npaths = ["{folder}/s"]\n[plugins.echo]\ncommand = ["/bin/echo", "{{text}}"]\n'
    (folder / "policy.toml").write_text(
        grants + 'slots.text = { type = "word" }\n[programs.say]\ncommand = ["/bin/echo"]\n'
    )
    with Sandbox(folder / "policy.toml", None) as sandbox:
        yield sandbox, folder


def sent(sandbox, secrets, **args):
    results = []
    document = json.dumps({"password": {"secret": "redis"}} | args).encode()
    SecretRunner(sandbox.loop, sandbox.runner, secrets).run(
        Job("sends", SENDS.encode(), args=document, pushed=False), results.append
    )
    sandbox.loop.until(lambda: results, 60)
    return json.loads(results[0])["summary"]


def bound(folder, *places):
    return known(folder, f"[redis]\nvalue = {json.dumps(PASSWORD)}\nto = {json.dumps(places)}\n")


@pytest.mark.parametrize("place", ["127.0.0.1:PORT", "127.0.0.0/8:PORT", "localhost:PORT"])
def test_a_secret_goes_to_its_destinations(sending, tmp_path, listening, place):
    """A secret is sent to its destinations, given by address, network or name (F42)."""
    port, heard = listening
    place = place.replace("PORT", str(port))
    host = "localhost" if place.startswith("l") else "127.0.0.1"
    assert sent(sending[0], bound(tmp_path, "192.0.2.1:1", place), call="tcp", host=host, port=port) == "done"
    assert heard == [PASSWORD.encode()]


@pytest.mark.parametrize(
    ("call", "host"),
    [("tcp", "127.0.0.1"), ("tcp", "localhost"), ("udp", "127.0.0.1"), ("http", "localhost"), ("dns", "127.0.0.1"),
     ("icmp", "127.0.0.1")],
)  # fmt: skip
@pytest.mark.parametrize("places", [(), ("192.0.2.1:PORT",), ("127.0.0.1:1", "/run/s"), ("other.example:PORT",)])
def test_a_secret_goes_nowhere_else(sending, tmp_path, listening, call, host, places):
    """A secret is sent nowhere else, whichever host the assignment names and whichever call the check makes (F42)."""
    if (call, places) == ("icmp", ("127.0.0.1:1", "/run/s")):
        places = ()  # a ping has no port, so that this would be allowed
    port, heard = listening
    secrets = bound(tmp_path, *(place.replace("PORT", str(port)) for place in places))
    summary = sent(sending[0], secrets, call=call, host=host, port=port)
    assert summary.startswith("denied: ")
    assert "none of the destinations of a secret" in summary
    assert heard == []


def test_a_bound_secret_and_sockets_and_programs_of_this_host(sending, tmp_path):
    """A bound secret is sent to a granted socket by its path, and never to a program, which may connect
    anywhere (F42).
    """
    sandbox, folder = sending
    path = f"{folder}/s"
    assert "denied: " in sent(sandbox, bound(tmp_path, "127.0.0.1:1"), call="unix", path=path)
    assert sent(sandbox, bound(tmp_path, path), call="unix", path=path).startswith("failed: ")  # there is none
    assert sent(sandbox, bound(tmp_path, path), call="plugin").startswith("denied: this run holds a secret")
    assert sent(sandbox, known(tmp_path, f'redis = "{PASSWORD}"'), call="plugin") == "done"
    assert sent(sandbox, bound(tmp_path, path), call="program").startswith("denied: this run holds a secret")
    assert sent(sandbox, known(tmp_path, f'redis = "{PASSWORD}"'), call="program") == "done"


@pytest.mark.parametrize(
    ("host", "names", "places", "is_asked"),
    [
        ("68756e.tell.example", [], ["192.0.2.1:1"], False), ("tell.example", ["*.example"], ["192.0.2.1:1"], False),
        ("db.example", [], ["db.example:1"], True), ("DB.example.", ["db.example"], ["192.0.2.1:1"], True),
        ("db.example", [], ["192.0.2.1:1"], False), ("db.example", ["db.example"], [], True),
    ],
)  # fmt: skip
def test_a_bound_secret_does_not_leave_in_a_question(host, names, places, is_asked, monkeypatch):
    """A run with a bound secret looks up only names that an operator has written, because a check could make a name of
    the value.
    """
    asked = []

    def getaddrinfo(name, *_, **__):
        asked.append(name)
        return [(2, 1, 6, "", ("198.51.100.7", 0))]

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)
    written = f"names = {json.dumps(names)}\n" if names else ""
    policy = Policy.parse(f'[caps.tcp]\nnetworks = [{{ cidr = "0.0.0.0/0" }}]\n{written}'.encode(), None)
    context = Context("any", time.monotonic() + 10, bound=read_all([places]), secrets=(PASSWORD,))
    with pytest.raises(CallFailed) as caught:  # the address that is found is another one
        endpoints("tcp", host, 2, policy, context)
    assert (asked, caught.value.code) == ([host] if is_asked else [], "denied")
    assert ("add it to the secret's `to`" in caught.value.text) is not is_asked


def test_a_secret_without_destinations_goes_where_it_went(sending, tmp_path, listening):
    """A secret without destinations, as in older files, is sent anywhere, and is listed as unbound (F42)."""
    port, heard = listening
    secrets = known(tmp_path, f'redis = "{PASSWORD}"\n[db]\nvalue = "tiger-tiger"\nto = []\n')
    assert sent(sending[0], secrets, call="tcp", host="127.0.0.1", port=port) == "done"
    assert heard == [PASSWORD.encode()]
    assert secrets.unbound == ["redis"]


def test_a_secret_is_never_looked_up(sending, tmp_path):
    """A secret is never looked up as a host, although an assignment may put it there (F42)."""
    secrets = known(tmp_path, f'redis = "{PASSWORD}"\n')
    summary = sent(sending[0], secrets, call="tcp", host={"secret": "redis"}, port=1)
    assert summary == "denied: a secret is never looked up as the name of a host"


def test_two_secrets_of_one_run_meet_in_their_destinations(tmp_path):
    """A run with two secrets may connect only to destinations of both (F42)."""
    text = '[a]\nvalue = "aaaa-a"\nto = ["10.0.0.1:1", "10.0.0.2:1"]\n[b]\nvalue = "bbbb-b"\nto = ["10.0.0.2:1"]\n'
    found = known(tmp_path, text)
    args = json.dumps({"x": {"secret": "a"}, "y": [{"secret": "b"}]}).encode()
    both = read_all(found.resolve("any", args).bound)
    assert [may_travel(both, "h", f"10.0.0.{last}", 1) for last in (1, 2, 3)] == [False, True, False]


@pytest.mark.parametrize(
    ("place", "host", "address", "port", "covered"),
    [
        ("10.0.0.5:6379", "cache", "10.0.0.5", 6379, True),
        ("10.0.0.5:6379", "cache", "10.0.0.5", 6380, False),
        ("10.0.0.5:6379", "cache", "10.0.0.6", 6379, False),
        ("10.0.0.5:6379", "cache", "::ffff:10.0.0.5", 6379, True),
        ("10.0.0.5:6379", "cache", "2002:a00:5::", 6379, False),
        ("10.0.0.5:6379", "cache", "10.0.0.5", None, True),
        ("10.0.0.0/30:1", "cache", "10.0.0.3", 1, True),
        ("10.0.0.0/30:1", "cache", "10.0.0.4", 1, False),
        ("[fd00::5]:6379", "cache", "fd00::5", 6379, True),
        ("[fd00::/64]:6379", "cache", "fd00::9", 6379, True),
        ("[fd00::/64]:6379", "cache", "fd00::5efe:a09:807", 6379, False),  # ISATAP: it leaves the tunnel at 10.9.8.7
        ("[2002::/16]:6379", "cache", "2002:a09:807::1", 6379, False),
        ("[2002:a09:807::1]:6379", "cache", "2002:a09:807::1", 6379, True),
        ("Db.Example.org:5432", "db.example.ORG.", "10.0.0.1", 5432, True),
        ("db.example.org:5432", "x.db.example.org", "10.0.0.1", 5432, False),
        ("/run/s", "/run/s", "10.0.0.1", 1, False),
    ],
)
def test_what_a_destination_covers(place, host, address, port, covered):
    """A destination covers an address whatever its spelling is, and a name as it was asked for (F42)."""
    assert read_destination(place).covers(host, address, port) is covered


@pytest.mark.parametrize(
    "place",
    ["", ":", "10.0.0.5", "10.0.0.5:", "10.0.0.5:0", "10.0.0.5:65536", "10.0.0.5:x", "fd00::5:6379", "[10.0.0.5]:1",
     "*.example:1", "a b:1", "10.0.0.5/8:1", "10.0.0.5:\u0661", 5, None, "/x\0y"],
)  # fmt: skip
def test_what_is_no_destination(tmp_path, place):
    """A faulty destination is refused with the file's name and the secret's (F42)."""
    with pytest.raises(ValueError):
        read_destination(place)
    if isinstance(place, str) and "\0" not in place:
        with pytest.raises(SecretsError, match=r"secrets\.toml: redis\.to "):
            bound(tmp_path, place)


def test_most_destinations_of_one_secret(tmp_path):
    """The number and size of destinations are limited, so that all secrets of a run fit into one message to the
    broker.
    """
    most = [f"10.0.0.{number}:1" for number in range(MAX_DESTINATIONS)]
    assert bound(tmp_path, *most).resolve("c", b'{"a": {"secret": "redis"}}').bound == (tuple(most),)
    with pytest.raises(SecretsError, match="is a list of at most 16 places"):
        bound(tmp_path, *most, "10.0.1.0:1")
    with pytest.raises(SecretsError, match="1024 bytes"):
        bound(tmp_path, *(f"/{'x' * 100}{number}" for number in range(MAX_DESTINATIONS)))
    with pytest.raises(SecretsError, match="is a list of"):
        known(tmp_path, f'[redis]\nvalue = "{PASSWORD}"\nto = "10.0.0.1:1"\n')
    widest = json.dumps([["é" * (MAX_VALUE // 2)] * MAX_OF_RUN, [["x" * (MAX_TO - 4)]] * MAX_OF_RUN])
    assert len(widest) + 4096 < CONTROL_LIMIT


def test_a_credential_gets_its_destinations_from_the_file(tmp_path):
    """A table without a value gives destinations to the credential of that name (F42)."""
    (tmp_path / "creds").mkdir()
    (tmp_path / "creds" / "redis").write_text(PASSWORD)
    found = known(tmp_path, '[redis]\nto = ["10.0.0.5:6379"]\n', {"CREDENTIALS_DIRECTORY": str(tmp_path / "creds")})
    resolved = found.resolve("c", b'{"a": {"secret": "redis"}}')
    assert (resolved.values, resolved.bound, found.unbound) == ((PASSWORD,), (("10.0.0.5:6379",),), [])
    with pytest.raises(SecretsError, match="must be a text in quotes"):
        known(tmp_path, '[redis]\nto = ["10.0.0.5:6379"]\n')
