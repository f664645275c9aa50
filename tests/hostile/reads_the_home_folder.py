"""Reads a password in a home folder, and prints it."""

STOPPED_BY = "bubblewrap"
BELOW = "failed, leaked a secret"
TELLS = "FileNotFoundError"


def total(value):
    with open("@FOLDER@/home/.netrc") as file:
        print(file.read())
    return value
