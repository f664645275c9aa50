"""The supervisor of one run, a process of its own that never imports student code."""
