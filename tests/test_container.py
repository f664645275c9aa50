"""The container's files: what they say can be read, and what they name is there. Nothing here can build an image."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INSTRUCTIONS = {"FROM", "RUN", "USER", "WORKDIR", "COPY", "ARG", "CMD"}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def instructions() -> list[tuple[str, list[str]]]:
    """The Dockerfile's instructions with their words: comments out, continued lines joined."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines()
    words = [shlex.split(line) if not line.startswith("CMD") else line.split(" ", 1) for line in joined if line.strip()]
    return [(first, rest) for first, *rest in words]


def test_every_instruction_is_one_and_stages_build_on_one_another():
    found = instructions()
    assert {name for name, _ in found} <= INSTRUCTIONS and found[0][0] == "FROM"
    stages: list[str] = []
    for name, words in found:
        if name == "FROM":
            assert words[1] == "AS" and (words[0] in stages or words[0].startswith("debian:"))
            stages.append(words[2])
    assert json.loads(found[-1][1][0]) == ["bash"]


def test_what_is_installed_is_what_the_course_needs():
    """The programs that the README asks for, and what `make sandbox` installs, by Debian's names."""
    commands = " ".join(" ".join(words) for name, words in instructions() if name == "RUN")
    packages = set(commands.partition("--no-install-recommends ")[2].partition(" &&")[0].split())
    assert packages == {"bubblewrap", "ca-certificates", "git", "make", "python3", "python3-venv"}
    assert "--no-install-recommends bubblewrap" in (ROOT / "Makefile").read_text()


def test_every_make_target_user_and_file_that_is_named_is_there():
    given = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    commands = [words for name, words in instructions() if name == "RUN"] + [given["postCreateCommand"].split()]
    called = [words[1] for words in commands if words[0] == "make"]
    assert called and set(called) <= TARGETS
    stages = [words[2] for name, words in instructions() if name == "FROM"]
    build = given["build"]
    assert build["target"] in stages and (ROOT / ".devcontainer" / build["dockerfile"]).resolve() == ROOT / "Dockerfile"
    users = [words[words.index("&&") - 1] for words in commands if words[0] == "useradd"]
    assert users == [given["remoteUser"]] == [words[0] for name, words in instructions() if name == "USER"]


def test_nothing_that_is_made_anew_is_copied_into_an_image():
    ignored = set((ROOT / ".dockerignore").read_text().split())
    assert {".git", ".venv", "**/__pycache__"} <= ignored
    assert not [name for name in ignored if (ROOT / name).is_dir() and name in ("exercises", "grader", "quizzes")]
