"""Reads the judge's command line, environment and open files in /proc, and prints what its memory holds of the canary.

Who may read another process's memory is the system's decision: root may, and so may the same user where Yama is off.
"""

import os
import re

STOPPED_BY = "bubblewrap"
BELOW = "failed, leaked a secret or failed"
TELLS = "no such judge"
WANTED = re.compile(rb"the-canary-must-[a-z-]{8}")


def heap(maps):
    for line in maps:
        if "rw-p" in line and ("[heap]" in line or line.endswith(" 0 \n")):
            start, end = (int(word, 16) for word in line.split()[0].split("-"))
            yield start, end - start


def total(value):
    try:
        print(os.listdir("/proc/@JUDGE@/fd"))
        with open("/proc/@JUDGE@/maps") as maps, open("/proc/@JUDGE@/mem", "rb", 0) as memory:
            for start, size in heap(maps):
                memory.seek(start)
                if found := WANTED.search(memory.read(min(size, 1 << 26)) or b""):
                    print(found[0].decode())
                    break
    except FileNotFoundError:
        print("no such judge")
    return value
