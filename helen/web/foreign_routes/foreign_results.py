"""Routes of passive results in the forms of others: Icinga's action, events of Sensu, and NRDP: docs/passive.rst."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import quote_from_bytes
from xml.sax.saxutils import escape

from twisted.internet.threads import deferToThread

from groundwork.authority import decide
from helen.actions import REPORT
from helen.passive.foreign_formats import read_icinga, read_nrdp_json, read_nrdp_xml
from helen.passive.sensu_events import read_event
from helen.passive.submission import NoSubmission, NotReported, Submission
from helen.web.answers import set_headers, write_json
from helen.web.bodies import read_in_time, read_json
from helen.web.forms import decoded, read_raw_form
from helen.web.problems import Problem, problem_of
from helen.web.request import ApiRequest, credential
from helen.web.route import Routes
from helen.web.routes.passive import demand_submitter, given_id
from helen.web.web_parts import WebParts, count_wrong_token

routes = Routes()
SAID_BAD_TOKEN = "BAD TOKEN: it is not one of any host"
MAX_TOKEN = 1_000  # bytes of one
MAX_NRDP = 2 * 1024 * 1024  # bytes of XML or JSON: 1,000 results of 2 KB, some 50 ms in a thread


@routes.foreign("POST", "/v1/actions/process-check-result", None, "A result, as Icinga takes it", checks_caller=True)
async def process_check_result(parts: WebParts, request: ApiRequest) -> bytes:
    """Take a result as Icinga's action does, and answer in its form."""
    try:
        return await _take_icinga(parts, request)
    except (Problem, NotReported) as error:
        problem = problem_of(error)
        assert problem is not None
        set_headers(request, problem)
        return write_json(request, {"error": problem.status, "status": str(problem)}, problem.status)


async def _take_icinga(parts: WebParts, request: ApiRequest) -> bytes:
    body = {name.decode("utf-8", "replace"): values[0].decode("utf-8", "replace")
            for name, values in request.args.items() if b"{" not in name}  # fmt: skip
    body |= await read_json(request)
    read = await read_in_time(request, read_icinga, body, given_id(request))
    demand_submitter(parts, request, read.submission.host, credential(request))
    await parts.passive.submit(read.submission)
    said = f"Successfully processed check result for object '{read.target}'."
    return write_json(request, {"results": [{"code": 200, "status": said}]})


# ---------------------------------------------------------------------------------------------- Sensu


@routes.foreign("POST", "/events", None, "An event, as agents of Sensu take it", checks_caller=True)
async def take_event(parts: WebParts, request: ApiRequest) -> bytes:
    """Take an event as Sensu's agents do, which answer 202."""
    whose = request.args.get(b"entity", [b""])[0].decode("utf-8", "replace")
    event = await read_json(request)
    submission = await read_in_time(request, read_event, event, whose or None, given_id(request))
    demand_submitter(parts, request, submission.host, credential(request))
    is_new = await parts.passive.submit(submission)
    return write_json(request, {"duplicate": not is_new}, 202)


# ---------------------------------------------------------------------------------------------- NRDP


@routes.foreign("GET POST", "/nrdp", None, "Results, as NRDP takes them", checks_caller=True, any_slash=True)
@routes.foreign("GET POST", "/nrdp/", None, "Results, as NRDP takes them", checks_caller=True, any_slash=True)
async def submit_nrdp(parts: WebParts, request: ApiRequest) -> bytes:
    """Take results as NRDP does, which answers 200 to everything: what became of it is in the document."""
    form = read_raw_form(request)
    is_json = _given(request, form, "JSONDATA") is not None
    try:
        status, message, done = await _take_nrdp(parts, request, form)
    except (Problem, NotReported) as error:
        if isinstance(error, Problem):
            set_headers(request, error)
        status, message, done = -1, str(error), ""
    return _nrdp_answer(request, is_json, status, message, done)


async def _take_nrdp(parts: WebParts, request: ApiRequest, form: Mapping[str, bytes]) -> tuple[int, str, str]:
    """Return the status, a message, and what was done. Raises Problem or NotReported where nothing was.

    The results are not decoded before the token is known to be that of some host.
    """
    token = decoded(_given(request, form, "token") or b"", MAX_TOKEN) or credential(request)
    if decide(request.caller, REPORT) is not None and not parts.passive.knows_key(token):
        if not token:
            raise Problem(401, "refused", "NO TOKEN: `helen passive key HOST` prints one")
        count_wrong_token(parts, request)
        raise Problem(401, "refused", SAID_BAD_TOKEN)
    if _given(request, form, "cmd") != b"submitcheck":
        raise NoSubmission("BAD CMD: cmd=submitcheck is what can be done here")
    xml, text = (_given(request, form, *names) for names in (("XMLDATA", "xml"), ("JSONDATA", "json")))
    given = xml if text is None else text
    if given is None:
        raise NoSubmission("NO DATA: XMLDATA or JSONDATA has the results")
    read = read_nrdp_json if text is not None else read_nrdp_xml
    listed = await deferToThread(_read_nrdp, read, given, given_id(request))
    for each in listed:
        try:
            demand_submitter(parts, request, each.host, token)
        except Problem as problem:
            said = f"BAD TOKEN: it is not one of {each.host[:80]}"
            raise Problem(401, "refused", said, problem.headers) from problem
    refused: list[str] = []
    for each in listed:
        try:
            await parts.passive.submit(each)
        except NotReported as error:
            refused.append(str(error))
    done = f"{len(listed) - len(refused)} checks processed."
    if not refused:
        return 0, "OK", done
    done += f" {len(refused)} refused: {refused[0]}"
    return (0, "OK", done) if len(refused) < len(listed) else (-1, refused[0], done)


def _read_nrdp(read: Callable[[str, str | None], list[Submission]], given: bytes, id: str | None) -> list[Submission]:
    text = decoded(given, MAX_NRDP)
    if text is None:
        raise NoSubmission(f"BAD DATA: at most {MAX_NRDP} bytes come in one request")
    return read(text, id)


def _given(request: ApiRequest, form: Mapping[str, bytes], *names: str) -> bytes | None:
    """Return the first of these parameters that is there, as a form writes it: of the form, or of the query."""
    for name in names:
        if name in form:
            return form[name]
        if request.args.get(name.encode()):
            return quote_from_bytes(request.args[name.encode()][0]).encode()
    return None


def _nrdp_answer(request: ApiRequest, is_json: bool, status: int, message: str, done: str) -> bytes:
    if is_json:
        return write_json(request, {"result": {"status": status, "message": message, "meta": {"output": done}}})
    request.setHeader("content-type", "text/xml; charset=utf-8")
    meta = f"<meta><output>{escape(done)}</output></meta>" if done else ""
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<result>\n<status>{status}</status>\n'
        f"<message>{escape(message)}</message>\n{meta}\n</result>\n"
    ).encode()
