"""What was seen, and how it is kept: readings, outcomes, rows, the journal, the run folder."""
