"""The page that a student sees: one line a check, what went wrong where, the score, and how to replay it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.text import Text

from grader import calling
from grader.model import Finding, Outcome, RankRecord, Report, Run, Verdict
from grader.model.words import rank_list
from grader.wording.advice import next_step, replay, unwritten, where_to_start
from grader.wording.editor import Editor
from grader.wording.layout import crop, hang, paint, paragraph, spaced, strip_lines, value, wrap
from grader.wording.marks import FINDINGS_ON_A_TERMINAL, MARKS, NO_MARK, OUR_FAULT, UNJUDGED
from grader.wording.plain import cause, deadlock_of, folded, general_hints, in_trouble, more_lines, untold, waits
from grader.wording.text import blocked_by, in_world, place, points, safe_report

NARROWEST, WIDEST = 40, 100
"""Columns. Beyond the second, points stand too far from their titles."""

OUTPUT_LINES = 8
OUTPUTS_SHOWN = 4

Lines = list[Text]


def render(
    report: Report,
    *,
    color: bool = False,
    width: int = 80,
    by: str = calling.MAKE,
    command: Sequence[str] = (),
    editor: Editor | None = None,
) -> str:
    """The page as text, `width` columns wide (40 to 100). Colour changes nothing but the colour. The command
    that replays is for who calls `by` make or otherwise, unless one is given in words. `editor`: lines lead there."""
    shown = safe_report(report)
    words = command or replay(shown, by)
    page = _Page(shown, min(max(width, NARROWEST), WIDEST), words, report.submission.path, editor)
    return paint(page.lines(), color)


@dataclass(frozen=True, slots=True)
class _Page:
    """One page in the making. `owners` maps a finding to the first failed check that shows it."""

    report: Report
    width: int
    words: Sequence[str]
    path: Path
    editor: Editor | None
    owners: dict[Finding, Verdict | None] = field(default_factory=dict)

    def lines(self) -> Lines:
        self._find_owners()
        parts = [self.heading(), self.problem(), self.checks(), self.output(), self.start(), self.notes(), self.foot()]
        return spaced(part for part in parts if part)

    def _find_owners(self) -> None:
        if self.report.submission.problem:
            self.owners[cause(self.report.submission.problem)] = None
        for verdict in self.report.verdicts:
            if verdict.outcome is Outcome.FAILED:
                for finding in verdict.findings:
                    self.owners.setdefault(cause(finding), verdict)

    # ── the parts, from top to bottom ──

    def heading(self) -> Lines:
        exercise = self.report.exercise
        return paragraph(Text.assemble((exercise.name, "bold"), "  "), Text(exercise.title), self.width)

    def problem(self) -> Lines:
        """Why the file cannot be graded at all."""
        fault = self.report.submission.problem
        return self.finding(fault, 2) + self.hint([fault.hint] if fault.hint else [], 2) if fault else []

    def checks(self) -> Lines:
        return _listed([(self.check(v), self.details(v)) for v in self.report.verdicts])

    def output(self) -> Lines:
        """What the ranks of one run printed: of the first in trouble in which any did."""
        run = in_trouble(self.report)
        if run is None:
            return []
        shown: dict[str, list[RankRecord]] = {}
        for rank in filter(_printed, run.ranks):
            shown.setdefault(rank.output, []).append(rank)
        blocks = [self.printed(ranks, text, run) for text, ranks in list(shown.items())[:OUTPUTS_SHOWN]]
        if len(shown) > OUTPUTS_SHOWN:
            blocks.append([Text("  … and other ranks printed other things", "dim")])
        return [line for block in blocks for line in block]

    def start(self) -> Lines:
        """Where to begin, when nothing has been written yet, or what is next."""
        step = next_step(self.report)
        if step is None:
            return []
        text = Text.assemble((f"{step.label}: ", "bold"), f"{step.lead} ", (step.name, "cyan"), ".")
        text.highlight_words([where_to_start(self.report)[0]], "cyan")
        if self.editor and (found := re.search(r"\(line (\d+)\)$", step.name)):
            self.editor.link(text, self.path, int(found[1]), f"line {found[1]}")
        return wrap(text, self.width)

    def notes(self) -> Lines:
        return [line for note in self.report.notes for line in paragraph(Text("Note: "), Text(note), self.width)]

    def foot(self) -> Lines:
        report = self.report
        torch = f"torch {report.torch_version}" if report.torch_version else ""
        facts = filter(None, [report.device, torch, f"sandbox {report.sandbox}", f"{report.seconds:.1f} s"])
        return [*wrap(self.score(), self.width), *self.replay(), *wrap(Text(" · ".join(facts), "dim"), self.width)]

    def score(self) -> Text:
        """The points, or why there is no mark."""
        report = self.report
        if report.status == "error":
            return Text(NO_MARK, "bold")
        left_out = sum(v.check.points for v in report.verdicts if not v.outcome.counted)
        score = Text.assemble((f"Score {points(report.score)}/{points(report.max_score)}", "bold"))
        if left_out:
            score.append(f" · {points(left_out)} points not counted")
        elif report.status == "passed":
            score.append(" · every check passed")
        return score

    def replay(self) -> Lines:
        """The seed and the command that grades with it again, split so that it can still be copied."""
        label, command = f"Seed {self.report.seed} · replay with", self.words
        if len(label) + 1 + len(" ".join(command)) <= self.width:
            return [Text.assemble((f"{label} ", "dim"), " ".join(command))]
        rows = [" ".join(command)] if len(" ".join(command)) <= self.width - 2 else command
        return [Text(label, "dim"), *(Text(f"  {row} \\") for row in rows[:-1]), Text(f"  {rows[-1]}")]

    # ── one check ──

    def check(self, verdict: Verdict) -> Lines:
        """Mark, title, what it waits for, points."""
        mark, style = MARKS[verdict.outcome]
        worth = UNJUDGED.get(verdict.outcome) or f"{points(verdict.score)}/{points(verdict.check.points)}"
        room = self.width - 3 - len(worth) - 2
        quiet = "dim" if style == "dim" else ""
        lines = wrap(Text(verdict.check.title, quiet), room)
        body = self.explained(lines, self.reason(verdict), room, whole=verdict.outcome is Outcome.SKIPPED)
        body[0].append(" " * (room + 2 - body[0].cell_len))
        body[0].append(worth, quiet)
        return hang(Text.assemble(" ", (mark, style), " "), body)

    def explained(self, title: Lines, reason: str, room: int, whole: bool) -> Lines:
        """The title with the reason behind it, or below where there is no room. A `whole` one is never cut."""
        left = room - title[-1].cell_len - 3
        if reason and (len(reason) <= left or (left >= 24 and not whole)):
            title[-1].append(f" · {crop(reason, left)}", "dim")
        elif reason:
            title += paragraph(Text("  "), Text(reason, "dim"), room)
        return title

    def reason(self, verdict: Verdict) -> str:
        """Why a check that shows nothing of its own did not pass."""
        match verdict.outcome:
            case Outcome.BLOCKED:
                return blocked_by(verdict, self.report.verdicts)
            case Outcome.SKIPPED:
                return f"skipped: {verdict.message}" if verdict.message else "skipped"
            case Outcome.FAILED if verdict.findings and not self.own(verdict):
                if unwritten(verdict, self.report):
                    return "not written yet"
                owner = self.owners[cause(verdict.findings[0])]
                return f"as above: {owner.check.title}" if owner else ""
        return ""

    def details(self, verdict: Verdict) -> Lines:
        """What stands under the line of a check that failed or is broken."""
        if verdict.outcome is Outcome.BROKEN:
            return self.indented(OUR_FAULT) + self.indented(verdict.message, "dim")
        if verdict.outcome is not Outcome.FAILED:
            return []
        own = self.own(verdict)
        if not own:
            return [] if verdict.findings else self.indented(verdict.message) + self.hint(verdict.check.hints)
        lines, left = self.deadlock(own)
        lines += [line for finding in left[:FINDINGS_ON_A_TERMINAL] for line in self.finding(finding)]
        if len(left) > FINDINGS_ON_A_TERMINAL:
            lines.append(Text(f"    … and {len(left) - FINDINGS_ON_A_TERMINAL} more", "dim"))
        hints = [finding.hint for finding in own if finding.hint]
        return lines + self.hint([*hints, *general_hints(verdict, self.report)])

    def own(self, verdict: Verdict) -> list[Finding]:
        """The findings that are shown under this check and not under an earlier one."""
        if unwritten(verdict, self.report):
            return []
        return [finding for finding in verdict.findings if self.owners[cause(finding)] is verdict]

    # ── one finding ──

    def finding(self, finding: Finding, indent: int = 4) -> Lines:
        """Subject and place, then `expected` and `got` under one another."""
        labelled = [("expected  ", finding.expected), ("got       ", finding.actual)]
        if not finding.expected:
            labelled = [("", finding.actual)]
        lines = self.subject(finding, indent)
        for label, text in labelled:
            if text:
                prefix = Text.assemble(" " * (indent + 2), (label, "dim"))
                lines += hang(prefix, value(text, self.width - prefix.cell_len))
        return lines

    def subject(self, finding: Finding, indent: int) -> Lines:
        """What the finding is about, and the place behind it, or below it where there is no room."""
        subject, where = " ".join(finding.subject.split()), Text(place(finding, self.report.exercise), "dim")
        if self.editor and finding.line:
            where = self.to_line(where, finding.line, self.editor)
        whole = Text.assemble(subject, (" · " if where and subject else "", "dim"), where)
        room = self.width - indent
        if where and whole.cell_len > room:
            return hang(Text(" " * indent), [*wrap(Text(subject), room), *wrap(where, room)])
        return paragraph(Text(" " * indent), whole, self.width)

    def to_line(self, where: Text, line: int, editor: Editor) -> Text:
        """A place whose line leads to the editor."""
        rest, told = where.plain.removesuffix(f"line {line}"), editor.told(self.path, line)
        made = Text(f"{rest}{told}", "dim")
        editor.link(made, self.path, line, told)
        return made

    def hint(self, hints: Sequence[str], indent: int = 4) -> Lines:
        """The first of the hints."""
        label = Text.assemble(" " * indent, ("Hint: ", "cyan"))
        return paragraph(label, Text(hints[0].strip()), self.width) if hints else []

    def deadlock(self, findings: list[Finding]) -> tuple[Lines, list[Finding]]:
        """The table of the first deadlocked run that the findings are about, and the findings that it does not tell."""
        run = deadlock_of(findings, self.report)
        if run is None:
            return [], findings
        head = Finding(subject="Deadlock: no rank can go on", case=run.case.id)
        return self.finding(head) + self.table(run) + strip_lines(run, self.width, 6), untold(findings, run)

    def table(self, run: Run) -> Lines:
        """Rank, what it waits in, line."""
        rows = folded([("rank", "waits in", "line"), *waits(run)], self.width - 18)
        wide = max(len(state) for _, state, _ in rows)
        lines = [Text(f"      {rank:<4}  {state:<{wide}}  {line:>4}".rstrip()) for rank, state, line in rows]
        lines[0].stylize("dim")
        for text, (_, _, line) in zip(lines[1:], rows[1:], strict=True):
            if self.editor and line.isdecimal():
                self.editor.link(text, self.path, int(line), line)
        return lines

    def indented(self, text: str, style: str = "") -> Lines:
        lines = hang(Text("    "), value(text, self.width - 4)) if text else []
        for line in lines:
            line.stylize(style)
        return lines

    def printed(self, ranks: list[RankRecord], text: str, run: Run) -> Lines:
        """Head and tail of what some ranks printed alike."""
        world = len(run.ranks)
        lines = text.strip("\n").split("\n")
        if len(lines) > OUTPUT_LINES:
            head, tail = 3, OUTPUT_LINES - 4
            lines[head:-tail] = [more_lines(lines[head:-tail], ", all with --html FILE", " with --html FILE")]
        where = in_world(world) if run.case.probe else "when the file was imported"
        label = Text.assemble(f"  {rank_list([r.rank for r in ranks])} printed", (f" · {where}", "dim"))
        return [label, *(Text.assemble(("  │ ", "dim"), crop(line, self.width - 4)) for line in lines)]


def _printed(rank: RankRecord) -> bool:
    return bool(rank.output.strip())


def _listed(checks: list[tuple[Lines, Lines]]) -> Lines:
    """The checks one under another, with an empty line before and after those that have details."""
    lines: Lines = []
    after = False
    for head, details in checks:
        lines += [*([Text()] if lines and (after or details) else []), *head, *details]
        after = bool(details)
    return lines
