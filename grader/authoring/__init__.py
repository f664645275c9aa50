"""What an author runs: proofs that an exercise accepts what is right and nothing else."""
