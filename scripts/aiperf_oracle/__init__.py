"""Our metrics and AIPerf's over the same drawn streams: what `scripts/oracle` is made of.

streams      what the two sides exchange; needs msgspec alone
draw         streams on which both must agree
differences  streams on which they must not, and by how much
ours         bytes to numbers through loadgen
theirs       bytes to numbers through AIPerf, in an environment of its own
compare      what the two made of them, side by side
table        the result as Markdown
"""
