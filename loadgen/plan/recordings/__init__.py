"""Recorded requests: our file of them, what reads other people's, and what makes them of prompts or of lengths."""
