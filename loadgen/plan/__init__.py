"""Before the run: what is sent, and when."""
