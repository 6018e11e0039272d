"""The shipped checks: one .lua per check. In the checkout this folder is `checks/`; installed, it is `helen_checks`."""

from pathlib import Path

FOLDER = Path(__file__).resolve().parent
