"""Whose hand-in it is: folders by hand and the exports of platforms."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.batch.exports import find
from grader.batch.hand_ins import HandIn
from grader.model.errors import UsageError


def people(folder: Path, file: str = "") -> dict[str, HandIn]:
    """The hand-ins of a folder by whose they are."""
    return {one.who: one for one in find(folder, file)}


def written(folder: Path, *names: str) -> Path:
    """A folder with these files."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_canvas_files_lie_side_by_side_under_the_users_number(tmp_path):
    """The newest of one name counts; whoever handed in something else has handed in nothing, and is not forgotten."""
    names = ("doejohn_4711_815_total.py", "doejohn_4711_816_total-1.py", "roejane_LATE_12_9_total.py", "li_x_3_4_a.txt")
    found = people(written(tmp_path, *names))
    assert set(found) == {"4711", "12", "3"} and "late" in found["12"].note and not found["3"].files
    assert found["4711"].files["total.py"].name == "doejohn_4711_816_total-1.py"


def test_canvas_without_names_goes_by_what_it_calls_them(tmp_path):
    found = people(written(tmp_path, "anon_x7Yz2_815_total.py", "LATE_anon_q1Wer_816_total.py"))
    assert set(found) == {"anon_x7Yz2", "anon_q1Wer"} and "late" in found["anon_q1Wer"].note


def test_archives_from_canvas_are_unpacked_before_they_count(tmp_path):
    """And are told where one was forgotten, for otherwise somebody would have handed in nothing."""
    written(tmp_path, "doejohn_4711_815_homework.zip", "doejohn_4711_815_homework/total.py")
    assert people(tmp_path)["4711"].folder == tmp_path / "doejohn_4711_815_homework"
    (tmp_path / "doejohn_4711_815_homework.zip").unlink()
    assert people(tmp_path)["4711"].folder == tmp_path / "doejohn_4711_815_homework"
    written(tmp_path, "roejane_12_9_homework.zip")
    with pytest.raises(UsageError, match=r"roejane_12_9_homework\.zip is still packed; unpack"):
        find(tmp_path)


def test_a_folder_of_nothing_but_archives_says_what_to_do(tmp_path):
    with pytest.raises(UsageError, match=r"ada\.zip is still packed; unpack every hand-in"):
        find(written(tmp_path, "ada.zip", "bob.zip"))


def test_moodle_folders_are_called_by_the_full_name(tmp_path):
    """What was typed into the page is no second person."""
    found = people(
        written(
            tmp_path,
            "Ada Lovelace_4711_assignsubmission_file/total.py",
            "Ada Lovelace_4711_assignsubmission_onlinetext/onlinetext.html",
            "Bob_12_assignsubmission_file_/total.py",
            "Eve_13_assignsubmission_onlinetext/onlinetext.html",
        )
    )
    assert set(found) == {"Ada Lovelace", "Bob", "Eve"} and found["Eve"].folder is None
    assert found["Ada Lovelace"].folder == tmp_path / "Ada Lovelace_4711_assignsubmission_file"


def test_moodle_without_folders_has_a_file_each(tmp_path):
    found = people(written(tmp_path, "Ada Lovelace_4711_assignsubmission_file_train_ddp.py"))
    assert set(found["Ada Lovelace"].files) == {"train_ddp.py"}


def test_moodle_tells_namesakes_and_nameless_apart_by_its_number(tmp_path):
    """As the column Identifier of its grading worksheet has them."""
    names = [f"{name}_assignsubmission_file/total.py" for name in ("Ada_1", "Ada_2", "Participant_3", "Bob_4")]
    assert set(people(written(tmp_path, *names))) == {"Participant 1", "Participant 2", "Participant 3", "Bob"}


def test_gradescope_names_members_of_a_group_and_times(tmp_path):
    """Also where Ruby has written its own kinds of values."""
    written(tmp_path, "submission_1/total.py", "submission_2/total.py")
    (tmp_path / "submission_metadata.yml").write_text(
        "submission_1:\n  :submitters:\n  - :name: Ada\n    :sid: '1'\n    :email: ada@x.org\n"
        "  - :name: Bob\n    :sid: '2'\n    :email: bob@x.org\n  :created_at: 2026-10-12 10:00:00.5 Z\n"
        "submission_2:\n  :submitters:\n  - !ruby/hash:ActiveSupport::HashWithIndifferentAccess\n    :name: Eve\n"
        "    :email: eve@x.org\n  :created_at: !ruby/object:ActiveSupport::TimeWithZone\n"
        "    utc: 2026-10-12 11:00:00.123456789 Z\n    zone: !ruby/object:ActiveSupport::TimeZone\n      name: UTC\n"
    )
    found = people(tmp_path)
    assert set(found) == {"ada@x.org", "bob@x.org", "eve@x.org"}
    assert (found["ada@x.org"].submitted_at.hour, found["eve@x.org"].submitted_at.hour) == (10, 11)


@pytest.mark.parametrize("text", ["submission_1: [1]\n", "submission_1: !!python/object/apply:os.getcwd []\n", "{"])
def test_metadata_that_is_none_is_refused(tmp_path, text):
    written(tmp_path, "submission_1/total.py")
    (tmp_path / "submission_metadata.yml").write_text(text)
    with pytest.raises(UsageError, match="not as Gradescope exports it"):
        find(tmp_path)


def test_clones_of_github_classroom_are_called_by_the_login(tmp_path):
    folder = written(tmp_path / "homework-2-submissions", "homework-2-ada/total.py", "homework-2-bob-x/total.py")
    assert set(people(folder)) == {"ada", "bob-x"}
    assert set(people(written(tmp_path / "other", "homework-2-ada/total.py"))) == {"homework-2-ada"}


def test_files_of_one_exercise_may_lie_side_by_side(tmp_path):
    assert set(people(written(tmp_path, "ada.py"), "total.py")) == {"ada"}
