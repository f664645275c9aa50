"""Which exercises there are and what a student may call them. No central list: a manifest makes an exercise."""

from __future__ import annotations

from pathlib import Path

from grader.catalog.nearest import either, nearest
from grader.model import number_of, slug_of
from grader.model.errors import UsageError

MANIFEST = "exercise.yaml"
_SHOWN = 40


def repository_root(start: Path | None = None) -> Path:
    """The nearest folder upwards from `start` (default: the current one) that holds exercises/, or else the folder
    above this package. Raises UsageError when neither holds it."""
    above_package = Path(__file__).resolve().parents[2]
    for folder in (*_upwards(start), above_package):
        if (folder / "exercises").is_dir():
            return folder
    raise UsageError(
        "No exercises/ folder is here or in any folder above; change to the folder that holds it, or begin a course "
        "with `ranklings init FOLDER`."
    )


def _upwards(start: Path | None) -> tuple[Path, ...]:
    try:
        first = (start or Path.cwd()).resolve()
    except (OSError, RuntimeError):  # the current folder was deleted, or a loop of symbolic links
        return ()
    return (first, *first.parents)


def all_names(root: Path) -> tuple[str, ...]:
    """The names of all exercises, as `03_train_ddp`, in order."""
    try:
        folders = [entry for entry in (root / "exercises").iterdir() if not entry.name.startswith(".")]
        return tuple(sorted(folder.name for folder in folders if (folder / MANIFEST).is_file()))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise UsageError(f"{root / 'exercises'} cannot be read ({error.strerror}).") from None


def reference(exercise_name: str, root: Path) -> Path:
    """The folder with the exercise's solution, variants and mutants. It need not exist: students may not have it."""
    return root / "reference" / exercise_name


def resolve(text: str, root: Path) -> str:
    """The one exercise that `text` names: `03`, `3`, `03_train_ddp`, `train_ddp`, a path to its folder or file, or an
    unambiguous beginning of its name, in any case. Raises UsageError, which offers the nearest names."""
    names = all_names(root)
    if not names:
        raise UsageError(_no_exercises(root))
    word = _normal(text)
    found = _named(word, names)
    if len(found) == 1:
        return found[0]
    raise UsageError(_ambiguous(text, found) if found else _unknown(text, word, names))


def _normal(text: str) -> str:
    """`text` without what a shell's completion adds: `exercises/03_Train-DDP/` is `03_train_ddp`."""
    last = text.strip().replace("\\", "/").rstrip("/").rpartition("/")[2]
    return last.lower().replace("-", "_").removesuffix(".py")


def _named(word: str, names: tuple[str, ...]) -> list[str]:
    """The names that `word` may stand for; an exact one wins over longer ones that begin with it."""
    if not word:
        return []
    if word.isdecimal():
        return [name for name in names if number_of(name).lstrip("0") == word.lstrip("0")]
    exact = [name for name in names if word in (name.lower(), slug_of(name).lower())]
    return exact or [name for name in names if name.lower().startswith(word) or slug_of(name).lower().startswith(word)]


def _no_exercises(root: Path) -> str:
    folder = root / "exercises"
    if not folder.is_dir():
        return f"There is no folder {folder}; run this in the folder that holds exercises/."
    return f"{folder} is empty: no folder in it holds an {MANIFEST}."


def _ambiguous(text: str, found: list[str]) -> str:
    return f"{_quoted(text)} could be {either(found)}; say which."


def _unknown(text: str, word: str, names: tuple[str, ...]) -> str:
    near = _near(word, names)
    if near:
        return f"There is no exercise {_quoted(text)}; did you mean {either(near)}?"
    few = ", ".join(names) if len(names) <= 3 else f"{names[0]} to {names[-1]}"
    return f"There is no exercise {_quoted(text)}; choose from {few}."


def _near(word: str, names: tuple[str, ...]) -> list[str]:
    """At most three names, the most similar first, whichever way a student would write them."""
    spellings = {spelling: name for name in names for spelling in (name.lower(), slug_of(name).lower())}
    return list(dict.fromkeys(spellings[spelling] for spelling in nearest(word, spellings)))


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
