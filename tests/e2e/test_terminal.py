# SPDX-License-Identifier: Apache-2.0
"""What a person sees who runs a job in a terminal."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios

from harness import MOONTIDE, until


class Terminal:
    """Runs the program with a terminal of 100 columns as standard output and standard error."""

    def __init__(self, *argv, cwd):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self.process = subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=slave,
                                        stderr=slave, cwd=cwd)
        os.close(slave)
        self.bytes = b""

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            try:
                self.bytes += os.read(self.master, 65536)
            except OSError:  # the other side is closed
                break
        return self.screen()

    def screen(self):
        """Its lines, with what was written over or erased gone."""
        lines, column = [""], 0
        for part in re.findall(r"\x1b\[K|[\r\n]|[^\r\n\x1b]+", self.bytes.decode()):
            if part == "\x1b[K":
                lines[-1] = lines[-1][:column]
            elif part == "\r":
                column = 0
            elif part == "\n":
                lines.append("")
                column = 0
            else:
                lines[-1] = lines[-1][:column].ljust(column) + part + lines[-1][column + len(part):]
                column += len(part)
        return lines


def test_a_line_of_the_log_leaves_nothing_of_the_waiting_behind_it(work):
    address = "127.0.0.1:1"
    (work.dir / "job.lua").write_text(work.job("t", source={"kafka.bootstrap.servers": address}, trigger=None))
    terminal = Terminal(MOONTIDE, "run", "job.lua", cwd=work.dir)
    try:
        until(lambda: any(re.search(r", [2-9] s$", line) for line in terminal.read()), what="a line of the waiting")
        terminal.process.send_signal(signal.SIGTERM)
        terminal.process.wait(10)
        lines = terminal.read()
        asked = [line for line in lines if "asked to end" in line]
        assert asked and asked[0].endswith("once more ends at once"), lines
        assert all(re.match(r"\d{4}-\d\d-\d\dT", line) for line in lines if line), lines
    finally:
        terminal.process.kill()
        terminal.process.wait()
