# coding: zlib_codec
"""Names a codec in its coding line that would run code or blow up when decoded."""

OUTCOME = "refused"


def total(value):
    return value
