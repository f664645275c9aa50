"""What Gradescope's run_autograder calls: grade /autograder/submission, write /autograder/results/results.json.

Layout and metadata: Gradescope's "Autograder Specifications" and "Submission Metadata". A grade that is cut short
leaves the verdicts that it had. Where the grader itself fails there is no results.json and the exit code is 3, so that
the platform reports a failed autograder and nobody gets a grade that he has not earned.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

RESERVE = 60.0
"""Seconds of the platform's limit that are left for starting, writing and uploading."""
GRACE = 20.0
"""Seconds that a grade gets to end after its own deadline."""
USER = "ranklings"
"""Who runs the ranks, if setup.sh could make that user."""


def main() -> int:
    """`python -m grader.course.autograder [/autograder]`"""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "/autograder")
    source, results = root / "source", root / "results"
    seconds = 60 * float(_read(source / "autograder.json").get("minutes", 10)) - RESERVE
    words = [sys.executable, "-m", "grader", "grade", "--assignment", str(source / "assignment.yaml")]
    words += ["--submission", str(root / "submission"), "--gradescope", str(results / "results.json"), "--plain"]
    words += ["--deadline", f"{seconds:g}", *times(_read(root / "submission_metadata.json")), *_apart()]
    results.mkdir(exist_ok=True)
    with subprocess.Popen(words, cwd=source, start_new_session=True) as grade:
        try:
            code = grade.wait(seconds + GRACE)
        except subprocess.TimeoutExpired:
            os.killpg(grade.pid, signal.SIGKILL)
            code = grade.wait()
    return 0 if code in (0, 1) or (results / "results.json").is_file() else 3


def times(metadata: dict[str, Any]) -> list[str]:
    """The options that say when it was handed in and until when this student had time: the latest due date of a
    group's members, as the platform counts it."""
    words = ["--submitted-at", metadata["created_at"]] if metadata.get("created_at") else []
    users = metadata.get("users") or []
    own = [due for user in users if (due := (user.get("assignment") or {}).get("due_date"))]
    return [*words, "--due", max(own, key=datetime.fromisoformat)] if own else words


def _apart() -> list[str]:
    """Ranks run as a user of their own where there is one and we are root."""
    import pwd

    try:
        pwd.getpwnam(USER)
    except KeyError:
        return []
    return ["--rank-user", USER] if os.geteuid() == 0 else []


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


if __name__ == "__main__":
    sys.exit(main())
