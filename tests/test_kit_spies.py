"""What a probe sees of objects that are made and of waits."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist

from grader.kit import groups, spies


def test_instances_are_noted_as_they_are_made_subclasses_too() -> None:
    """With the name of their class, and made as ever; also by who looks for what lies behind the note."""

    class Base:
        def __init__(self, value: int) -> None:
            self.value = value

    class Derived(Base):
        def __init__(self) -> None:
            super().__init__(3)

    Base(1)
    made = spies.note_instances(Base)
    assert (Base(2).value, Derived().value) == (2, 3)
    inspect.unwrap(Base.__init__)(Base.__new__(Base), 4)
    assert made == ["Base", "Derived", "Base"]


def test_each_wait_for_a_collective_is_a_region() -> None:
    """As long as the mark lasts, whether the caller waits or the collective does."""
    regions = list[str]()

    class Rank:
        @contextlib.contextmanager
        def region(self, name: str) -> Iterator[None]:
            regions.append(name)
            yield

    value = torch.ones(3)
    with groups.alone():
        with spies.marked_waits(Rank(), "wait"):
            work = dist.all_reduce(value, async_op=True)
            assert regions == []
            work.wait()
            dist.all_reduce(value)
        assert regions == ["wait", "wait"]
        dist.all_reduce(value)
    assert regions == ["wait", "wait"]


def test_the_mark_goes_when_an_exception_leaves_it() -> None:
    before = dist.Work.wait
    with pytest.raises(KeyError), spies.marked_waits(None, "wait"):
        raise KeyError
    assert dist.Work.wait is before
