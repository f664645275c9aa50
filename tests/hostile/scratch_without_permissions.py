"""Takes all permissions off the folders of its scratch, so that nobody may remove what lies in them."""

import os

TELLS = "the total"


def total(value):
    os.makedirs("locked/inner")
    with open("locked/inner/file", "w") as file:
        file.write("x")
    os.chmod("locked/inner", 0)
    os.chmod("locked", 0)
    os.chmod(".", 0)
    return value
