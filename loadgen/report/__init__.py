"""After the run: reads run folders, starts nothing."""
