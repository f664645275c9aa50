"""Questions, judged answers, spaced repetition; the quiz and the interview. Gives text and values; the CLI prints."""
