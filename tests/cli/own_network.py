"""Run the simulated server and one load against it in a network of their own: `own_network.py LOW HIGH ARGUMENT...`.

Started by `unshare --map-root-user --net`: the ports from LOW to HIGH are all there are for connections. What the run
says is printed; the exit code is the run's, or UNAVAILABLE where the machine does not let us set the network up.
"""

import fcntl
import re
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

UNAVAILABLE = 77
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1


def set_up(low: str, high: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))
    Path("/proc/sys/net/ipv4/ip_local_port_range").write_text(f"{low} {high}")


def main(low: str, high: str, *arguments: str) -> int:
    try:
        set_up(low, high)
    except OSError as error:
        print(error, file=sys.stderr)
        return UNAVAILABLE
    command = [sys.executable, "-m", "loadgen"]
    server = subprocess.Popen(
        [*command, "simulate", "--port", "8000", "--slots", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        url = re.search(r"http://\S+", server.stdout.readline())[0]
        return subprocess.run([*command, "run", url, *arguments], timeout=30, check=False).returncode
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(10)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
