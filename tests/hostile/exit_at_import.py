"""Leaves by os._exit(0) while it is imported, as if a clean exit were success."""

import os

TELLS = "os._exit(0)"

os._exit(0)
