"""What ranks and supervisors say, right and mutated."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

from hypothesis import strategies as st

from grader.checks.traffic import disagreement, traffic
from grader.model import Case, RankRecord
from grader.model.trace import Trace
from grader.ranks.diagnosis import diagnose
from tests.fuzzing import damaged, mutated

STACK = [["/a/b.py", 3, "step", True], ["/lib/torch/x.py", 9, "all_reduce", False]]
WAIT = {"operation": "all_reduce", "called": "wait", "group": "default", "sequence": 1, "sizes": [[2]]}
WAIT |= {"dtypes": ["Float"]}
PLACE = {"hostname": "localhost", "port": 29500, "rank": 0, "world_size": 2}
THREAD = {"main": True, "state": "communication", "wait": WAIT, "stack": STACK, "rendezvous": PLACE}
ROW = {"operation": "send", "bytes": 8, "dtype": "float32", "group": [0, 1], "peer": 1, "start": 0.1, "end": None}
ROW |= {"line": 3, "backward": None, "remaining": 2}
SPAN = {"kind": "region", "name": "step 1", "start": 0.0, "end": 1.0}
RAISED = {"kind": "raised", "type": "E", "message": "m", "stack": STACK, "causes": ["a"], "importing": False}
TALK: list[object] = [
    {"hello": 12, "own": [12], "device": "cpu"},
    {"snapshot": {"threads": [THREAD, {**THREAD, "main": False, "state": "busy"}], "pending": [WAIT]}, "request": "1"},
    {"trace": {"communications": [ROW], "spans": [SPAN], "complete": True}},
    {"ending": {"kind": "finished"}},
    {"ending": {**RAISED, "communication": True}},
    {"ending": {"kind": "exited", "code": "3", "how": "sys.exit", "stack": STACK}},
]
DEEP = b"J" + b"[" * 100_000
MESSAGES = st.one_of(
    st.sampled_from(TALK).flatmap(mutated).map(lambda content: b"J" + json.dumps(content).encode()),
    st.sampled_from(TALK).map(lambda c: b"J" + json.dumps(c).encode()).flatmap(damaged),
    st.binary(max_size=30).map(lambda data: b"O" + data),
    st.binary(max_size=30),
    st.sampled_from([DEEP, b"J" + b"9" * 5000, b'J{"ending": NaN}', b"J", b"", b"J\xff"]),
)
CASE = Case(name="x", world_size=2, probe="x")


def examine(records: tuple[RankRecord, ...]) -> None:
    """What the judge does with records."""
    diagnosis = diagnose(CASE, records, "x.py")
    for finding in diagnosis.findings if diagnosis else ():
        finding.sentence().encode()
    for record in records:
        record.output.encode()
        if record.trace:
            measure(record.trace)
    disagreement({record.rank: traffic(record.trace) for record in records if record.trace})


def measure(trace: Trace) -> None:
    part = traffic(trace)
    assert math.isfinite(float(part.bytes)) and math.isfinite(part.sent_bytes)
    json.dumps(asdict(trace), allow_nan=False).encode()
    for region in part.regions:
        part.during(region)
