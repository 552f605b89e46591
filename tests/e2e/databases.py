# SPDX-License-Identifier: Apache-2.0
"""Real databases for the end-to-end tests, asked by their own clients: psql, mariadb, Python's sqlite3."""
import sqlite3
import subprocess

from harness import ROOT, lua


class Database:
    """One of the three. Rows come back as tuples of text, None for null."""

    def __init__(self, kind, directory):
        self.kind, self.dir, self.port = kind, directory, None

    def start(self):
        if self.kind != "sqlite":
            done = subprocess.run([ROOT / "scripts/databases", "start", self.dir, self.kind], stdout=subprocess.PIPE,
                                  text=True, check=True, timeout=120)
            self.port = int(done.stdout.split()[-1])
        return self

    def stop(self):
        if self.kind != "sqlite":
            subprocess.run([ROOT / "scripts/databases", "stop", self.dir, self.kind], check=True, timeout=60)

    def connection(self, port=None):
        if self.kind == "sqlite":
            return f"Driver=SQLite3;Database={self.dir / 'test.db'};Timeout=2000"
        driver = {"postgresql": "PostgreSQL Unicode", "mariadb": "MariaDB Unicode"}[self.kind]
        return f"Driver={driver};Server=127.0.0.1;Port={port or self.port};Database=test"

    def options(self, **more):
        port = more.pop("port", None)
        return {"connection": self.connection(port), **({} if self.kind == "sqlite" else {"user": "test"}), **more}

    def writes(self, table, mode="append", **more):
        """The options of a save as Lua, with the password where there is one."""
        given = self.options(table=table, **more)
        text = "".join(f":option({lua(k)}, {lua(v)})" for k, v in given.items())
        if self.kind == "mariadb":
            text += ':option("password", mt.secret "PW")'
        return f':format "odbc"{text}:mode "{mode}":save()'

    def ask(self, sql):
        if self.kind == "sqlite":
            with sqlite3.connect(self.dir / "test.db", timeout=10) as db:
                return [tuple(None if v is None else str(v) for v in row) for row in db.execute(sql)]
        if self.kind == "postgresql":
            argv = ["psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-P", "null=\\N", "-F", "\t", "-h", "127.0.0.1", "-p",
                    self.port, "-U", "test", "test", "-c", sql]
        else:
            argv = ["mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", self.port, "-u", "test", "-ptest-pw", "test",
                    "--default-character-set=utf8mb4", "-N", "-B", "-e", sql]
        done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        null = "\\N" if self.kind == "postgresql" else "NULL"
        return [tuple(None if v == null else v for v in line.split("\t")) for line in done.stdout.splitlines()]

    def quote(self, name):
        return f"`{name}`" if self.kind == "mariadb" else f'"{name}"'

    def ledger(self, *names):
        """The ledger's rows by these columns, in the order of batches."""
        columns = ", ".join(self.quote(n) for n in names)
        return self.ask(f"select {columns} from moontide_ledger order by {self.quote('batch')}, {self.quote('sink')}")
