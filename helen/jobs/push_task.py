"""Publishes checks that come as a task of ZeroTask, `equus.push`: with the care of the operator's pushes, or more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from helen.library.library import Library
from helen.library.linter import LintFailed
from helen.library.published import PushRefused
from helen.library.push_request import BadPushRequest, read_files, read_plan
from helen.rollout import care
from helen.rollout.rollout import Plan
from helen.storage.database import StoreClosed, StoreFailed, StoreOverloaded
from zerotask import errors
from zerotask.errors import TaskFailed
from zerotask.node.worker_processes import Work
from zerotask.wire import actions

Note = Callable[[str, str, str], None]


async def push(library: Library, work: Work, note: Note) -> dict[str, Any]:
    """Push the files of a task, and return the version and the warnings. Raises TaskFailed.

    `note(actor, action, subject)` writes the push into the audit.
    """
    params = work.params if isinstance(work.params, dict) else {}
    try:
        files, tests = read_files(params, "files"), read_files(params, "tests")
        plan = read_plan(params, library.plan)
        check_care(plan, library.plan)
        is_dry = params.get("dry_run") is True
        verdicts = await library.push(files, tests, submitter_of(work), plan, is_dry)
        if not is_dry:
            note(submitter_of(work), actions.PUSH.name, ", ".join(sorted(files)))
    except BadPushRequest as error:
        raise TaskFailed(errors.INVALID_PARAMS, str(error), retry=False) from error
    except PushRefused as refused:
        raise TaskFailed(errors.FUNCTION_RAISED, f"push refused: {refused}", retry=False) from refused
    except (LintFailed, StoreFailed, StoreOverloaded, StoreClosed) as trouble:
        raise TaskFailed(errors.FUNCTION_RAISED, str(trouble)) from trouble
    newest = library.releases.newest
    warnings = [problem.at(name) for name, found in verdicts.items() for problem in found.problems]
    return {"version": newest.version if newest is not None else None, "warnings": warnings}


def submitter_of(work: Work) -> str:
    """Return who submitted a task, for the audit: through which entry, under which name, with which key."""
    if not work.client:
        return "zerotask"  # by a broker of an older version, which does not say
    return f"zerotask:{work.client}" + (f" key:{work.key}" if work.key else "")


def check_care(plan: Plan, usual: Plan) -> None:
    """Raise BadPushRequest if a task would try a version less than pushes of the operator's do.

    An operator may do so by `helen push --rings` and `--gate`; a program may only be more careful.
    """
    why = care.looser(plan, usual)
    if why is not None:
        raise BadPushRequest(f"{why}; `helen push` may do so")
