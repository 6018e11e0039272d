"""Test flags, environment, file and defaults: which one counts, and the sentence for each mistake."""

from pathlib import Path

import pytest

from equus.settings import MAX_LABELS, MAX_SERVERS, Server, SettingsError, gather, parse_server

HOME = Path("/home/somebody")


def gathered(flags=None, environment=None, root=False):
    return gather({"server": ["h:1"], **(flags or {})}, environment or {}, HOME, root)


@pytest.mark.parametrize(
    ("text", "server", "address"),
    [
        ("helen.example", Server("helen.example", 4166, "helen.example"), "helen.example:4166"),
        ("10.0.0.1:99", Server("10.0.0.1", 99, "10.0.0.1"), "10.0.0.1:99"),
        ("[2001:db8::1]:4166", Server("2001:db8::1", 4166, "2001:db8::1"), "[2001:db8::1]:4166"),
        ("[::1]", Server("::1", 4166, "::1"), "[::1]:4166"),
    ],
)
def test_a_server_is_a_host_and_a_port(text, server, address):
    """A server is a host and a port, which is Helen's own where none is given."""
    assert (parse_server(text), parse_server(text).address) == (server, address)


@pytest.mark.parametrize(
    "text", ["", ":1", "h:", "h:0", "h:65536", "h:1:2", "https://h", "a b", "2001:db8::1", "u@h:1", "x" * 64, "a..b"]
)
def test_what_is_no_server_is_told(text):
    """A text that is no server is refused with the flag's name."""
    with pytest.raises(SettingsError, match="--server"):
        parse_server(text)


def test_flags_win_over_environment_over_file_over_defaults(tmp_path):
    """A flag counts before the environment, that before the file, and that before the default."""
    config = tmp_path / "equus.toml"
    config.write_text('server = ["file:1"]\nname = "file"\nstate = "/from/file"\nlog-level = "debug"\n')
    environment = {"EQUUS_CONFIG": str(config), "EQUUS_SERVER": "env:1", "EQUUS_NAME": "env"}
    settings = gather({"server": ["flag:1"]}, environment, HOME, root=False)
    assert [server.host for server in settings.servers] == ["flag"]
    assert (settings.name, str(settings.state), settings.log_level) == ("env", "/from/file", "debug")
    assert (settings.once, settings.insecure_plaintext, settings.labels) == (False, False, {})


def test_lists_come_from_everywhere(tmp_path):
    """Lists are separated by commas or spaces in the environment, and labels are a table in the file."""
    settings = gather({}, {"EQUUS_SERVER": "a:1, b:2", "EQUUS_LABEL": "role=web,env=prod"}, HOME, False)
    assert [server.address for server in settings.servers] == ["a:1", "b:2"]
    assert settings.labels == {"role": "web", "env": "prod"}
    config = tmp_path / "equus.toml"
    config.write_text('server = "c:3"\n[label]\nrole = "db"\n')
    settings = gather({"config": str(config)}, {}, HOME, False)
    assert (settings.servers[0].address, settings.labels) == ("c:3", {"role": "db"})


@pytest.mark.parametrize(
    ("flags", "environment", "own"),
    [
        ({}, {}, []),
        ({"secrets": "/srv/s.toml"}, {"EQUUS_KEY": "/srv/k", "EQUUS_CERTIFICATE": "/c", "EQUUS_CA": "/ca"},
         ["/srv/k", "/srv/s.toml"]),
        ({"config": "CONFIG", "join-file": "TOKEN"}, {"CREDENTIALS_DIRECTORY": "/run/credentials/equus.service"},
         ["TOKEN", "CONFIG", "/run/credentials/equus.service"]),
        ({}, {"EQUUS_CONFIG": "CONFIG", "EQUUS_JOIN_FILE": "TOKEN"}, ["TOKEN", "CONFIG"]),
    ],
)  # fmt: skip
def test_files_with_keys_and_passwords_are_the_agents_own(tmp_path, flags, environment, own):
    """Files with keys and passwords are the agent's own, wherever they are, so that no check reads them."""
    (tmp_path / "CONFIG").write_text("")
    (tmp_path / "TOKEN").write_text("t")
    at = {name: str(tmp_path / name) for name in ("CONFIG", "TOKEN")}
    sources = [{name: at.get(value, value) for name, value in given.items()} for given in (flags, environment)]
    settings = gathered(*sources)
    assert [str(path) for path in settings.own_files] == [at.get(path, path) for path in own]


@pytest.mark.parametrize(
    ("environment", "root", "state"),
    [
        ({}, True, "/var/lib/equus"),
        ({}, False, "/home/somebody/.local/state/equus"),
        ({"XDG_STATE_HOME": "/xdg"}, False, "/xdg/equus"),
        ({"EQUUS_STATE": "/mine"}, True, "/mine"),
    ],
)
def test_a_state_folder_need_not_be_named(environment, root, state):
    """The state folder has a default, so that the command line that `helen token` prints works as it is."""
    assert str(gathered(environment=environment, root=root).state) == state


def test_a_token_may_come_from_a_file(tmp_path):
    """A token can come from a file, so that it is in no list of processes, and is never in a repr."""
    (tmp_path / "token").write_text("abc.secret\n")
    settings = gathered(environment={"EQUUS_JOIN_FILE": str(tmp_path / "token")})
    assert settings.join == "abc.secret"
    assert "abc.secret" not in repr(settings)


@pytest.mark.parametrize(
    ("flags", "environment", "sentence"),
    [
        ({"server": []}, {}, "Say where Helen listens"),
        ({"server": ["h:1"] * (MAX_SERVERS + 1)}, {}, "are allowed"),
        ({"join": "t", "certificate": "c", "key": "k", "ca": "a"}, {}, "give one of the two"),
        ({"certificate": "c"}, {}, "--key and --ca too"),
        ({"key": "k", "ca": "a"}, {}, "--certificate too"),
        ({"insecure-plaintext": True, "join": "t"}, {}, "no certificates"),
        ({"log-level": "loud"}, {}, "say one of debug"),
        ({"checks": "/nowhere/at/all"}, {}, "no such folder"),
        ({"name": "Web 1"}, {}, "a name is"),
        ({"name": "a..b"}, {}, "a name is"),
        ({"label": ["role"]}, {}, "say KEY=VALUE"),
        ({"label": ["1=2"]}, {}, "say KEY=VALUE"),
        ({"label": ["role=a\nb"]}, {}, "printable"),
        ({"label": [f"k{n}=v" for n in range(MAX_LABELS + 1)]}, {}, "are allowed"),
        ({}, {"EQUUS_ONCE": "maybe"}, "say 1 or 0"),
        ({}, {"EQUUS_JOIN_FILE": "/nowhere"}, "cannot read /nowhere"),
        ({"config": "/nowhere"}, {}, "cannot read /nowhere"),
    ],
)
def test_each_mistake_has_a_sentence(flags, environment, sentence):
    """Each mistake in the flags or the environment has a sentence."""
    with pytest.raises(SettingsError, match=sentence):
        gathered(flags, environment)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("server = [", "not TOML"),
        ("sever = 'h:1'", "unknown key 'sever'"),
        ("once = 'yes'", "once must be true or false"),
        ("server = [1]", "server must be a list of strings"),
        ("label = 'a=b'", "label must be a list of strings or a table"),
        ("state = 1", "state must be a string"),
    ],
)
def test_each_mistake_in_the_file_has_a_sentence(tmp_path, text, sentence):
    """Each mistake in the file has a sentence with its key."""
    config = tmp_path / "equus.toml"
    config.write_text(text)
    with pytest.raises(SettingsError, match=sentence):
        gathered({"config": str(config)})
