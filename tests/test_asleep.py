"""grader.ranks.inside.asleep: a thread that waits in C for another thread of its process is told from any other."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from grader.ranks.inside import asleep, waits

pytestmark = [
    pytest.mark.skipif(not os.access("/proc/self/syscall", os.R_OK), reason="the kernel does not tell"),
    pytest.mark.timeout(60, method="thread"),  # the other method sets an alarm, and an alarm may interrupt a lock
]


@contextmanager
def in_thread(body: Callable[[], Any], release: Callable[[], Any]) -> Iterator[int]:
    """The number of a thread that runs `body`, which ends when `release` is called."""
    thread = threading.Thread(target=body)
    thread.start()
    try:
        yield thread.ident or 0
    finally:
        release()
        thread.join()


def state_of(ident: int) -> tuple[str, Any]:
    own = {each for each in sys._current_frames() if each != ident}
    (only,) = waits.snapshot(ident, own, __file__)["threads"]
    return only["state"], only["wait"]


def test_a_queue_that_is_written_in_c_is_waited_for_by_a_thread_of_ones_own() -> None:
    """Its frame is the student's own line, as if that computed."""
    items: queue.SimpleQueue[int] = queue.SimpleQueue()
    with in_thread(items.get, lambda: items.put(1)) as ident:
        while not asleep.until_woken(ident):
            pass


def test_a_rank_whose_threads_all_wait_for_locks_is_told_as_waiting() -> None:
    """Nobody is left who might release one."""
    lock = threading.Lock()
    lock.acquire()
    with in_thread(lock.acquire, lock.release) as ident:
        while state_of(ident) != ("communication", {"operation": waits.A_LOCK, "called": ""}):
            pass


def test_an_idle_worker_of_a_pool_is_no_busy_thread() -> None:
    """So a program that keeps a pool can be deadlocked."""
    with ThreadPoolExecutor(1) as pool:
        ident = pool.submit(threading.get_ident).result()
        while state_of(ident)[0] == "busy":
            pass


def test_what_goes_on_by_itself_is_not_asleep() -> None:
    """With a limit of time, in a sleep, in a file, or by another process."""
    lock, shared, (reading, writing) = threading.Lock(), multiprocessing.Lock(), os.pipe()
    lock.acquire()
    shared.acquire()
    bodies: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
        (lambda: lock.acquire(timeout=600), lock.release),
        (shared.acquire, shared.release),
        (lambda: os.read(reading, 1), lambda: os.write(writing, b"x")),
    ]
    for body, release in bodies:
        with in_thread(body, release) as ident:
            for _ in range(100):
                assert not asleep.until_woken(ident)
                time.sleep(0)


def test_an_alarm_that_is_set_may_interrupt_a_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    with in_thread(lock.acquire, lock.release) as ident:
        while not asleep.until_woken(ident):
            pass
        signal.setitimer(signal.ITIMER_REAL, 600)
        try:
            assert not asleep.until_woken(ident)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
