"""The result as JUnit XML, for CI servers: pytest's xunit2 form, valid against Jenkins' junit-10 schema.

Sources: "junit-10.xsd" (Jenkins xUnit plugin) and pytest's documentation, "Creating JUnitXML format files".

Every exercise gives two suites, and no name in them ever depends on what happened, so that history tools can follow a
test from run to run:

* `NAME` holds one test a check, named by the check's id. These are what the grade counts.
* `NAME.ranks` holds one test for each rank of each run, as `equal_shards[world_size=3, rank=1]`. It fails where a
  failed check's findings name that case and that rank (or the case and no rank), and carries what the rank printed.
  A name that was put together from the findings would be a new test whenever the fault moves to another rank.

Outcomes: FAILED is a failure. BLOCKED is a failure of type `blocked`: it earned nothing, and as `skipped` a build whose
first check failed would count a single failed test and many harmless ones. SKIPPED is skipped. BROKEN is an error:
it is nobody's failed test, and a build must not pass with it.

The schema knows no properties of a test, so points, score and visibility of each check are properties of its suite,
as is what handing in late costs. Where there is no mark the suite has no `score`. Times are in seconds; there is
neither a timestamp nor a host name, as the same report gives the same file.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace

from grader.model import Entry, Finding, Outcome, RankRecord, Report, Result, Run, Verdict
from grader.scoring import finite
from grader.visibility import for_student, withheld_of
from grader.wording.plain import details, finding_lines
from grader.wording.text import IMPORT, ended, points, safe_report

ILLEGAL = re.compile("[^\t\n\r\x20-\x7e\x80-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 does not allow, and DEL."""

MESSAGE = 300
"""Characters of a `message`, which tools show in one line; the text has all of it."""

ELEMENTS = {
    Outcome.FAILED: ("failure", "failed"),
    Outcome.BLOCKED: ("failure", "blocked"),
    Outcome.SKIPPED: ("skipped", "skipped"),
    Outcome.BROKEN: ("error", "broken"),
}


def render(result: Result, *, withheld: bool = False) -> str:
    """The result as one XML document. Checks that students do not see, and the runs that only those look at, are in it
    only if `withheld`: for files that students cannot read."""
    root = ET.Element("testsuites", name=_legal(result.title))
    for number, entry in enumerate(result.entries, 1):
        again = any(entry.report.exercise.name == other.report.exercise.name for other in result.entries[: number - 1])
        name = f"{entry.report.exercise.name}{f'.{number}' if again else ''}"
        report = safe_report(entry.report)
        report = report if withheld else for_student(report, entry.scale)
        _checks(root, entry, report, name)
        _ranks(root, report, name)
    _count(root, root.iter("testcase"), sum(finite(entry.report.seconds) for entry in result.entries))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _checks(root: ET.Element, entry: Entry, report: Report, name: str) -> None:
    suite = ET.SubElement(root, "testsuite", name=_legal(name))
    _properties(suite, entry, report)
    for verdict in report.verdicts:
        case = _case(suite, f"ranklings.{name}", verdict.check.id, verdict.seconds)
        if verdict.outcome is not Outcome.PASSED:
            element, kind = ELEMENTS[verdict.outcome]
            _trouble(case, element, kind, [verdict.check.title, *details(verdict, report)])
    _count(suite, suite.iter("testcase"), report.seconds)


def _ranks(root: ET.Element, report: Report, name: str) -> None:
    suite = ET.SubElement(root, "testsuite", name=_legal(f"{name}.ranks"))
    seen: dict[str, int] = {}
    for run in report.runs:
        seen[run.case.id] = seen.get(run.case.id, 0) + 1
        for rank in run.ranks:
            title = _rank_name(run, rank, seen[run.case.id])
            case = _case(suite, f"ranklings.{name}.ranks", title, rank.ending.seconds)
            lines = list(_blame(run, rank, report))
            if lines:
                _trouble(case, "failure", rank.ending.kind, [*lines, f"This rank: {ended(rank.ending)}"])
            if rank.output.strip():
                ET.SubElement(case, "system-out").text = _legal(rank.output)
    _count(suite, suite.iter("testcase"), sum(finite(run.seconds) for run in report.runs))


def _rank_name(run: Run, rank: RankRecord, time: int) -> str:
    again = f", time={time}" if time > 1 else ""
    if run.case.id == IMPORT:
        return f"{run.case.name}[rank={rank.rank}{again}]"
    return f"{run.case.name}[world_size={run.case.world_size}, rank={rank.rank}{again}]"


def _blame(run: Run, rank: RankRecord, report: Report) -> Iterator[str]:
    """What failed checks have found of this rank in this run; a fault that several share is told once."""
    found: dict[Finding, list[str]] = {}
    for verdict in report.verdicts:
        if verdict.outcome is Outcome.FAILED:
            for finding in verdict.findings:
                if _names(finding, run, rank):
                    found.setdefault(replace(finding, hint=None), []).append(verdict.check.id)
    for finding, checks in found.items():
        yield from finding_lines(finding, report.exercise)
        yield f"  seen by: {', '.join(checks)}"


def _names(finding: Finding, run: Run, rank: RankRecord) -> bool:
    return finding.case == run.case.id and (not finding.ranks or rank.rank in finding.ranks)


def _case(suite: ET.Element, classname: str, name: str, seconds: float) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=_legal(classname), name=_legal(name), time=_seconds(seconds))


def _trouble(case: ET.Element, element: str, kind: str, lines: list[str]) -> None:
    """`message` has the first two lines: which check, and what is wrong."""
    message = " ".join(": ".join(lines[:2]).split())
    cut = message if len(message) <= MESSAGE else f"{message[: MESSAGE - 1]}…"
    ET.SubElement(case, element, type=kind, message=_legal(cut)).text = _legal("\n".join(lines))


def _properties(suite: ET.Element, entry: Entry, report: Report) -> None:
    properties = ET.SubElement(suite, "properties")
    for name, value in [*_facts(entry, report), *(fact for v in report.verdicts for fact in _check_facts(v, entry))]:
        ET.SubElement(properties, "property", name=_legal(name), value=_legal(value))


def _facts(entry: Entry, report: Report) -> Iterator[tuple[str, str]]:
    yield "title", report.exercise.title
    if report.mark is not None:
        yield "score", points(report.mark * entry.scale * entry.kept)
    yield "max_score", points(report.max_score * entry.scale)
    if entry.late:
        yield "late", entry.late.told
        yield "late.kept", points(entry.kept)
    missing = len(withheld_of(entry.report)) - len(withheld_of(report))
    if missing:
        yield "withheld.checks", str(missing)
    facts = {"seed": report.seed, "device": report.device, "torch": report.torch_version, "sandbox": report.sandbox}
    facts |= {"submission": report.submission.path.name, "digest": report.submission.digest}
    yield from ((name, str(value)) for name, value in facts.items())
    yield from ((f"note.{number}", note) for number, note in enumerate(report.notes, 1))


def _check_facts(verdict: Verdict, entry: Entry) -> Iterator[tuple[str, str]]:
    name = f"check.{verdict.check.id}"
    yield f"{name}.title", verdict.check.title
    yield f"{name}.outcome", verdict.outcome.value
    yield f"{name}.visibility", verdict.check.visibility
    if verdict.outcome is not Outcome.BROKEN:
        yield f"{name}.score", points(verdict.score * entry.scale)
    yield f"{name}.points", points(verdict.check.points * entry.scale)


def _count(element: ET.Element, cases: Iterator[ET.Element], seconds: float) -> None:
    """The totals, which the schema wants and which come last because the tests have to be known."""
    found = list(cases)
    kinds = [child.tag for case in found for child in case]
    element.set("tests", str(len(found)))
    element.set("failures", str(kinds.count("failure")))
    element.set("errors", str(kinds.count("error")))
    if element.tag == "testsuite":
        element.set("skipped", str(kinds.count("skipped")))
    element.set("time", _seconds(seconds))


def _seconds(value: float) -> str:
    return f"{max(finite(value), 0.0):.3f}"


def _legal(text: str) -> str:
    """`text` with what XML does not allow written out, as #x07; an author's texts have not been made safe before."""
    return ILLEGAL.sub(lambda found: f"#x{ord(found[0]):02X}", text)
