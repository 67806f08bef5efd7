"""Checks of prismfs run that need a terminal."""

import os
import pty
import select
import time

from reading import expect


def check_ctrl_c(binary, source):
    """Ctrl-C at a terminal reaches the command once, and its exit status counts."""
    script = "n=0; trap 'n=$((n+1))' INT; echo go; while [ $n = 0 ]; do sleep 0.01; done; sleep 0.2; exit $((40+n))"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(binary, [binary, "run", source, "--", "sh", "-c", script])
    said = b""
    deadline = time.monotonic() + 60
    while b"go" not in said and time.monotonic() < deadline:
        if select.select([terminal], [], [], 1)[0]:
            said += os.read(terminal, 1000)
    expect(b"go" in said, f"the command said {said}")
    os.write(terminal, b"\x03")
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(terminal)
    expect(status == 41, f"status {status}: the command got {status - 40} signals, want 1")
