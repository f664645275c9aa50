"""Raises and prints a script and an image that calls home, for a report that is shown in a browser."""

TELLS = "RuntimeError was raised"
TEXT = "<script>alert(1)</script><img src=x onerror=alert(1)>]]><![CDATA["


def total(value):
    print(TEXT)
    raise RuntimeError(TEXT)
