"""Errors of commands on jobs, each with a sentence; helen/web/problems.py turns them into answers."""


class JobRefused(Exception):
    """Tells why a command on a job can't be done, and what to do next."""


class BadJob(JobRefused):
    """Tells that a request can't be a job: a value is out of its bounds."""


class UnknownJob(JobRefused):
    """Tells that no job on record has this id."""


class JobsUnavailable(JobRefused):
    """Tells that ZeroTask, the disk or the record of jobs has no room or gives no answer; it may later."""


class JobUncertain(JobsUnavailable):
    """Tells that ZeroTask did not answer, and may have stored the job all the same."""
