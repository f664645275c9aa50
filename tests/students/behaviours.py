"""Each function is one way in which a student's code goes right or wrong on real ranks."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from multiprocessing import shared_memory

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.nn.parallel import DistributedDataParallel


def finishes(rank):
    total = torch.ones(3, dtype=torch.float64) * rank.rank
    dist.all_reduce(total)
    rank.record("total", total)
    rank.record("plain", [1, float("nan"), {"a": b"z"}])
    threads = os.listdir("/proc/self/task") if hasattr(os, "SCHED_BATCH") else []
    rank.record("turns", [os.sched_getscheduler(int(thread)) for thread in threads])
    print("hello from", rank.rank)


def raises_with_a_cause(rank):
    if rank.rank == 1:
        try:
            rank.rank / 0
        except ZeroDivisionError as error:
            raise ValueError("the learning rate is missing") from error
    dist.barrier()


def leaves_by_sys_exit(rank):
    if rank.rank == 0:
        sys.exit(3)
    dist.barrier()


def leaves_by_os_exit(rank):
    if rank.rank == 0:
        os._exit(0)
    dist.barrier()


def is_killed(rank):
    if rank.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def has_a_memory_fault(rank):
    if rank.rank == 1:
        ctypes.string_at(0)
    dist.barrier()


def computes_for_ever(rank):
    while True:
        pass


def prints_for_ever(rank):
    while True:
        print("x" * 80)


def skips_a_collective(rank):
    if rank.rank != 1:
        dist.all_reduce(torch.ones(3))


def calls_different_collectives(rank):
    if rank.rank == 1:
        dist.barrier()
    else:
        dist.all_reduce(torch.ones(3))


def receives_from_everybody_first(rank):
    dist.recv(torch.ones(3), src=(rank.rank + 1) % rank.world_size)


def waits_for_a_message_never_sent(rank):
    work = dist.irecv(torch.ones(3), src=(rank.rank + 1) % rank.world_size)
    work.wait()


def lets_go_of_a_message(rank):
    """gloo cancels it, since rank 1 has not come for it yet; then its loop turns for ever over what rank 1 answers."""
    store = dist.distributed_c10d._get_default_store()
    if rank.rank == 0:
        dist.isend(torch.ones(9), 1)
        store.set("let go", "")
        dist.barrier()
    else:
        store.wait(["let go"])
        dist.recv(torch.empty(9), 0)


def skips_a_backward(rank):
    model = DistributedDataParallel(torch.nn.Linear(2, 2))
    if rank.rank == 0:
        model(torch.ones(1, 2)).sum().backward()


def skips_a_functional_collective(rank):
    if rank.rank == 0:
        print(functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD))


def waits_in_a_thread(rank):
    if rank.rank == 0:
        thread = threading.Thread(target=dist.all_reduce, args=(torch.ones(3),))
        thread.start()
        thread.join()


def one_never_joins(rank):
    if rank.rank == 0:
        dist.init_process_group("gloo", rank=0, world_size=2)


def meet_at_different_ports(rank):
    if rank.rank == 1:
        os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) - 1)
    dist.init_process_group("gloo", rank=rank.rank, world_size=2)


def join_under_different_names(rank):
    if rank.rank == 1:  # as after a join that failed half-way
        with contextlib.suppress(RuntimeError):
            alone = dist.HashStore()
            dist.init_process_group("gloo", store=alone, rank=0, world_size=2, timeout=timedelta(seconds=0.1))
    dist.init_process_group("gloo", rank=rank.rank, world_size=2)


def sleeps_before_a_collective(rank):
    if rank.rank == 0:
        time.sleep(2.5)
    dist.barrier()


def computes_before_a_collective(rank):
    if rank.rank == 0:
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            torch.ones(1000).sum()
    dist.barrier()


def sleeps_in_a_thread_that_then_sends(rank):
    message = torch.ones(3)
    if rank.rank == 0:
        dist.recv(message, src=1)
        return

    def send_late():
        time.sleep(2.0)
        dist.send(message, dst=0)

    thread = threading.Thread(target=send_late)
    thread.start()
    thread.join()


def sleeps_while_holding_the_gil(rank):
    if rank.rank == 0:
        ctypes.PyDLL(None).usleep(2_000_000)
    dist.barrier()


def waits_for_a_store_that_nobody_serves(rank):
    dist.TCPStore("localhost", int(os.environ["MASTER_PORT"]), 2, False)


def joins_late_with_a_store_of_his_own(rank):
    if rank.rank == 0:
        time.sleep(2.0)
    store = dist.TCPStore("localhost", int(os.environ["MASTER_PORT"]), rank.world_size, rank.rank == 0)
    dist.init_process_group("gloo", store=store, rank=rank.rank, world_size=rank.world_size)


def joins_late(rank):
    if rank.rank == 0:
        time.sleep(2.0)
    dist.init_process_group("gloo", rank=rank.rank, world_size=rank.world_size)
    dist.barrier()


def moves_a_large_tensor(rank):
    for _ in range(3):
        dist.all_reduce(torch.ones(20_000_000))


def leaves_processes_behind(rank):
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        os._exit(0)


def leaves_shared_memory_behind(rank):
    block = shared_memory.SharedMemory(create=True, size=64)
    rank.record("name", block.name)
    rank.record("tensor", torch.ones(3).share_memory_().sum().item())


def leaves_a_thread_running(rank):
    threading.Thread(target=time.sleep, args=(600,)).start()


def prints_without_end(rank):
    line = "x" * 60
    with contextlib.suppress(BrokenPipeError):
        for number in range(300_000):
            print(number, line)


def reads_input(rank):
    input("your name? ")


def sets_a_start_method(rank):
    torch.multiprocessing.set_start_method("spawn")
    dist.barrier()


def records_twice(rank):
    rank.record("x", 1)
    rank.record("x", 2)


def records_a_function(rank):
    rank.record("f", records_a_function)


def holds_a_model_when_the_group_goes(rank):
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    model(torch.ones(2, 8)).sum().backward()
    dist.destroy_process_group()


# -- traced -----------------------------------------------------------------------------------------------------------


def trains_with_ddp(rank):
    model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(4)])
    ddp_model = DistributedDataParallel(model, bucket_cap_mb=0.001)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        with rank.region(f"step {step}"):
            optimizer.zero_grad()
            ddp_model(torch.ones(4, 16)).sum().backward()
            optimizer.step()


def averages_by_hooks(rank):
    """Late: all at the end of backward. Then early: each gradient as it comes."""
    model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(4)])
    parameters = list(model.parameters())
    ready = []

    def late(parameter):
        ready.append(parameter)
        if len(ready) == len(parameters):
            for each in parameters:
                dist.all_reduce(each.grad)

    handles = [parameter.register_post_accumulate_grad_hook(late) for parameter in parameters]
    with rank.region("late"):
        model(torch.ones(4, 16)).sum().backward()
    for handle in handles:
        handle.remove()
    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(lambda p: dist.all_reduce(p.grad))
    with rank.region("early"):
        model(torch.ones(4, 16)).sum().backward()
    with rank.region("after"):
        model.zero_grad()
        dist.all_reduce(torch.ones(100))


def communicates_in_all_ways(rank):
    n, tensor = rank.world_size, torch.ones(4)
    parts = [torch.ones(4) for _ in range(n)]
    pair = dist.new_group([0, 1])
    with rank.region("messages"):
        if rank.rank == 0:
            dist.send(tensor, 1)
        elif rank.rank == 1:
            dist.recv(tensor, 0)
    with rank.region("collectives"):
        dist.all_reduce(tensor, async_op=True).wait()
        dist.all_gather(parts, tensor)
        dist.all_gather_into_tensor(torch.empty(4 * n), tensor)
        dist.reduce_scatter_tensor(torch.empty(4), torch.ones(4 * n))
        dist.all_to_all_single(torch.empty(n), torch.ones(n))
        dist.broadcast(tensor, 0)
        dist.reduce(tensor, 0)
        dist.gather(tensor, parts if rank.rank == 0 else None)
        dist.scatter(tensor, parts if rank.rank == 0 else None)
        dist.barrier()
        dist.monitored_barrier()
    with rank.region("pair"):
        if rank.rank < 2:
            functional.all_reduce(tensor, "sum", pair).sum()


def communicates_views(rank):
    """Each call after the first two has a tensor that is not contiguous, some of them where NCCL copies."""
    square, image = torch.arange(6.0).view(2, 3), torch.ones(2, 3, 4, 5)
    dist.all_reduce(square[1])
    dist.all_reduce(image.contiguous(memory_format=torch.channels_last))
    dist.all_reduce(square.t())
    dist.broadcast(image.transpose(0, 1), src=0)
    dist.all_gather([torch.empty(3, 2).t() for _ in range(2)], square)
    dist.all_gather([torch.empty(3, 2) for _ in range(2)], square.t())
    functional.wait_tensor(functional.all_reduce(square.t(), "sum", dist.group.WORLD))
    dist.scatter(torch.empty(3, 2), [square.t()] * 2 if rank.rank == 0 else None)


def sends_from_another_thread(rank):
    from concurrent.futures import ThreadPoolExecutor

    n, message, received = rank.world_size, torch.ones(4), torch.empty(4)
    with rank.region("ring"), ThreadPoolExecutor(1) as pool:
        sending = pool.submit(dist.send, message, (rank.rank + 1) % n)
        dist.recv(received, (rank.rank - 1) % n)
        sending.result()
    with rank.region("thread"):
        thread = threading.Thread(target=dist.all_reduce, args=(message,))
        thread.start()
        thread.join()
    rank.record("left", [name for name in vars(thread) if name == "run"])


def is_killed_after_telling(rank):
    with rank.region("first"), rank.step("forward 0"):
        dist.all_reduce(torch.ones(4))
    rank.tell_trace()
    with rank.region("second"):
        dist.barrier()
    os.kill(os.getpid(), signal.SIGKILL)


def both_send_first_in_a_group(rank):
    group = dist.new_group([0, 2])
    if rank.rank != 1:
        dist.send(torch.ones(1), 2 - rank.rank, group=group)
        dist.recv(torch.ones(1), 2 - rank.rank, group=group)


def redistributes_a_dtensor(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (rank.world_size,))
    sharded = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
    turned = sharded.t()  # whose shape DTensor works out on FakeTensors
    with rank.region("gather"):
        turned.redistribute(mesh, [Replicate()]).to_local().sum()


class Summed(torch.Tensor):
    """Sums over the ranks what comes of it."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        result = func(*(one.inner if isinstance(one, cls) else one for one in args), **(kwargs or {}))
        dist.all_reduce(result)
        return cls(result)


def communicates_below_the_dispatcher(rank):
    """In operators of its own, which torch calls while it has taken the modes away, and in a tensor subclass."""

    @torch.library.custom_op("behaviours::summed", mutates_args=())
    def summed(tensor: torch.Tensor, times: int) -> torch.Tensor:
        result = times * tensor
        dist.all_reduce(result)
        return result

    summed.register_autograd(
        lambda context, gradient: (summed(gradient, context.times), None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "times", inputs[1]),
    )
    library = torch.library.Library("behaviours_too", "DEF")
    library.define("summed(Tensor tensor) -> Tensor")
    library.impl("summed", lambda tensor: summed(tensor, 1), "CPU")
    tensor = torch.ones(4, requires_grad=True)
    with rank.region("operator"):
        result = summed(tensor, times=2)
    with rank.region("its gradient"):
        result.sum().backward()
    with rank.region("in another"):
        torch.ops.behaviours_too.summed(tensor.detach())
    with rank.region("subclass"):
        Summed(torch.ones(4)) + 1
    rank.record("gradient", tensor.grad.tolist())


def is_stuck_in_the_second_collective(rank):
    dist.all_reduce(torch.ones(4))
    dist.all_reduce(torch.ones(8)) if rank.rank == 0 else dist.barrier()
