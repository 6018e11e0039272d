"""Tests that a page is made of its own values and the shared ones, and that its head is sent first."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.web.http_headers import Headers

from helen.web.pages import answer
from helen.web.pages.answer import _pieces, shared_values, write_page
from helen.web.pages.environment import environment

PARTS: Any = SimpleNamespace(version="1.0")
FED: Any = SimpleNamespace(
    visible=lambda caller: None, row_feed=SimpleNamespace(count=lambda sight: iter(()), counts_in=lambda sight: {})
)


@pytest.fixture(autouse=True)
def endless_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a slice of a turn endless, since it would be over at any moment on a busy machine."""
    monkeypatch.setattr(answer, "SLICE_SECONDS", math.inf)


@pytest.fixture
def request_of_page() -> Any:
    return SimpleNamespace(
        caller=SimpleNamespace(may=lambda scope: True, session=None), path=b"/about", args={},
        responseHeaders=Headers(), setHeader=lambda *_: None, getCookie=lambda name: None,
        isSecure=lambda: False,
    )  # fmt: skip


def test_no_page_has_a_value_of_a_name_that_all_share(request_of_page: Any) -> None:
    """A page with a value under a shared name is refused: it would replace the caller or the build silently."""
    shared = {*shared_values(PARTS, request_of_page), "counts"}
    assert shared > {"now", "caller", "preferences"}
    for name in shared:
        with pytest.raises(ValueError, match=f"the page about has a value '{name}' of its own"):
            write_page(PARTS, request_of_page, "about", **{name: 1}, status={})


def test_the_head_goes_before_the_rest_is_made() -> None:
    """The head is written before the rest of a page is made, so that the browser asks for styles and scripts
    meanwhile."""
    made, written = list[str](), list[bytes]()
    values = {"caller": None, "rows": lambda: made.append("rows") or "<rows>"}
    steps = _pieces(environment().from_string("<head>styles</head>\n<body>{{ rows() }}</body>"), None, values, FED)(
        written.append, lambda: False
    )
    next(steps)
    assert (b"".join(written), made) == (b"<head>styles</head>\n<body>", [])
    assert list(steps) == [None]
    assert (b"".join(written), made) == (b"<head>styles</head>\n<body>&lt;rows&gt;</body>", ["rows"])


def test_a_text_that_names_the_end_of_the_head_does_not_end_it() -> None:
    """A text with `</head>` does not end the head, since it is escaped first."""
    written = list[bytes]()
    template = environment().from_string("<head>{{ title }}</head>{{ title }}")
    values = {"caller": None, "title": "</head>"}
    list(_pieces(template, None, values, FED)(written.append, lambda: False))
    assert written == [b"<head>&lt;/head&gt;</head>", b"&lt;/head&gt;"]


def test_a_page_that_nobody_waits_for_is_not_made() -> None:
    """The rest of a page whose reader has gone after the head is not made."""
    made, written = list[str](), list[bytes]()
    values = {"caller": None, "rows": lambda: made.append("rows") or ""}
    template = environment().from_string("<head></head>{{ rows() }}")
    assert list(_pieces(template, None, values, FED)(written.append, lambda: True)) == []
    assert (written, made) == ([b"<head></head>"], [])


def test_files_of_which_one_is_not_in_use_are_shown_at_once() -> None:
    """The list of files is open if one of them is not in use, and closed otherwise."""
    template = environment().get_template("agent.html")

    def shown(**files: Any) -> str:
        context = template.new_context({"agent": SimpleNamespace(files=files)})
        return "".join(template.blocks["part_files"](context))

    used, refused = {"state": "active", "sha256": "ab" * 32}, {"state": "refused", "error": "line 3: no such name"}
    assert "<details><summary>2 files, all in use</summary>" in shown(disk=used, cpu=used | {"error": ""})
    assert "<details open><summary>2 files, 1 not in use</summary>" in shown(disk=used, cpu=refused)
