"""A probe with one function for each behaviour: it hands the rank on."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda rank: getattr(rank.student, name)(rank)
