"""Computes on eight threads below Python for as long as it is let."""

import hashlib
import threading

DEADLINE = 3


def burn():
    while True:
        hashlib.pbkdf2_hmac("sha256", b"x", b"y", 10_000_000)


def total(value):
    for _ in range(8):
        threading.Thread(target=burn, daemon=True).start()
    burn()
