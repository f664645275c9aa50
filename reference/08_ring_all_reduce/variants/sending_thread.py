"""A thread sends, one message after the other, while the main thread receives and adds."""

import math
import queue
import threading

import torch
import torch.distributed as dist


class Sender:
    def __init__(self, group, to):
        self.messages = queue.Queue()
        self.thread = threading.Thread(target=self.run, args=(group, to))
        self.error = None

    def run(self, group, to):
        try:
            while (message := self.messages.get()) is not None:
                dist.send(message, group=group, group_dst=to)
        except RuntimeError as error:
            self.error = error

    def __enter__(self):
        self.thread.start()
        return self.messages.put

    def __exit__(self, *error):
        self.messages.put(None)
        self.thread.join()
        if self.error:
            raise self.error


def ring_all_reduce(tensor, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    flat = tensor.contiguous().view(-1)
    length = math.ceil(flat.numel() / n)
    chunks = [flat[number * length : (number + 1) * length] for number in range(n)]

    def receive(like):
        chunk = torch.empty_like(like)
        dist.recv(chunk, group=group, group_src=(rank - 1) % n)
        return chunk

    with Sender(group, (rank + 1) % n) as send:
        if n > 1:
            send(chunks[rank].clone())
        for step in range(1, n):
            place = (rank - step) % n
            chunks[place] = chunks[place] + receive(chunks[place])
            send(chunks[place])
        for step in range(1, n):
            place = (rank - step + 1) % n
            chunks[place] = receive(chunks[place])
            if step < n - 1:
                send(chunks[place])
    tensor.copy_(torch.cat(chunks).view_as(tensor))
