"""A real browser without a window, driven over its DevTools protocol."""

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import websocket

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_START_S, _ANSWER_S = 20.0, 30.0
_MIDDLE = """(selector) => {
  const it = document.querySelector(selector);
  it.scrollIntoView({block: "center", behavior: "instant"});
  const where = it.getBoundingClientRect();
  return [where.x + where.width / 2, where.y + where.height / 2];
}"""


class Browser:
    """One browser and one page of it; `errors` are what the page complained of since it was opened."""

    def __init__(self) -> None:
        assert CHROMIUM is not None
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            [
                CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                "--remote-debugging-port=0", "--remote-allow-origins=*", f"--user-data-dir={self._profile.name}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._numbers = itertools.count(1)
        self.errors: list[str] = []
        self._socket = websocket.create_connection(self._address(), timeout=_ANSWER_S)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _address(self) -> str:
        active = Path(self._profile.name) / "DevToolsActivePort"
        until = time.monotonic() + _START_S
        while not (active.exists() and active.read_text().strip()):
            assert time.monotonic() < until
            time.sleep(0.05)
        port = active.read_text().split()[0]
        with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}/json", timeout=10) as answer:
            pages = json.load(answer)
        return str(next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page"))

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol; return its result."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            told = json.loads(self._socket.recv())
            self._note(told)
            if told.get("id") == number:
                assert "error" not in told, told
                found: dict[str, Any] = told["result"]
                return found

    def _note(self, told: dict[str, Any]) -> None:
        match told.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(told["params"]["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if told["params"]["type"] in ("error", "warning", "assert"):
                self.errors.append(str(told["params"]["args"]))
            case "Log.entryAdded" if told["params"]["entry"]["level"] in ("error", "warning"):
                self.errors.append(str(told["params"]["entry"]))
            case "Network.requestWillBeSent" if not told["params"]["request"]["url"].startswith(("file:", "data:")):
                self.errors.append(f"asked for {told['params']['request']['url']}")

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a file and wait until it is loaded and drawn."""
        self.errors.clear()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression, a promise's once it is kept."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + _ANSWER_S
        while not self.evaluate(condition):
            assert time.monotonic() < until, condition
            time.sleep(0.02)

    def click(self, selector: str) -> None:
        """Click in the middle of an element."""
        where = self.evaluate(f"({_MIDDLE})({json.dumps(selector)})")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=where[0], y=where[1], button="left", clickCount=1)

    def press(self, key: str) -> None:
        """Press a key, such as ArrowDown."""
        code = {"ArrowDown": 40, "ArrowUp": 38, "Tab": 9}[key]
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def screenshot(self, path: Path, *, selector: str | None = None) -> None:
        """Save what is seen; with a selector, from that element's top on."""
        if selector is not None:
            self.evaluate(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{behavior: 'instant'}})")
            self.evaluate("new Promise((done) => setTimeout(done, 300))")
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(10)
        self._profile.cleanup()
