"""An open-loop load generator for streaming model servers that knows its own error.

The map of the house; arrows point down only, and `tests/test_house.py` keeps them:

    cli      commands: parse, call, print, exit
    servers  things that answer: the simulated model server, the recorder
    report   after the run: reads run folders, starts nothing
    drive    during the run: the nursery driver, its pacer, its deadlines
    results  what was seen and how it is kept: rows, outcomes, journal, run folder
    plan     before the run: what is sent, and when
    net      the sockets: connections, the pump, kernel stamps
    wire     bytes <-> values, no I/O of any kind
"""

__version__ = "0.1.0"
