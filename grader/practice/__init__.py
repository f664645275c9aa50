"""What a student does around a grade: look, ask for a hint, begin again. Gives text and values; only the CLI prints."""
