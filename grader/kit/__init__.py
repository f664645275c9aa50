"""What probes share, and the one part of the grader that a probe may import.

    values      seeded tensors and other values by place, copies of what a rank has
    spies       models whose forward the judge can repeat, numbered samples, optimizers and forwards that note steps
    meeting     ranks that meet and tell one another something without a process group
    ports       free ports that stay reserved
    stores      where the code asks to meet: stand-ins for TCPStore, groups that are held
    groups      a default group for some of the ranks, DDP by the device rule
    machine     a machine with any number of GPUs, staged for one process
    gpus        whether there are GPUs, asked so that children can still use them
    memory      what this process keeps alive, by every instrument
    processes   whether another process waits, or has ended
    interpreter a freshly started Python with another hash seed
    forks       forks of this process that look like new interpreters
    spawns      spawned processes in a fraction of the time: forks of a server that look like new interpreters
    scripts     scripts run as programs, alone or under torchrun, and watched from outside
    files       files to be read: cut off, foreign, with code in them, as if from a GPU
    disturb     what a process writes, as it happens; writing that fails, is slow, or is cut short by death

A probe runs in every rank, beside student code: nothing here knows an expected value, and nothing is imported but
torch, psutil and the standard library.
"""
