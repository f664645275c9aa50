"""grader.ranks.watch: when ranks can move by themselves, and when they cannot. No process is started."""

from __future__ import annotations

from typing import Any

import pytest

from grader.model import Finished, Killed, Wait
from grader.ranks.watch import decide, parsing, quiet
from grader.ranks.watch.evidence import Meeting, Snapshot, ThreadState
from grader.ranks.watch.gloo import GlooEvidence
from grader.ranks.watch.quiet import LOOP, Thread


def thread(state: str, main: bool = True, meeting: Meeting | None = None) -> ThreadState:
    wait = Wait(operation="all_reduce", sequence=1) if state == "communication" else None
    return ThreadState(main=main, state=state, wait=wait, meeting=meeting)


def rank(*threads: ThreadState) -> Snapshot:
    return threads


SITTING, BUSY, PASSIVE = thread("communication"), thread("busy"), thread("passive")


@pytest.mark.parametrize(
    ("threads", "stuck"),
    [
        ([SITTING], True),
        ([PASSIVE, thread("communication", main=False)], True),
        ([SITTING, thread("passive", main=False)], True),
        ([BUSY], False),
        ([PASSIVE], False),
        ([SITTING, thread("busy", main=False)], False),
        ([], False),
    ],
)
def test_a_rank_is_stuck_only_if_a_thread_sits_in_communication_and_none_is_busy(
    threads: list[ThreadState], stuck: bool
) -> None:
    """A thread that sleeps or computes may yet send; a thread that waits for another thread may not."""
    found = decide.waits({0: rank(SITTING), 1: rank(*threads)})
    assert (found is not None) == stuck


def test_nobody_is_stuck_where_nobody_is_left() -> None:
    """No live rank, no decide."""
    assert decide.waits({}) is None


def waits(**operations: Any) -> dict[int, Wait]:
    return {int(name[1:]): Wait(operation=op, sequence=seq, bytes=size) for name, (op, seq, size) in operations.items()}


def test_ranks_in_one_matching_collective_need_a_long_silence() -> None:
    """Such a collective should complete; a mismatch of kind, number or size cannot."""
    same = waits(r0=("all_reduce", 3, 8), r1=("all_reduce", 3, 8))
    assert decide.quiet_needed(same, 2) == decide.QUIET_IF_MATCHED
    for other in (("barrier", 3, 8), ("all_reduce", 4, 8), ("all_reduce", 3, 16)):
        assert decide.quiet_needed(waits(r0=("all_reduce", 3, 8), r1=other), 2) == decide.QUIET


def test_a_matching_collective_without_all_ranks_is_no_match() -> None:
    """Somebody has already ended."""
    assert decide.quiet_needed(waits(r0=("all_reduce", 3, 8)), 2) == decide.QUIET_AFTER_AN_ENDING


def meeting(**place: int) -> Snapshot:
    return rank(thread("communication", meeting=Meeting(**place)))


@pytest.mark.parametrize(
    ("places", "fails"),
    [
        ([{"port": 1, "rank": 0, "world_size": 2}, {"port": 1, "rank": 1, "world_size": 2}], False),
        ([{"port": 1, "rank": 0, "world_size": 2}, {"port": 2, "rank": 1, "world_size": 2}], True),
        ([{"port": 1, "rank": 1, "world_size": 2}, {"port": 1, "rank": 1, "world_size": 2}], True),
        ([{"port": 1, "rank": 0, "world_size": 3}, {"port": 1, "rank": 1, "world_size": 3}], True),
        ([{"port": 1, "rank": 1, "world_size": 2}, {"rank": 0, "world_size": 2}], False),
    ],
    ids=["all there", "two ports", "no rank 0", "one missing", "the server is further on"],
)
def test_a_meeting_fails_if_too_few_come_to_a_port(places: list[dict[str, int]], fails: bool) -> None:
    """Ranks that are past the store may be at any port, so they are given the benefit of the doubt."""
    assert decide.meeting_fails({i: meeting(**place) for i, place in enumerate(places)}) == fails


def test_a_meeting_does_not_fail_while_somebody_may_still_come() -> None:
    """A rank that sleeps before it joins."""
    assert not decide.meeting_fails({0: meeting(port=1, rank=0, world_size=2), 1: rank(BUSY)})


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({"operation": "all_reduce", "called": "all_reduce"}, "all_reduce"),
        ({"operation": "all_reduce", "called": "wait"}, "all_reduce"),
        ({"operation": "all_reduce", "called": "backward"}, "all_reduce (called by backward)"),
        ({"operation": "recv", "called": "recv", "peer": 2}, "recv from rank 2"),
        ({"operation": "_allgather_base", "called": "_all_gather_base"}, "_allgather_base"),
        ({"operation": "", "called": "barrier"}, "barrier"),
    ],
)
def test_a_wait_is_named_as_the_student_knows_it(raw: dict[str, Any], text: str) -> None:
    """The call that they wrote, and the collective behind it where that has another name."""
    assert parsing.wait_from(raw).operation == text


def test_bytes_follow_from_sizes_and_dtypes() -> None:
    """As the Flight Recorder gives them."""
    wait = parsing.wait_from({"operation": "all_reduce", "sizes": [[2, 3], [4]], "dtypes": ["Double", "Float"]})
    assert wait.bytes == 2 * 3 * 8 + 4 * 4


def look(**threads: tuple[str, str, int, int]) -> dict[tuple[int, int], Thread]:
    return {(1, number): Thread(*fields) for number, fields in enumerate(threads.values())}


ASLEEP = ("python", "S", 10, 1000)


@pytest.mark.parametrize(
    ("now", "still"),
    [
        (("python", "S", 10, 1000), True),
        (("python", "S", 11, 1000), False),
        (("python", "R", 10, 1000), False),
        (("python", "D", 10, 1000), False),
    ],
    ids=["asleep", "ran in between", "waits for a core", "waits for a disk"],
)
def test_a_thread_is_still_only_if_it_neither_ran_nor_wants_to(now: tuple[str, str, int, int], still: bool) -> None:
    """A starved thread is runnable, so it never looks asleep."""
    assert quiet.unmoved(look(a=ASLEEP), look(a=now)) == still


def test_a_thread_that_appears_or_ends_is_a_move() -> None:
    """The set of threads is compared first."""
    assert not quiet.unmoved(look(a=ASLEEP), look(a=ASLEEP, b=ASLEEP))


@pytest.mark.parametrize(
    ("slices", "nanoseconds", "idle"),
    [(5, 100_000, True), (1, 20_000, False), (5, 5_000_000, False)],
    ids=["polls and finds nothing", "starved", "moves data"],
)
def test_gloos_loop_must_have_polled_in_vain(slices: int, nanoseconds: int, idle: bool) -> None:
    """A loop that had no turn may have a message waiting; one that worked has moved one."""
    before, now = look(a=(LOOP, "S", 100, 0)), look(a=(LOOP, "S", 100 + slices, nanoseconds))
    assert quiet.unmoved(before, now) and quiet.loops_idle(before, now) == idle


# -- the rule, on evidence that is made up ----------------------------------------------------------------------------


class MadeUp:
    """Two ranks of which a test says everything."""

    def __init__(self, *snapshots: Snapshot, quiet: float = 0.0, idle: float = 0.0, failed: bool = False) -> None:
        self.snapshots, self.quiet_seconds, self.idle_seconds, self.failed = snapshots, quiet, idle, failed
        self.live, self.asked, self.clock = len(snapshots), 0, 100.0

    def now(self) -> float:
        return self.clock

    def quiet(self) -> float:
        return self.quiet_seconds

    def idle(self) -> float:
        return self.idle_seconds

    def ask(self) -> dict[int, Snapshot]:
        self.asked += 1
        return dict(enumerate(self.snapshots))

    def forget(self) -> None:
        self.quiet_seconds = 0.0


STUCK = (rank(SITTING), rank(ThreadState(main=True, state="communication", wait=Wait(operation="barrier"))))


def test_ranks_that_are_quiet_long_enough_are_deadlocked() -> None:
    """Each with what it waits in; before that they are not even asked."""
    rule = decide.DeadlockRule(2)
    early = MadeUp(*STUCK, quiet=decide.QUIET - 0.1)
    assert not rule.look(early) and early.asked == 0
    assert {rank: wait.operation for rank, wait in rule.look(MadeUp(*STUCK, quiet=decide.QUIET)).items()} == {
        0: "all_reduce",
        1: "barrier",
    }


def test_quiet_is_counted_anew_where_a_rank_may_still_move() -> None:
    """A thread that sleeps looks quiet to the kernel."""
    evidence = MadeUp(rank(SITTING), rank(BUSY), quiet=1.0)
    assert not decide.DeadlockRule(2).look(evidence) and evidence.quiet_seconds == 0


def test_ranks_that_have_met_and_sleep_in_their_joining_are_deadlocked_after_a_long_silence() -> None:
    """They wait in the store for what none of them will write. One that still looks for its store may yet find it."""
    joining, looking = meeting(rank=0, world_size=2), meeting(port=1, rank=1, world_size=2)
    for other, seconds, stuck in (
        (meeting(rank=1, world_size=2), decide.QUIET_IF_MATCHED, True),
        (meeting(rank=1, world_size=2), decide.QUIET_IF_MATCHED - 0.1, False),
        (rank(SITTING), decide.QUIET_IF_MATCHED, True),
        (rank(BUSY), decide.QUIET_IF_MATCHED, False),
        (looking, decide.QUIET_IF_MATCHED, False),
    ):
        assert bool(decide.DeadlockRule(2).look(MadeUp(joining, other, quiet=seconds))) == stuck


def test_ranks_that_poll_are_deadlocked_if_two_looks_see_the_same_failure() -> None:
    """They meet in vain, or wait for a rank that has failed; without either they are left alone."""
    for evidence, stuck in (
        (MadeUp(*STUCK, idle=1.0, failed=True), True),
        (MadeUp(meeting(port=1, rank=0, world_size=3), meeting(port=1, rank=1, world_size=3), idle=1.0), True),
        (MadeUp(*STUCK, idle=1.0), False),
    ):
        rule = decide.DeadlockRule(2)
        assert not rule.look(evidence)
        evidence.clock += decide.UNCHANGED + 0.01
        assert bool(rule.look(evidence)) == stuck


def test_ranks_that_poll_are_not_woken_at_every_look() -> None:
    evidence, rule = MadeUp(*STUCK, idle=1.0), decide.DeadlockRule(2)
    for _ in range(10):
        rule.look(evidence)
        evidence.clock += decide.UNCHANGED / 10
    assert evidence.asked == 2


def loop(nanoseconds: int, slices: int) -> quiet.Look:
    """A look at a process whose main thread sleeps and whose loop has used so much of a core."""
    return {(1, 1): quiet.Thread("python", "S", 7, 10), (1, 2): quiet.Thread(quiet.LOOP, "R", slices, nanoseconds)}


@pytest.mark.parametrize(
    ("used", "moved", "is_quiet"),
    [
        (2 * quiet.SPUN, (5, 5, 5), True),
        (2 * quiet.SPUN, (5, 5, 6), False),
        (quiet.SPUN // 3, (5, 5, 5), False),
        (2 * quiet.SPUN, (None, None, None), False),
    ],
    ids=["turns in vain", "moves a byte", "has got no core", "nobody can tell"],
)
def test_a_loop_that_turns_without_a_byte_moved_is_quiet(
    monkeypatch: pytest.MonkeyPatch, used: int, moved: tuple[int | None, ...], is_quiet: bool
) -> None:
    clock, answers, watch = 0.0, iter(moved), quiet.Watch()
    monkeypatch.setattr(quiet.time, "monotonic", lambda: clock)
    found = 0.0
    for number in range(4):  # the first look asks for no bytes
        found = watch.quiet_seconds(loop(number * used, number), lambda: next(answers))
        clock += 1.0
    assert (found > 0) == is_quiet


def test_one_look_has_one_answer_to_how_long_ranks_have_idled() -> None:
    """The rule asks, and then who wants to show busy ranks; a watch that is asked again tells of the moment since."""
    watch = quiet.Watch()
    told = iter([0.0, 5.0])
    watch.idle_seconds = lambda now: next(told)  # type: ignore[method-assign]
    evidence = GlooEvidence([], watch, lambda ranks: {}, lambda: None)
    assert (evidence.idle(), evidence.idle()) == (0.0, 0.0)


def test_busy_ranks_are_given_up_soon_after_another_failed_and_later_where_its_end_is_the_case() -> None:
    """There they may have to make a second group, which takes long over NCCL or on a loaded machine."""
    endings = [Killed(seconds=1.0, signal="SIGKILL"), Finished(seconds=0.0), None]
    for crashes, grace in ((False, decide.GRACE), (True, decide.GRACE_OF_SURVIVORS)):
        assert decide.grace_is_over(endings, 1.1 + grace, crashes=crashes)
        assert not decide.grace_is_over(endings, 0.9 + grace, crashes=crashes)
        assert not decide.grace_is_over(endings[1:], 1.1 + grace, crashes=crashes)
