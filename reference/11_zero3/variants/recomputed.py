"""An autograd function gathers in forward and reduce-scatters in backward. So that autograd does not keep what was
gathered, each block is checkpointed: backward runs its forward again, and gathers again for that. The rest stays whole
from forward to the end of backward, and is gathered once."""

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint


class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard):
        full = shard.new_empty(dist.get_world_size() * shard.numel())
        dist.all_gather_into_tensor(full, shard)
        return full

    @staticmethod
    def backward(ctx, gradient):
        shard = gradient.new_empty(gradient.numel() // dist.get_world_size())
        dist.reduce_scatter_tensor(shard, gradient.contiguous())
        return shard / dist.get_world_size()


class FullyShardedModule(nn.Module):
    def __init__(self, module, unit_class):
        super().__init__()
        self.keys, self.places, self.shapes = list(module.state_dict()), {}, []
        blocks = [part for part in module.modules() if isinstance(part, unit_class)]
        taken, shards = {}, []
        for part in [*blocks, module]:
            own = [p for p in part.parameters() if p not in taken]
            if own:
                taken |= {p: (len(shards), k) for k, p in enumerate(own)}
                self.shapes.append([p.shape for p in own])
                flat = torch.cat([p.detach().flatten() for p in own])
                flat = nn.functional.pad(flat, (0, -flat.numel() % dist.get_world_size()))
                shards.append(nn.Parameter(flat.tensor_split(dist.get_world_size())[dist.get_rank()].clone()))
        for name, p in module.named_parameters(remove_duplicate=False):
            self.places[name] = taken[p]
        sites = [[] for _ in shards]
        for part in module.modules():
            for name, p in list(part._parameters.items()):
                if p is not None:
                    sites[taken[p][0]].append((part, name, taken[p][1]))
                    del part._parameters[name]
        self.module, self.shards, self.sites = module, nn.ParameterList(shards), sites
        self.has_rest = len(shards) > len(blocks)
        for number, block in enumerate(blocks):
            block.forward = self.checkpointed(number, block.forward)

    def fill(self, number):
        views = self.views(number, Gathered.apply(self.shards[number]))
        for part, name, k in self.sites[number]:
            setattr(part, name, views[k])

    def empty(self, number):
        for part, name, _ in self.sites[number]:
            setattr(part, name, None)

    def views(self, number, full):
        sizes = [shape.numel() for shape in self.shapes[number]]
        parts = full[: sum(sizes)].split(sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes[number], strict=True)]

    def checkpointed(self, number, forward):
        def run(*args, **kwargs):
            self.fill(number)
            try:  # the second time checkpoint leaves as soon as it has what it needs, by an exception
                return forward(*args, **kwargs)
            finally:
                self.empty(number)

        def wrapped(*args, **kwargs):
            return checkpoint(run, *args, use_reentrant=False, **kwargs)

        return wrapped

    def forward(self, *args, **kwargs):
        rest = len(self.shards) - 1
        if self.has_rest:
            self.fill(rest)
        output = self.module(*args, **kwargs)
        if self.has_rest:
            self.empty(rest)
        return output

    def finish_gradient_synchronization(self):
        """Backward has waited for each sum."""

    @torch.no_grad()
    def full_state_dict(self):
        state = {key: value.clone() for key, value in self.module.state_dict().items()}
        full = [self.views(number, Gathered.apply(shard)) for number, shard in enumerate(self.shards)]
        state |= {name: full[number][k].clone() for name, (number, k) in self.places.items()}
        return {key: state[key] for key in self.keys}
