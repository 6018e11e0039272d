"""Makes the Jinja2 environment of pages: templates beside this file, and the filters that they write values with.

All text is escaped by default: summaries, names and errors come from agents. A character that is not printable is shown
as an escape, so that it turns no line around, and a text that is copied from a page into a terminal does nothing there;
a value that a script or a form gives back goes in whole, by the filter `e`. Times are written in UTC, as `<time>`
elements; static/time.js writes them in the reader's zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from equus_protocol.results import STATUS_WORDS
from groundwork.durations import words_of
from groundwork.figures import figure, limits
from groundwork.safe_text import safe_text
from helen.web.pages.assets import assets
from helen.web.pages.strip_svg import strip_words

TEMPLATES = Path(__file__).parent / "templates"


@cache
def environment() -> Environment:
    """Return the environment; templates are compiled once. Blocking where it reads them: call it at start."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, auto_reload=False, finalize=_shown,
    )  # fmt: skip
    made.filters.update(
        moment=moment,
        made_at=made_at,
        ago=ago,
        figure=figure,
        limits=limits,
        span=span,
        state=state,
        word=word,
        segment=segment,
        query=query,
        count=count,
        strip_words=strip_words,
        host_words=host_words,
        local=local,
        words=words,
        shortened=shortened,
        digest=digest,
    )
    made.globals.update(asset=assets().path)
    return made


def _shown(value: Any) -> Any:
    """Return a value as it is shown; Markup has been made from values that were, or by `e`."""
    return safe_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def compile_templates() -> None:
    """Compile all templates and pack all assets, so that no request has to."""
    for name in environment().list_templates(extensions=["html"]):
        environment().get_template(name)


def word(status: int | str) -> str:
    """Return the word of a status: ok, warning, critical, unknown."""
    return STATUS_WORDS[status] if isinstance(status, int) else status


def state(status: int | str) -> Markup:
    """Return a status as people see it: word, shape and colour."""
    name = word(status)
    return Markup('<span class="state s-{0}"><i class="shape" aria-hidden="true"></i>{0}</span>').format(name)


def moment(at: float | None, missing: str = "never") -> Markup:
    """Return a moment (unix seconds) as a `<time>` element, in UTC until a script writes it in the reader's zone."""
    if at is None:
        return Markup.escape(missing)
    written = datetime.fromtimestamp(at, UTC)
    return Markup('<time datetime="{}" data-at="{:.3f}">{}</time>').format(
        written.strftime("%Y-%m-%dT%H:%M:%SZ"), at, written.strftime("%Y-%m-%d %H:%M:%S UTC")
    )


def made_at(at: float) -> Markup:
    """Return when a page was made (unix seconds); its day is shown to readers without scripts alone.

    So it is as wide as what a script writes in its place, and nothing beside it moves, or goes to another line.
    """
    written = datetime.fromtimestamp(at, UTC)
    return Markup('<time datetime="{}"><span class="day">{} </span>{} UTC</time>').format(
        written.strftime("%Y-%m-%dT%H:%M:%SZ"), written.strftime("%Y-%m-%d"), written.strftime("%H:%M:%S")
    )


def ago(at: float | None, now: float, missing: str = "never") -> Markup:
    """Return how long ago a moment was, with the moment as its title. Both are unix seconds."""
    if at is None:
        return Markup.escape(missing)
    written = datetime.fromtimestamp(at, UTC)
    return Markup('<time class="ago" datetime="{}" data-ago="{:.3f}" title="{}">{}</time>').format(
        written.strftime("%Y-%m-%dT%H:%M:%SZ"), at, written.strftime("%Y-%m-%d %H:%M:%S UTC"), span(now - at)
    )


def local(at: float) -> str:
    """Return a moment (unix seconds) as a field of the type `datetime-local` takes it, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def span(seconds: float) -> str:
    """Return a length of time as people read it, such as `4 min`, in whole seconds."""
    return words_of(float(round(max(0.0, seconds))))


def host_words(host: Mapping[str, Any]) -> str:
    """Return an agent's facts on its host as people read them; a fact of an unusual kind is written as it is."""
    rest = dict(host)
    said = [str(rest.pop(key)) for key in ("os", "kernel", "arch") if key in rest]
    cpus, memory = rest.pop("cpus", None), rest.pop("memory", None)
    if cpus is not None:
        said.append(f"{cpus} CPU")
    if memory is not None:
        is_number = isinstance(memory, int | float) and not isinstance(memory, bool)
        said.append(f"{memory / 2**30:.1f} GiB" if is_number else str(memory))
    return ", ".join(said + [f"{key} {value}" for key, value in sorted(rest.items())])


def segment(text: str) -> str:
    """Return a text as one segment of a path. A name like `..` is no step up: its dots are escaped."""
    quoted = quote(text, safe="")
    return quoted.replace(".", "%2E") if set(text) <= {"."} else quoted


def query(fields: dict[str, object]) -> str:
    """Return the fields that are set as a query with its `?`; empty for none."""
    given = {name: value for name, value in fields.items() if value not in (None, "", False)}
    return f"?{urlencode(given, doseq=True)}" if given else ""


def digest(text: str) -> str:
    """Return a digest that tells a text from any other: a script leaves a part with the same one as it is."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def shortened(text: str, most: int) -> str:
    """Return a text of an agent, or its beginning if it is long: a megabyte may stand in 20 rows of a page."""
    if len(text) <= most:
        return text
    return f"{text[:most]} ... (the first {most:,} of {len(text):,} letters; the JSON has all of them)"


def words(names: Iterable[str]) -> str:
    """Return names as one line of a form; one that has spaces stands in double quotes."""
    return " ".join(f'"{name}"' if set(name) & set(" \t\n") else name for name in names)


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun, such as `1 agent` or `2,000 agents`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
