"""Judges the launches that the probe recorded."""

from __future__ import annotations

from types import ModuleType
from typing import Any

ACCURACY = 0.90
"""Over 100 seeds, either trainer got 0.93 to 0.98 of the held-out rows, 0.96 on average with a deviation of 0.01."""

LAUNCHES = {
    "launches": {
        "one": "A launch of 1 rank",
        "three": "A launch of 3 ranks",
        "assorted": "A launch whose ranks return large tensors, a module and None",
        "lingering": "A launch whose ranks live for a second longer than fn",
        "joined": "A launch of 2 ranks that join a gloo group",
        "at once": "Two launches at the same time",
    },
    "failures": {
        "first": "Rank 2 raised, rank 0 raised two seconds later, rank 1 returned",
        "collective": "Rank 2 raised while ranks 0 and 1 sat in a collective for ever",
        "stubborn": "Rank 1 raised while rank 0 ignored SIGTERM",
        "exit 3": "Rank 1 left by os._exit(3) while rank 0 waited for ever",
        "exit 0": "A rank left by os._exit(0) before fn had returned",
        "signal": "A rank was killed by SIGKILL",
        "error": "A rank raised an exception of a class of its own",
        "lambda": "A rank returned a lambda, which cannot be pickled",
        "torn": "A rank was killed by SIGKILL in the middle of sending a large result",
    },
    "digits": {"digits": "A launch of a training on 2 ranks"},
}
"""What the probe records, by case family."""

Launch = dict[str, Any]


def test_runs_each_rank(runs):
    """Every rank runs fn(rank, world_size, *args) once, and the results come back as a list"""
    for run in runs("launches"):
        for name, size, args in (("one", 1, ["folder"]), ("three", 3, ["folder", 7, ["x", None], {"rate": 0.5}])):
            results = returned(run, name)
            expected = [{"rank": rank, "world_size": size, "args": args} for rank in range(size)]
            actual = [{key: result.get(key) for key in expected[0]} for result in reports(run, results, size)]
            run.expect_equal(sorted(actual, key=str), expected, "what fn was handed in each rank")


def test_rank_order(runs):
    """Results come in rank order, also when the highest rank is ready first"""
    for run in runs("launches"):
        ranks = [result.get("rank") for result in reports(run, returned(run, "three"), 3)]
        run.expect_equal(ranks, [0, 1, 2], "the ranks whose results the list holds, in its order")


def test_new_processes(runs):
    """Each rank has a process of its own that is no bare fork of the caller"""
    for run in runs("launches"):
        results = reports(run, returned(run, "three"), 3)
        caller = run[0]["caller"]
        inside = [result["rank"] for result in results if result["pid"] == caller]
        run.expect(
            not inside, "fn ran in the caller's own process", ranks=inside, expected="a new process for each rank"
        )
        count = len({result["pid"] for result in results})
        run.expect(count == 3, "Ranks share a process", expected="3 processes", actual=f"{count}")
        later = [result for result in run[0]["joined"]["results"] or [] if has(result, forked=bool)]
        forked = [rank for rank, result in enumerate(results) if result["forked"]]
        forked = forked or [rank for rank, result in enumerate(later) if result["forked"]]
        run.expect(
            not forked,
            "The rank's process is a copy of the caller's memory, made by a bare fork",
            ranks=forked,
            expected="a process that starts afresh, for the caller may hold locks, threads and a CUDA context",
        )


def test_rendezvous(runs, probe):
    """All ranks find the same MASTER_ADDR and a free MASTER_PORT in their environment, and meet there"""
    for run in runs("launches"):
        judge_environment(run)
        judge_meeting(run, probe)


def test_any_result(runs, probe):
    """Results may be None, nested, 16 MB large, tensors and modules"""
    for run in runs("launches"):
        results = returned(run, "assorted")
        expected = probe.describe(probe.assortment(run.seed))
        run.expect(len(results) == 2, "The list has a wrong length", expected="2", actual=str(len(results)))
        run.expect(results.count(None) == 1, "The result of rank 1", expected="None", actual=str(results)[:100])
        made = [result for result in results if result is not None]
        run.expect_equal(made, [expected], "what rank 0 returned, read after its process has gone", ranks=[0])


def test_two_at_once(runs, probe):
    """Two launches at the same time do not collide"""
    for run in runs("launches"):
        launch = run[0]["at once"]
        stuck = "Two launches at the same time got stuck: no process moved any more"
        run.expect(not launch["hung"], stuck, expected="both return", line=launch["line"])
        ports = [one_of_two(run, probe, number, size) for number, size in enumerate((2, 1))]
        same = "Two launches at the same time use the same port"
        run.expect(ports[0] != ports[1], same, expected="two ports", actual=ports[0])


def one_of_two(run: Any, probe: ModuleType, number: int, size: int) -> str:
    """The port of one of two simultaneous launches, if its results are right."""
    found, subject = run[0]["at once"]["both"][number], f"Launch {number + 1} of two at the same time"
    seen, line = first_line(found), found.get("line")
    run.expect(not found["raised"], f"{subject} raised", expected="its results", actual=seen, line=line)
    listed = found["value"] if isinstance(found["value"], list) else []
    results = [result for result in listed if has(result, token=str, rank=int, port=str, sum=float)]
    wanted = [{"token": probe.messages(run.seed)[number], "rank": rank, "sum": float(size)} for rank in range(size)]
    actual = [{key: result[key] for key in wanted[0]} for result in sorted(results, key=lambda result: result["rank"])]
    run.expect_equal(actual, wanted, f"{subject}: its token, ranks and all-reduced sum")
    return str(results[0]["port"])


def test_bad_world_size(runs):
    """A world_size below 1 raises ValueError, and nothing is started"""
    for run in runs("launches"):
        for name, size in (("zero", 0), ("negative", -1)):
            launch = run[0][name]
            seen = launch["raised"][0] if launch["raised"] else f"a {launch['type']}"
            run.expect("ValueError" in launch["raised"], f"world_size={size}", expected="ValueError", actual=seen)
            run.expect(not launch["started"], f"world_size={size} started processes")


def test_first_failure(runs, probe):
    """An exception reaches the caller with the message of the rank that failed first"""
    for run in runs("failures"):
        first, later, *_ = probe.messages(run.seed)
        launch = raised(run, "first")
        seen = "the message of rank 0, which failed later" if later in launch["text"] else first_line(launch)
        run.expect(first in launch["text"], "The caller's exception", expected="the message of rank 2", actual=seen)
        detail = probe.messages(run.seed)[4]
        launch = raised(run, "error")
        run.expect(
            detail in launch["text"],
            "An exception that does not survive pickling",
            expected="its message all the same",
            actual=first_line(launch),
        )


def test_promptly(runs, probe):
    """A failure is reported at once, even while the other ranks sit in a collective"""
    for run in runs("failures"):
        launch = raised(run, "collective")
        message = probe.messages(run.seed)[2]
        run.expect(
            message in launch["text"],
            "The caller's exception",
            expected="the message of rank 2",
            actual=first_line(launch),
        )
        raised(run, "exit 3")


def test_no_result(runs):
    """A rank that ends without a result makes the launch raise: os._exit, a signal, a result that cannot be pickled"""
    for run in runs("failures"):
        raised(run, "signal")
        raised(run, "exit 0")
        launch = run[0]["lambda"]
        if launch["results"] != [{"object": "function"}]:  # whoever can bring a lambda home may do so
            raised(run, "lambda")
        torn = run[0]["torn"]  # whoever has read the whole of it by then may return it
        never = "the launch never came back: no process moved any more"
        run.expect(not torn["hung"], LAUNCHES["failures"]["torn"], expected="an end", actual=never, line=torn["line"])


def test_nothing_left(runs):
    """No rank process is left behind, alive or as a zombie, after success or failure"""
    for run in (*runs("launches"), *runs("failures")):
        for name in LAUNCHES[run.case.name]:
            launch = run[0][name]
            subject = f"Rank processes are left after the launch {name!r}"
            if not launch["hung"]:
                run.expect(not launch["left"], subject, expected="none", actual=", ".join(launch["left"]))
    for run in runs("failures"):
        raised(run, "stubborn")


def test_digits(runs, probe):
    """Training on handwritten digits through your launcher reaches 90 % on held-out rows"""
    for run in runs("digits"):
        trainer = run[0]["trainer"]
        what = "your train_ddp of exercise 03" if trainer == "train_ddp" else "the grader's own small trainer"
        returned(run, "digits")
        states = run[0]["states"]
        run.expect(len(states) == 2, "Trained modules in the list", expected="2", actual=str(len(states)))
        for rank, state in enumerate(states):
            reached = accuracy(run, probe, state, rank)
            expected = f"at least {ACCURACY:.0%}"
            run.expect(
                reached >= ACCURACY,
                f"Held-out accuracy with {what}",
                expected=expected,
                actual=f"{reached:.1%}",
                ranks=[rank],
            )


def judge_environment(run: Any) -> None:
    """Both variables are set, the same in all ranks, and the port is one."""
    for name, size in (("one", 1), ("three", 3)):
        results = reports(run, returned(run, name), size)
        for key, variable in (("address", "MASTER_ADDR"), ("port", "MASTER_PORT")):
            unset = [result["rank"] for result in results if not has(result, **{key: str})]
            run.expect(not unset, f"{variable} is not set", ranks=unset)
            values = sorted({result[key] for result in results})
            run.expect(len(values) == 1, f"{variable} differs between the ranks", actual=" and ".join(values))
        port = results[0]["port"]
        legal = port.isascii() and port.isdigit() and 0 < int(port) < 65536
        run.expect(legal, "MASTER_PORT is no port", expected="a number from 1 to 65535", actual=port)


def judge_meeting(run: Any, probe: ModuleType) -> None:
    """Two ranks join a group, while the caller's own MASTER_PORT names a port on which somebody else listens."""
    import torch

    results = returned(run, "joined")
    joined = [result for result in results if has(result, forked=bool)]
    run.expect(len(joined) == 2, "Results are missing", expected="2", actual=str(len(joined)))
    taken = [rank for rank, result in enumerate(joined) if result.get("port") == run[0]["taken"]]
    run.expect(
        not taken,
        "MASTER_PORT is the one that the caller's environment named, on which somebody else listens",
        ranks=taken,
        expected="a free port",
    )
    total = probe.contribution(run.seed, 0) + probe.contribution(run.seed, 1)
    for rank, result in enumerate(joined):
        if not result["forked"]:
            numbers = [float(item) for item in result["sum"]] if has(result, sum=list) else []
            actual = torch.tensor(numbers, dtype=torch.float64)
            run.expect_close(actual, total, "the all-reduced tensor", ranks=[rank])


def accuracy(run: Any, probe: ModuleType, state: dict[str, Any], rank: int) -> float:
    """The share of held-out rows that a trained state classifies right."""
    import torch

    model = probe.digits_model()
    shapes = {key: list(value.shape) for key, value in model.state_dict().items()}
    run.expect_equal(
        {key: list(value.shape) for key, value in state.items()}, shapes, "the model's state", ranks=[rank]
    )
    model.load_state_dict(state)
    *_, inputs, targets = probe.digits_rows(run.seed)
    with torch.no_grad():
        return float((model(inputs).argmax(1) == targets).double().mean())


def returned(run: Any, name: str) -> list[Any]:
    """The list that a launch came back with."""
    launch: Launch = run[0][name]
    subject, line, expected = LAUNCHES[run.case.name][name], launch["line"], "a list of results"
    stuck = f"{subject} got stuck: no process moved any more"
    run.expect(not launch["hung"], stuck, expected=expected, line=line)
    run.expect(not launch["raised"], f"{subject} raised", expected=expected, actual=first_line(launch), line=line)
    run.expect(launch["type"] == "list", f"{subject} returned the wrong type", expected="list", actual=launch["type"])
    return list(launch["results"])


def raised(run: Any, name: str) -> Launch:
    """A launch that came back with an exception, after its ranks had started."""
    launch: Launch = run[0][name]
    subject, line, expected = LAUNCHES[run.case.name][name], launch["line"], "an exception in the caller"
    never = "the launch never came back: no process moved any more"
    run.expect(not launch["hung"], subject, expected=expected, actual=never, line=line)
    run.expect(launch["raised"], subject, expected=expected, actual=f"the launch returned {launch['results']}"[:200])
    nothing = f"no rank called fn, but the caller got {first_line(launch)}"
    run.expect(launch["started"], subject, expected=expected, actual=nothing, line=line)
    return launch


def reports(run: Any, results: list[Any], size: int) -> list[dict[str, Any]]:
    """Results of the probe's `report`, one a rank."""
    found = [result for result in results if has(result, rank=int, pid=int, forked=bool)]
    run.expect(
        len(results) == len(found) == size,
        f"The list of a launch of {size} rank{'s' if size > 1 else ''}",
        expected=f"{size} result{'s' if size > 1 else ''}",
        actual=f"{len(results)} entries, {len(found)} of them results",
    )
    return found


def has(result: Any, **kinds: type) -> bool:
    """True for a dict with these entries of these types: a list may hold anything."""
    return isinstance(result, dict) and all(type(result.get(key)) is kind for key, kind in kinds.items())


def first_line(launch: Launch) -> str:
    """The exception in a line: its type and the last line of its message, where a traceback names the error."""
    if not launch["raised"]:
        return "no exception"
    lines = [line.strip() for line in launch["text"].splitlines() if line.strip()]
    return f"{launch['raised'][0]}: {lines[-1] if lines else ''}"[:300]
