"""JSON, XML and ZFL: one tree, whatever the syntax; what cannot be read is named with its line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scale0 import forms
from scale0.forms import Unreadable

ALL = ("JSON", "XML", "ZFL")
names = st.sampled_from(["a", "B", "_", "group_config", "x.y-z", "a1"])
texts = st.text("ab \t\"'#=<>&;\\é\U0001f600", max_size=8).filter(lambda text: not ('"' in text and "'" in text))
trees = st.recursive(
    st.dictionaries(names, st.lists(texts, min_size=1, max_size=3), min_size=1, max_size=4),
    lambda inner: st.dictionaries(names, st.lists(texts | inner, min_size=1, max_size=3), min_size=1, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(trees)
def test_a_tree_is_the_same_in_all_three(tree):
    """Written in one, read, written in the next: nothing changes, to the last space."""
    for form in (*ALL, *ALL):
        read, _ = forms.read(forms.write(tree, form), form)
        assert read == tree
        tree = read


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(ALL))
def test_garbage_is_unreadable_and_nothing_else(document, form):
    """No other exception, whatever the bytes."""
    try:
        forms.read(document, form)
    except Unreadable as e:
        assert 1 <= e.line <= document.count(b"\n") + 2 and e.message


SAME = {
    "JSON": b'{\n "a": 1,\n "b": ["x", "y z"],\n "c": [{"d": true}, {"d": "it\'s"}],\n "e": null\n}',
    "XML": b"<scale0>\n <a>1</a>\n <b>x</b>\n <b>y z</b>\n <c>\n  <d>1</d>\n </c>\n <c><d>it's</d></c>\n</scale0>",
    "ZFL": b'# a comment\n\na = 1\nb = x\nb = "y z" # another\nc\n    d = 1\nc\n    d = "it\'s"\n',
}


@pytest.mark.parametrize("form", ALL)
def test_how_each_is_written_by_hand(form):
    tree, lines = forms.read(SAME[form], form)
    assert tree == {"a": ["1"], "b": ["x", "y z"], "c": [{"d": ["1"]}, {"d": ["it's"]}]}
    at = {"JSON": (2, 3, 3, 4, 4), "XML": (2, 3, 4, 6, 8), "ZFL": (3, 4, 5, 7, 9)}[form]
    paths = [("a", 0), ("b", 0), ("b", 1), ("c", 0, "d", 0), ("c", 1, "d", 0)]
    assert tuple(lines[path] for path in paths) == at


FAULTS = [
    ("JSON", b'{"a": 1,\n "b": }', 2, "no JSON"),
    ("JSON", b"[]", 1, "JSON object"),
    ("JSON", b'{"a": NaN}', 1, "no JSON"),
    ("JSON", b'{"a": [[1]]}', 1, "list within a list"),
    ("JSON", b"\n\xff", 2, "not UTF-8"),
    ("JSON", b'{"a":' * 40 + b"1" + b"}" * 40, 1, "nested deeper"),
    ("JSON", b'{"a":' * 9000 + b"1" + b"}" * 9000, 1, "no JSON"),
    ("XML", b"<scale0>\n<a>\n</scale0>", 3, "mismatched"),
    ("XML", b"<config/>", 1, "outermost element is <scale0>"),
    ("XML", b"<scale0>\n<a b='1'/></scale0>", 2, "attributes"),
    ("XML", b"<scale0>x</scale0>", 1, "elements, not text"),
    ("XML", b"<scale0><a>x<b/></a></scale0>", 1, "both text and elements"),
    ("XML", b'<!DOCTYPE scale0 [<!ENTITY a "aaaa">]>\n<scale0><b>&a;</b></scale0>', 1, "document type"),
    ("XML", b"<scale0>" + b"<a>" * 40 + b"</a>" * 40 + b"</scale0>", 1, "nested deeper"),
    ("ZFL", b"a = 1\n   b = 2", 2, "multiples of 4"),
    ("ZFL", b"a = 1\n    b = 2", 2, "indented too far"),
    ("ZFL", b"a\n        b = 2", 2, "indented too far"),
    ("ZFL", b"\ta = 1", 1, "no line of ZFL"),
    ("ZFL", b'a = "x', 1, "no value of ZFL"),
    ("ZFL", b"a 1", 1, "`=` is missing"),
    ("ZFL", b"= 1", 1, "no line of ZFL"),
]


@pytest.mark.parametrize("form, document, line, message", FAULTS)
def test_what_cannot_be_read_is_named_with_its_line(form, document, line, message):
    with pytest.raises(Unreadable, match=message) as caught:
        forms.read(document, form)
    assert caught.value.line == line


@pytest.mark.parametrize("form", ALL)
def test_a_document_is_bounded(monkeypatch, form):
    monkeypatch.setattr(forms, "MAX_DOCUMENT", 10)
    with pytest.raises(Unreadable, match="at most 10 bytes"):
        forms.read(b" " * 11, form)


@pytest.mark.parametrize(
    "tree, message",
    [
        ({"a": "two\nlines"}, "newlines"),
        ({"a": "\u2028"}, "newlines"),
        ({"a": "\x00"}, "control characters"),
        ({"a": "both \" and '"}, "single or double"),
        ({"two words": "x"}, "a name starts with"),
        ({"1st": "x"}, "a name starts with"),
        ({"a": [{"b": ["ok", "no\r"]}]}, r"a\[0\]\.b\[1\]"),
    ],
)
@pytest.mark.parametrize("form", ALL)
def test_what_one_form_cannot_write_is_refused_in_all(form, tree, message):
    with pytest.raises(Unreadable, match=message):
        forms.write(tree, form)
