"""How much a submission may make the grader keep: each number with its reason. Beyond one there is a verdict that
names it. What ranks may use of the machine is `Limits`, which an exercise may change; these hold for all.

The bar behind them: judge and supervisors stay below 1 GiB together, 300 MiB of which are Python and torch. "At most"
says what right solutions of the exercises need.
"""

from __future__ import annotations

from grader.model.exercise import MIB

OBSERVATIONS = 1_000
"""Observations of one rank; at most 22."""

OBSERVED_BY_RANK = 32 * MIB
OBSERVED_BY_RUN = 64 * MIB
OBSERVED_BY_GRADE = 128 * MIB
"""Bytes that observations take in the judge's memory, as `records.wire.cost` estimates them: at most 2, 6 and 8 MiB.
Several runs are read at a time, and a grade keeps all of them."""

OPENED_BY_RUN = 24 * MIB
"""The same of what the files hold that were opened for a run; at most 1 MiB. They come as one rank's observations."""

MESSAGES_UNASKED = 16
MESSAGES_A_QUESTION = 2
"""Messages of one rank beside its observations. It says hello and farewell, and answers each question by a snapshot
and its trace."""

SEEN = 40
"""Looks at one rank that its probe asks for, each of some milliseconds; at most 20."""

TALK = 4 * MIB
TALK_VALUES = 400_000
"""Bytes and values of one such message. The largest is a trace: 2.5 MiB where every group has 64 ranks. An empty list
costs three bytes on the way and 64 here."""

EVENTS = 5_000
"""Communications, and spans, of one rank's trace: the tracer keeps as many; at most 400."""

EVENTS_OF_GRADE = 100_000
"""The same of all traces of a grade, which keeps half a kibibyte of each; at most 10,000."""
