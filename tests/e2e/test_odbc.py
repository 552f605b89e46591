# SPDX-License-Identifier: Apache-2.0
"""Tables in real databases: every type as it was, each batch once whatever happens, and what is wrong said
with the row."""
import os
import random
import socket
import threading
import time

import pytest

from databases import Database
from harness import ALL_STEPS, DATA, LONG, SINK, Stream, until

STEPS = ':fromJson("value", "n BIGINT, part STRING, amount DOUBLE", { keep = { "partition", "offset", "value" } })'
SIGKILLED = -9
SECRET = ("--set", "PW=test-pw")
ODBC_STEPS = [s for s in ALL_STEPS if s.startswith("odbc.")]


def made(kind, tmp_path_factory):
    directory = tmp_path_factory.mktemp(kind)
    for folder in directory.parents:
        if os.stat(folder).st_uid == os.getuid() and str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    directory.chmod(0o755)
    database = Database(kind, directory).start()
    yield database
    database.stop()


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory):
    yield from made("postgresql", tmp_path_factory)


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory):
    yield from made("mariadb", tmp_path_factory)


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory):
    yield from made("sqlite", tmp_path_factory)


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def database(request):
    found = request.getfixturevalue(request.param)
    tables = {"sqlite": "select name from sqlite_master where type = 'table'",
              "postgresql": "select tablename from pg_tables where schemaname = 'public'",
              "mariadb": "select table_name from information_schema.tables where table_schema = 'test'"}
    try:
        names = [name for name, in found.ask(tables[found.kind])]
    except AssertionError:
        names = []
    for name in names:
        found.ask(f"drop table {found.quote(name)}")
    return found


def rows_of(values, partition=0):
    return [{"value": value, "partition": partition} for value in values]


def job(work, topic, body, **more):
    return work.job(topic, STEPS, each=body, **more)


def saves(database, mode="append", table="orders", columns='"n", "part", "amount"', **more):
    return f"batch:select({columns}).write{database.writes(table, mode, **more)}"


# ---- values

TYPES = """
local rows = batch:limit(1):flatMap("id INT, b BOOLEAN, i BIGINT, f FLOAT, d DOUBLE, m DECIMAL(38,10), s STRING, z BINARY, "
  .. "day DATE, ts TIMESTAMP, `größe x` STRING", function()
  return {
    { id = 1, b = true, i = 9223372036854775807LL, f = 1.5, d = 0.1 + 0.2, m = "1234567890123456789012345678.0123456789",
      s = "h\\195\\169llo \\240\\159\\140\\156 'q' \\"d\\" \\\\ ? end", z = "\\0\\1\\255'\\\\", day = "0099-02-28",
      ts = 1764547199123456, ["größe x"] = "ä" },
    { id = 2 },
    { id = 3, b = false, i = -9223372036854775807LL - 1, f = -0.25, d = -1e300, m = "-0.0000000001", s = "", z = "",
      day = "2024-03-10", ts = -1, ["größe x"] = "" },
  }
end)
rows.write"""


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_every_type_is_stored_as_it_was(work, database, locale):
    topic = work.kafka.topic()
    work.kafka.produce(topic, rows_of(['{"n":1}']))
    work.run_ok(job(work, topic, TYPES + database.writes("every type")), *SECRET, env={"LC_ALL": locale})
    binary = {"sqlite": "iif(z is null, null, hex(z))", "postgresql": "upper(encode(z, 'hex'))", "mariadb": "hex(z)"}[database.kind]
    truth = {"sqlite": "b", "postgresql": "cast(b as int)", "mariadb": "b"}[database.kind]
    exact = {"sqlite": "d = 0.1 + 0.2", "postgresql": "cast(d = 0.30000000000000004 as int)",
             "mariadb": "d = 0.30000000000000004e0"}[database.kind]
    q = database.quote
    found = database.ask(f"select {truth}, i, f, {exact}, m, s, {binary}, {q('day')}, ts, {q('größe x')} "
                         f"from {q('every type')} order by id")
    back = "h\u00e9llo \U0001f31c 'q' \"d\" \\ ? end"
    if database.kind == "mariadb":
        back = back.replace("\\", "\\\\")  # as its client prints it
    assert found[0] == ("1", "9223372036854775807", "1.5", "1", "1234567890123456789012345678.0123456789", back,
                        "0001FF275C", "0099-02-28", "2025-11-30 23:59:59.123456", "ä")
    assert found[1] == (None,) * 10
    assert found[2][:3] == ("0", "-9223372036854775808", "-0.25") and found[2][4:8] == ("-0.0000000001", "", "", "2024-03-10")
    assert found[2][8] == "1969-12-31 23:59:59.999999"


# ---- modes


def test_upsert_keeps_the_last_row_of_a_key_and_counts_the_others(work, database):
    topic = work.kafka.topic()
    body = saves(database, "upsert", key="n")
    work.kafka.produce(topic, rows_of(f'{{"n":{n % 3},"part":"p{n}","amount":{n}}}' for n in range(10)))
    work.run_ok(job(work, topic, body), *SECRET)
    work.kafka.produce(topic, rows_of(['{"n":1,"part":"new"}', '{"n":7,"part":"seven","amount":0.5}']))
    work.run_ok(job(work, topic, body), *SECRET)
    assert [(n, p) for n, p, _ in database.ask("select n, part, amount from orders order by n")] == [
        ("0", "p9"), ("1", "new"), ("2", "p8"), ("7", "seven")]
    assert database.ledger("batch", "rows", "merged") == [("0", "3", "7"), ("1", "2", "0")]


def test_ignore_lets_rows_be_whose_key_is_there(work, database):
    topic = work.kafka.topic()
    body = saves(database, "ignore", key="n")
    for values in [1, 2], [2, 3, 3]:
        work.kafka.produce(topic, rows_of(f'{{"n":{n},"part":"b{len(values)}"}}' for n in values))
        work.run_ok(job(work, topic, body), *SECRET)
    assert database.ask("select n, part from orders order by n") == [("1", "b2"), ("2", "b2"), ("3", "b3")]
    assert database.ledger("rows", "ignored") == [("2", "0"), ("1", "2")]


def test_overwrite_leaves_the_last_batch_and_error_wants_a_table_of_its_own(work, database):
    topic = work.kafka.topic()
    body = saves(database, "overwrite") + "\n" + saves(database, "error", table="own")
    for n in 1, 2:
        work.kafka.produce(topic, rows_of([f'{{"n":{n}}}']))
        work.run_ok(job(work, topic, body), *SECRET)
    assert database.ask("select n from orders") == [("2",)]
    assert database.ask("select n from own order by n") == [("1",), ("2",)]
    refused = work.run(job(work, topic, saves(database, "error"), checkpoint=work.dir / "other"), *SECRET)
    assert refused.code == SINK and "the table is there already" in refused.err, repr(refused)


def test_two_saves_to_one_table_in_one_batch_are_both_there(work, database):
    topic = work.kafka.topic()
    work.kafka.produce(topic, rows_of(['{"n":1}', '{"n":2}']))
    body = saves(database) + "\n" + saves(database)
    for step in "odbc.commit:0#1", "odbc.rows:0#2", "odbc.commit:0#2":
        assert work.run(job(work, topic, body), *SECRET, kill=step).code in (0, SIGKILLED)
    work.run_ok(job(work, topic, body), *SECRET)
    assert database.ask("select n from orders order by n") == [("1",), ("1",), ("2",), ("2",)]
    assert len(database.ledger("sink")) == 2


def test_actions_are_a_part_of_the_batch(work, database):
    topic = work.kafka.topic()
    database.ask("create table log (what varchar(20))")
    work.kafka.produce(topic, rows_of(['{"n":1}']))
    body = saves(database, preActions="insert into log values ('a;b'); insert into log values ('two')",
                 postActions="delete from orders where n = 1")
    work.run_ok(job(work, topic, body), *SECRET)
    assert database.ask("select what from log order by what") == [("a;b",), ("two",)]
    assert database.ask("select count(*) from orders") == [("0",)]


# ---- what is refused


def test_a_row_that_the_database_refuses_is_named_and_nothing_is_stored(work, database):
    database.ask("create table orders (n bigint primary key, part varchar(5), amount double precision, check (amount < 500))")
    topic = work.kafka.topic()
    values = [f'{{"n":{n},"part":"p","amount":{n}}}' for n in range(450)]
    values[333] = '{"n":333,"part":"p","amount":500}'
    work.kafka.produce(topic, rows_of(values))
    failed = work.run(job(work, topic, saves(database)), *SECRET)
    assert failed.code == DATA and f"{topic}[0]@333" in failed.err, repr(failed)
    assert database.ask("select count(*) from orders") == [("0",)] and database.ledger("batch") == []
    # the same key as an earlier row of the batch
    values[333] = '{"n":7,"part":"p","amount":1}'
    topic = work.kafka.topic()
    work.kafka.produce(topic, rows_of(values))
    failed = work.run(job(work, topic, saves(database), checkpoint=work.dir / "two"), *SECRET)
    assert failed.code == DATA and f"{topic}[0]@333" in failed.err, repr(failed)


def test_a_column_that_the_table_does_not_have_is_named(work, database):
    database.ask("create table orders (n bigint, parts varchar(5))")
    topic = work.kafka.topic()
    work.kafka.produce(topic, rows_of(['{"n":1}']))
    failed = work.run(job(work, topic, saves(database, columns='"n", "part"')), *SECRET)
    assert failed.code == SINK and 'no column "part"; did you mean "parts"?' in failed.err, repr(failed)


def test_a_table_without_transactions_is_refused(work, mariadb):
    mariadb.ask("drop table if exists orders; create table orders (n bigint, part text, amount double) engine=MyISAM")
    topic = work.kafka.topic()
    work.kafka.produce(topic, rows_of(['{"n":1}']))
    failed = work.run(job(work, topic, saves(mariadb)), *SECRET)
    assert failed.code == SINK and "MyISAM, which has no transactions" in failed.err, repr(failed)
    mariadb.ask("drop table orders")


def test_an_action_that_ends_the_transaction_stops_the_query(work, mariadb):
    topic = work.kafka.topic()
    work.kafka.produce(topic, rows_of(['{"n":1}']))
    failed = work.run(job(work, topic, saves(mariadb, table="ended", preActions="create table implicit (a int)")), *SECRET)
    assert failed.code == SINK and "transaction is not open any more" in failed.err, repr(failed)


def test_an_older_checkpoint_is_found_out(work, database):
    topic = work.kafka.topic()
    work.kafka.produce(topic, rows_of(['{"n":1}']))
    body = saves(database)
    work.run_ok(job(work, topic, body), *SECRET)
    os.system(f"cp -r {work.checkpoint} {work.dir}/copy")
    for checkpoint, code in (work.checkpoint, 0), (work.dir / "copy", 9):
        work.kafka.produce(topic, rows_of(['{"n":2}']))
        done = work.run(job(work, topic, body, checkpoint=checkpoint), *SECRET)
        assert done.code == code, repr(done)
    assert "older than the destination" in done.err
    assert database.ask("select n from orders order by n") == [("1",), ("2",)]


# ---- failures


@pytest.mark.parametrize("step", ODBC_STEPS)
def test_a_kill_at_this_step_is_recovered_from(work, database, step):
    topic = work.kafka.topic()
    for batch in range(3):
        work.kafka.produce(topic, rows_of(f'{{"n":{n}}}' for n in range(batch * 4, batch * 4 + 4)))
        killed = work.run(job(work, topic, saves(database)), *SECRET, kill=f"{step}:{batch}")
        assert killed.code == SIGKILLED, repr(killed)
        again = work.run(job(work, topic, saves(database)), *SECRET, kill=f"{step}:{batch}")
        assert again.code in (0, SIGKILLED), repr(again)
        work.run_ok(job(work, topic, saves(database)), *SECRET)
    assert database.ask("select count(*), count(distinct n) from orders") == [("12", "12")]
    assert len(database.ledger("batch")) == 3


def test_random_kills_leave_each_row_once(work, postgresql):
    seed = int(os.environ.get("MOONTIDE_SEED") or random.randrange(1 << 32))
    print(f"MOONTIDE_SEED={seed}")
    chance, topic = random.Random(seed), work.kafka.topic(3)
    body = saves(postgresql, table="killed", columns='"n", "partition", "offset"')
    text = job(work, topic, body, trigger=None)
    stream = Stream(work.kafka, topic, 3, rows_per_second=1000)
    stream.start()
    for kill in range(200 if LONG else 20):
        run = work.start(text, *SECRET)
        time.sleep(chance.uniform(0.05, 0.7))  # the moment itself is the test
        assert run.alive(), f"kill {kill}, seed {seed}: {run.done()!r}"
        run.kill()
    produced = dict(stream.stop())
    work.run_ok(text, *SECRET, "--once")
    found = postgresql.ask('select partition, "offset" from killed')
    assert len(found) == len(set(found)) == len(produced)
    assert {(int(p), int(o)) for p, o in found} == set(produced)
    assert int(postgresql.ask("select sum(rows) from moontide_ledger where sink like '%killed%'")[0][0]) == len(produced)


class Proxy(threading.Thread):
    """Passes bytes on, and cuts the connection right after the client said COMMIT, before the answer."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.to, self.cuts, self.listener = port, 0, socket.create_server(("127.0.0.1", 0))
        self.port, self.armed = self.listener.getsockname()[1], True

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.to))
            threading.Thread(target=self.pump, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client, False), daemon=True).start()

    def pump(self, source, target, from_client):
        try:
            while data := source.recv(65536):
                target.sendall(data)
                if from_client and self.armed and b"COMMIT" in data.upper():
                    self.armed, self.cuts = False, self.cuts + 1
                    target.settimeout(5)
                    time.sleep(0.3)  # the server has done it
                    source.shutdown(socket.SHUT_RDWR), target.shutdown(socket.SHUT_RDWR)
                    return
        except OSError:
            pass
        for end in source, target:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_lost_answer_to_commit_stores_the_batch_once(work, request, kind):
    database = request.getfixturevalue(kind)
    proxy = Proxy(database.port)
    proxy.start()
    topic = work.kafka.topic()
    work.kafka.produce(topic, rows_of(f'{{"n":{n}}}' for n in range(5)))
    done = work.run_ok(job(work, topic, saves(database, table="answers", port=proxy.port)), *SECRET)
    proxy.listener.close()
    assert proxy.cuts == 1, repr(done)
    assert database.ask("select count(*), count(distinct n) from answers") == [("5", "5")]


def test_a_connection_that_is_killed_in_mid_batch_is_made_anew(work, postgresql):
    """The batch waits for a lock on its table when its session is ended."""
    topic = work.kafka.topic()
    body = saves(postgresql, table="cut")
    work.kafka.produce(topic, rows_of(['{"n":0}']))
    work.run_ok(job(work, topic, body), *SECRET)
    work.kafka.produce(topic, rows_of(f'{{"n":{n}}}' for n in range(1, 500)))
    holder = threading.Thread(target=postgresql.ask, args=(
        "begin; lock table cut in access exclusive mode; select pg_sleep(2); commit",))
    holder.start()
    until(lambda: postgresql.ask("select count(*) from pg_locks where relation = 'cut'::regclass") != [("0",)])
    run = work.start(job(work, topic, body), *SECRET)
    waiting = "from pg_stat_activity where wait_event_type = 'Lock' and query like '%cut%'"
    until(lambda: postgresql.ask(f"select count(*) {waiting}") != [("0",)])
    postgresql.ask(f"select pg_terminate_backend(pid) {waiting}")
    done = run.finish()
    holder.join()
    assert done.code == 0, repr(done)
    assert postgresql.ask("select count(*), count(distinct n) from cut") == [("500", "500")]


def test_the_victim_of_a_deadlock_does_its_batch_again(work, mariadb):
    topic = work.kafka.topic()
    body = saves(mariadb, "upsert", table="locked", key="n", batchsize=1)
    work.kafka.produce(topic, rows_of(f'{{"n":{n},"amount":0}}' for n in range(2)))
    work.run_ok(job(work, topic, body), *SECRET)
    work.kafka.produce(topic, rows_of(f'{{"n":{n},"amount":1}}' for n in range(2)))
    # many rows of its own make the batch the cheaper victim
    holder = threading.Thread(target=mariadb.ask, args=(
        "create table if not exists heavy (a int); begin; insert into heavy select seq from seq_1_to_2000; "
        "update locked set amount = 5 where n = 1; select sleep(2); update locked set amount = 5 where n = 0; commit",))
    holder.start()
    until(lambda: mariadb.ask("select count(*) from information_schema.processlist where info like '%sleep(2)%' and info not like '%processlist%'") != [("0",)])
    done = work.run_ok(job(work, topic, body), *SECRET)
    holder.join()
    assert "1213" in done.err, repr(done)
    assert mariadb.ask("select n, amount from locked order by n") == [("0", "1"), ("1", "1")]


def test_a_password_stands_in_no_job_file(work, mariadb):
    topic = work.kafka.topic()
    text = job(work, topic, 'batch.write:format "jdbc":option("connection", "Driver=X;Pwd=secret"):option("table", "t"):save()')
    work.kafka.produce(topic, rows_of(['{"n":1}']))
    failed = work.run(text)
    assert failed.code != 0 and "has a password in it" in failed.err, repr(failed)
