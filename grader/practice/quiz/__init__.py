"""The quiz: formulas, judged answers, spaced repetition, the dialogue. Gives text and values; only the CLI prints."""
