"""Kernels of notebooks as forks of one process that has imported what they need, each with a state of its own.

python docs/warm_kernels.py SOCKET

`conf.py` starts it for short notebooks, whose imports take longer than they do. A request is the environment, the
folder and the arguments of a kernel; the answers are the number of its process and, at the end, its exit code.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

IMPORTED = (
    "ipykernel.kernelapp",
    "ipykernel.zmqshell",
    "matplotlib.pyplot",
    "matplotlib_inline.backend_inline",
    "bayesmkl.bemkl.inference.sampling",  # with JAX and NumPyro, which start no thread before the first computation
    "bayesmkl.discriminative",
    "bayesmkl.evaluation",
    "bayesmkl.marginal",
    "bayesmkl.posterior",
    "sklearn.impute",
)


# ------------------------------------------------------------------------------------------- beside the pages


class Kernel:
    """A kernel in a fork of another process, with what Jupyter asks of a `subprocess.Popen`."""

    stdin = stdout = stderr = None

    def __init__(self, path: str, arguments: list[str], env: dict[str, str], cwd: str) -> None:
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(path)
        self._answers = self._connection.makefile("r")
        request = json.dumps({"arguments": arguments, "env": env, "cwd": cwd})
        self._connection.sendall(request.encode() + b"\n")
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, None while the kernel runs."""
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; return the exit code."""
        if self.returncode is None:
            if timeout is not None and not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("kernel", timeout)
            self.returncode = int(self._answers.readline() or -signal.SIGKILL)
            self._answers.close()
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to a kernel that runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the kernel."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the kernel to end."""
        self.send_signal(signal.SIGTERM)


def use_warm_kernels() -> None:
    """Start the process whose forks are the kernels of this process and of its forks; it ends with this process."""
    from jupyter_client.provisioning import local_provisioner

    folder = tempfile.TemporaryDirectory()
    path = str(Path(folder.name) / "socket")
    server = subprocess.Popen([sys.executable, __file__, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout is not None
    server.stdout.readline()  # it listens
    owner = os.getpid()

    def end() -> None:
        if os.getpid() == owner:
            server.communicate()  # which ends it
            folder.cleanup()

    def launch(cmd: list[str], env: dict[str, str], cwd: str | None = None, **_: Any) -> Kernel:
        return Kernel(path, cmd[cmd.index("ipykernel_launcher") + 1 :], env, cwd or os.getcwd())

    atexit.register(end)
    local_provisioner.launch_kernel = launch


# ------------------------------------------------------------------------------------------- the other process


def serve(path: str) -> None:
    """Answer requests at a socket until the process that started this one ends."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    sys.stdout.write("listens\n")
    sys.stdout.flush()
    for name in IMPORTED:
        importlib.import_module(name)
    minders = []
    while listening in select.select([listening, sys.stdin], [], [])[0]:
        connection, _ = listening.accept()
        minder = os.fork()
        if minder == 0:
            listening.close()
            mind(connection)
        minders.append(minder)
        connection.close()
    for minder in minders:
        os.waitpid(minder, 0)


def mind(connection: socket.socket) -> None:
    """Run a kernel in a fork and tell its end; end it where nobody is left to be told."""
    code = 1
    try:
        request = json.loads(connection.makefile("r").readline())
        kernel = os.fork()
        if kernel == 0:
            connection.close()
            run(**request)
        os.setpgid(kernel, kernel)  # signals are sent to the group
        connection.sendall(b"%d\n" % kernel)
        ended = os.pidfd_open(kernel)
        if ended not in select.select([ended, connection], [], [])[0]:
            os.kill(kernel, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(kernel, 0)[1])
        connection.sendall(b"%d\n" % code)
    except OSError:
        pass  # nobody listens
    finally:
        os._exit(0)


def run(arguments: list[str], env: dict[str, str], cwd: str) -> None:
    """Be a kernel."""
    from ipykernel.kernelapp import IPKernelApp

    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        os.environ.clear()
        os.environ.update(env)
        os.chdir(cwd)
        sys.argv = ["ipykernel_launcher", *arguments]
        IPKernelApp.launch_instance(arguments, parent_handle=os.getppid())  # ends with its parent
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
