"""Grading: a request goes in, a report comes out. `flow` has the whole of it in one function of verbs."""
