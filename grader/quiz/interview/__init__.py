"""A timed interview: one exercise and some questions, no hints, and a debrief at the end."""
