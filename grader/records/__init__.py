"""What crosses a boundary: frames between processes, recorded runs, reports read back, the journal of a grade."""
