"""Where a batch runs: slots of one machine, or actors of Ray. Both start the same worker (`grader.batch.worker`)."""
