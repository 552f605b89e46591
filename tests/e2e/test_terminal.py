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

import pytest

from harness import MOONTIDE, until


class Terminal:
    """Runs the program with a terminal of 100 columns as standard output and standard error, or also as
    standard input and with its keys."""

    def __init__(self, *argv, cwd, stdin=False, env=None):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self.process = subprocess.Popen(
            [str(word) for word in argv], stdin=slave if stdin else subprocess.DEVNULL, stdout=slave, stderr=slave,
            cwd=cwd, env={**os.environ, **(env or {})}, start_new_session=stdin,
            preexec_fn=(lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0)) if stdin else None)
        os.close(slave)
        self.bytes, self.seen = b"", 0

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            try:
                self.bytes += os.read(self.master, 65536)
            except OSError:  # the other side is closed
                break
        return self.screen()

    def type(self, keys):
        os.write(self.master, keys.encode())

    def see(self, text):
        """Waits until the program has written the text, behind what was seen before."""
        def there():
            self.read()
            return self.bytes.find(text.encode(), self.seen) + 1
        try:
            self.seen = until(there, 10) - 1 + len(text.encode())
        except AssertionError:
            raise AssertionError(f"no {text!r} in {self.bytes[self.seen:]!r}") from None

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


# ---- the shell


@pytest.fixture
def shell(work):
    """The prompt, with a home of its own and a person's hands: type() and see()."""
    home = work.dir / "home"
    home.mkdir(exist_ok=True)
    started = []

    def start():
        terminal = Terminal(MOONTIDE, "shell", cwd=work.dir, stdin=True, env={"HOME": str(home), "TERM": "dumb"})
        started.append(terminal)
        terminal.see("> ")
        return terminal

    yield start
    for terminal in started:
        terminal.process.kill()
        terminal.process.wait()


def test_tab_completes_what_the_prompt_knows(shell):
    terminal = shell()
    terminal.type("mt.readSt\t")
    terminal.see("mt.readStream")
    terminal.type(":form\t 'kafka'\r")
    terminal.see("DataStreamReader")
    terminal.type("'größe ' .. 6 * 7\r")
    terminal.see('"größe 42"')
    terminal.type("\x04")
    assert terminal.process.wait(10) == 0


def test_lines_of_earlier_times_come_back(shell):
    terminal = shell()
    terminal.type("6 * 7\r")
    terminal.see("42")
    terminal.type("\x04")
    assert terminal.process.wait(10) == 0
    again = shell()
    again.type("\x1b[A")
    again.see("6 * 7")
    again.type(" + 1\r")
    again.see("43")


def test_ctrl_c_throws_the_line_away_and_the_prompt_goes_on(shell):
    terminal = shell()
    for n in range(20):
        terminal.type(f"x{n} = (")
        terminal.see(f"x{n} = (")
        terminal.type("\x03")
        terminal.see("\r\n> ")
    terminal.type("function f(\r")
    terminal.see(">> ")
    terminal.type("\x03")
    terminal.see("\r\n> ")
    terminal.type("20 + 3\r")
    terminal.see("23")
    terminal.type("while true do x = 1 end\r")
    terminal.see("while true do x = 1 end\r\n")
    terminal.type("\x03")
    terminal.see("interrupted")
    terminal.type("20 + 4\r")
    terminal.see("24")
    terminal.type("\x04")
    assert terminal.process.wait(10) == 0


def flags_of(terminal):
    return termios.tcgetattr(terminal.master)[3] & (termios.ECHO | termios.ICANON)


@pytest.mark.parametrize("busy", [False, True], ids=["at the prompt", "in an entry"])
def test_the_shell_that_is_asked_to_end_keeps_its_history_and_the_terminal_as_it_was(shell, busy):
    terminal = shell()
    terminal.type("20 + 5\r")
    terminal.see("25")
    if busy:
        terminal.type("while true do x = 1 end\r")
        terminal.see("while true do x = 1 end\r\n")
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.process.wait(10) == 143
    assert flags_of(terminal) == termios.ECHO | termios.ICANON
    again = shell()
    again.type("\x1b[A\x1b[A" if busy else "\x1b[A")
    again.see("20 + 5")
