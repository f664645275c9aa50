"""`python -m grader`. Says in one sentence what is missing where even the command line cannot be loaded."""

import os
import sys


def run() -> None:
    """Start the command line. Exits with 3 where this Python is too old or lacks a package that the grader needs."""
    if sys.version_info < (3, 11):  # noqa: UP036 — somebody may call us with the system's own, older Python
        sys.exit(_refusal("Python 3.11 or newer is needed, and this is %d.%d." % sys.version_info[:2]))  # noqa: UP031
    from grader import leaving

    leaving.quickly()
    try:
        from grader.cli import main
    except ModuleNotFoundError as error:
        if (error.name or "grader").partition(".")[0] == "grader":
            raise
        sys.exit(_refusal("The package %s is not installed here." % error.name))  # noqa: UP031
    except KeyboardInterrupt:  # before the command line is there to say it
        sys.stderr.write("Interrupted: nothing was graded and nothing is left running.\n")
        sys.exit(130)
    main()


def _refusal(fault: str) -> int:
    remedy = "`make grade` creates an environment that has all that is needed."
    made = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".venv")
    if os.path.exists(os.path.join(made, "bin", "python")) and made != sys.prefix:
        remedy = "`%s -m grader` has all that is needed." % os.path.join(os.path.relpath(made), "bin", "python")  # noqa: UP031
    if "ranklings" in sys.argv[0]:  # as pip installs it, where there may be no Makefile
        remedy = "Install ranklings anew, from where you had it and by a Python that is new enough."
    sys.stderr.write("grader: " + fault + " " + remedy + "\n")
    return 3


if __name__ == "__main__":
    run()
