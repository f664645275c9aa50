"""Seeds and secrets of a grade's cases, which follow from the grade's seed.

Ranks are told a case's seed, and each its own secret (`Case.secret_of`). A grade's seed is a short number, so that one
can type it: a rank that could try them all would know every secret. So between the two lies a function that takes some
30 ms and 8 MiB on purpose.
"""

from __future__ import annotations

import functools
import hashlib
import secrets
from dataclasses import replace

from grader.model import MAX_SEED, Case, Exercise

_SLOWLY = {"n": 2**13, "r": 8, "p": 1}
"""scrypt's parameters (RFC 7914): with these all seeds together take one core two years."""


def seeded(exercise: Exercise, seed: int) -> tuple[Case, ...]:
    """The exercise's cases, each with a seed and a secret of its own that follow from `seed`. The first call for a seed
    takes 30 ms, in which other threads go on."""
    master = _master(seed)

    def own(case: Case, what: str, size: int) -> bytes:
        place = f"{what}/{exercise.name}/{case.id}".encode()
        return hashlib.blake2b(place, key=master, digest_size=size).digest()

    def drawn(case: Case) -> Case:
        return replace(case, seed=int.from_bytes(own(case, "seed", 4)) % MAX_SEED, secret=own(case, "secret", 32))

    return tuple(map(drawn, exercise.cases))


def with_new_secret(case: Case) -> Case:
    """The case for one more attempt: what the ranks of an earlier one may have left behind for it tells nothing. This
    secret follows from no seed, so a replay of the grade has another."""
    return replace(case, secret=secrets.token_bytes(32))


@functools.lru_cache(maxsize=64)
def _master(seed: int) -> bytes:
    return hashlib.scrypt(str(seed).encode(), salt=b"ranklings", dklen=32, **_SLOWLY)
