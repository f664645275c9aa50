"""As DeepSpeed does it: hooks of the parameters reduce-scatter each gradient while backward runs and let go of it, so
that a rank never has all gradients at once. Launches go round and round through the parameters in one order on all
ranks; a parameter without a gradient holds up those behind it until `step`, which launches zeros for it."""

import torch
import torch.distributed as dist


class Zero2Optimizer(torch.optim.Optimizer):
    def __init__(self, params, optimizer_class, **defaults):
        self.n, self.order, self.shards, self.inner = dist.get_world_size(), [], {}, None
        self.pending, self.works, self.round, self.place = {}, [], 0, 0
        self.control = dist.new_group()  # ranks ask each other while not all have launched the same gradients
        super().__init__(params, defaults)
        self.inner = optimizer_class([self.local(group) for group in self.param_groups], **defaults)
        self.follow(self.inner.param_groups, self.param_groups)
        self.defaults.update(self.inner.defaults)

    @staticmethod
    def follow(source, target):
        for one, other in zip(source, target, strict=True):
            other.update((name, value) for name, value in one.items() if name != "params")

    def add_param_group(self, group):
        super().add_param_group(group)
        for parameter in self.param_groups[-1]["params"]:
            parameter.grad = None
            self.shards[parameter] = self.cut(parameter).clone()
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self.arrived)
        self.order = list(reversed(self.shards))
        if self.inner is not None:
            self.inner.add_param_group(self.local(self.param_groups[-1]))

    def local(self, group):
        return {**group, "params": [self.shards[parameter] for parameter in group["params"]]}

    def flat(self, tensor):
        length = -(-tensor.numel() // self.n)
        whole = tensor.new_zeros(self.n * length)
        whole[: tensor.numel()] = tensor.detach().reshape(-1)
        return whole

    def cut(self, parameter):
        return self.flat(parameter).view(self.n, -1)[dist.get_rank()]

    @torch.no_grad()
    def arrived(self, parameter):
        mine = self.flat(parameter.grad)
        self.pending[parameter] = self.pending[parameter] + mine if parameter in self.pending else mine
        parameter.grad = None
        while self.order[self.place] in self.pending:
            self.launch()

    def launch(self):
        parameter = self.order[self.place]
        whole = self.pending.pop(parameter, None)
        whole = self.flat(torch.zeros_like(parameter)) if whole is None else whole
        shard = torch.empty_like(self.shards[parameter])
        self.works.append((dist.reduce_scatter_tensor(shard, whole, async_op=True), parameter, shard))
        self.place = (self.place + 1) % len(self.order)
        self.round += self.place == 0

    def rounds(self):
        behind = any(parameter in self.pending for parameter in self.order[: self.place])
        return self.round + bool(self.place or self.pending) + bool(behind and self.place)

    @torch.no_grad()
    def finish(self):
        arrived = {parameter for _, parameter, _ in self.works} | set(self.pending)
        told = [None] * self.n
        dist.all_gather_object(told, (self.rounds(), [parameter in arrived for parameter in self.order]), self.control)
        while self.round < max(rounds for rounds, _ in told):
            self.launch()
        for work, parameter, shard in self.works:
            work.wait()
            number = next(i for i, one in enumerate(self.order) if one is parameter)
            if any(seen[number] for _, seen in told):
                mine = self.shards[parameter]
                mine.grad = shard / self.n if mine.grad is None else mine.grad + shard / self.n
        self.works, self.round = [], 0

    def zero_grad(self, set_to_none=True):
        self.finish()
        for parameter, shard in self.shards.items():
            parameter.grad = shard.grad = None

    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.finish()
        self.follow(self.param_groups, self.inner.param_groups)
        self.inner.step()
        with torch.no_grad():
            for parameter, shard in self.shards.items():
                shard.grad = None
                whole = shard.new_empty(self.n * shard.numel())
                dist.all_gather_into_tensor(whole, shard)
                parameter.copy_(whole[: parameter.numel()].view_as(parameter))
        return loss
