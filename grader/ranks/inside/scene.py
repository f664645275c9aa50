"""What a rank is told of the run that it is part of: all that it knows, so none of it is secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.ranks.inside.limits import Bounds

CAUGHT = "what the student's last call raised"
"""The observation in which a rank whose own code raises tells of an exception that it has caught before: its type and
message, and its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A run as its ranks see it. `script` says that the student's file is never imported. `code` (that file and the
    probe), `shared` and `scratch` (with a folder for each rank) are folders; `port` is reserved for the run;
    `began` is the monotonic clock's nanoseconds at its start; `gpus` are as many as each rank can see; `inherited`
    are the supervisor's descriptors, which a forked rank has to close."""

    file: str
    script: bool
    requires: tuple[tuple[str, str | None], ...]
    probe: str
    world_size: int
    seed: int
    parameters: Mapping[str, Any]
    environment: Mapping[str, str | None]
    process_group: bool
    hold_group: bool
    trace: bool
    bounds: Bounds
    code: str
    shared: str
    scratch: str
    port: int
    began: int
    gpus: int
    inherited: tuple[int, ...] = ()

    @property
    def student_file(self) -> str:
        """The student's file as Python names it in frames."""
        return str(Path(self.code) / self.file)
