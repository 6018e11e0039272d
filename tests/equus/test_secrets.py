"""Secrets by reference: who may write them down, who gets them, and every place where their values must not show."""

import json
import os
from pathlib import Path

import pytest

from equus import logs, secrets
from equus.main import main
from equus.redaction import CUT_FROM, LEAST, MASK, Redaction
from equus.sandbox.blocking import Sandbox
from equus.sandbox.job import Job
from equus.secret_runner import SecretRunner
from equus.secrets import MAX_OF_RUN, MAX_VALUE, Resolved, Secrets, SecretsError
from equus.tap import Refusal, run

VALUE = 'pa"ss wörd/1'
GOOD = 'redis = \'pa"ss wörd/1\'\n[db]\nvalue = "tiger-tiger"\nchecks = ["postgres"]\n'


@pytest.fixture(autouse=True)
def no_default(tmp_path, monkeypatch):
    """The file of this machine, if it has one, is not ours."""
    monkeypatch.setattr(secrets, "DEFAULT_PATH", tmp_path / "none.toml")


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
    """At the top and in lists; everything else stays as it is, to the byte where there is no reference."""
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
        ("redis", [{"secret": "redis"}] * (MAX_OF_RUN + 1), f"{MAX_OF_RUN} are the most"),
    ],
)
def test_a_reference_that_leads_nowhere(tmp_path, check, reference, why):
    """Named, with what to do; no value in the sentence."""
    sentence = known(tmp_path).resolve(check, json.dumps({"p": reference}).encode())
    assert why in sentence and VALUE not in sentence and "tiger" not in sentence
    assert isinstance(known(tmp_path).resolve("postgres", b'{"p": {"secret": "db"}}'), Resolved)


def test_credentials_of_systemd(tmp_path):
    """Files by name, a line end taken off; the file of secrets wins; what can't be one is told when asked for."""
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


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o622])
def test_a_file_that_others_can_read_or_write(tmp_path, mode):
    """Refused with the chmod."""
    with pytest.raises(SecretsError, match="chmod"):
        Secrets(written(tmp_path, mode=mode), {}).read()


def test_a_folder_that_others_can_write(tmp_path):
    """Whoever can put another file there decides what is sent to which server."""
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
        ('"a b" = "good-one"', "is no name of a secret"),
        ('[redis]\nvalue = "good-one"\nextra = 1', "no field 'extra'"),
        ('[redis]\nvalue = "good-one"\nchecks = "x"', "is a list of names"),
        ('redis = "unfinished-secret', "is no TOML"),
        ("x" * 65_537, "is larger than"),
    ],
)
def test_a_file_that_is_none(tmp_path, text, why):
    """A sentence with the file and the name, never with the value; what was known before stays."""
    found = known(tmp_path)
    written(tmp_path, text)
    with pytest.raises(SecretsError, match=why) as refused:
        found.read()
    assert "unfinished-secret" not in str(refused.value) and "good-one" not in str(refused.value)
    assert found.resolve("c", b'{"a": {"secret": "redis"}}').values == (VALUE,)


def test_limits_on_the_good_side(tmp_path):
    """As short and as long as can be."""
    found = known(tmp_path, f'a = "{"x" * LEAST}"\nb = "{"y" * MAX_VALUE}"\n')
    assert found.resolve("c", b'{"a": {"secret": "a"}, "b": {"secret": "b"}}').values == ("x" * LEAST, "y" * MAX_VALUE)
    assert len(found.resolve("c", json.dumps({"p": [{"secret": "b"}] * MAX_OF_RUN}).encode()).values) == MAX_OF_RUN


def test_no_file_at_all():
    """Nothing is known, and the sentence says where to put it."""
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
    """As JSON, Python and URLs write it."""
    assert "ss" not in Redaction([VALUE]).text(text) and MASK in Redaction([VALUE]).text(text)


def test_a_text_that_was_cut_within_a_secret():
    """What is left of it at the end goes too, where a text is long enough to have been cut."""
    hide = Redaction(["hunter2-hunter2"])
    assert hide.text("x" * CUT_FROM + "hunter2-") == "x" * CUT_FROM + MASK
    assert hide.text("x" * CUT_FROM + "hun") == "x" * CUT_FROM + "hun"
    assert hide.text("see hunter") == "see hunter"


def test_plain_data_is_hidden_all_through():
    """Names of labels too; numbers and the rest stay; a document does not grow."""
    document = {"summary": VALUE, "metrics": [{"name": "m", "value": 1.5, "labels": {VALUE: f"at {VALUE}"}}], "x": None}
    blob = json.dumps(document).encode()
    found = Redaction([VALUE]).document(blob)
    metric = {"name": "m", "value": 1.5, "labels": {MASK: f"at {MASK}"}}
    assert json.loads(found) == {"summary": MASK, "metrics": [metric], "x": None}
    assert len(found) <= len(blob)
    assert Redaction(()).document(b"not even JSON") == b"not even JSON"


def test_the_log_of_the_agent(tmp_path):
    """Whatever is logged, tracebacks too."""
    lines = []
    observer = logs.Lines(lines.append, False, logs.LogLevel.info, known(tmp_path).hide)
    observer({"log_level": logs.LogLevel.info, "log_namespace": "equus", "log_format": "it said {x}", "x": VALUE})
    assert lines and MASK in lines[0] and "ss w" not in lines[0]


# ---------------------------------------------------------------------------------------------------- in the sandbox

LEAKS = """return { summary = "leaks", needs = { "log", "file", "plugin", "state" },
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
  if args.way == "long" then return "ok", string.rep("z", 65536 - 8) .. p end
  return "ok", "said " .. p
end }
"""
POLICY = """[caps.file]
paths = ["/nowhere"]
[plugins.echo]
command = ["/bin/echo", "{text}"]
slots.text = { type = "word" }
"""
PASSWORD = "hunter2-hunter2"


@pytest.fixture(scope="module")
def leaking(tmp_path_factory):
    """A real sandbox, its log, and its state."""
    folder = tmp_path_factory.mktemp("leaking")
    (folder / "policy.toml").write_text(POLICY)
    (folder / "state").mkdir()
    logged = []
    with Sandbox(folder / "policy.toml", folder / "state", log=lambda check, text: logged.append(text)) as sandbox:
        yield sandbox, folder, logged


@pytest.mark.parametrize("way", ["error", "status", "denied", "plugin", "inner", "long", "fine"])
def test_no_way_out_of_a_real_sandbox(leaking, tmp_path, way):
    """Summary, output, metrics, errors, and the audit of what was denied; a program is never given a secret."""
    sandbox, folder, _ = leaking
    found = known(tmp_path, f'redis = "{PASSWORD}"\n')
    runner = SecretRunner(sandbox.loop, sandbox.runner, found)
    results = []
    job = Job(
        "leaks", LEAKS.encode(), args=json.dumps({"password": {"secret": "redis"}, "way": way}).encode(), pushed=False
    )
    runner.run(job, results.append)
    sandbox.loop.until(lambda: results, 20)
    assert b"hunter2" not in results[0]
    document = json.loads(results[0])
    assert MASK in document["output"] and document["check"] == "leaks"
    if way in ("plugin", "inner"):
        assert "a secret is never an argument of a program" in document["summary"]
    if way == "long":
        assert document["truncated"]["summary"] == 65_536 - 8 + len(PASSWORD)
    audit = folder / "state" / "audit.log"
    assert not audit.exists() or "hunter2" not in audit.read_text()
    if way in ("denied", "plugin"):
        assert MASK in audit.read_text().splitlines()[-1]


def test_an_unknown_secret_is_a_result(leaking, tmp_path):
    """`bad-arguments`, once, not before `run` has returned; nothing is run."""
    sandbox, _, _ = leaking
    results = []
    runner = SecretRunner(sandbox.loop, sandbox.runner, known(tmp_path))
    job = Job("leaks", LEAKS.encode(), args=b'{"password": {"secret": "nope"}, "way": "fine"}')
    runner.run(job, results.append).cancel()
    assert results == []
    sandbox.loop.until(lambda: results, 5)
    [document] = map(json.loads, results)
    assert (document["status"], document["reason"]) == ("unknown", "bad-arguments")
    assert "no secret 'nope'" in document["summary"]


def test_a_result_that_cannot_be_read_is_not_let_through():
    """A worker in hostile hands may write what our reader can't, and still one result there is."""

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
    """The same by hand; a secret that isn't there is UNKNOWN with its name."""
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
    """Before anything is dialled, and with the sentence."""

    class Settings:
        secrets = written(tmp_path, mode=0o644)
        log_level = "info"

    with pytest.raises(Refusal, match="chmod 600"):
        run(Settings(), None, None)


def test_no_process_shows_it(leaking, tmp_path):
    """`ps`: neither in the arguments nor in the environment of anything that we started."""
    sandbox, _, _ = leaking
    for pid in {os.getpid(), sandbox.processes.zygote.pid, sandbox.processes.broker.pid}:
        for name in ("cmdline", "environ"):
            assert PASSWORD.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
