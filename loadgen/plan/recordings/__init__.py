"""Recorded requests: our file of them, and what builds them from prompts."""
