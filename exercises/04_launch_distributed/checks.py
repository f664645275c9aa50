"""Judges the launches that the probe recorded.

They share a process, so a check asks only for those that it judges: what a later launch breaks is not its business.
Findings name no rank of the run, which is the caller, but the ranks that the student's code started.
"""

import re
import signal
from typing import Any

import torch

from grader.checks import Attempt, Tensor, TypedDict, holds

ACCURACY = 0.90
"""Over 100 seeds, either trainer got 0.93 to 0.98 of the held-out rows, 0.96 on average with a deviation of 0.01."""

LAUNCHES = {
    "one": "A launch of 1 rank, which lives on for a moment after fn",
    "three": "A launch of 3 ranks",
    "assorted": "A launch whose ranks return large tensors, a module and None",
    "digits": "A launch of a training on 2 ranks",
    "joined": "A launch of 2 ranks that join a gloo group",
    "at once": "Two launches at the same time",
    "first": "Rank 2 raised, rank 0 raised a second later, rank 1 returned",
    "collective": "Rank 2 raised while ranks 0 and 1 sat in a collective for ever",
    "error": "A rank raised an exception without a text",
    "exit 3": "A rank left by os._exit(3)",
    "exit 3 beside": "Rank 1 left by os._exit(3), rank 0 raised a second later",
    "exit 0": "A rank left by os._exit(0) before fn had returned",
    "exit 0 beside": "Rank 1 left by os._exit(0) while rank 0 waited for ever",
    "sys.exit 0": "A rank left by sys.exit(0) before fn had returned",
    "signal": "A rank was killed by SIGKILL",
    "signal beside": "Rank 0 was killed by SIGKILL while rank 1 waited for ever",
    "lambda": "A rank returned a lambda, which cannot be pickled",
    "lambda beside": "Rank 1 returned a lambda, which cannot be pickled, while rank 0 waited for ever",
    "torn": "A rank was killed by SIGKILL in the middle of sending a large result",
    "stubborn": "Rank 1 raised while rank 0 ignored SIGTERM",
}
"""What each launch was, for findings."""
WITHOUT_RESULT = (
    *("signal", "signal beside", "exit 3", "exit 0", "exit 0 beside"),
    *("sys.exit 0", "lambda", "lambda beside"),
)
"""Those in which a rank ends and leaves no result. How soon one by os._exit(3) is told is a check of its own."""
LOST = re.compile(r"\b3\b|(rank|process|worker)\W{0,3}1\b", re.IGNORECASE)
"""A word on rank 1, which left by os._exit(3)."""
HELD_UP = 14
"""Looks in a row, a quarter of a second apart or more, without any movement, in which a failure is held up: whoever
listens sees none but two or three, while the ranks of the grader's functions wait for one another."""
OWN = -signal.SIGUSR1
"""How the caller's own processes end."""


class Call(Attempt):
    """What came of calling the launcher, and what the processes that it started have seen, whatever came back."""

    said: str
    type: str
    results: Any
    notes: list[dict[str, Any]]


class Look(TypedDict):
    """What was seen beside a call: whether it had to be broken off, though processes still moved or since none did, and
    where it waited then, and the most looks in a row that saw no process move; the processes in which fn was called,
    and the states of those that were left. Where the caller had processes of its own, their exit codes: of one that
    stayed, and of one that ended meanwhile."""

    hung: bool
    moving: bool
    waited_at: int | None
    quiet: int
    started: list[int]
    left: list[str]
    company: list[int | None]


class Launch(Call, Look):
    pass


class TwoLaunches(Look):
    both: list[Call]


class Report(TypedDict):
    """What the probe's `report` returned: what fn was handed and where it ran."""

    rank: int
    world_size: int
    args: list[Any]
    pid: int
    forked: bool
    address: str | None
    port: str | None


class Joined(TypedDict):
    rank: int
    forked: bool
    port: str | None
    sum: list[float] | None


class Met(TypedDict):
    token: str
    rank: int
    port: str
    sum: float


# -- launches as they were recorded ---------------------------------------------------------------------------------


def launches(runs, *names):
    """(run, the launches of these names)"""
    for run in runs("launches", recorded=names):
        yield run, [run[0].read(name, Launch) for name in names]


def never(look):
    """How a launch did not come back."""
    why = "it went on asking" if look["moving"] else "no process moved any more"
    return f"the launch never came back: {why}"


def expect_back(run, launch, name):
    """The launch came back, and not with an exception."""
    subject, line, expected = LAUNCHES[name], launch["waited_at"] or launch["line"], "a list of results"
    run.expect(not launch["hung"], subject, expected, never(launch), line=line)
    run.expect(not launch["raised"], f"{subject} raised", expected, first_line(launch), line=line)


def results_of(run, launch, name):
    """The list that a launch came back with."""
    expect_back(run, launch, name)
    subject = LAUNCHES[name]
    run.expect_type(launch["type"], "list", f"{subject} returned the wrong type")
    return run.expect_kind(launch["results"], list[Any], subject)


def reports(run, launch, name, size):
    """What each rank of a launch of the probe's `report` was handed, as its process noted it: one a rank, in their
    order. What the launch gave back is another check's business."""
    found = sorted(of_kind(run, launch["notes"], Report), key=lambda report: report["rank"])
    if [report["rank"] for report in found] != list(range(size)):
        expect_back(run, launch, name)
    ranks, plural = ", ".join(str(report["rank"]) for report in found), "s" if size > 1 else ""
    expected = f"one for each of the ranks {', '.join(map(str, range(size)))}" if size > 1 else "one, for rank 0"
    seen = f"{len(found)}, for rank {ranks}" if found else "none"
    right = [report["rank"] for report in found] == list(range(size))
    run.expect(right, f"The calls of fn in a launch of {size} rank{plural}", expected, seen)
    return found


def of_kind(run, results, kind):
    """Those results that are of a kind: a list may hold anything."""
    found = results if isinstance(results, list) else []
    return [result for result in found if holds(run.expect_kind, result, kind, "")]


def expect_failed(run, launch, name):
    """The launch came back with an exception, after its ranks had started."""
    subject, line, expected = LAUNCHES[name], launch["waited_at"] or launch["line"], "an exception in the caller"
    run.expect(not launch["hung"], subject, expected, never(launch), line=line)
    run.expect(launch["raised"], subject, expected, f"the launch returned {launch['results']}"[:200])
    nothing = f"no rank called fn, but the caller got {first_line(launch)}"
    run.expect(launch["started"], subject, expected, nothing, line=line)


def first_line(call):
    """The exception in a line: its type and the last line of its message, where a traceback names the error."""
    if not call["raised"]:
        return "no exception"
    lines = [line.strip() for line in call["message"].splitlines() if any(map(str.isalnum, line))]
    return f"{call['raised'][0]}: {lines[-1] if lines else ''}"[:300]


# -- the contract ---------------------------------------------------------------------------------------------------


def test_runs_each_rank(runs):
    """Every rank runs fn(rank, world_size, *args) once"""
    for run, (one, three) in launches(runs, "one", "three"):
        for name, launch, size, args in (
            ("one", one, 1, ["folder"]),
            ("three", three, 3, ["folder", 7, ["x", None], {"rate": 0.5}]),
        ):
            expected = [{"rank": rank, "world_size": size, "args": args} for rank in range(size)]
            actual = [{key: report[key] for key in expected[0]} for report in reports(run, launch, name, size)]
            run.expect_equal(actual, expected, "what fn was handed in each rank")


def test_list_of_results(runs):
    """What fn returned comes back as a list, one result for each rank"""
    for run, (one, three) in launches(runs, "one", "three"):
        for name, launch, size in (("one", one, 1), ("three", three, 3)):
            results = results_of(run, launch, name)
            found, plural = of_kind(run, results, Report), "s" if size > 1 else ""
            seen = f"{len(results)} entries, {len(found)} of them results"
            whole = len(results) == len(found) == size
            run.expect(whole, f"The list of a launch of {size} rank{plural}", f"{size} result{plural}", seen)
            noted = {(report["rank"], report["pid"]) for report in reports(run, launch, name, size)}
            own = noted == {(result["rank"], result["pid"]) for result in found}
            run.expect(own, f"The list of a launch of {size} rank{plural}", "what its ranks returned", "other results")


def test_rank_order(runs):
    """Results come in rank order, also when the highest rank is ready first"""
    for run, (three,) in launches(runs, "three"):
        ranks = [result["rank"] for result in of_kind(run, results_of(run, three, "three"), Report)]
        run.expect_equal(ranks, [0, 1, 2], "the ranks whose results the list holds, in its order")


def test_new_processes(runs):
    """Each rank has a process of its own that is no bare fork of the caller"""
    for run, (one, three, joined) in launches(runs, "one", "three", "joined"):
        results, caller = reports(run, three, "three", 3), run[0].read("caller", int)
        inside = [result["rank"] for result in results if result["pid"] == caller]
        run.expect(not inside, "fn ran in the caller's own process", "a new process for each rank", ranks=inside)
        pids = {result["pid"] for result in results}
        run.expect(len(pids) == 3, "Ranks share a process", "3 processes", len(pids))
        again = pids & {result["pid"] for result in reports(run, one, "one", 1)}
        run.expect(not again, "A process of an earlier launch serves again", "new processes in each launch")
        later = of_kind(run, joined["notes"], Joined)
        forked = [rank for rank, result in enumerate(results) if result["forked"]]
        run.expect(
            not forked and not any(result["forked"] for result in later),
            "The rank's process is a copy of the caller's memory, made by a bare fork",
            "a process that starts afresh, for the caller may hold locks, threads and a CUDA context",
            ranks=forked or [result["rank"] for result in later if result["forked"]],
        )


def test_rendezvous(runs, probe):
    """All ranks find the same MASTER_ADDR and a free MASTER_PORT in their environment, and meet there"""
    for run, (one, three, joined) in launches(runs, "one", "three", "joined"):
        alone, several = reports(run, one, "one", 1), reports(run, three, "three", 3)
        expect_environment(run, alone)
        expect_environment(run, several)
        expect_own_place(run, probe, [*alone, *several])
        expect_meeting(run, probe, joined)


def expect_environment(run, results):
    """Both variables are set, the same in all ranks, and the port is one."""
    for key, variable in (("address", "MASTER_ADDR"), ("port", "MASTER_PORT")):
        unset = [result["rank"] for result in results if result[key] is None]
        run.expect(not unset, f"{variable} is not set", ranks=unset)
        values = sorted({result[key] for result in results})
        run.expect(len(values) == 1, f"{variable} differs between the ranks", actual=" and ".join(values))
    port = results[0]["port"]
    legal = port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536
    run.expect(legal, "MASTER_PORT is not a port number", "a number from 1 to 65535", port)


def expect_own_place(run, probe, results):
    """Address and port are the launch's, not those that the caller's environment named in the first launch. A fork
    server that was started then has them in its environment still."""
    foreign = run[0].read("foreign", str)
    taken = sorted({result["rank"] for result in results if result["port"] == foreign})
    subject = "MASTER_PORT is the one that the caller's environment named, which belongs to somebody else"
    run.expect(not taken, subject, "a port of the launch's own", ranks=taken)
    elsewhere = sorted({result["rank"] for result in results if result["address"] == probe.ELSEWHERE})
    subject = "MASTER_ADDR is the one that the caller's environment named, which is another node's"
    run.expect(not elsewhere, subject, "this machine's, such as 127.0.0.1", probe.ELSEWHERE, ranks=elsewhere)


def expect_meeting(run, probe, launch):
    """Two ranks join a group, while the caller's own MASTER_ADDR and MASTER_PORT are somebody else's."""
    joined = {result["rank"]: result for result in of_kind(run, launch["notes"], Joined)}
    if joined.keys() != {0, 1}:
        expect_back(run, launch, "joined")
    run.expect(joined.keys() == {0, 1}, "Ranks that came out of the group", "0 and 1", str(sorted(joined)))
    taken = [rank for rank, result in joined.items() if result["port"] == run[0].read("taken", str)]
    subject = "MASTER_PORT is the one that the caller's environment named, on which somebody else listens"
    run.expect(not taken, subject, "a free port", ranks=taken)
    total = probe.contribution(run.seed, 0) + probe.contribution(run.seed, 1)
    for rank, result in joined.items():
        if not result["forked"]:
            actual = torch.tensor(result["sum"] or [], dtype=torch.float64)
            run.expect_close(actual, total, "the all-reduced tensor", ranks=[rank])


def test_any_result(runs, probe):
    """Results may be None, nested, 16 MB large, tensors and modules"""
    for run, (assorted,) in launches(runs, "assorted"):
        results = results_of(run, assorted, "assorted")
        run.expect(len(results) == 2, "The list has a wrong length", "2", len(results))
        made = [result for result in results if result is not None]
        run.expect(len(made) == 1, "The result of rank 1", "None", str(results)[:100])
        expected = probe.describe(["late", *probe.assortment(run.seed)])
        run.expect_equal(made, [expected], "what rank 0 returned, read after its process has gone", ranks=[0])


def test_two_at_once(runs, probe):
    """Two launches at the same time do not collide"""
    for run in runs("launches", recorded=["at once"]):
        launches = run[0].read("at once", TwoLaunches)
        stuck = "Two launches at the same time"
        run.expect(not launches["hung"], stuck, "both return", never(launches), line=launches["waited_at"])
        run.expect(len(launches["both"]) == 2, "What the grader saw as 'at once'", "two launches")
        ports = [port_of(run, probe, launches["both"][number], number, size) for number, size in enumerate((2, 1))]
        same = "Two launches at the same time use the same port"
        run.expect(ports[0] != ports[1], same, "two ports", ports[0])


def port_of(run, probe, launch, number, size):
    """The port of one of two simultaneous launches, if its ranks met one another and no result is the other's."""
    subject = f"Launch {number + 1} of two at the same time"
    run.expect(not launch["raised"], f"{subject} raised", "its results", first_line(launch), line=launch["line"])
    results = of_kind(run, launch["notes"], Met)
    own = {result["token"] for result in results}
    foreign = [result for result in of_kind(run, launch["results"], Met) if result["token"] not in own]
    run.expect(not foreign, f"{subject} returned", "results of its own ranks", "those of the other")
    wanted = [{"token": probe.messages(run.seed)[number], "rank": rank, "sum": float(size)} for rank in range(size)]
    actual = [{key: result[key] for key in wanted[0]} for result in sorted(results, key=lambda result: result["rank"])]
    run.expect_equal(actual, wanted, f"{subject}: its token, ranks and all-reduced sum")
    return results[0]["port"]


def test_bad_world_size(runs):
    """A world_size below 1 raises ValueError, and nothing is started"""
    for run, (zero, negative) in launches(runs, "zero", "negative"):
        for launch, size in ((zero, 0), (negative, -1)):
            seen = f"a {launch['type']}"
            run.expect_raised(launch, "ValueError", f"world_size={size}", returned=seen, line=None)
            run.expect(not launch["started"], f"world_size={size} started processes")


# -- failures -------------------------------------------------------------------------------------------------------


def test_first_failure(runs, probe):
    """An exception reaches the caller with the message of the rank that failed first"""
    for run, (launch, error) in launches(runs, "first", "error"):
        first, later, *_ = probe.messages(run.seed)
        expect_failed(run, launch, "first")
        seen = "the message of rank 0, which failed later" if later in launch["said"] else first_line(launch)
        run.expect(first in launch["said"], "The caller's exception", "the message of rank 2", seen)
        expect_failed(run, error, "error")


def test_promptly(runs, probe):
    """A failure is reported at once, even while the other ranks sit in a collective"""
    for run, (collective, left) in launches(runs, "collective", "exit 3 beside"):
        expect_failed(run, collective, "collective")
        _, _, message, _, later = probe.messages(run.seed)
        seen = first_line(collective)
        run.expect(message in collective["said"], "The caller's exception", "the message of rank 2", seen)
        held = f"nothing moved for {collective['quiet'] // 4} s"
        run.expect(collective["quiet"] < HELD_UP, LAUNCHES["collective"], "an exception at once", held)
        expect_failed(run, left, "exit 3 beside")
        told = later not in left["said"] or LOST.search(left["said"])
        run.expect(told, LAUNCHES["exit 3 beside"], "a word on rank 1", first_line(left))


def test_no_result(runs):
    """A rank that ends without a result makes the launch raise, alone or beside one that waits for ever"""
    for run, (torn,) in launches(runs, "torn"):
        for name in WITHOUT_RESULT:
            if not (name.startswith("lambda") and brought_home(run)):
                expect_failed(run, run[0].read(name, Launch), name)
        # whoever has read the whole of the torn result by then may return it
        run.expect(not torn["hung"], LAUNCHES["torn"], "an end", never(torn), line=torn["waited_at"])


def brought_home(run):
    """Whether the launcher can bring a lambda home, as it may."""
    found = run[0].read("lambda", Launch)["results"]
    return holds(run.expect_equal, found, [{"object": "function"}], "")


def test_nothing_left(runs):
    """No rank process is left behind, alive or as a zombie, and the caller's own ones are let alone"""
    for run in runs("launches", recorded=tuple(LAUNCHES)):
        for name in LAUNCHES:
            if name == "lambda beside" and name not in run[0]:  # not tried where a lambda alone came back
                continue
            look = run[0].read(name, Look)
            if not look["hung"]:
                subject = f"Rank processes are left after the launch {name!r}"
                run.expect(not look["left"], subject, "none", ", ".join(look["left"]))
                seen = run[0].seen(name)
                left = [one.status for one in seen.processes if one.pid in look["started"]] if seen else []
                run.expect(not left, f"{subject}, seen from outside", "none", ", ".join(left))
                expect_let_alone(run, look["company"], name)
        # Where it returned instead of raising, that is the matter of the check of first failures.
        stubborn = run[0].read("stubborn", Launch)
        subject, line = LAUNCHES["stubborn"], stubborn["waited_at"] or stubborn["line"]
        run.expect(stubborn["started"], subject, "two ranks", f"no rank called fn: {first_line(stubborn)}", line=line)
        run.expect(not stubborn["hung"], subject, "an end of both ranks", never(stubborn), line=line)


def expect_let_alone(run, company, name):
    """Nobody has ended the caller's own processes, nor waited for them."""
    for code, which in zip(company, ("lived through", "ended during"), strict=False):
        subject = f"The exit code of a process of the caller's own that {which} the launch {name!r}"
        changed = f"{code}: the launcher has {'ended' if code and code < 0 else 'waited for'} that process"
        run.expect(code == OWN, subject, str(OWN), changed)


# -- a training -----------------------------------------------------------------------------------------------------


def test_digits(runs, probe):
    """Training on handwritten digits through your launcher reaches 90 % on held-out rows"""
    for run, (launch,) in launches(runs, "digits"):
        results_of(run, launch, "digits")
        states, wanted = run[0].read("states", list[dict[str, Tensor]]), probe.digits_model().state_dict()
        run.expect(len(states) == 2, "Trained modules in the list", "2", len(states))
        own = run[0].read("trainer", str) == "train_ddp"
        trainer = "your train_ddp of exercise 03" if own else "the grader's own small trainer"
        for rank, state in enumerate(states):
            run.expect_like(state, wanted, "the model's state", ranks=[rank])
            reached = accuracy(run, probe, state)
            subject = f"Held-out accuracy with {trainer}"
            run.expect(reached >= ACCURACY, subject, f"at least {ACCURACY:.0%}", f"{reached:.1%}", ranks=[rank])


def accuracy(run, probe, state):
    """The share of held-out rows that a trained state classifies right."""
    model = probe.digits_model()
    model.load_state_dict(state)
    *_, inputs, targets = probe.digits_rows(run.seed)
    with torch.no_grad():
        return float((model(inputs).argmax(1) == targets).double().mean())
