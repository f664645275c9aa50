"""ZeroRedundancyOptimizer again, with parameters that become views of one bucket for each rank."""

import torch
from torch.distributed.optim import ZeroRedundancyOptimizer


class ShardedOptimizer(ZeroRedundancyOptimizer):
    def __init__(self, params, optimizer_class, **defaults):
        groups = [{**one, "params": members(one)} if isinstance(one, dict) else one for one in params]
        super().__init__(groups, optimizer_class, parameters_as_bucket_view=True, **defaults)

    def add_param_group(self, group):
        super().add_param_group(group)
        if self.initialized:
            self._sync_param_groups(self.optim.param_groups, self.param_groups)

    def state_dict(self):
        self._sync_param_groups(self.param_groups, self.optim.param_groups)
        return {"mine": self.optim.state_dict()}

    def load_state_dict(self, state_dict):
        self.optim.load_state_dict(state_dict["mine"])
        self._sync_param_groups(self.optim.param_groups, self.param_groups)


def members(group):
    return [group["params"]] if isinstance(group["params"], torch.Tensor) else list(group["params"])
