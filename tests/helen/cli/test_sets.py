"""Tests `helen checks add`, `list`, `outdated`, `remove` and `sign` as a person types them, with a Helen and an
agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from check_sets import ANN, EVE, a_set, signed, unsigned, write_tar
from click.testing import CliRunner, Result
from helen_running import Running, a_fleet_of_one, pulse, wait_until

from equus_protocol.manifest import key_id
from helen.cli.main import main
from helen.cli.sets import commands
from helen.keys.signing_keys import make_private
from helen.sets.check_set import read_set
from helen.sets.tar_reader import read_tar

ANNS, EVES = key_id(ANN.public_key()), key_id(EVE.public_key())
PULSE_TESTS = 'return { { name = "says it", expect = { status = "ok", summary = "hello" } } }\n'
PULSE = {
    "acme_pulse.lua": pulse().encode(),
    "tests/acme_pulse.lua": PULSE_TESTS.encode(),
}


def helen(*words: str | Path, status: int = 0, typed: str | None = None, state: Path | None = None) -> Result:
    runner = CliRunner(env={"HELEN_STATE": None if state is None else str(state), "HELEN_URL": None})
    result = runner.invoke(main, [*map(str, words)], input=typed, prog_name="helen")
    assert result.exit_code == status, (result.output, result.exception)
    return result


@pytest.fixture
def tar(tmp_path: Path) -> Path:
    return write_tar(tmp_path / "shop.tar", signed())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "mine"


def test_all_is_shown_before_anything_is_written(tar: Path, folder: Path) -> None:
    """`checks add` shows needs, policy, tests, files and signer before it writes, and writes nothing without a yes."""
    shown = helen("checks", "add", tar, "--folder", folder, status=1).output
    for words in (
        "acme-shop 1.0: Checks of the shop\n",
        f"  from {tar}, hash {a_set().digest}\n",
        f"  signed by {ANNS}, a key that is new here; it says that it is of Ann <ann@example.org>\n",
        "  for the API of checks from 1.0, below 2.0; 2 tests pass\n",
        "  shop_orders  if assigned  tcp    Orders that wait\n",
        '    [caps.tcp]\n    networks = ["10.0.0.0/8"]\n',
        "+ lib/acme_shop.lua",
        "nothing was written: there is no terminal to ask at. Give --yes, or --dry-run",
    ):
        assert words in shown
    assert not folder.exists()


def test_what_hosts_do_not_grant_is_named(tmp_path: Path, folder: Path) -> None:
    """`checks add` names capabilities that hosts do not grant, and a check that all agents would run."""
    code = unsigned()["shop_orders.lua"].replace(b'needs = { "tcp" }', b'needs = { "tcp", "program" }, every = "5m"')
    use = b'  host.program { name = "x" }\n'
    files = unsigned() | {"shop_orders.lua": code.replace(b"  if not answer", use + b"  if not answer")}
    files["tests/shop_orders.lua"] = files["tests/shop_orders.lua"].replace(
        b"host = { tcp", b'host = { program = { value = { text = "" } }, tcp'
    )
    shown = helen("checks", "add", write_tar(tmp_path / "s.tar", signed(files)), "--folder", folder, "--dry-run")
    assert "hosts do not grant by default: program\n" in shown.output
    assert "  shop_orders  5 min, all agents  tcp, program" in shown.output


def test_from_the_first_to_the_last(tar: Path, folder: Path) -> None:
    """A set is added, listed, reported when changed by hand, updated and removed again."""
    added = helen("checks", "add", tar, "--folder", folder, "--yes").output
    assert f"publish it  helen push {folder}/lib/acme_shop.lua {folder}/shop_orders.lua\n" in added
    assert "`helen push --key FILE` is for a key that lies elsewhere" in added
    assert helen("checks", "add", tar, "--folder", folder).output == "acme-shop 1.0 is there already, as it is pinned\n"
    listed = json.loads(helen("checks", "list", "--folder", folder, "--output", "json").output)
    assert listed["sets"] == [
        {"name": "acme-shop", "version": "1.0", "digest": a_set().digest, "key": ANNS, "source": str(tar), "faults": []}
    ]
    (folder / "shop_orders.lua").write_text("return {}\n")
    assert "shop_orders.lua was changed" in helen("checks", "list", "--folder", folder, status=1).output
    pushed = helen("push", folder / "shop_orders.lua", "--url", "http://127.0.0.1:9", "--token", "x", status=1).output
    assert "shop_orders.lua was changed since the set acme-shop was added" in pushed
    kept = helen("checks", "remove", "acme-shop", "--folder", folder, "--offline", "--yes", status=1).output
    assert "shop_orders.lua was changed since it was added: keep yours under another name first" in kept
    (folder / "shop_orders.lua").unlink()
    helen("checks", "add", tar, "--folder", folder, "--yes")
    write_tar(tar, signed(unsigned("1.1", warn=7)))
    newer = helen("checks", "outdated", "--folder", folder, status=1).output
    assert newer.splitlines()[1].split() == ["acme-shop", "1.0", "1.1", "`helen", "checks", "add", f"{tar}`"]
    updated = helen("checks", "add", tar, "--folder", folder, "--yes").output
    assert "acme-shop 1.1 (now 1.0)" in updated and "~ shop_orders.lua" in updated and ", as before;" in updated
    assert "current" in helen("checks", "outdated", "--folder", folder).output
    shown = helen("checks", "remove", "acme-shop", "--folder", folder, "--offline", "--dry-run").output
    assert shown == "- lib/acme_shop.lua\n- shop_orders.lua\n- tests/shop_orders.lua\nnothing was written\n"
    gone = helen("checks", "remove", "acme-shop", "--folder", folder, "--offline", "--yes").output
    assert "helen push --remove lib/acme_shop.lua --remove shop_orders.lua\n" in gone
    assert sorted(path.name for path in folder.rglob("*.lua")) == []
    assert "there is none" in helen("checks", "remove", "acme-shop", "--folder", folder, "--offline", status=3).output


def test_tests_that_fail(tmp_path: Path, folder: Path) -> None:
    """A set whose tests fail or whose code has an error is refused with the first fault."""
    tests = unsigned()["tests/shop_orders.lua"].replace(b"orders = 7", b"orders = 8")
    bad = unsigned() | {"tests/shop_orders.lua": tests}
    said = helen("checks", "add", write_tar(tmp_path / "bad.tar", signed(bad)), "--folder", folder, "--yes", status=1)
    assert "acme-shop 1.0 does not pass: shop_orders.lua:1: test 'few' (tests/shop_orders.lua:2) fails" in said.output
    bad = unsigned() | {"lib/acme_shop.lua": b'os.execute("x")\nreturn {}\n'}
    said = helen("checks", "add", write_tar(tmp_path / "bad.tar", signed(bad)), "--folder", folder, "--yes", status=1)
    assert "acme-shop 1.0 does not pass: lib/acme_shop.lua:1: " in said.output
    assert not folder.exists()


def test_texts_of_others_are_made_safe(tmp_path: Path, folder: Path) -> None:
    """Texts of a set's author are escaped, so that they draw nothing on the operator's terminal."""
    evil = signed(unsigned(summary='"\\u001b[2Jall is well"', policy='"# \\u202e[31m"', author='"\\u202eAnn"'))
    shown = helen("checks", "add", write_tar(tmp_path / "evil.tar", evil), "--folder", folder, "--dry-run").output
    assert "\x1b" not in shown and "\u202e" not in shown
    assert "all is well" in shown and "nothing was written\n" in shown
    assert not folder.exists()


def test_another_key(tar: Path, folder: Path) -> None:
    """A version signed by another key is refused until --author gives that key's id."""
    helen("checks", "add", tar, "--folder", folder, "--yes", "--author", ANNS)
    write_tar(tar, signed(unsigned("1.1"), EVE))
    said = helen("checks", "add", tar, "--folder", folder, "--yes", status=1).output
    assert f"acme-shop 1.1 is signed by the key {EVES}, and 1.0 was by {ANNS}: ask its author" in said
    assert f"signed by another key, {EVES}" in helen("checks", "outdated", "--folder", folder, status=1).output
    helen("checks", "add", tar, "--folder", folder, "--yes", "--author", EVES)


def test_a_library_that_others_need(tar: Path, folder: Path) -> None:
    """A set is not removed while a check requires its library or an assignment of a declared folder runs its check."""
    helen("checks", "add", tar, "--folder", folder, "--yes")
    (folder / "own.lua").write_text('local shop = require "acme_shop"\nreturn shop\n')
    words = ("checks", "remove", "acme-shop", "--folder", folder, "--offline", "--yes")
    assert "own.lua requires a library of acme-shop: change or remove that first" in helen(*words, status=1).output
    (folder / "own.lua").unlink()
    declared = folder.parent / "assignments.toml"
    declared.write_text('[[assign]]\ncheck = "shop_orders"\nagents = ["web-*"]\n')
    assert f"shop_orders is run on web-* (entry 1 in {declared})" in helen(*words, status=1).output
    declared.write_text("[[assign]\n")
    assert f"the assignments in {declared} can't be read" in helen(*words, status=1).output
    declared.unlink()
    helen(*words)


@pytest.mark.parametrize(
    ("place", "text", "said"),
    [
        ("mine/shop_orders.lua", "-- mine\n", "shop_orders.lua was changed since it was added: keep yours"),
        ("mine/own.lua", 'return require "acme_shop"\n', "own.lua requires a library of acme-shop"),
        ("assignments.toml", '[[assign]]\ncheck = "shop_orders"\nagents = ["*"]\n', "shop_orders is run on *"),
    ],
)
def test_work_while_it_asks(
    tar: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, place: str, text: str, said: str
) -> None:
    """A removal is judged again after the answer to its question, and refused if files or assignments have changed
    meanwhile."""
    helen("checks", "add", tar, "--folder", folder, "--yes")
    before = {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}

    def work(question: str, yes: bool) -> None:
        assert (question, yes) == ("Remove acme-shop 1.0?", False)
        (folder.parent / place).write_text(text)

    monkeypatch.setattr(commands, "confirm", work)
    assert said in helen("checks", "remove", "acme-shop", "--folder", folder, "--offline", status=1).output
    assert (folder.parent / place).read_text() == text
    assert all(path.read_bytes() == content for path, content in before.items() if path != folder.parent / place)


def test_an_author_signs(tmp_path: Path) -> None:
    """`checks sign` writes an archive that is a set, and refuses failing tests or a key that others can read."""
    written, key, out = tmp_path / "shop", tmp_path / "author.key", tmp_path / "shop.tar"
    for name, content in unsigned().items():
        (written / name).parent.mkdir(parents=True, exist_ok=True)
        (written / name).write_bytes(content)
    mine = key_id(make_private(key).public_key())
    said = helen("checks", "sign", written, "--key", key, "--out", out).output
    assert said == f"acme-shop 1.0: 2 tests pass; signed by {mine}\n"
    assert read_set(read_tar(out.read_bytes())).key_id == mine
    before = (written / "set.toml").read_bytes()
    (written / "tests" / "shop_orders.lua").write_text("return {}\n")
    assert "does not pass" in helen("checks", "sign", written, "--key", key, status=1).output
    assert (written / "set.toml").read_bytes() == before
    key.chmod(0o644)
    assert "chmod" in helen("checks", "sign", written, "--key", key, status=1).output


# ---------------------------------------------------------------------------------------------- with a Helen


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with a_fleet_of_one(tmp_path_factory.mktemp("sets")) as running:
        yield running


def _published(fleet: Running) -> set[str]:
    return {each["name"] for each in fleet.client.get("/api/v1/checks")["checks"]}


@pytest.mark.integration
def test_from_an_archive_to_a_result(fleet: Running, tmp_path: Path) -> None:
    """A pushed check of a set runs on the agent, is not removed while assigned, and is gone after the push that
    removes it."""
    files = {"set.toml": unsigned(name='"acme-pulse"', policy="")["set.toml"], **PULSE}
    tar, folder = write_tar(tmp_path / "pulse.tar", signed(files)), tmp_path / "mine"
    helen("checks", "add", tar, "--folder", folder, "--yes")
    helen("push", folder / "acme_pulse.lua", "--rings", "off", "--detach", state=fleet.state)

    def has_run() -> bool:
        results = fleet.client.get("/api/v1/results")["results"]
        return any(each["check_id"] == "acme_pulse" for each in results)

    wait_until(has_run, "result of acme_pulse")
    assert "acme_pulse" in helen("checks", state=fleet.state).output
    helen("assign", "acme_pulse", "--on", "web-1", "--every", "1s", state=fleet.state)
    remove = ("checks", "remove", "acme-pulse", "--folder", folder, "--yes")
    said = helen(*remove, state=fleet.state, status=1).output
    assert "acme-pulse is in use: acme_pulse is run on web-1 (entry 1 at Helen). Take these away first" in said
    helen("assign", "acme_pulse", "--remove", state=fleet.state)
    assert "helen push --remove acme_pulse.lua" in helen(*remove, state=fleet.state).output
    helen("push", "--remove", "acme_pulse.lua", "--rings", "off", "--detach", "--replace", state=fleet.state)
    wait_until(lambda: "acme_pulse" not in _published(fleet), "set without acme_pulse")


@pytest.mark.integration
def test_helen_must_be_asked(fleet: Running, tmp_path: Path) -> None:
    """Nothing is removed without an answer of Helen; --state of the command group counts as well."""
    files = {"set.toml": unsigned(name='"acme-pulse"', policy="")["set.toml"], **PULSE}
    folder = tmp_path / "mine"
    helen("checks", "add", write_tar(tmp_path / "pulse.tar", signed(files)), "--folder", folder, "--yes")
    away = ("checks", "remove", "acme-pulse", "--folder", folder, "--yes", "--url", "http://127.0.0.1:9")
    helen(*away, "--token", "x", status=1)
    assert (folder / "acme_pulse.lua").exists()
    helen("checks", "--state", fleet.state, "remove", "acme-pulse", "--folder", folder, "--yes")
    assert not (folder / "acme_pulse.lua").exists()
