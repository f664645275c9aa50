"""One renderer a file: each takes a Report and gives text. None prints, and none imports another.

`text` is no renderer: it holds what they all need, above all `safe_report`, which every renderer calls first.
"""
