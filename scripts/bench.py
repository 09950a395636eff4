"""The project's own speed and truth, measured: client on one core, a server that logs the truth on the other.

Needs two cores, gcc, nginx (for tls), and the bench folder beside the checkout (../shared/bench: the truth server, the
fidelity check, the aiohttp yardstick); says so where they are missing. Quote ratios within one run of this script:
machines differ.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
BENCH = ROOT.parent / "shared" / "bench"
SERVER_CORE, CLIENT_CORE = "0", "1"
NGINX = """
daemon off; pid nginx.pid; worker_processes 1; worker_rlimit_nofile 20000;
events {{ worker_connections 10000; }}
http {{
  access_log off; client_body_temp_path {work}/body; proxy_temp_path {work}/proxy; fastcgi_temp_path {work}/fastcgi;
  uwsgi_temp_path {work}/uwsgi; scgi_temp_path {work}/scgi;
  upstream truth {{ server 127.0.0.1:{port}; keepalive 2000; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{plain} backlog=4096; listen 127.0.0.1:{secure} ssl backlog=4096;
    ssl_certificate {certificate}; ssl_certificate_key {work}/server.key;
    ssl_protocols TLSv1.2 TLSv1.3; keepalive_requests 1000000; tcp_nodelay on;
    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    location / {{ proxy_pass http://truth; }}
    location /close {{ keepalive_timeout 0; proxy_pass http://truth; }}
  }}
}}
"""
PROMPT = ("--prompt", "hi " * 20, "--model", "sim", "--cache", "cold")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def truth_server(work: Path, *, ttft_us: int, itl_us: int, tokens: int) -> Iterator[tuple[int, Path]]:
    """Yield port and log of a running truth server."""
    port, log = free_port(), work / "truth.csv"
    command = [work / "truth_server", port, ttft_us, itl_us, tokens, log]
    server = subprocess.Popen(["taskset", "-c", SERVER_CORE, *map(str, command)], stderr=subprocess.DEVNULL, cwd=work)
    try:
        time.sleep(0.3)
        yield port, log
    finally:
        server.terminate()
        server.wait()


@contextmanager
def terminator(work: Path, port: int) -> Iterator[tuple[int, int, Path]]:
    """Yield a plain port, a TLS port and a certificate of an nginx before the server at `port`, on the server's core.

    What is asked for under /close is answered with the connection's end.
    """
    plain, secure, certificate = free_port(), free_port(), work / "server.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=bench"
    where = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", work / "server.key", "-out", certificate]
    subprocess.run([*make.split(), *map(str, where)], check=True, stderr=subprocess.DEVNULL)
    (work / "nginx.conf").write_text(
        NGINX.format(work=work, port=port, plain=plain, secure=secure, certificate=certificate)
    )
    command = ["taskset", "-c", SERVER_CORE, "nginx", "-p", str(work), "-c", "nginx.conf", "-e", "nginx.log"]
    server = subprocess.Popen(command, cwd=work)
    try:
        time.sleep(0.5)
        yield plain, secure, certificate
    finally:
        server.terminate()
        server.wait()


def client(*arguments: str | Path, env: dict[str, str] | None = None) -> tuple[float, dict[str, object]]:
    """Run loadgen on its core; return the CPU seconds of the whole process, and its summary."""
    command = ["taskset", "-c", CLIENT_CORE, sys.executable, "-m", "loadgen", "run", *map(str, arguments), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ | (env or {}))
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"loadgen ended with {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime, json.loads(output)


def lateness(summary: dict) -> str:
    of = summary["metrics"]["generator_lateness"]
    return f"generator lateness p50 {of['p50']:.3f} p99 {of['p99']:.3f} max {of['max']:.3f} ms"


def truth(work: Path) -> None:
    """What we measured against what the server logged, at 100 and 200 requests/s for 20 s."""
    for rate in (100, 200):
        with truth_server(work, ttft_us=200_000, itl_us=20_000, tokens=100) as (port, log):
            run = work / f"truth-{rate}"
            _, summary = client(f"127.0.0.1:{port}", *PROMPT, "--rate", str(rate), "--duration", "20s", "--out", run)
        check = subprocess.run(
            [sys.executable, BENCH / "fidelity.py", run, log, "--max-ms", "1.0"],
            capture_output=True,
            text=True,
            check=False,
        )
        verdict = "passes" if check.returncode == 0 else "FAILS"
        seen = re.search(r"server saw .*", check.stdout)
        worst = re.search(r"worst percentile error .*", check.stdout)
        print(
            f"truth {rate}/s: fidelity {verdict}; {seen and seen[0]}; {worst and worst[0]}; {lateness(summary)}",
            flush=True,
        )


def tls(work: Path) -> None:
    """The same load plain and over TLS in turn; then streams over TLS with and without 500 handshakes/s beside them."""
    if shutil.which("nginx") is None:
        raise SystemExit("error: the tls bench needs nginx\nhint: apt-get install nginx-light")
    with (
        truth_server(work, ttft_us=200_000, itl_us=20_000, tokens=100) as (port, _),
        terminator(work, port) as (plain, secure, certificate),
    ):
        env = {"SSL_CERT_FILE": str(certificate)}
        load = (*PROMPT, "--rate", "100", "--duration", "20s")
        for turn in range(3):
            cpu, shown = {}, {}
            for scheme, at in (("http", plain), ("https", secure)):
                run = work / f"tls-{scheme}-{turn}"
                cpu[scheme], summary = client(f"{scheme}://127.0.0.1:{at}", *load, "--out", run, env=env)
                shown[scheme] = summary
            frames = 100 * shown["https"]["outcomes"]["completed"]
            print(
                f"tls {turn}: {_apart(shown['http']['metrics'], shown['https']['metrics'])}; "
                f"CPU plain {cpu['http'] / frames * 1e6:.1f}, TLS {cpu['https'] / frames * 1e6:.1f} us/frame; "
                f"{lateness(shown['https'])}",
                flush=True,
            )
        for turn in range(3):
            shown = {}
            for name in ("kept", "close"):
                recording, run = work / f"{name}.jsonl", work / f"handshakes-{name}-{turn}"
                recording.write_text("".join(_requests_beside_streams(f"/{name}")))
                load = ("--recording", recording, "--rate", "510", "--duration", "20s", "--cache", "cold")
                _, shown[name] = client(f"https://127.0.0.1:{secure}", *load, "--out", run, env=env)
            fresh = shown["close"]["generator"]["new_connections"]
            streams = [shown[name]["classes"]["stream"]["metrics"] for name in ("kept", "close")]
            print(
                f"handshakes {turn}: {fresh / 20:.0f}/s beside 10 streams/s; {_apart(*streams)}; "
                f"completed {shown['close']['outcomes']['completed']} of {shown['close']['offered']}; "
                f"{lateness(shown['close'])}; {shown['close']['process']['cpu_pct']:.0f} % of a core",
                flush=True,
            )


def _requests_beside_streams(path: str) -> Iterator[str]:
    """Fifty requests of one token to one stream of a hundred."""
    body = {"model": "sim", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    for place in range(51):
        is_stream = place == 0
        request = {"path": "/stream" if is_stream else path, "class": "stream" if is_stream else "short", "body": body}
        yield json.dumps(request | ({} if is_stream else {"headers": {"x-sim": "0,0,1"}})) + "\n"


def _apart(before: dict, after: dict) -> str:
    """Say how much later frames came, at each percentile."""
    return "; ".join(
        f"{name} " + " ".join(f"{p} {after[name][p] - before[name][p]:+.3f}" for p in ("p50", "p95", "p99")) + " ms"
        for name in ("ttft", "e2e")
    )


def cost(work: Path) -> None:
    """CPU per timed frame, ours (whole process, from start to summary) and a plain aiohttp loop's, in turn."""
    yardstick = ROOT / ".venv" / "yardstick"
    if not yardstick.exists():
        subprocess.run([sys.executable, "-m", "venv", yardstick], check=True)
        subprocess.run(
            [yardstick / "bin" / "pip", "install", "-q", "aiohttp==3.14.5"], check=True, stderr=subprocess.DEVNULL
        )
    # Both send at the same constant rate. At 250/s the streams' 20 ms frames fall in step in five groups; at 253/s they
    # spread over all phases, which costs every client more.
    for rate in (250, 253):
        ratios = []
        for turn in range(3):
            with truth_server(work, ttft_us=200_000, itl_us=20_000, tokens=100) as (port, _):
                run = work / f"cost-{rate}-{turn}"
                cpu, summary = client(
                    f"127.0.0.1:{port}", *PROMPT, "--rate", str(rate), "--requests", str(20 * rate), "--out", run
                )
                frames = 100 * summary["outcomes"]["completed"]
                loop = [yardstick / "bin" / "python", BENCH / "aiohttp_loop.py", str(rate), str(20 * rate), str(port)]
                plain = subprocess.run(
                    ["taskset", "-c", CLIENT_CORE, *loop], capture_output=True, text=True, check=True
                ).stdout
            theirs = float(re.search(r"us/frame ([\d.]+)", plain)[1])
            ours = cpu / frames * 1e6
            loaded = summary["process"]["cpu_pct"] / 100 * summary["window"]["length_s"] / frames * 1e6
            ratios.append(ours / theirs)
            print(
                f"cost {rate}/s: ours {ours:.1f} us/frame from start to summary, {loaded:.1f} under load; "
                f"aiohttp {theirs:.1f}; ratio {ratios[-1]:.2f}; {lateness(summary)}",
                flush=True,
            )
        print(
            f"cost {rate}/s: ratio median {sorted(ratios)[1]:.2f}, from {min(ratios):.2f} to {max(ratios):.2f}",
            flush=True,
        )


def requests(work: Path) -> None:
    """3,000 one-token requests a second on one core."""
    for turn in range(3):
        with truth_server(work, ttft_us=0, itl_us=0, tokens=1) as (port, _):
            _, summary = client(
                f"127.0.0.1:{port}", *PROMPT, "--rate", "3000", "--duration", "10s", "--out", work / f"requests-{turn}"
            )
        print(
            f"requests {turn}: {summary['completed_per_sec']:.0f}/s completed of {summary['offered']}; "
            f"{lateness(summary)}; {summary['generator']['cpu_pct']:.0f} % of a core",
            flush=True,
        )


def memory(work: Path) -> None:
    """The resident set after 50,000 and after 200,000 short requests of one run, from the run's own samples."""
    with truth_server(work, ttft_us=0, itl_us=0, tokens=1) as (port, _):
        run = work / "memory"
        command = [
            "taskset", "-c", CLIENT_CORE, sys.executable, "-m", "loadgen", "run", f"127.0.0.1:{port}", *PROMPT,
            "--rate", "2000", "--requests", "200000", "--out", str(run),
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        resident = {}
        for count in (50_000, 200_000):
            while not (run / "run.json").exists():
                time.sleep(0.01)
            started = json.loads((run / "run.json").read_text())["clock"]["started_unix_ns"] / 1e9
            time.sleep(max(0.0, started + count / 2000 - 0.2 - time.time()))
            statm = Path(f"/proc/{process.pid}/statm").read_text().split()
            resident[count] = int(statm[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        if process.wait():
            raise SystemExit("loadgen failed")
    early, late = resident.values()
    print(f"memory: {early:.1f} MiB after 50,000, {late:.1f} MiB after 200,000: {late / early - 1:+.1%}", flush=True)


def start(work: Path) -> None:
    """How long --help takes, and how long after its start a run sends its first request."""
    best = min(_timed([sys.executable, "-m", "loadgen", "--help"]) for _ in range(5))
    with truth_server(work, ttft_us=0, itl_us=0, tokens=1) as (port, _):
        firsts = []
        for turn in range(3):
            began = time.time()
            run = work / f"start-{turn}"
            client(f"127.0.0.1:{port}", "--recording", ROOT / "schedules" / "demo.jsonl", "--rate", "50", "--out", run)
            firsts.append(json.loads((run / "run.json").read_text())["clock"]["started_unix_ns"] / 1e9 - began)
    print(
        f"start: --help in {best:.2f} s; first request {min(firsts):.2f} to {max(firsts):.2f} s after the start",
        flush=True,
    )


def imports(work: Path) -> None:
    """A trace of lengths as CSV to a recording: rows a second and peak resident set, at two sizes."""
    for rows in (250_000, 1_000_000):
        source = work / f"trace-{rows}.csv"
        with source.open("w") as file:
            file.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
            for row in range(rows):
                clock = f"{row // 36000 % 24:02}:{row // 600 % 60:02}:{row // 10 % 60:02}.{row % 10}{row % 999_983:06}"
                file.write(f"2023-11-{16 + row // 864_000} {clock},{row * 31 % 7000 + 1},{row * 17 % 900 + 1}\n")
        command = [sys.executable, "-m", "loadgen", "import", str(source), "--out", str(work / f"{rows}.jsonl")]
        began = time.perf_counter()
        process = subprocess.Popen(["taskset", "-c", CLIENT_CORE, *command], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        took = time.perf_counter() - began
        if status:
            raise SystemExit(f"loadgen ended with {os.waitstatus_to_exitcode(status)}")
        print(
            f"import: {rows:,} rows in {took:.1f} s, {rows / took:,.0f} rows/s; "
            f"CPU {used.ru_utime + used.ru_stime:.1f} s; peak {used.ru_maxrss / 1024:.1f} MiB",
            flush=True,
        )


def _timed(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def frames(work: Path) -> None:
    """What decoding a frame costs in each format, the least of many runs: framer and decoder, and the whole reading."""
    from loadgen.results.reading import Reading
    from loadgen.wire.events import End, Finish, Output, Role, Usage
    from loadgen.wire.formats import FORMATS
    from loadgen.wire.framing import FRAMINGS

    said = [Role(), *(Output("text", f" word{n}") for n in range(500)), Finish("stop"), Usage(20, 500), End()]
    for name, dialect in FORMATS.items():
        for api, encoder in dialect.encoders.items():
            write = encoder("model").encode
            reads = [frame for frame in map(write, said) if frame]
            head = [(b"content-type", dialect.content_type.encode())]

            def decode(reads: list[bytes] = reads, dialect=dialect) -> None:
                feed, decode = FRAMINGS[dialect.content_type]().feed, dialect.decoder()
                for read in reads:
                    for frame in feed(read):
                        decode(frame)

            def read_all(reads: list[bytes] = reads, head: list = head) -> None:
                reading = Reading()
                reading.head(200, head, 0)
                for at, read in enumerate(reads):
                    reading.body(read, at, at)

            decoding, reading = (_least_us(do) / len(reads) for do in (decode, read_all))
            print(f"frames {name} ({api}): decoding {decoding:.2f} us/frame, reading {reading:.2f}", flush=True)


def recorder(work: Path) -> None:
    """What recording adds to 50 streams at once, each of 100 tokens at 20 ms; the recorder has a core of its own."""
    for how, load in (("spread", ("--rate", "23")), ("in step", ("--concurrency", "50"))):
        for http2 in ((), ("--http2",)):
            out = work / f"{how}{len(http2)}.jsonl"
            with truth_server(work, ttft_us=200_000, itl_us=20_000, tokens=100) as (port, _):
                where = ["--upstream", f"127.0.0.1:{port}", "--listen", "127.0.0.1:0", "--out", out]
                command = ["taskset", "-c", CLIENT_CORE, sys.executable, "-m", "loadgen", "record", *map(str, where)]
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                assert process.stdout is not None
                url = re.search(r"http://\S+", process.stdout.readline())
                assert url is not None
                asked = [sys.executable, "-m", "loadgen", "run", url[0], *PROMPT, *load, "--duration", "8s", *http2]
                run = [*asked, "--out", str(work / out.stem)]
                subprocess.run(["taskset", "-c", SERVER_CORE, *run], check=True, stdout=subprocess.DEVNULL)
                process.terminate()
                said = process.communicate()[1]
            added = re.findall(r"added +(.*)", said)
            print(f"recorder {'HTTP/2' if http2 else 'HTTP/1.1'} {how}: {'; '.join(added)}", flush=True)


def _least_us(do: Callable[[], None]) -> float:
    took = []
    for _ in range(60):
        began = time.perf_counter()
        do()
        took.append(time.perf_counter() - began)
    return min(took) * 1e6


BENCHES: dict[str, Callable[[Path], None]] = {
    "truth": truth,
    "tls": tls,
    "frames": frames,
    "cost": cost,
    "requests": requests,
    "memory": memory,
    "recorder": recorder,
    "start": start,
    "import": imports,
}


def main(names: list[str]) -> None:
    if not BENCH.is_dir():
        raise SystemExit(f"error: {BENCH} is missing\nhint: the truth server and the fidelity check live there")
    if unknown := set(names) - set(BENCHES):
        raise SystemExit(f"error: no bench {', '.join(unknown)}\nhint: there are {', '.join(BENCHES)}")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        subprocess.run(["gcc", "-O2", "-o", work / "truth_server", BENCH / "truth_server.c"], check=True)
        for name in names or BENCHES:
            BENCHES[name](work)


main(sys.argv[1:])
