"""Tests scripts joined into one file for pages that load them together: exports stay, and no page has one twice."""

from __future__ import annotations

import re

import pytest
from helen_running import Running
from playwright.sync_api import Browser
from signing_in import signed_in

from helen.web.pages.assets import assets
from helen.web.pages.environment import TEMPLATES
from helen.web.pages.joined_scripts import JOINED, WORKERS, NotJoinable, joined

MEMBERS = {member: home for home, members in JOINED.items() for member in members}
SOURCES = {
    "clock.js": "let at = 1;\nexport const now = () => at;\nexport function learn(to) { at = to; }\n",
    "words.js": 'import { now as clock } from "./clock.js";\nexport async function* said() { yield clock(); }\n',
    "page.js": 'import {\n  said,\n} from "./words.js";\nimport d from "./d.js";\nimport { o } from "./other.js";\n',
    "worker.js": 'import { now } from "./clock.js";\n',
}
PAIR = {"all.js": ("clock.js", "words.js")}
WHOLE = """const $clock_js = {};
{
let at = 1;
const now = () => at;
function learn(to) { at = to; }

Object.assign($clock_js, { now, learn });
}
const $words_js = {};
{
const { now: clock } = $clock_js;
async function* said() { yield clock(); }

Object.assign($words_js, { said });
}
export const { now, learn } = $clock_js;
export const { said } = $words_js;
"""


def test_members_become_blocks() -> None:
    assert joined(SOURCES, PAIR)["all.js"] == WHOLE


def test_imports_of_members_lead_to_the_joined_file() -> None:
    """An import of a member leads to the joined file; other imports, and the members themselves, stay."""
    found = joined(SOURCES, PAIR)
    assert found["page.js"] == SOURCES["page.js"].replace("./words.js", "./all.js")
    assert all(found[name] == SOURCES[name] for name in PAIR["all.js"])


def test_what_a_joined_file_needs_from_others_is_imported_once() -> None:
    groups = {"low.js": ("clock.js",), "high.js": ("words.js",)}
    assert joined(SOURCES, groups)["high.js"].startswith(
        'import * as $clock_js from "./low.js";\nconst $words_js = {};\n{\nconst { now: clock } = $clock_js;\n'
    )


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("words.js", None, "words.js: there is no such script to be joined with others; install Helen anew"),
        (
            "words.js",
            "export const now = 1;\n",
            "words.js exports now, as clock.js does: give one of them another name",
        ),
        ("clock.js", 'import { said } from "./words.js";\n', "clock.js imports words.js, which comes behind it"),
        ("words.js", "export let count = 0;\n", "words.js can't be joined with others for the line 'export let count"),
        ("words.js", "export default 1;\n", "'export default 1;': write it in the usual form"),
        ("words.js", 'import plot from "./plot.js";\n', "'import plot from"),
        ("words.js", 'import * as plot from "./plot.js";\n', "'import * as plot from"),
        ("words.js", 'import "./plot.js";\n', "'import \"./plot.js\";'"),
        ("words.js", 'export { now } from "./clock.js";\n', "'export { now } from"),
    ],
)
def test_what_is_of_another_form_is_refused(name: str, text: str | None, said: str) -> None:
    """A script of another form is refused with a sentence: joined, it would give a file that no browser takes."""
    sources = {each: given for each, given in (SOURCES | {name: text}).items() if given is not None}
    with pytest.raises(NotJoinable, match=re.escape(said)):
        joined(sources, PAIR)


def test_no_script_of_a_page_imports_a_member() -> None:
    """No script of a page imports a member, which would be loaded once more with a stream of its own.

    Neither does a joined script, nor when it is asked for later, by `import()`.
    """
    pages = {name for name in assets().files if name.endswith(".js")} - WORKERS - MEMBERS.keys()
    assert pages >= JOINED.keys()
    for name in pages:
        imported = re.findall(rb'(?:from|import|import\() ?"\./([\w.-]+)"', assets().files[name].body)
        assert {each.decode() for each in imported}.isdisjoint(MEMBERS), name


def test_no_page_names_a_member_beside_the_joined_file() -> None:
    for path in TEMPLATES.rglob("*.html"):
        named = set(re.findall(r"asset\('([\w.-]+\.js)'\)", path.read_text()))
        assert path.name == "bare.html" or named.isdisjoint(MEMBERS), path.name


@pytest.mark.integration
def test_a_joined_file_exports_what_its_members_export(browser: Browser, fleet: Running) -> None:
    source = """async ([whole, members]) => {
        const names = async (path) => Object.keys(await import(path));
        return [(await names(whole)).sort(), (await Promise.all(members.map(names))).flat().sort()];
    }"""
    with signed_in(browser, fleet, ("push",)) as tab:
        tab.open("/")
        for home, members in JOINED.items():
            addresses = [assets().path(home), [assets().path(name) for name in members]]
            whole, parts = tab.page.evaluate(source, addresses)
            assert whole == parts and len(whole) >= 10, home


@pytest.mark.integration
def test_no_page_loads_a_script_twice(browser: Browser, fleet: Running) -> None:
    """No page loads a script twice: neither a member beside its joined file, nor one at two addresses."""
    asked = list[str]()
    with signed_in(browser, fleet, ("push",)) as tab:
        tab.page.on("request", lambda request: asked.append(request.url))
        for path in ("/", "/agents", "/checks/web-1/pulse", "/rollouts", "/windows", "/ask"):
            asked.clear()
            tab.open(path)
            tab.page.wait_for_selector(".fresh[data-state=live]")
            own = [url.rpartition("/")[2] for url in asked if "/s/" in url]
            assert own.count("pages.js") == 1 and MEMBERS.keys().isdisjoint({*own} - {"stream.js"}), (path, asked)
