"""Hand-ins of a batch that resemble one another, in code or in what they did. A place to look, never a verdict."""
