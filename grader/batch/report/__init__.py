"""What a class made of the exercises: rows of a batch become one report, as a page, JSON and CSV."""
