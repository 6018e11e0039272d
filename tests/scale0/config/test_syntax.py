"""Tests JSON, XML and ZFL: they hold one tree, and what cannot be read is named with its line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scale0.config import syntax
from scale0.config.syntax import Unreadable

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
    """A tree that is written in one syntax and read, then written in the next, is the same to the last space."""
    for form in (*ALL, *ALL):
        read, _ = syntax.read(syntax.write(tree, form), form)
        assert read == tree
        tree = read


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(ALL))
def test_garbage_is_unreadable_and_nothing_else(document, form):
    """Raise Unreadable with a line and a message for all bytes that cannot be read, and no other exception."""
    try:
        syntax.read(document, form)
    except Unreadable as e:
        assert 1 <= e.line <= document.count(b"\n") + 2 and e.message


SAME = {
    "JSON": b'{\n "a": 1,\n "b": ["x", "y z"],\n "c": [{"d": true}, {"d": "it\'s"}],\n "e": null\n}',
    "XML": b"<scale0>\n <a>1</a>\n <b>x</b>\n <b>y z</b>\n <c>\n  <d>1</d>\n </c>\n <c><d>it's</d></c>\n</scale0>",
    "ZFL": b'# a comment\n\na = 1\nb = x\nb = "y z" # another\nc\n    d = 1\nc\n    d = "it\'s"\n',
}


@pytest.mark.parametrize("form", ALL)
def test_how_each_is_written_by_hand(form):
    tree, lines = syntax.read(SAME[form], form)
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
        syntax.read(document, form)
    assert caught.value.line == line


@pytest.mark.parametrize("form", ALL)
def test_a_document_is_bounded(monkeypatch, form):
    monkeypatch.setattr(syntax, "MAX_DOCUMENT", 10)
    with pytest.raises(Unreadable, match="at most 10 bytes"):
        syntax.read(b" " * 11, form)


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
        syntax.write(tree, form)


# --------------------------------------------------------------------------- to the letter and to the line

TREE = {"a": ["1"], "b": ["x", 'say "tea"'], "c": [{"d": ["it's"], "e": [{"f": [""]}]}, {"d": ["2"]}]}
WRITTEN = {
    "XML": """<?xml version="1.0" encoding="UTF-8"?>
<scale0>
    <a>1</a>
    <b>x</b>
    <b>say "tea"</b>
    <c>
        <d>it's</d>
        <e>
            <f></f>
        </e>
    </c>
    <c>
        <d>2</d>
    </c>
</scale0>
""",
    "ZFL": """a = "1"
b = "x"
b = 'say "tea"'
c
    d = "it's"
    e
        f = ""
c
    d = "2"
""",
}


@pytest.mark.parametrize("form", WRITTEN)
def test_how_each_is_written_to_the_letter(form):
    assert syntax.write(TREE, form).decode() == WRITTEN[form]
    read, lines = syntax.read(WRITTEN[form].encode(), form)
    assert read == TREE
    first = 2 if form == "XML" else 0
    at = {("a", 0): 1, ("b", 0): 2, ("b", 1): 3, ("c", 0): 4, ("c", 0, "d", 0): 5, ("c", 0, "e", 0): 6}
    at |= {("c", 0, "e", 0, "f", 0): 7, ("c", 1): 10 if first else 8, ("c", 1, "d", 0): 11 if first else 9}
    assert {path: line for path, line in lines.items() if path} == {path: first + line for path, line in at.items()}
    assert lines[()] == (2 if first else 1)


def test_lines_of_json_are_those_of_the_values():
    text = b'{"a":\n1,\n"b": [\n"x, y",\n{"c": "}",\n"d": ["z"]}],\n"e": {"f":\n{"g": true}}}'
    read, lines = syntax.read(text, "JSON")
    assert read == {"a": ["1"], "b": ["x, y", {"c": ["}"], "d": ["z"]}], "e": [{"f": [{"g": ["1"]}]}]}
    wanted = {(): 1, ("a", 0): 2, ("b", 0): 3, ("b", 1): 5, ("b", 1, "c", 0): 5, ("b", 1, "d", 0): 6}
    wanted |= {("e", 0): 7, ("e", 0, "f", 0): 8, ("e", 0, "f", 0, "g", 0): 8}
    assert lines == wanted


@pytest.mark.parametrize("form, depth", [(form, depth) for form in ALL for depth in (16, 17)])
def test_trees_are_nested_sixteen_deep_and_no_deeper(form, depth):
    assert (syntax.MAX_DEPTH, syntax.MAX_DOCUMENT, syntax.INDENT) == (16, 8_388_608, 4)
    if form == "JSON":
        text = '{"a":' * depth + "1" + "}" * depth
    elif form == "XML":
        text = "<scale0>" + "<a>" * depth + "1" + "</a>" * depth + "</scale0>"
    else:
        text = "".join(" " * 4 * level + "a\n" for level in range(depth - 1)) + " " * 4 * (depth - 1) + "a = 1\n"
    if depth == 16:
        tree, _ = syntax.read(text.encode(), form)
        for _ in range(16):
            [tree] = tree["a"]
        assert tree == "1"
    elif form == "ZFL":
        assert syntax.read(text.encode(), form)
        with pytest.raises(Unreadable, match="nested deeper than 16"):
            syntax.read(text.replace(" = 1", "").encode(), form)
    else:
        with pytest.raises(Unreadable, match="nested deeper than 16"):
            syntax.read(text.encode(), form)


def test_paths_are_spelled_as_people_write_them():
    assert syntax.spell(()) == ""
    assert syntax.spell(("a", 0)) == "a" and syntax.spell(("a", 1)) == "a[1]"
    assert syntax.spell(("a", 0, "b", 2, "c", 0)) == "a[0].b[2].c"
    assert syntax.spell(("a",)) == "a"


def test_plain_values_take_the_shape_of_the_three():
    values = {"a": True, "b": False, "c": 1.5, "d": None, "e": [], "f": (1, None, "x"), "g": {"h": [2]}}
    assert syntax.plain(values) == {
        "a": ["1"], "b": ["0"], "c": ["1.5"], "f": ["1", "x"], "g": [{"h": ["2"]}],
    }  # fmt: skip
    with pytest.raises(Unreadable, match="a list within a list") as caught:
        syntax.plain({"a": [[1]]})
    assert caught.value.line == 1


def test_each_fault_of_a_tree_is_named_with_its_path():
    tree = {"1a": ["x"], "ok": ["x", "\x7f", "\"'"], "t": [{"-b": ["y"], "c": ["\t"]}]}
    assert [(path, fault.split(":")[0]) for path, fault in syntax.check(tree)] == [
        (("1a",), "a name starts with a letter and has letters, digits, `_`, `.` and `-`"),
        (("ok", 1), "a value has no newlines or control characters"),
        (("ok", 2), "a value has single or double quotes, not both"),
        (("t", 0, "-b"), "a name starts with a letter and has letters, digits, `_`, `.` and `-`"),
    ]


ZFL_VALUES = {"a=x": "x", "a = x y": "x y", "a =": "", "a = 'x' # c": "x", 'a = "x # y"': "x # y", "a = x # y": "x",
              "a\t=\tx\t": "x", "a = \"\"": "", "a = ''": "", "a = x\r": "x", "a = 'it\"s'": 'it"s'}  # fmt: skip


@pytest.mark.parametrize("line", ZFL_VALUES)
def test_values_of_zfl(line):
    assert syntax.read(line.encode(), "ZFL")[0] == {"a": [ZFL_VALUES[line]]}


def test_zfl_skips_comments_and_blank_lines_and_counts_them():
    text = "# one\n\n \t\n  # two\na # three\n    b = 1\n\n# four\n    c = 2\nd = 3\n"
    read, lines = syntax.read(text.encode(), "ZFL")
    assert read == {"a": [{"b": ["1"], "c": ["2"]}], "d": ["3"]}
    assert lines == {(): 1, ("a", 0): 5, ("a", 0, "b", 0): 6, ("a", 0, "c", 0): 9, ("d", 0): 10}
    for text, line, why in (
        ("a\n     b = 1", 2, "indented by 5 spaces"),
        ("a\n    b = 1\n        c = 2", 3, "too far"),
    ):
        with pytest.raises(Unreadable, match=why) as caught:
            syntax.read(text.encode(), "ZFL")
        assert caught.value.line == line


def test_a_document_of_the_largest_size_is_read(monkeypatch):
    monkeypatch.setattr(syntax, "MAX_DOCUMENT", 10)
    assert syntax.read(b"a = 123456", "ZFL")[0] == {"a": ["123456"]}
    for form in ALL:
        with pytest.raises(Unreadable, match="at most 10 bytes") as caught:
            syntax.read(b"a = 1234567", form)
        assert caught.value.line == 1


@pytest.mark.parametrize(
    "form, text, line", [("ZFL", b"a = 1\n\nb = \xff\n", 3), ("JSON", b'{"a":\n\n1,\n}', 4), ("JSON", b"{", 1)]
)
def test_the_line_of_a_fault_is_counted_to_its_byte(form, text, line):
    with pytest.raises(Unreadable) as caught:
        syntax.read(text, form)
    assert caught.value.line == line


def test_xml_without_values_is_an_empty_tree():
    assert syntax.read(b"<scale0/>", "XML") == ({}, {(): 1})
    assert syntax.read(b"<scale0> <a> x </a>\n <b><c/> </b></scale0>", "XML")[0] == {"a": [" x "], "b": [{"c": [""]}]}
