"""What a course needs: bundles for students and platforms, and gradebooks."""
