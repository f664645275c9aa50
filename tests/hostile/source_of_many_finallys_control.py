"""Nests six levels of finally."""

import torch.distributed as dist


# fmt: off
def use():
    pass


def total(value):
    dist.all_reduce(value)
    try:
     use()
    finally:
     try:
      use()
     finally:
      try:
       use()
      finally:
       try:
        use()
       finally:
        try:
         use()
        finally:
         try:
          use()
         finally:
          use()
    return value
