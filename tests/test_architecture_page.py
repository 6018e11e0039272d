"""Tests that docs/architecture.rst names the components and modules of today, in the order of `LAYERS`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import test_architecture

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.rst").read_text()
APART = ("helen.cli", "helen.pipeline")  # have a sentence below the table
PACKAGES = ("groundwork", "equus_protocol", "equus", "helen", "scale0", "zerotask")


def layers_of_the_page() -> list[str]:
    """Return the components of the page's table, from the top of the page on."""
    return re.findall(r"^``(helen\.[\w.]+)``  ", PAGE, re.M)


def test_the_table_has_every_component_of_the_server() -> None:
    """The table has all components of the server and no other, and `LAYERS` knows them all."""
    components = {component for component in test_architecture.LAYER_OF if component.startswith("helen.")}
    assert set(layers_of_the_page()) == {
        component for component in components if not component.startswith(APART) and is_folder_or_named(component)
    }


def is_folder_or_named(component: str) -> bool:
    """Return False for modules that stand in `LAYERS` for old names' sake, and need no line."""
    return (ROOT / component.replace(".", "/")).is_dir() or component in PAGE


def test_the_order_is_that_of_the_rows() -> None:
    """The order is bottom up: no component stands above one that it may import."""
    numbers = [test_architecture.LAYER_OF[component] for component in layers_of_the_page()]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"``((?:helen|equus|scale0|zerotask)(?:\.\w+){2,})``", PAGE))))
def test_each_module_that_is_named_exists(name: str) -> None:
    """A step of a walk leads to a file or a folder."""
    path = ROOT / name.replace(".", "/")
    assert path.is_dir() or path.with_suffix(".py").exists()


def test_imports_between_packages() -> None:
    """The page's first table is `OURS`, in words."""
    for package in PACKAGES:
        allowed = test_architecture.OURS[package]
        row = re.search(rf"^``{package}`` +(.+)$", PAGE, re.M)
        assert row is not None
        said = set(re.findall(r"``(\w+)``", row[1]))
        assert said <= allowed
        assert said == allowed or (package == "helen" and allowed - said == test_architecture.OURS["equus"])


def test_no_document_has_both_sides_of_a_merge() -> None:
    """Marks of a conflict are plain text to Sphinx."""
    pages = [*ROOT.joinpath("docs").rglob("*.rst"), *ROOT.joinpath("newsfragments").glob("*.rst"), ROOT / "README.rst"]
    marks = re.compile(r"^(<{7}|>{7})( |$)", re.M)
    assert [str(page) for page in pages if page.is_file() and marks.search(page.read_text())] == []
