"""A recording reverse proxy: what clients ask an upstream, and what it answers, frame by frame, with the time of each.

Bodies go past as they come, what one read brings at once, nothing held back but what a slow client cannot take; of the
headers only those that belong to a connection are left out, and none is added: an upstream sees what it would see
without the recorder. A request goes on when all of it is there. A client that closes its connection, or only its
sending half, has left. When an exchange is over a line is made of it, and secrets are in it at no time.

    recorder   the listening socket     http1, http2  a client's connection, and the replies on it
    passage    one exchange             note          what is kept of it while it goes on
    clerk      who writes it down       transcript    frames cut, secrets left out, by redaction
    book       the file
"""

from loadgen.servers.recorder.book import Book, open_book
from loadgen.servers.recorder.delays import Spread
from loadgen.servers.recorder.recorder import Recorder, record
from loadgen.servers.recorder.redaction import Redaction, parse_redactions
from loadgen.servers.recorder.room import Habits
from loadgen.servers.recorder.tally import Tally

__all__ = ["Book", "Habits", "Recorder", "Redaction", "Spread", "Tally", "open_book", "parse_redactions", "record"]
