"""Things that answer: the simulated model server. Nothing here imports drive."""
