"""A headless Chromium that a test drives: the W3C WebDriver protocol over chromedriver, without any
package. Everything it writes lies in a temporary folder; it ends only processes that it started."""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def missing():
    """What is not installed of what a Browser needs; empty: nothing."""
    return [name for name in ("chromium", "chromedriver") if not shutil.which(name)]


class Browser:
    def __init__(self, width=1280, height=800, watchdog=240):
        self.folder = tempfile.mkdtemp(prefix="omni-browser-")
        self.driver = subprocess.Popen(
            [shutil.which("chromedriver"), "--port=0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, start_new_session=True,
            env={**os.environ, "HOME": self.folder, "TMPDIR": self.folder})
        # A browser that hangs must not hang the test.
        self.watchdog = threading.Timer(watchdog, self.kill)
        self.watchdog.daemon = True
        self.watchdog.start()
        self.session = None
        try:
            self.open_session(self.find_port(), width, height)
        except BaseException:
            self.close()
            raise

    def find_port(self):
        for line in self.driver.stdout:
            if match := re.search(r"successfully on port (\d+)", line):
                return int(match.group(1))
        raise RuntimeError("chromedriver did not start")

    def open_session(self, port, width, height):
        self.root = f"http://127.0.0.1:{port}"
        options = {
            "binary": shutil.which("chromium"),
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     "--disable-background-networking", "--force-device-scale-factor=1", "--hide-scrollbars",
                     f"--user-data-dir={self.folder}/profile", f"--window-size={width},{height}"],
            "perfLoggingPrefs": {"enableNetwork": True, "enablePage": False},
        }
        answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}}, top=True)
        self.session = answer["sessionId"]
        self.call("POST", "/timeouts", {"script": 120_000, "pageLoad": 120_000})

    def call(self, method, path, body=None, top=False):
        request = urllib.request.Request(
            self.root + ("" if top else f"/session/{self.session}") + path, method=method,
            data=json.dumps(body).encode() if body is not None else None, headers={"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # this machine is no proxy's matter
        try:
            with opener.open(request, timeout=180) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"].splitlines()[0]) from None

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script, *arguments):
        """The script calls its last argument with the result."""
        return self.call("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def find(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.call("POST", f"/element/{self.find(selector)}/click", {})

    def type(self, selector, text):
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def mouse(self, selector, x, y, *steps):
        """Moves the mouse to a place in an element, counted from its upper left corner; then the steps:
        "down", "up", (dx, dy)."""
        box = self.run("const b = document.querySelector(arguments[0]).getBoundingClientRect(); return [b.x, b.y]", selector)
        at = [round(box[0] + x), round(box[1] + y)]
        actions = [{"type": "pointerMove", "duration": 0, "x": at[0], "y": at[1]}]
        for step in steps:
            if isinstance(step, str):
                actions.append({"type": "pointerDown" if step == "down" else "pointerUp", "button": 0})
            else:
                at = [at[0] + step[0], at[1] + step[1]]
                actions.append({"type": "pointerMove", "duration": 50, "x": at[0], "y": at[1]})
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]})

    def wheel(self, selector, x, y, delta):
        box = self.run("const b = document.querySelector(arguments[0]).getBoundingClientRect(); return [b.x, b.y]", selector)
        self.call("POST", "/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [
            {"type": "scroll", "x": round(box[0] + x), "y": round(box[1] + y), "deltaX": 0, "deltaY": delta,
             "duration": 0}]}]})

    def screenshot(self):
        return base64.b64decode(self.call("GET", "/screenshot"))

    def console(self):
        """What the page complained about since the last time."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})]

    def requests(self):
        """Addresses that the page asked for since the last time."""
        messages = [json.loads(entry["message"])["message"] for entry in self.call("POST", "/se/log", {"type": "performance"})]
        return [message["params"]["request"]["url"] for message in messages
                if message["method"] == "Network.requestWillBeSent"]

    def processes(self):
        """chromedriver and its browser: a session of their own."""
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    if int(file.read().rpartition(")")[2].split()[3]) == self.driver.pid:
                        found.append(int(name))
            except OSError:
                pass  # it has just ended
        return found

    def kill(self):
        for process in self.processes():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def close(self):
        try:
            if self.session:
                self.call("DELETE", "", None)
        except (RuntimeError, OSError):
            pass
        self.watchdog.cancel()
        self.kill()
        self.driver.wait()
        self.driver.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
