"""What the answers of one server share."""

from loadgen.servers.simulated.babble import Babble
from loadgen.servers.simulated.ledger import Entry, Reader
from loadgen.servers.simulated.metrics import Metrics
from loadgen.servers.simulated.metronome import Metronome
from loadgen.servers.simulated.model import Model
from loadgen.servers.simulated.pacing import PacingRecord
from loadgen.servers.simulated.slots import Slots
from loadgen.servers.simulated.speech import Voices
from loadgen.servers.simulated.tally import Tally


class Room:
    """The model, its slots, its time, its words, and what is kept of what happened."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.metronome = Metronome()
        self.slots = Slots(model.slots, queue=model.queue)
        self.feeds = Slots(0, queue=0)  # these need none of the model's
        self.babble = Babble(model.seed)
        self.voices = Voices(self.babble)
        self.tally = Tally()
        self.pacing = PacingRecord()
        self.metrics = Metrics(self.slots, model=model.name)
        # Who is told of each request for an answer or feed when it is over.
        self.readers: list[Reader] = [self.tally.count]

    def tell(self, entry: Entry) -> None:
        for reader in self.readers:
            reader(entry)
