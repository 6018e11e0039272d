"""Tests a set in a folder of checks: what it may not replace, how it is pinned, and what a fault leaves."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from check_sets import ANN, EVE, TESTS, a_set, unsigned

from equus_protocol.manifest import key_id
from groundwork.atomic_write import write_durably
from groundwork.file_lock import FileLock
from helen.cli.base.declared_files import read as read_declared
from helen.cli.base.failures import Failed
from helen.cli.base.pinned import judge_pinned
from helen.cli.base.pushed_files import read_files
from helen.library import check_folder
from helen.sets.check_set import CheckSet, read_set, sign_set
from helen.sets.installing import LOCK, install, locked, uninstall
from helen.sets.pins import COMING, PINS, Pins, hash_of, read_pins
from helen.sets.plan import Agreed, change_of
from helen.sets.refused import SetRefused

EVES = key_id(EVE.public_key())


def put(folder: Path, found: CheckSet, **agreed: Any) -> None:
    pins = read_pins(folder)
    install(found, change_of(found, pins, Agreed(**agreed)), pins, "/srv/shop.tar")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with version 1.0 of a set, and a check of the operator's own."""
    (tmp_path / "own.lua").write_text("return {}\n")
    put(tmp_path, a_set())
    return tmp_path


def everything(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_first_time(tmp_path: Path) -> None:
    found = a_set()
    change = change_of(found, read_pins(tmp_path), Agreed())
    assert (change.new, change.changed, change.gone) == (
        ("lib/acme_shop.lua", "shop_orders.lua", "tests/shop_orders.lua"), (), ())  # fmt: skip
    put(tmp_path, found)
    assert everything(tmp_path).keys() == {*found.files, PINS}
    pin = read_pins(tmp_path).sets["acme-shop"]
    assert (pin.version, pin.digest, pin.key, pin.source) == ("1.0", found.digest, found.key, "/srv/shop.tar")
    assert read_pins(tmp_path).faults("acme-shop") == []
    assert change_of(found, read_pins(tmp_path), Agreed()).is_empty


def test_another_version(folder: Path) -> None:
    """Another version changes one file, drops the library and brings a check; the operator's own stays."""
    found = _next()
    change = change_of(found, read_pins(folder), Agreed())
    assert change.new == ("more.lua", "tests/more.lua")
    assert (change.changed, change.gone) == (("shop_orders.lua",), ("lib/acme_shop.lua",))
    put(folder, found)
    assert everything(folder).keys() == {*found.files, PINS, "own.lua"}
    assert (folder / "shop_orders.lua").read_bytes() == found.files["shop_orders.lua"]


def _own(name: str) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("-- mine\n")

    return write


BEFORE: dict[str, tuple[Callable[[Path], object], CheckSet, dict[str, Any], str]] = {
    "a check of the operator": (
        _own("shop_orders.lua"), a_set(), {}, "shop_orders.lua is there already, and is yours"),
    "a library of the operator": (
        _own("lib/acme_shop.lua"), a_set(), {}, "lib/acme_shop.lua is there already, and is yours"),
    "tests of the operator": (
        _own("tests/shop_orders.lua"), a_set(), {}, "tests/shop_orders.lua is there already, and is yours"),
    "a name in another case": (
        _own("Shop_Orders.lua"), a_set(), {}, "shop_orders.lua is there already, and is yours"),
    "a file of another set": (
        lambda folder: put(folder, a_set(name='"other"')), a_set(), {}, "is of the set other"),
    "another key": (
        lambda folder: put(folder, a_set()), a_set("1.1", EVE), {}, f"signed by the key {EVES}.*give --author {EVES}"),
    "another key, and a third was said": (
        lambda folder: put(folder, a_set()), a_set("1.1", EVE), {"author": "0" * 16}, f"the key {EVES}, not by 0000"),
    "another author than was said": (
        lambda folder: None, a_set(), {"author": EVES}, f"not by {EVES}"),
    "other bytes of one version": (
        lambda folder: put(folder, a_set()), a_set(warn=300), {}, "a version does not change"),
    "1.0.0 in place of 1.0": (
        lambda folder: put(folder, a_set()), a_set("1.0.0"), {}, "a version does not change"),
    "an older version": (
        lambda folder: put(folder, a_set("1.1")), a_set("1.0"), {}, "newer than 1.0; else give --older"),
    "work in a file of the set": (
        lambda folder: (put(folder, a_set()), _own("shop_orders.lua")(folder)), a_set("1.1", warn=5), {},
        "shop_orders.lua was changed since acme-shop was added"),
    "a newer API": (
        lambda folder: None, a_set(api='{ least = "99.0" }'), {}, "upgrade Helen"),
}  # fmt: skip


@pytest.mark.parametrize("case", BEFORE)
def test_refused(tmp_path: Path, case: str) -> None:
    """A refused set writes nothing."""
    prepare, found, agreed, sentence = BEFORE[case]
    prepare(tmp_path)
    before = everything(tmp_path)
    with pytest.raises(SetRefused, match=sentence):
        put(tmp_path, found, **agreed)
    assert everything(tmp_path) == before


@pytest.mark.parametrize("name", ["disk.lua", "lib/json.lua", "DISK.lua", "tests/disk.lua"])
def test_names_that_helen_ships(tmp_path: Path, name: str) -> None:
    """A set would take the place of a shipped check in Helen's folder, though the operator's has none of that name."""
    files = unsigned() | {name: TESTS.encode()}
    files |= {f"tests/{name}": TESTS.encode()} if "/" not in name else {}
    found = read_set({**files, "set.toml": sign_set(files, ANN)})
    with pytest.raises(SetRefused, match="has the name of a file that Helen ships"):
        put(tmp_path, found)


def test_what_is_said_beforehand(folder: Path) -> None:
    """A new key is accepted by its id, and an older version with --older."""
    put(folder, a_set("2.0", EVE), author=EVES)
    assert read_pins(folder).sets["acme-shop"].key_id == EVES
    put(folder, a_set("1.5", EVE), older=True)
    assert read_pins(folder).sets["acme-shop"].version == "1.5"


def test_a_file_that_is_gone_comes_back(folder: Path) -> None:
    (folder / "lib" / "acme_shop.lua").unlink()
    assert read_pins(folder).faults("acme-shop") == ["lib/acme_shop.lua is gone"]
    put(folder, a_set())
    assert read_pins(folder).faults("acme-shop") == []


def test_a_full_disk_leaves_all_as_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = everything(folder)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "x")

    monkeypatch.setattr(check_folder, "put", full)
    with pytest.raises(SetRefused, match="x can't be written: No space left on device"):
        put(folder, a_set("1.1", warn=7))
    assert everything(folder) == before


class Stopped(BaseException):
    """Stands for the end of the process: nothing handles it."""


def _stop(*_: Any) -> None:
    raise Stopped


def _next() -> CheckSet:
    """Return version 1.1: one file differs, the library leaves, a check comes."""
    files = unsigned("1.1", 200) | {"more.lua": unsigned()["shop_orders.lua"], "tests/more.lua": TESTS.encode()}
    del files["lib/acme_shop.lua"]
    return read_set({**files, "set.toml": sign_set(files, ANN)})


def _all_is_well(folder: Path, found: CheckSet) -> None:
    assert everything(folder) == {
        **found.files, "own.lua": b"return {}\n", PINS: (folder / PINS).read_bytes()
    }  # fmt: skip
    pins = read_pins(folder)
    assert (pins.sets["acme-shop"].digest, pins.faults("acme-shop")) == (found.digest, [])


def test_a_file_that_can_not_be_deleted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old pin stays over new files; when it can be deleted, the same addition ends the work."""

    def denied(*_: Any) -> None:
        raise OSError(errno.EACCES, "Permission denied", "lib/acme_shop.lua")

    with monkeypatch.context() as patch:
        patch.setattr(check_folder, "take_away", denied)
        with pytest.raises(SetRefused, match=r"acme_shop\.lua can't be written: Permission denied\. Mend"):
            put(folder, _next())
    assert read_pins(folder).sets["acme-shop"].version == "1.0"
    assert read_pins(folder).faults("acme-shop") == ["shop_orders.lua was changed"]
    put(folder, _next())
    _all_is_well(folder, _next())


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("place", "name"),
    [(check_folder, "put"), (check_folder, "take_away"), (Pins, "write")],
)
@pytest.mark.parametrize("is_done", [True, False])
def test_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_first: bool, place: Any, name: str, is_done: bool
) -> None:
    """The same addition ends the work after a stop before or after each step, of a first version and of the next."""
    (tmp_path / "own.lua").write_text("return {}\n")
    if not is_first:
        put(tmp_path, a_set())
    step = getattr(place, name)

    def stop(*given: Any) -> None:
        if is_done:
            step(*given)
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(place, name, stop)
        with pytest.raises(Stopped):
            put(tmp_path, _next())
    put(tmp_path, _next())
    _all_is_well(tmp_path, _next())


def test_a_stop_between_two_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def write(path: Path, content: bytes, mode: int) -> None:
        if len(written) == 2:
            raise Stopped
        written.append(path.name)
        write_durably(path, content, mode)

    with monkeypatch.context() as patch:
        patch.setattr(check_folder, "write_durably", write)
        with pytest.raises(Stopped):
            put(folder, _next())
    assert written == ["more.lua", "more.lua"]  # its tests first
    put(folder, _next())
    _all_is_well(folder, _next())


def _after() -> CheckSet:
    """Return version 1.2: a file of 1.1 is as it was in 1.0, the library is there again, and a check of 1.1 leaves."""
    files = unsigned("1.2")
    return read_set({**files, "set.toml": sign_set(files, ANN)})


def _stop_next(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Pins, "write", _stop)
        with pytest.raises(Stopped):
            put(folder, _next())


@pytest.mark.parametrize("is_first", [True, False])
def test_another_version_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_first: bool) -> None:
    """Files of a stopped version are taken over, also by the one before it, and nothing of it stays."""
    (tmp_path / "own.lua").write_text("return {}\n")
    for found in (_after(), a_set()):
        folder = tmp_path / found.version
        folder.mkdir()
        (folder / "own.lua").write_text("return {}\n")
        if not is_first:
            put(folder, a_set())
        _stop_next(folder, monkeypatch)
        assert COMING in everything(folder)
        put(folder, found)
        _all_is_well(folder, found)


def test_a_set_is_taken_out_after_a_stop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A set is taken out with the files that the newer version has brought."""
    _stop_next(folder, monkeypatch)
    pins = read_pins(folder)
    assert (pins.worked_on("acme-shop"), pins.left("acme-shop")) == (
        [], ["more.lua", "shop_orders.lua", "tests/more.lua"]
    )  # fmt: skip
    uninstall("acme-shop", pins)
    assert everything(folder).keys() == {"own.lua", PINS}


@pytest.mark.parametrize("text", ["", "[]", '{"acme-shop": []}', '{"acme-shop": {"more.lua": 7}}', "[" * 100_000])
def test_a_damaged_note_of_a_stop(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A file that a stop has left counts as the operator's then; a name that leads out of the folder never counts."""
    _stop_next(folder, monkeypatch)
    (folder / COMING).write_text(text)
    with pytest.raises(SetRefused, match=r"shop_orders\.lua was changed since acme-shop was added"):
        put(folder, _after())
    hashes = [hash_of((folder / "own.lua").read_bytes())]
    (folder / COMING).write_text(json.dumps({"acme-shop": {"../own.lua": hashes, "/own.lua": hashes}}))
    assert read_pins(folder).left("acme-shop") == []


def test_work_in_what_a_stop_has_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed file that a stop has left is the operator's, and so is an equal file of another set."""
    with monkeypatch.context() as patch:
        patch.setattr(Pins, "write", _stop)
        with pytest.raises(Stopped):
            put(folder, _next())
    (folder / "shop_orders.lua").write_text("-- mine\n")
    with pytest.raises(SetRefused, match=r"shop_orders\.lua was changed since acme-shop was added"):
        put(folder, _next())
    (folder / "shop_orders.lua").unlink()
    (folder / "more.lua").write_text("-- mine\n")
    with pytest.raises(SetRefused, match=r"more\.lua is there already, and is yours"):
        put(folder, _next())


def test_what_another_set_has_taken_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that a stopped addition has left, and that another set has since, is not deleted with the first set."""
    _stop_next(folder, monkeypatch)
    pins = read_pins(folder)
    taken = (folder / "more.lua").read_bytes()
    pins.sets["other"] = evolve(pins.sets["acme-shop"], files={"more.lua": hash_of(taken)})
    pins.write()
    assert pins.left("acme-shop") == ["shop_orders.lua", "tests/more.lua"]
    put(folder, _after())
    uninstall("acme-shop", read_pins(folder))
    assert (folder / "more.lua").read_bytes() == taken


def test_two_at_once(folder: Path) -> None:
    with locked(folder), pytest.raises(SetRefused, match="is changing the sets of"), locked(folder):
        pass
    FileLock(folder / LOCK).release()


def test_taken_out(folder: Path) -> None:
    uninstall("acme-shop", read_pins(folder))
    assert everything(folder).keys() == {"own.lua", PINS}
    assert read_pins(folder).sets == {}


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", '{"sets": []}', '{"sets": {"a": 7}}', '{"sets": {"a": {"version": "1"}}}', "[" * 100_000,
        "\0" * 64,
    ],
)  # fmt: skip
def test_a_list_that_was_spoiled(tmp_path: Path, text: str) -> None:
    (tmp_path / PINS).write_text(text)
    with pytest.raises(SetRefused, match="is not as `helen checks add` wrote it"):
        read_pins(tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("files", {"../../etc/passwd.lua": "0" * 64}), ("files", {"own.lua": "x"}), ("files", {"/x.lua": "0" * 64}),
        ("version", "new"), ("key", "AAAA"), ("more", 1),
    ],
)  # fmt: skip
def test_a_list_that_would_lead_elsewhere(folder: Path, field: str, value: Any) -> None:
    """A list is refused if a name in it leads out of the folder, since `remove` deletes what it names."""
    document = json.loads((folder / PINS).read_text())
    document["sets"]["acme-shop"][field] = value
    (folder / PINS).write_text(json.dumps(document))
    with pytest.raises(SetRefused, match="is not as `helen checks add` wrote it"):
        read_pins(folder)


# ---------------------------------------------------------------------------------------------- on the way out


def test_a_changed_file_is_not_pushed(folder: Path) -> None:
    """A changed file is pushed neither by `helen push` nor by `helen apply`; a file of the operator's own is."""
    (folder / "shop_orders.lua").write_text("return {}\n")
    with pytest.raises(Failed, match=r"shop_orders\.lua was changed since the set acme-shop was added"):
        read_files((folder / "shop_orders.lua",))
    assert read_files((folder / "own.lua",))["files"] == {"own.lua": "return {}\n"}
    judge_pinned(folder, ["own.lua", "lib/acme_shop.lua"])
    (folder / "lib" / "acme_shop.lua").write_text("return {}\n")
    with pytest.raises(Failed, match=r"lib/acme_shop\.lua was changed"):
        read_files((folder / "lib" / "acme_shop.lua",))
    declared = folder.with_name("declared")
    declared.mkdir()
    folder.rename(declared / "checks")
    with pytest.raises(Failed, match="was changed since the set acme-shop"):
        read_declared(declared)


def test_tests_are_held_to_the_pin_as_well(folder: Path) -> None:
    (folder / "tests" / "shop_orders.lua").write_text("return {}\n")
    with pytest.raises(Failed, match=r"tests/shop_orders\.lua was changed"):
        read_files((folder / "shop_orders.lua",))
