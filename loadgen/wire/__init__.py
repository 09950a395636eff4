"""Bytes to values and back, without I/O: framing, dialects, recognition."""
