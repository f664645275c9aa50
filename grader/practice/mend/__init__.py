"""Mend this: wrong programs with the pages that they got, to be found and mended against the clock."""
