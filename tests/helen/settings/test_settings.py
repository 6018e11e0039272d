"""Tests that flags win over the environment, the environment over the file, and the file over defaults."""

from pathlib import Path

import pytest

from helen.rollout.rings import read_rings
from helen.settings.settings import Settings, SettingsError, gather, read

FLAGS = {"state": "/flag", "listen": "1.1.1.1:1", "name": ["flag"], "rings": "5%"}
ENVIRONMENT = {
    "HELEN_STATE": "/env", "HELEN_LISTEN": "2.2.2.2:2", "HELEN_NAME": "one, two,", "HELEN_RINGS": "1",
    "HELEN_RETENTION": "1d", "HELEN_WEB": "",
}  # fmt: skip
FILE = 'state = "/file"\nlisten = "3.3.3.3:3"\nname = "file"\nretention = "2d"\nminimum_equus = "1.2"\nweb = "off"\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "helen.toml"
    path.write_text(FILE)
    return path


def test_defaults() -> None:
    """Only the state directory must be given; all else has a default."""
    assert read({"state": "/s"}) == Settings(Path("/s"), ("*", 4166), ("127.0.0.1", 4167))


def test_the_file_over_defaults(config: Path) -> None:
    """Keys are the names of the flags, with - or _."""
    expected = Settings(Path("/file"), ("3.3.3.3", 3), None, names=("file",), minimum_equus=(1, 2), retention=172_800.0)
    assert read(gather({}, {}, config)) == expected


def test_the_environment_over_the_file(config: Path) -> None:
    """Each setting has its variable, and an empty one is none."""
    found = read(gather({}, ENVIRONMENT, config))
    assert found == Settings(
        Path("/env"),
        ("2.2.2.2", 2),
        None,
        names=("one", "two"),
        minimum_equus=(1, 2),
        retention=86_400.0,
        rings=read_rings("1%,10%,100%"),
    )


def test_flags_over_all(config: Path) -> None:
    """A setting that isn't given as a flag comes from elsewhere."""
    found = read(gather({**FLAGS, "web": None, "insecure-plaintext": False}, ENVIRONMENT, config))
    assert found == Settings(
        Path("/flag"),
        ("1.1.1.1", 1),
        None,
        names=("flag",),
        minimum_equus=(1, 2),
        retention=86_400.0,
        rings=read_rings("5%,100%"),
    )


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({}, "--state DIR is missing"),
        ({"state": "/s", "listen": "4166"}, "--listen '4166': write HOST:PORT"),
        ({"state": "/s", "listen": "h:65536"}, "write HOST:PORT"),
        ({"state": "/s", "listen": ":1"}, "write HOST:PORT"),
        ({"state": "/s", "web": "on"}, "--web 'on': write HOST:PORT"),
        ({"state": "/s", "minimum-equus": "1.x"}, "--minimum-equus '1.x': write a version"),
        ({"state": "/s", "transport": "fast"}, "--transport 'fast': write hub or stock"),
        ({"state": "/s", "retention": "week"}, "--retention: 'week' is not a duration"),
    ],
)
def test_bad_values(found: dict[str, object], sentence: str) -> None:
    """Each is one sentence that names the setting."""
    with pytest.raises(SettingsError, match=sentence):
        read(found)


def test_an_address_of_ipv6() -> None:
    """An address of IPv6 stands in brackets."""
    assert read({"state": "/s", "listen": "[::1]:0"}).listen == ("::1", 0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("stat = 1", "'stat' is no setting. There are: state, listen"),
        ("state = 5", "state is 5: write a text in quotes"),
        ("rings = 5", 'rings is 5: write rings such as "1%,10%,100%", or true or false'),
        ("transport = true", "transport is True: write a text in quotes"),
        ('insecure_plaintext = "no"', "insecure-plaintext is 'no': write true or false"),
        ("name = [1]", "name is \\[1\\]: write a text, or a list of them"),
        ("retention = true", "retention is True: write a duration"),
        ("state = ", "is no TOML"),
    ],
)
def test_a_bad_file(tmp_path: Path, text: str, sentence: str) -> None:
    """A bad file is refused with where, what, and what is expected."""
    path = tmp_path / "helen.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=sentence):
        gather({}, {}, path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A file whose name was given must be there."""
    with pytest.raises(SettingsError, match="can't be read: No such file"):
        gather({}, {}, tmp_path / "none")


def test_a_switch_of_the_environment() -> None:
    """A switch is 1 or 0 or a clear word, and nothing that could mean either."""
    assert gather({}, {"HELEN_INSECURE_PLAINTEXT": "no"}, None) == {"insecure-plaintext": False}
    with pytest.raises(SettingsError, match="HELEN_INSECURE_PLAINTEXT is 'maybe': write 1 or 0"):
        gather({}, {"HELEN_INSECURE_PLAINTEXT": "maybe"}, None)


@pytest.mark.parametrize(
    ("said", "rings"), [("role=canary", "role=canary,100%"), ("1", "1%,10%,100%"), (True, "1%,10%,100%")]
)
def test_rings(said: object, rings: str) -> None:
    """Rings are given as `helen push` takes them, or as a switch for the usual ones."""
    assert read({"state": "/s", "rings": said}).rings == read_rings(rings)


def test_no_rings() -> None:
    """The word `off` counts for pushes, too; without it pushes have the usual rings and the folder has none."""
    assert [read({"state": "/s", "rings": said}).rings for said in ("off", "0", False)] == [(), (), ()]
    assert read({"state": "/s"}).rings is None
    with pytest.raises(SettingsError, match="--rings: 'some' is no share of the agents"):
        read({"state": "/s", "rings": "some"})
