"""A container's first process: starts the image's entrypoint and is to its descendants what a PID namespace is.

AWS: when a container's main process ends, or the container is killed, nothing that it started lives on; SIGTERM goes
to the main process alone. The emulator leaves all of that to Docker, which is not there.

Run as `python -I container.py DIRECTORY EXECUTABLE [ARGUMENT...]` with the container's own environment. Standard input
is the control pipe: a line `TERM` sends SIGTERM to the main process, `KILL` or the end of the pipe kills everything.
The exit code is the container's, 128 + signal if a signal ended it. DIRECTORY is removed at the end.
"""

import ctypes
import os
import selectors
import shutil
import signal
import subprocess
import sys

PR_SET_CHILD_SUBREAPER = 36


def children(pid):
    """The pids whose parent is `pid`."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as stat:
                    # The name in parentheses may hold spaces and parentheses itself: the fields follow the last one.
                    if int(stat.read().rpartition(b")")[2].split()[1]) == pid:
                        found.append(int(entry))
            except OSError:
                continue
    return found


def kill_all():
    """Kills every descendant: whoever loses its parent becomes a child of this process, so the loop meets them all."""
    while True:
        remaining = children(os.getpid())
        if not remaining:
            return
        for pid in remaining:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                continue


def main():
    directory, command = sys.argv[1], sys.argv[2:]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A signal to the whole group of the launcher is not for the container: only the control pipe speaks for it.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wake, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)

    code = 125
    try:
        main_process = subprocess.Popen(
            command, cwd=directory, env=own_environment(), stdin=subprocess.DEVNULL, start_new_session=True,
            restore_signals=True, preexec_fn=default_signals,
        )
        code = supervise(main_process, wake)
    except OSError as error:
        print(f"cannot start the container's entrypoint: {error.strerror}", file=sys.stderr)
        code = 126 if isinstance(error, PermissionError) else 127
    finally:
        kill_all()
        shutil.rmtree(directory, ignore_errors=True)
    sys.exit(code)


def own_environment():
    """The environment as it was given: Python adds a locale to the one it shows."""
    with open("/proc/self/environ", "rb") as block:
        return dict(entry.split(b"=", 1) for entry in block.read().split(b"\0") if b"=" in entry)


def default_signals():
    """Gives the container the signal handling that a fresh one has: what this process ignores, it would inherit."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def supervise(main_process, wake):
    """Waits for the main process, obeying the control pipe; returns the container's exit code."""
    control = sys.stdin.fileno()
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        pending = b""
        while main_process.poll() is None:
            for key, _ in selector.select():
                data = os.read(key.fd, 4096)
                if key.fd == wake:
                    continue
                pending += data
                *lines, pending = pending.split(b"\n")
                if b"TERM" in lines:
                    main_process.send_signal(signal.SIGTERM)
                if b"KILL" in lines or not data:
                    main_process.kill()
                if not data:
                    selector.unregister(control)
    code = main_process.returncode
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    main()
