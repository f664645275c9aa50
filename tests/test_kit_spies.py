"""What a probe sees of objects that are made and of waits."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from grader.kit import groups, spies, values


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


def test_a_wait_in_a_thread_beside_has_a_name_of_its_own() -> None:
    regions = list[str]()

    class Rank:
        @contextlib.contextmanager
        def region(self, name: str) -> Iterator[None]:
            regions.append(name)
            yield

    with groups.alone(), spies.marked_waits(Rank(), "wait", beside="wait in a thread"):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(dist.all_reduce(torch.ones(3), async_op=True).wait).result()
        dist.all_reduce(torch.ones(3), async_op=True).wait()
    assert regions == ["wait in a thread", "wait"]


def test_waits_for_a_future_and_for_the_tensor_of_a_functional_collective_are_regions() -> None:
    """One each, also where one wait calls another. A future that is done, as in its own callback, holds up nobody."""
    regions, future = list[str](), torch.futures.Future[int]()

    class Rank:
        @contextlib.contextmanager
        def region(self, name: str) -> Iterator[None]:
            regions.append(name)
            if not future.done():
                future.set_result(3)
            yield

    with groups.alone(), spies.marked_waits(Rank(), "wait"):
        assert (future.wait(), future.then(lambda done: done.wait() + 1).wait()) == (3, 4)
        assert regions == ["wait"]
        functional.wait_tensor(functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD))
        assert regions == ["wait", "wait"]
        total = functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD)
        assert regions == ["wait", "wait"] and (total + 1).sum() == 6, "what it is needed for waits for it"
    assert regions == ["wait"] * 3


def test_the_mark_goes_when_an_exception_leaves_it() -> None:
    def waits() -> list[Any]:
        return [dist.Work.wait, torch._C.Future.wait, torch.ops._c10d_functional.wait_tensor]

    before = waits()
    with pytest.raises(KeyError), spies.marked_waits(None, "wait"):
        assert not any(now is one for now, one in zip(waits(), before, strict=True))
        raise KeyError
    assert all(now is one for now, one in zip(waits(), before, strict=True))


def test_activations_are_seen_where_torch_func_differentiates() -> None:
    """What it wraps around a tensor has no storage of its own; the storage inside lives as long as the gradient may
    need it."""
    watched = spies.Activations()

    def loss(weight: torch.Tensor) -> torch.Tensor:
        hidden = weight.tanh()
        watched.watch([7], hidden)
        return hidden.square().sum()

    outcome = list(torch.func.vjp(loss, torch.ones(3)))
    assert watched.alive() == [7]
    outcome.clear()
    assert watched.alive() == []


def test_copies_outlive_the_function_that_torch_func_differentiates() -> None:
    taken = dict[str, torch.Tensor]()

    def loss(weight: torch.Tensor) -> torch.Tensor:
        taken.update(values.copies({"weight": weight}))
        return weight.square().sum()

    torch.func.grad(loss)(torch.ones(3))
    assert taken["weight"].tolist() == [1, 1, 1]


def test_which_names_of_functorch_are_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's own ones, wherever it has them; where it has them no more a tensor is taken as it is."""
    assert all(hasattr(torch._C._functorch, name) for name in values.FUNCTORCH), "torch has other names now"
    tensor = torch.ones(3)
    monkeypatch.delattr(torch._C, "_functorch")
    assert values.unwrapped(tensor) is tensor
