"""grader.submission: which file is taken, with its companions, and what is refused."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from grader.model.errors import UsageError
from tests.submission.receiving import GOOD, received, write


def refused(root: Path, path: Path | None) -> str:
    """The one sentence of the UsageError that the path leads to."""
    with pytest.raises(UsageError) as caught:
        received(root, path)
    sentence = str(caught.value)
    assert str(path or "train_ddp.py") in sentence and sentence.endswith(".") and "\n" not in sentence
    return sentence


def test_without_a_path_the_students_own_file_is_taken(root: Path) -> None:
    """With its bytes and their sha256."""
    submission = received(root)
    assert submission.path == root / "exercises" / "03_train_ddp" / "train_ddp.py"
    assert (submission.source, submission.problem) == (GOOD, None)
    assert submission.digest == hashlib.sha256(GOOD).hexdigest()


def test_a_file_of_any_name_is_taken(root: Path, tmp_path: Path) -> None:
    """What the student calls the file does not matter."""
    assert received(root, write(tmp_path / "my solution.txt", GOOD)).source == GOOD


def test_a_folder_stands_for_the_exercises_file_in_it(root: Path, tmp_path: Path) -> None:
    """Directly, or in a folder of the exercise's name; the direct one first."""
    folder = tmp_path / "hand-in"
    nested = write(folder / "03_train_ddp" / "train_ddp.py", b"a = 1\n")
    assert received(root, folder).path == nested
    direct = write(folder / "train_ddp.py", b"b = 1\n")
    assert received(root, folder).path == direct


def test_a_folder_without_the_file_says_which_file_is_meant(root: Path, tmp_path: Path) -> None:
    """The sentence names the folder and the file."""
    write(tmp_path / "hand-in" / "other.py", GOOD)
    assert "holds no train_ddp.py" in refused(root, tmp_path / "hand-in")


def test_a_deleted_stub_can_be_brought_back(root: Path) -> None:
    """The sentence says how."""
    (root / "exercises" / "03_train_ddp" / "train_ddp.py").unlink()
    assert "make reset EX=03" in refused(root, None)


@pytest.mark.parametrize("name", ["missing.py", "s.py/below.py", "x" * 300, "nul\0byte"])
def test_a_path_to_nothing_is_refused(root: Path, tmp_path: Path, name: str) -> None:
    """In a sentence with the path, whatever the system says about it."""
    write(tmp_path / "s.py", GOOD)
    refused(root, tmp_path / name)


def test_what_is_no_regular_file_is_refused_at_once(root: Path, tmp_path: Path) -> None:
    """A FIFO, a device and a folder named as the file: nothing is waited for."""
    os.mkfifo(tmp_path / "fifo.py")
    assert "not a regular file" in refused(root, tmp_path / "fifo.py")
    assert "not a regular file" in refused(root, Path("/dev/zero"))
    (tmp_path / "hand-in" / "train_ddp.py").mkdir(parents=True)
    with pytest.raises(UsageError, match="not a regular file"):
        received(root, tmp_path / "hand-in")


def test_symbolic_links_count_as_what_they_lead_to(root: Path, tmp_path: Path) -> None:
    """A link to a file is fine, a loop and a dangling one are refused."""
    (tmp_path / "link.py").symlink_to(write(tmp_path / "s.py", GOOD))
    assert received(root, tmp_path / "link.py").source == GOOD
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    refused(root, tmp_path / "loop.py")
    (tmp_path / "dangling.py").symlink_to(tmp_path / "nowhere")
    refused(root, tmp_path / "dangling.py")


def test_a_dangling_link_in_a_folder_is_no_missing_file(root: Path, tmp_path: Path) -> None:
    """The link is named, not the folder."""
    (tmp_path / "hand-in").mkdir()
    (tmp_path / "hand-in" / "train_ddp.py").symlink_to("nowhere")
    with pytest.raises(UsageError, match=r"hand-in/train_ddp\.py"):
        received(root, tmp_path / "hand-in")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser reads everything")
def test_an_unreadable_file_is_refused(root: Path, tmp_path: Path) -> None:
    """With the system's reason."""
    write(tmp_path / "s.py", GOOD).chmod(0)
    assert "Permission denied" in refused(root, tmp_path / "s.py")


def test_a_file_that_cannot_be_opened_is_refused(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same promise, whoever runs the test."""

    def denied(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("grader.submission.found._open_at_once", denied)
    assert "Permission denied" in refused(root, write(tmp_path / "s.py", GOOD))


def test_a_file_of_256_kibibytes_is_read_and_a_larger_one_refused(root: Path, tmp_path: Path) -> None:
    """The limit is exact."""
    path = write(tmp_path / "s.py", b"#" * 2**18)
    assert received(root, path).problem is None
    write(path, b"#" * (2**18 + 1))
    assert "larger than 256 KiB" in refused(root, path)


COMPANIONS = ("01_process_group", "02_shard_data")


# -- companions --------------------------------------------------------------------------------------------------------


def test_companions_lie_in_exercises_when_no_path_is_given(root: Path) -> None:
    """Only those that exist, compile and are no stubs any more."""
    write(root / "exercises" / "02_shard_data" / "shard_data.py", b"b = 2\n")
    for unwritten in (b"def f(:\n", b"def f():\n    raise NotImplementedError('f is yours to write')\n"):
        write(root / "exercises" / "01_process_group" / "process_group.py", unwritten)
        assert received(root, companions=COMPANIONS).companions == {"02_shard_data": b"b = 2\n"}


def test_companions_lie_in_the_folder_that_was_handed_in(root: Path, tmp_path: Path) -> None:
    """In a folder of the exercise's name or beside the file; those in exercises/ do not count."""
    folder = tmp_path / "hand-in"
    write(root / "exercises" / "02_shard_data" / "shard_data.py", b"wrong = 1\n")
    write(folder / "03_train_ddp" / "train_ddp.py", GOOD)
    assert received(root, folder, companions=COMPANIONS).companions == {}
    write(folder / "01_process_group" / "process_group.py", b"a = 1\n")
    write(folder / "shard_data.py", b"b = 2\n")
    found = received(root, folder, companions=COMPANIONS).companions
    assert found == {"01_process_group": b"a = 1\n", "02_shard_data": b"b = 2\n"}


def test_a_single_file_has_no_companions(root: Path, tmp_path: Path) -> None:
    """What lies beside a file that was named alone was not handed in."""
    write(tmp_path / "hand-in" / "shard_data.py", b"b = 2\n")
    path = write(tmp_path / "hand-in" / "train_ddp.py", GOOD)
    assert received(root, path, companions=COMPANIONS).companions == {}
