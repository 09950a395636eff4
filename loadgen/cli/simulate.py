"""`loadgen simulate`: the simulated model server."""


def simulate() -> None:
    """Serve a simulated model: known latency, slots, queue and faults."""
