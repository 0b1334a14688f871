"""A stand-in for the `docker` package: the emulator's ECS containers become local processes.

AWS: a Fargate task runs its image's entrypoint with the environment of the task definition and nothing of the host's.
The emulator: runs ECS containers through the `docker` package and a Docker engine, and runs nothing without them.

An image `NAME:TAG` is the directory `LOCAL_IMAGES/NAME`; its entrypoint is the executable `runner` in it, and a command,
from the task definition or from an override, is appended as Docker does with a fixed ENTRYPOINT. Each container gets a
fresh directory under `LOCAL_CONTAINERS`, which is its working directory and its home, and is removed at its end.
"""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import uuid

from . import errors
from .errors import APIError, ContainerError, DockerException, ImageNotFound, NotFound

__all__ = ["APIError", "ContainerError", "DockerClient", "DockerException", "ImageNotFound", "NotFound", "errors", "from_env"]

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SUPERVISOR = pathlib.Path(__file__).resolve().parents[2] / "container.py"


class Container:
    """One container: a supervisor process and its output, kept for any number of readers."""

    def __init__(self, entrypoint, environment, name, labels):
        self.id = uuid.uuid4().hex + uuid.uuid4().hex
        self.name = name
        self.labels = labels or {}
        self.attrs = {"NetworkSettings": {"Networks": {}}, "State": {}}
        directory = pathlib.Path(os.environ["LOCAL_CONTAINERS"]) / self.id
        directory.mkdir(mode=0o700)
        self._output = bytearray()
        self._ended = False
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SUPERVISOR), str(directory), *entrypoint],
            env={"PATH": PATH, "HOME": str(directory), "HOSTNAME": self.id[:12], **environment},
            cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True, name=f"container-{self.id[:8]}").start()

    def _read(self):
        while chunk := self._process.stdout.read1(65536):
            with self._changed:
                self._output += chunk
                self._changed.notify_all()
        self._process.wait()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def status(self):
        """`running` or `exited`; exited only once all output has been read."""
        return "exited" if self._ended else "running"

    def reload(self):
        """Nothing to refresh: the status is always current."""

    def wait(self, timeout=None, **_):
        """Waits for the end; the exit code as the engine gives it."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._ended, timeout):
                raise APIError("the container is still running")
        return {"StatusCode": self._process.returncode}

    def logs(self, stream=False, follow=False, tail="all", **_):
        """The output so far, or, as a stream, whole lines as they come."""
        if stream:
            return self._lines(follow)
        with self._changed:
            output = bytes(self._output)
        return output if tail == "all" else b"".join(output.splitlines(keepends=True)[-int(tail):])

    def _lines(self, follow):
        position = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not follow or self._ended or self._output.find(b"\n", position) >= 0)
                ended = self._ended or not follow
                whole = len(self._output) if ended else self._output.rfind(b"\n") + 1
                chunk, position = bytes(self._output[position:whole]), whole
            yield from chunk.splitlines(keepends=True)
            if ended:
                return

    def stop(self, timeout=10, **_):
        """SIGTERM to the main process; SIGKILL to everything after `timeout` seconds."""
        self._say("TERM")
        try:
            self.wait(timeout)
        except APIError:
            self.kill()

    def kill(self, signal=signal.SIGKILL, **_):
        """Kills everything in the container and waits for its end."""
        self._say("KILL")
        self.wait()

    def _say(self, order):
        try:
            self._process.stdin.write(f"{order}\n".encode())
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # it has ended already

    def remove(self, force=False, **_):
        """Forgets the container; a running one only with `force`."""
        if self.status == "running":
            if not force:
                raise APIError("the container is running")
            self.kill()
        self._process.stdin.close()
        _CONTAINERS.pop(self.id, None)


_CONTAINERS = {}


class _Containers:
    def run(self, image, command=None, *, environment=None, name=None, labels=None, entrypoint=None, **_):
        directory = _image(image)
        if isinstance(command, str):
            command = [command]
        container = Container(
            [*(entrypoint or [str(directory / "runner")]), *(command or [])], environment or {}, name, labels)
        _CONTAINERS[container.id] = container
        return container

    def get(self, container_id):
        try:
            return _CONTAINERS[container_id]
        except KeyError:
            raise NotFound(container_id) from None

    def list(self, **_):
        return list(_CONTAINERS.values())


class _Images:
    def get(self, image):
        return _image(image)

    def pull(self, image, **_):
        return _image(image)


def _image(image):
    """The directory of an image."""
    name = image.rsplit("/", 1)[-1].split("@")[0].split(":")[0]
    directory = pathlib.Path(os.environ["LOCAL_IMAGES"]) / name
    if not name or not (directory / "runner").is_file():
        raise ImageNotFound(f"no such image: {image}")
    return directory


class DockerClient:
    """The engine as far as the emulator asks for it."""

    def __init__(self, *_, **__):
        self.containers = _Containers()
        self.images = _Images()

    def ping(self):
        """The engine is there."""
        return True

    def version(self):
        """The API version that the emulator looks at."""
        return {"ApiVersion": "1.47"}

    def info(self):
        """Nothing to say about the host."""
        return {}


def from_env(**_):
    """A client of the stand-in."""
    return DockerClient()
