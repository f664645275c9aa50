"""One renderer a file: each takes a Report and gives text. None prints, and none imports another.

What they share stands in grader.wording. Every renderer begins with `safe_report` from there.
"""
