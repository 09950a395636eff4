"""A model server with known latency, slots, queue and faults, that speaks every API on its own path.

    POST /v1/chat/completions  POST /v1/completions  POST /v1/responses   OpenAI's
    POST /v1/messages                                                     Anthropic's
    POST /api/chat             POST /api/generate                         Ollama's, streams unless asked otherwise
    POST /model/{id}/converse-stream                                      Bedrock's
    POST /model/{id}/invoke-with-response-stream                          Bedrock's, for an Anthropic model
    GET  /feed                 GET  /feed.ndjson                          no model's: ?events=20, one every itl
    GET  /v1/models            GET  /health                               GET  /metrics, in vLLM's words

A body is read as its API has it; what is asked wrongly gets that API's own error. Any model name is answered under that
name; credentials and signatures are not looked at. The tokenizer counts words split at whitespace (token ids in a
completion's `prompt` count one each), at least one a request.

As vLLM does, it sends a stream's headers as soon as the request has a slot or a place in the queue, and the role frame
together with the first token; what opens a stream of Responses or of Anthropic's messages comes with the headers, as it
does there. An answer that fits its cap finishes with the API's word for `stop`, one that the cap cut short with its
word for `length`; `ignore_eos` with a cap gives exactly that many tokens. A client that closes its connection, or only
its sending half, has left: its slot is free at once.

Reasoning tokens come before an answer's own; caps and usage count both. An answer that calls a tool (always `look_up`)
ends in the call: the latter half of its tokens are pieces of one JSON object. Ollama's says the call in one line at
the last of them; a call that a cap or a fault cut short it does not say. Text completions have neither, Ollama's
`generate` has no calls: there they are answered as if nobody had wished for them.

A request may say what becomes of it in the header `x-sim: key=value,...`:

    ttft_ms=50     time to the first token once it holds a slot, prefill included
    itl_ms=5       time between tokens, before the batch's slowdown and jitter
    tokens=20      length of the answer; caps still hold
    reasoning=20   reasoning tokens before it
    tools=1        it ends in a tool call; tools=0: it does not
    fault=reject   429 with Retry-After: 1
    fault=cut      the stream ends in mid answer with a clean TCP close
    fault=reset    the same with a TCP reset
    fault=stall    the stream falls silent in mid answer, until the client leaves or Model.stall_ns has passed
    fault=error    the API's own error in mid answer: an object and [DONE], an `error` event (after which Responses
                   sends `response.failed`), a line, an exception message

A fault comes after at least one token where the answer is streamed, and keeps its slot until it is over. Feeds need no
slot, and fail only where a request wishes so.
"""

from loadgen.servers.simulated.ledger import Entry, LedgerFile
from loadgen.servers.simulated.model import Model
from loadgen.servers.simulated.pacing import Pacing
from loadgen.servers.simulated.simulator import Simulator, serve
from loadgen.servers.simulated.tally import Tally

__all__ = ["Entry", "LedgerFile", "Model", "Pacing", "Simulator", "Tally", "serve"]
