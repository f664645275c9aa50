"""How this process was called, and what its caller types next: after make `make hint EX=03`, after the command that pip
installs `ranklings hint 03`, else `python -m grader hint 03`. Standard library only.

What goes to somebody who calls in another way, as a platform's report does, names make, which every copy has.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

MAKE, MODULE, SCRIPTS = "make", "python -m grader", ("ranklings", "grader")
_COMMAND = re.compile(r'\bmake ([a-z]+) EX=(\d+)(?: ARGS="([^"]*)")?')
_VARIABLES = {
    "OPTIONS": "ARGS=OPTIONS",
    "EX": "EX=03",
    "BANK": "BANK=overlap",
    "REPORT": "REPORT=report.json",
    "COURSE": "COURSE=DIR",
    "NAME": "NAME=22_all_reduce",
}
"""What of a command line the Makefile takes, by its name there."""
SELF = str(Path("grader", "__main__.py"))


def way() -> str:
    """MAKE, MODULE or one of SCRIPTS. Make says to all that it calls that it does; a program of another name, such as
    a kernel or a test runner, has no command of its own, and then make's are named."""
    name = Path(sys.argv[0]).name.removesuffix(".exe")
    if name in SCRIPTS:
        return name
    return MODULE if sys.argv[0].endswith(SELF) and "MAKELEVEL" not in os.environ else MAKE


def program() -> str:
    """What stands before a command where its usage is told."""
    return MODULE if way() == MAKE else way()


def words(verb: str, exercise: str = "", *options: str, submission: str = "", by: str | None = None) -> list[str]:
    """A command in parts that may stand in lines of their own, for who calls `by` (default: as this process was). The
    path of a submission is quoted where a shell needs it."""
    by, submission = by or way(), shlex.quote(submission) if submission else ""
    if by == MAKE:
        told = [f"make {verb} EX={exercise}" if exercise else f"make {verb}"]
        told += [f"SUBMISSION={submission}"] if submission else []
        return [*told, *([_arguments(options)] if options else [])]
    told = [f"{by} {verb} {exercise}".rstrip()]
    return [*told, *([f"--submission {submission}"] if submission else []), *options]


def command(verb: str, exercise: str = "", *options: str) -> str:
    """`make hint EX=03`, or what else the caller types for it."""
    return " ".join(words(verb, exercise, *options))


def option(*texts: str, by: str | None = None) -> str:
    """Options as they are added to the command that was called, or to that of who calls `by`."""
    return _arguments(texts) if (by or way()) == MAKE else " ".join(texts)


def usage(verb: str, pieces: Sequence[str]) -> str:
    """How make calls a command whose usage elsewhere has these pieces, such as `[OPTIONS]` and `EX`; empty where one of
    them has no variable of make's and stands in ARGS."""
    named = {piece: _VARIABLES.get(piece.strip("[]."), "") for piece in pieces}
    if way() != MAKE or not all(named.values()):
        return ""
    told = [f"[{named[piece]}]" if piece.startswith("[") else named[piece] for piece in pieces]
    return " ".join([f"make {verb}", *sorted(told, key=lambda text: "ARGS" in text)])


def translated(text: str) -> str:
    """A text whose commands are make's, as `make grade EX=03 ARGS="--html page.html"`, with those of the caller."""
    if way() == MAKE:
        return text
    return _COMMAND.sub(lambda found: command(found[1], found[2], *filter(None, [found[3]])), text)


def installing(package: str) -> str:
    """How to get a package that the grader needs, as a sentence."""
    if way() in SCRIPTS:
        return f"`python -m pip install {package}` brings it, in the environment that {way()} is in."
    return f"`make grade` creates an environment that has it; in one of your own: python -m pip install {package}."


def extra(name: str) -> str:
    """The command that brings an extra of this project into the environment that this process runs in, where the
    project is installed already: no index has it."""
    return f"{shlex.quote(sys.executable or 'python')} -m pip install 'ranklings[{name}]'"


def sandbox() -> str:
    """How to get bubblewrap, as a sentence."""
    if way() in SCRIPTS:
        return "On Debian and Ubuntu `apt install bubblewrap` brings it."
    return "`make sandbox` installs it on Debian and Ubuntu."


def _arguments(options: tuple[str, ...]) -> str:
    """For make, which reads a $ in it, and within quotes that keep the rest as it is."""
    text = " ".join(options).replace("$", "$$")
    if re.search(r'["$`!\\]', text):
        return f"ARGS={shlex.quote(text)}"
    return f'ARGS="{text}"' if re.search(r"[\s']", text) else f"ARGS={text}"
