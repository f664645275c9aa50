"""The hand-ins of a batch as folders that other tools read: Dolos, JPlag and compare50.

For each exercise `submissions/`, with a folder for each hand-in, `template/` with the stub, and Dolos' `info.csv` (its
documentation, "Adding metadata"; JPlag's and compare50's want a folder for each submission and one for what was given
out).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from grader.batch.report.pages import file_name
from grader.batch.row import Row
from grader.batch.similarity.find import gathered, source_of
from grader.course.roster import write
from grader.model import file_of
from grader.model.errors import UsageError

COMMANDS = {
    "dolos": "cd {folder} && dolos run --language python --ignore template/{file} info.csv",
    "jplag": "java -jar jplag.jar --language python3 --base-code {folder}/template {folder}/submissions",
    "compare50": "compare50 {folder}/submissions/* -d {folder}/template",
}
KINDS = tuple(COMMANDS)


def export(rows: Iterable[Row], folder: Path, kind: str, stub: Path, *, names: bool) -> Iterator[str]:
    """Write everything below `folder`, which must be new or empty; gives the command for each exercise. `stub` is the
    folder of the exercises. Raises UsageError where it cannot be written."""
    try:
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty; name a new folder for --export.")
        for exercise, units in gathered(rows).items():
            own = folder / exercise
            named = [("", own / "template" / file_of(exercise), (stub / exercise / file_of(exercise)).read_text())]
            listed = [["filename", "full_name", "created_at"]]
            for key, unit in units.items():
                for who in unit.who if names else unit.who[:1]:
                    called = file_name(who) if names else key[:12]
                    path = own / "submissions" / called / file_of(exercise)
                    named.append((who, path, source_of(unit.row)))
                    at = unit.row.submitted_at.isoformat(" ", "seconds") if unit.row.submitted_at else ""
                    listed.append([path.relative_to(own).as_posix(), who if names else called, at])
            for _, path, text in named:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            (own / "info.csv").write_text(write(listed), encoding="utf-8", newline="")
            yield COMMANDS[kind].format(folder=shlex.quote(str(own)), file=file_of(exercise))
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}. Choose another folder.") from None
