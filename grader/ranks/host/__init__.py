"""The warm host process of a session: torch is imported once, and each run is served by a fork."""
