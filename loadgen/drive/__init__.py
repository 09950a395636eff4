"""During the run: the nursery driver, its pacer, its deadlines, and the watch over ourselves."""
