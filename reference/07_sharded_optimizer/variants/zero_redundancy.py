"""A thin wrapper around torch's own ZeroRedundancyOptimizer. That differs from the contract in three points: it uses up
a generator inside a group, takes a bare parameter apart, and consolidates all state before it gives a state_dict."""

import torch
from torch.distributed.optim import ZeroRedundancyOptimizer


class ShardedOptimizer(ZeroRedundancyOptimizer):
    def __init__(self, params, optimizer_class, **defaults):
        groups = [{**one, "params": members(one)} if isinstance(one, dict) else one for one in params]
        super().__init__(groups, optimizer_class, parameters_as_bucket_view=False, **defaults)

    def add_param_group(self, group):
        super().add_param_group(group)
        if self.initialized:
            self._sync_param_groups(self.optim.param_groups, self.param_groups)

    def state_dict(self):
        self._sync_param_groups(self.param_groups, self.optim.param_groups)
        return self.optim.state_dict()

    def load_state_dict(self, state_dict):
        self.optim.load_state_dict(state_dict)
        self._sync_param_groups(self.optim.param_groups, self.param_groups)


def members(group):
    return [group["params"]] if isinstance(group["params"], torch.Tensor) else list(group["params"])
