"""Nests eighteen levels of finally, each of which doubles what is compiled: half a gigabyte from a kilobyte."""

import torch.distributed as dist

OUTCOME = "refused"
TELLS = "takes too much memory to compile"


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
