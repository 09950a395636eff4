"""A model server with known latency, slots, queue and faults, that speaks OpenAI's dialect.

`POST /v1/chat/completions` and `POST /v1/completions` (streamed and whole), `GET /v1/models`, `GET /health`.
As vLLM does, it sends a stream's headers as soon as the request has a slot or a place in the queue, and the role frame
together with the first token. Any model name is answered under that name. Its tokenizer counts words split at
whitespace (token ids in a completion's `prompt` count one each), at least one a request. An answer that fits its cap
finishes with `stop`, one that the cap cut short with `length`; `ignore_eos` with a cap gives exactly that many tokens.
A client that closes its connection, or only its sending half, has left: its slot is free at once.

A request may say what becomes of it in the header `x-sim: key=value,...`:

    ttft_ms=50     time to the first token once it holds a slot, prefill included
    itl_ms=5       time between tokens, before the batch's slowdown and jitter
    tokens=20      length of the answer; caps still hold
    fault=reject   429 with Retry-After: 1
    fault=cut      the stream ends in mid answer with a clean TCP close
    fault=reset    the same with a TCP reset
    fault=stall    the stream falls silent in mid answer, until the client leaves or Model.stall_ns has passed
    fault=error    an error frame in mid answer, then [DONE]

A fault comes after at least one token where the answer is streamed, and keeps its slot until it is over.
"""

from loadgen.servers.simulated.model import Model
from loadgen.servers.simulated.pacing import Pacing
from loadgen.servers.simulated.simulator import Simulator, serve
from loadgen.servers.simulated.tally import Tally

__all__ = ["Model", "Pacing", "Simulator", "Tally", "serve"]
