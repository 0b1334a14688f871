"""How long a function takes from the start of its process to its first answer, and to the answers after that.

The process is started here, under a stand-in of Lambda's runtime API and with the variables of the deployed function, so that no time of
the emulator's own is in it but that of the calls which the function makes.
"""

import dataclasses
import http.server
import json
import queue
import statistics
import subprocess
import threading
import time
import uuid

from local import deploy
from local.stack import REGION

WARM, SECONDS = 5, 60


@dataclasses.dataclass(frozen=True)
class Start:
    """Milliseconds to the first answer, and the median of those after it; the answer's kind for whoever wonders what was measured."""

    function: str
    first: float
    warm: float
    answered: str


class _Runtime(http.server.ThreadingHTTPServer):
    """Lambda's runtime API for one process: hands out what is put into `events`, and puts what is answered into `answers`."""

    daemon_threads = True

    def __init__(self):
        self.events, self.answers = queue.Queue(), queue.Queue()
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, *_):
        """Says nothing of a process that was ended while it waited."""

    @property
    def address(self):
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Says nothing."""

    def _answer(self, status, body=b"", headers=None):
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        """The next invocation; the process waits for it as long as there is none."""
        event = self.server.events.get()
        if event is None:
            return
        self._answer(200, json.dumps(event).encode(), {
            "Lambda-Runtime-Aws-Request-Id": str(uuid.uuid4()), "Lambda-Runtime-Deadline-Ms": str(int(time.time() * 1000) + SECONDS * 1000),
            "Lambda-Runtime-Invoked-Function-Arn": f"arn:aws:lambda:{REGION}:111122223333:function:measured"})

    def do_POST(self):
        """An answer or an error."""
        said = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.answers.put((time.perf_counter(), self.path.rpartition("/")[2], said))
        self._answer(202)


def measure(stack, function, configuration, event):
    """Starts the program of a function and lets it answer `event` again and again."""
    binary = deploy.binary(f"plangate-fn-{function}", "dev")
    runtime = _Runtime()
    threading.Thread(target=runtime.serve_forever, daemon=True).start()
    environment = {
        **configuration.get("Environment", {}).get("Variables", {}), "AWS_LAMBDA_RUNTIME_API": runtime.address, "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": stack.root_key, "AWS_SECRET_ACCESS_KEY": stack.root_secret, "AWS_ENDPOINT_URL": stack.endpoint,
        "AWS_LAMBDA_FUNCTION_NAME": configuration["FunctionName"], "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(configuration["MemorySize"]),
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST", "PATH": "/usr/bin:/bin"}
    runtime.events.put(event)
    begun = time.perf_counter()
    process = subprocess.Popen([binary], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        at, answered, _ = runtime.answers.get(timeout=SECONDS)
        first, warm = at - begun, []
        for _ in range(WARM):
            begun = time.perf_counter()
            runtime.events.put(event)
            warm.append(runtime.answers.get(timeout=SECONDS)[0] - begun)
    finally:
        process.kill()
        process.wait()
        runtime.events.put(None)
        runtime.shutdown()
        runtime.server_close()
    return Start(function, first * 1000, statistics.median(warm) * 1000, answered)
