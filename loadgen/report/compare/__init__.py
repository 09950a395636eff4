"""Two runs, or groups of repeats, of the same schedule: what became of what was offered, and how far latencies shifted.

`compare` returns one dictionary, which `loadgen compare --json` prints and the report shows:

    a, b           label, runs (name, target, valid, why_invalid), and the accounting: offered, outcomes, good, useful,
                   accepted, medians of survivors (ms), mean lengths (tokens)
    classes        the same accounting per class: {class: {"a": …, "b": …}}
    same           schedule and bodies alike? `schedule`, `due`, `paired`
    conditions, serving, others       what differs: name, a, b
    warnings       in words
    blocks         how time was cut for the bootstrap; None of groups
    shifts         metric, statistic, klass, a, b, shift, low, high, n, p, holm; `primary`: it was named beforehand;
                   `sure`: its interval excludes zero, and its corrected p does not speak against that
    useful         lost, won, p, fell; by class, "" for all
    servers        name, unit, statistic, a, b: what both sides' servers told, where they were scraped
    transitions    was (A), now (B), requests
    conclusion     kind and sentence
    gates          as in a summary
"""

from loadgen.report.compare.comparison import PRIMARY, compare, parse_primary
from loadgen.report.compare.sides import Run, Side

__all__ = ["PRIMARY", "Run", "Side", "compare", "parse_primary"]
