"""What the model says: seeded ordinary words, and arguments made of them."""

import random

from loadgen.servers.simulated.part import Part
from loadgen.wire.events import ToolCall

# Any answer is a piece of one long text, so that a token costs one look-up.
LENGTH = 4096
# What every call calls, with such arguments.
CALL = ToolCall("call_sim", "look_up")
_OPENING, _CLOSING = '{"text":"', '"}'

_TEXT = """
the of and to in that it is was for on are as with they at be this from have or by one had not but what all were when
we there can an your which their said if do will each about how up out them then she many some so these would other
into has more her two like him see time could no make than first been its who now people my made over did down only
way find use may water long little very after words called just where most know get through back much before go good
new write our used me man too any day same right look think also around another came come work three word must because
does part even place well such here take why things help put years different away again off went old number great tell
men say small every found still between name should home big give air line set own under read last never us left end
along while might next sound below saw something thought both few those always looked show large often together asked
house world going want school important until form food keep children feet land side without boy once animals life
enough took sometimes four head above kind began almost live page got earth need far hand high year mother light parts
country father let night
"""


class Babble:
    """The endless text of one seed; it comes round after LENGTH tokens."""

    def __init__(self, seed: int) -> None:
        self.words = [f" {word}" for word in random.Random(f"babble {seed}").choices(_TEXT.split(), k=LENGTH)]

    def text(self, start: int, tokens: int) -> str:
        """Return an answer of so many tokens, from one place of the text on."""
        return "".join(self.words[(start + token) % LENGTH] for token in range(tokens))

    def piece(self, part: Part, first: int, stop: int, *, start: int) -> str:
        """Return what the tokens from `first` to `stop` of a part say, in an answer whose own first is at `start`.

        Arguments are one JSON object, whose first token opens it and whose last closes it.
        """
        if part.kind != "tool":
            return self.text(start + first, stop - first)
        opens, closes = first == part.start, part.whole and stop == part.stop
        words = self.text(start + first + opens, stop - first - opens - closes)
        return _OPENING * opens + words + _CLOSING * closes
