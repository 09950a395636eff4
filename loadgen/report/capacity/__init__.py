"""Capacity: the highest rate at which enough requests are good, by probes judged at a stated confidence."""
