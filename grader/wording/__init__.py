"""What the renderers share, which may not import one another: safe text and phrases, advice, lines of a page.

Every renderer begins with `text.safe_report`: nothing that a student can influence reaches a page unsafe or uncut.
"""
