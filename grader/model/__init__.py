"""The nouns of a grade, all frozen. Standard library only.

An Exercise has Cases (how ranks are run) and Checks (what is judged). A Submission is a student's file.
Running a case gives a Run of RankRecords; judging runs gives Verdicts; a Report holds them all.
"""

from grader.model.exercise import (
    MAX_SEED,
    MIB,
    Case,
    Check,
    Exercise,
    Limits,
    RequiredName,
    Submission,
    file_of,
    number_of,
    slug_of,
)
from grader.model.finding import Finding
from grader.model.report import (
    Entry,
    Late,
    Outcome,
    Report,
    Result,
    Verdict,
    alone,
)
from grader.model.run import (
    Deadlocked,
    Diagnosis,
    Ending,
    Exited,
    Finished,
    Killed,
    LiveRank,
    OpenedFile,
    Raised,
    RankRecord,
    Run,
    StackFrame,
    TimedOut,
    Value,
    Wait,
)

__all__ = [
    "MAX_SEED",
    "MIB",
    "Case",
    "Check",
    "Deadlocked",
    "Diagnosis",
    "Ending",
    "Entry",
    "Exercise",
    "Exited",
    "Finding",
    "Finished",
    "Killed",
    "Late",
    "Limits",
    "LiveRank",
    "OpenedFile",
    "Outcome",
    "Raised",
    "RankRecord",
    "Report",
    "RequiredName",
    "Result",
    "Run",
    "StackFrame",
    "Submission",
    "TimedOut",
    "Value",
    "Verdict",
    "Wait",
    "alone",
    "file_of",
    "number_of",
    "slug_of",
]
