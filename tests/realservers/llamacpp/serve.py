"""Serve a model with llama.cpp's own HTTP server, as it comes inside the xllamacpp wheel.

    serve.py MODEL.gguf PORT SLOTS

Runs until terminated. Needs xllamacpp.
"""

import signal
import sys

import xllamacpp


def main(model: str, port: str, slots: str) -> None:
    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.model_alias = {"tiny"}
    settings.hostnames = ["127.0.0.1"]
    settings.port = int(port)
    settings.n_parallel = int(slots)
    settings.n_ctx = 8192
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.use_jinja = True
    settings.endpoint_metrics = True
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while True:
        signal.pause()


main(*sys.argv[1:])
