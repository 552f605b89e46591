# SPDX-License-Identifier: Apache-2.0
"""What the pages say is what the program does: jobs in them are checked, the files of jobs/ and
examples/ run on a real broker, commands exist, tables agree with the program's own."""
import gzip
import json
import os
import re
import subprocess
from datetime import date, datetime, timezone
from decimal import Decimal

import pytest
from deltalake import DeltaTable

from harness import JOB, MOONTIDE, ROOT, Kafka, lua, read_table, rows_of

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LUA_FILES = sorted([*(ROOT / "jobs").glob("*.lua"), *(ROOT / "examples").glob("*.lua")])


def head_of(file):
    """The command that the head of a file in jobs/ or examples/ says to run it with."""
    found = re.search(rf"^--   (moontide run|moontide lua|scripts/spec) {file.relative_to(ROOT)}( |$)",
                      file.read_text(), re.M)
    assert found, f"the head of {file} does not say how to run it"
    return found[1]


JOB_FILES = [file for file in LUA_FILES if head_of(file) == "moontide run"]


def page(name):
    return (ROOT / name).read_text()


def moontide(*words, cwd=ROOT):
    return subprocess.run([MOONTIDE, *map(str, words)], capture_output=True, text=True, timeout=60, cwd=cwd)


def blocks(language):
    """(place, text) of every block of this language in the pages."""
    for path in PAGES:
        text = path.read_text()
        for found in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.M | re.S):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{path.relative_to(ROOT)}:{line}", found[1]


def table(text, first, second=None):
    """Rows of the Markdown table whose header begins with these cells."""
    lines = text.splitlines()
    for n, line in enumerate(lines):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells[:1] == [first] and (second is None or cells[1] == second):
            rows = []
            for row in lines[n + 2:]:
                if not row.startswith("|"):
                    break
                rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]])
            return rows
    raise AssertionError(f"no table that begins with {first!r}, {second!r}")


# ---- jobs


def code(*kinds):
    """Those blocks of Lua in the pages that are a "job", a "spec" or a "script"."""
    def kind(text):
        return "spec" if "describe(" in text else "job" if re.search("^return ", text, re.M) else "script"
    found = [(place, text) for place, text in blocks("lua") if kind(text) in kinds]
    return pytest.mark.parametrize("place, text", found, ids=[place for place, _ in found])


@pytest.mark.parametrize("room, head, name", [("core/script", "`core/script`", r"script_(\w+)\.c"),
                                              ("lua/moontide", "`lua/moontide`", r"([\w/]+)\.lua")])
def test_the_architecture_page_says_what_each_file_of_a_room_is_for(room, head, name):
    rows = table(page("docs/architecture.md"), head, "")
    named = [word for cells in rows for word in re.findall(r"`([\w/]+)`", cells[0])]
    paths = [str(path.relative_to(ROOT / room)) for path in (ROOT / room).rglob("*")]
    there = [found[1] for path in paths if (found := re.fullmatch(name, path))]
    assert sorted(named) == sorted(there)


@code("job")
def test_every_job_in_the_pages_passes_check_and_runs(brokers, work, place, text):
    topic = brokers.topic(2)
    brokers.produce(topic, ORDERS)
    text, places = re.subn(r'(?<=:option\("subscribe", )"orders"', lua(topic), text)
    assert places == 1
    (work.dir / "job.lua").write_text(text)
    sets = ["--set", f"brokers={brokers.bootstrap}"]
    checked = moontide("check", "job.lua", *sets, cwd=work.dir)
    assert checked.returncode == 0, checked.stderr
    done = work.run_ok(text, "--once", *sets)
    assert sum(batch["numInputRows"] for batch in done.progress()) == len(ORDERS)


@code("script")
def test_every_script_in_the_pages_runs(tmp_path, place, text):
    (tmp_path / "script.lua").write_text(text)
    done = moontide("lua", "script.lua", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout != "", done.stderr


def run_spec(path):
    done = subprocess.run([ROOT / "scripts/spec", path], capture_output=True, text=True, timeout=60, cwd=ROOT,
                          env={**os.environ, "MOONTIDE": MOONTIDE})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 success" in done.stdout


@code("spec")
def test_every_spec_in_the_pages_passes(tmp_path, place, text):
    (tmp_path / "page_spec.lua").write_text(text)
    run_spec(tmp_path / "page_spec.lua")


def test_the_job_of_the_readme_runs(kafka, work):
    (text,) = [text for place, text in blocks("lua") if place.startswith("README")]
    topic = kafka.topic(2)
    kafka.produce(topic, ORDERS)
    done = work.run_ok(text.replace('"orders"', lua(topic)), "--once", "--set", f"brokers={kafka.bootstrap}")
    assert done.err == ""
    paid = [o for o in map(json.loads, (m["value"] for m in ORDERS if m["value"].startswith("{"))) if o["amount"]]
    assert rows_of(read_table(work.dir / "out/paid"), "user_id", "amount") == sorted(
        (o["user_id"], float(o["amount"])) for o in paid)


def order(id_, user, event, amount, ts, partition=0):
    value = json.dumps({"order_id": id_, "user_id": user, "event": event, "amount": amount, "ts": ts})
    return {"value": value, "partition": partition}


# One after the other in one partition but for the last, so that offsets are known.
ORDERS = [
    order(1, "u1", "purchase", 19.9, "2026-11-29T23:59:59Z"),
    order(2, "u15", "view", None, "2026-11-29T10:00:00Z"),
    order(3, "u2", "view", None, "2026-11-30T00:00:00Z"),
    {"value": "not JSON", "partition": 0},
    order(4, "u1", "refund", 5, "2026-11-30T01:00:00.5Z", partition=1),
]


BASKETS = [{"value": text, "partition": 0} for text in (
    """{"id": 1, "user": {"name": "Ann", "tags": ["new", null]}, "shipping": {"city": "Oslo", "zip": "0150"},
        "items": [{"sku": "a", "price": 9.5}, {"sku": "b", "price": "20"}]}""",
    """{"id": 2, "user": {"name": "Ben"}, "items": []}""",
    """{"id": 3}""")]
RECORDS = dict.fromkeys(["examples/nested_json.lua", "examples/row_for_each_item.lua"], BASKETS)
SETS = {"examples/local_time.lua": {"timeZone": "Europe/Paris"}}


def utc(*parts):
    return datetime(*parts, tzinfo=timezone.utc)


def sees_paid_orders(work, done):
    assert rows_of(read_table(work.out)) == [
        (1, "u1", "purchase", 19.9, utc(2026, 11, 29, 23, 59, 59), 0, 0, "2026-11-29")]


def sees_exact_money(work, done):
    assert rows_of(read_table(work.out)) == [(1, Decimal("19.90"), utc(2026, 11, 29, 23, 59, 59))]


def sees_corrupt_text(work, done):
    assert rows_of(read_table(work.out)) == sorted(
        [(1, 19.9, None, 0, 0), (2, None, None, 0, 1), (3, None, None, 0, 2), (None, None, "not JSON", 0, 3),
         (4, 5.0, None, 1, 0)], key=lambda row: [(v is not None, v) for v in row])


def sees_columns_renamed(work, done):
    found = read_table(work.out)
    assert found.column_names == ["partition", "offset", "arrived", "order_id", "ordered"]
    assert rows_of(found, "partition", "offset", "order_id") == [
        (0, 0, 1), (0, 1, 2), (0, 2, 3), (0, 3, None), (1, 0, 4)]
    assert all(isinstance(at, datetime) for at in found["arrived"].to_pylist())


def sees_folders(work, done):
    folders = {str(p.parent.relative_to(work.out)) for p in work.out.rglob("*.parquet")}
    none = "__HIVE_DEFAULT_PARTITION__"
    assert folders == {"date=2026-11-29/event=purchase", "date=2026-11-29/event=view", "date=2026-11-30/event=view",
                       "date=2026-11-30/event=refund", f"date={none}/event={none}"}
    assert sorted(read_table(work.out)["order_id"].to_pylist(), key=str) == [1, 2, 3, 4, None]


def cut(text):
    """As the console shows a cell when nothing is said about truncate."""
    return text if len(text) <= 20 else text[:17] + "..."


def sees_text(*cells):
    def look(work, done):
        shown = [[cell.strip() for cell in line.strip("|").split("|")]
                 for line in done.out.splitlines() if line.startswith("|")]
        assert shown[1:] == [list(row) for row in cells], done.out
    return look


def sees_two_tables(work, done):
    assert rows_of(read_table(work.out / "paid"), "order_id", "amount") == [(1, Decimal("19.90")), (4, Decimal("5.00"))]
    assert rows_of(read_table(work.out / "rest"), "partition", "offset") == [(0, 1), (0, 2), (0, 3)]


def sees_files_of_text(work, done):
    [objects] = (work.out / "json").glob("part-*.json.gz")
    [lines] = (work.out / "csv").glob("part-*.csv")
    assert [json.loads(line).get("order_id") for line in gzip.open(objects)] == [1, 2, 3, None, 4]
    assert lines.read_text().splitlines()[:2] == [
        "order_id,event,amount,ts", "1,purchase,19.9,2026-11-29T23:59:59.000Z"]


def sees_a_delta_table(work, done):
    table = DeltaTable(str(work.out))
    assert table.metadata().partition_columns == ["day"]
    assert rows_of(table.to_pyarrow_table(), "order_id", "day") == [
        (None, None), (1, date(2026, 11, 29)), (2, date(2026, 11, 29)), (3, date(2026, 11, 30)), (4, date(2026, 11, 30))]


def sees_nested_rows(work, done):
    items = [{"sku": "a", "price": Decimal("9.50")}, {"sku": "b", "price": Decimal("20.00")}]
    assert read_table(work.out).sort_by("id").to_pylist() == [
        {"id": 1, "name": "Ann", "tags": ["new", None], "city": "Oslo", "n_items": 2, "items": items},
        {"id": 2, "name": "Ben", "tags": None, "city": None, "n_items": 0, "items": []}]


def sees_a_table_a_query(work, done):
    assert rows_of(read_table(work.out / "purchase")) == [(1, "purchase")]
    assert rows_of(read_table(work.out / "refund")) == [(4, "refund")]


def sees_two_topics(work, done):
    assert rows_of(read_table(work.out), "order_id", "event", "offset") == [
        (1, "purchase", 0), (4, "refund", 0), (9, "refund", 1)]


def sees_paid_in_another_topic(work, done):
    found = work.of_docs.messages("paid", isolation="read_committed")
    assert sorted(value for *_, value in found) == sorted(o["value"].encode() for o in (ORDERS[0], ORDERS[4]))


EXPECTED = {
    "jobs/orders_to_parquet.lua": sees_paid_orders,
    "examples/count_per_user.lua": sees_text(("u1", "1"), ("u15", "1"), ("u2", "1"), ("u1", "2")),
    "examples/console.lua": sees_text(*((n, "NULL", m["value"]) for n, m in zip("01230", ORDERS))),
    "examples/decimals.lua": sees_text(("1", "16.72", "3.18"), ("4", "4.20", "0.80")),
    "examples/delta_table.lua": sees_a_delta_table,
    "examples/exact_money.lua": sees_exact_money,
    "examples/files_of_text.lua": sees_files_of_text,
    "examples/filter_by_text.lua": sees_text(("u15", "view")),
    "examples/folders.lua": sees_folders,
    "examples/foreach_two_tables.lua": sees_two_tables,
    "examples/kafka_to_kafka.lua": sees_paid_in_another_topic,
    "examples/keep_corrupt.lua": sees_corrupt_text,
    "examples/local_time.lua": sees_text(("1", "2026-11-30", "0", "Mon 30 Nov 2026 00:59:59 +01:00"),
                                         ("2", "2026-11-29", "11", "Sun 29 Nov 2026 11:00:00 +01:00"),
                                         ("3", "2026-11-30", "1", "Mon 30 Nov 2026 01:00:00 +01:00"),
                                         ("4", "2026-11-30", "2", "Mon 30 Nov 2026 02:00:00 +01:00")),
    "examples/login.lua": sees_text(*((cut(m["value"]),) for m in ORDERS)),
    "examples/names_from_a_frame.lua": sees_text(
        ("u1", "purchase", "bought"), ("u15", "view", "NULL"), ("u2", "view", "NULL"), ("NULL", "NULL", "NULL"),
        ("u1", "refund", "gave back")),
    "examples/nested_json.lua": sees_nested_rows,
    "examples/rename_and_select.lua": sees_columns_renamed,
    "examples/row_for_each_item.lua": sees_text(("1", "a", "9.50"), ("1", "b", "20.00")),
    "examples/several_queries.lua": sees_a_table_a_query,
    "examples/two_topics.lua": sees_two_topics,
    "examples/try_steps.lua": sees_text(("1", "19.90"), ("4", "1000.00")),
}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    """A broker of their own: the examples want its second listener, which asks for a password."""
    directory = tmp_path_factory.mktemp("docs-kafka")
    broker = Kafka(directory).start()
    broker.sasl = (directory / "sasl").read_text().strip()
    yield broker
    broker.stop(kill=True)


def test_every_job_and_example_is_known_here():
    assert {str(f.relative_to(ROOT)) for f in JOB_FILES} == set(EXPECTED)
    assert all(len(file.read_text().splitlines()) < 40 for file in LUA_FILES)


@pytest.mark.parametrize("file", JOB_FILES, ids=lambda f: f.name)
def test_jobs_and_examples_do_what_they_say(brokers, work, file):
    name = str(file.relative_to(ROOT))
    topic = brokers.topic(2)
    brokers.produce(topic, RECORDS.get(name, ORDERS))
    sets = {"brokers": brokers.bootstrap, "topic": topic, "out": work.out, **SETS.get(name, {})}
    if name == "examples/two_topics.lua":
        sets["returns"] = brokers.topic(1)
        brokers.produce(sets["returns"], [order(n, "u9", "refund", 1, "2026-11-30T00:00:00Z") for n in (4, 9)])
    if name == "examples/login.lua":
        (work.dir / "password").write_text("bob-pw\n")
        sets |= {"brokers": brokers.sasl, "user": "bob", "password": f"file:{work.dir}/password",
                 "protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN"}
    words = [file, *(word for key, value in sets.items() for word in ("--set", f"{key}={value}"))]
    assert moontide("check", *words).returncode == 0
    done = work.command("run", *words, "--once").finish()
    assert done.code == 0, repr(done)
    work.of_docs = brokers
    EXPECTED[name](work, done)
    assert "bob-pw" not in done.out + done.err


def test_the_script_among_the_examples_prints_its_report(brokers):
    (script,) = [file for file in LUA_FILES if head_of(file) == "moontide lua"]
    topic = brokers.topic(2)
    brokers.produce(topic, ORDERS)
    done = moontide("lua", script, brokers.bootstrap, topic)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1\t(none)\n1\tpurchase\n1\trefund\n2\tview\n"


def test_the_spec_among_the_examples_passes():
    (spec,) = [file for file in LUA_FILES if head_of(file) == "scripts/spec"]
    run_spec(spec)


# ---- commands


def command_lines():
    """Every `moontide …` and `scripts/…` that the pages tell people to type."""
    for path in PAGES:
        for code in re.findall(r"^```sh\n(.*?)^```$", path.read_text(), re.M | re.S):
            for line in filter(None, (re.sub(r"\s+#.*", "", line).strip() for line in code.splitlines())):
                yield path.name, line
        for line in re.findall(r"`((?:moontide |scripts/|bench/)[^`\n]*)`", path.read_text()):
            yield path.name, line


@pytest.mark.parametrize("where, line", sorted(set(command_lines())), ids=lambda v: v)
def test_every_command_line_in_the_pages_exists(where, line):
    words = line.split()
    if words[0] != "moontide":
        assert (ROOT / words[0]).stat().st_mode & 0o100, f"{where} names {words[0]}"
        return
    flags = [re.sub(r"[\[\]…]", "", word) for word in words if re.match(r"\[?--", word)]
    command = []
    for word in words[1:]:
        if not re.fullmatch(r"[a-z]+", word):
            break
        command.append(word)
    if command == ["spec"]:
        return  # hands everything to busted
    done = moontide(*command, "--help")
    assert done.returncode == 0, f"{where}: {line}: {done.stderr}"
    missing = [flag for flag in flags if not re.search(rf"{flag}\b", done.stdout)]
    assert not missing, f"{where}: {line}: --help does not know {missing}"


def test_the_exit_codes_of_the_guide_are_those_of_the_core_and_of_help():
    codes = {int(number) for number in re.findall(r"MT_CLASS_\w+ = (\d+)", page("core/base/base.h"))}
    shown = {code for (code, _) in table(page("docs/guide.md"), "code")}
    assert shown == {str(code) for code in codes} | {"130, 143", "141"}
    in_help = moontide("--help").stdout.split("Exit codes:")[1]
    assert {int(n) for n in re.findall(r"(?:^|  ) ?(\d+)  \w", in_help, re.M)} == codes | {141}


def test_help_names_every_command_and_nothing_hidden():
    shown = re.findall(r"^   (\w+) +\w", moontide("--help").stdout.split("Commands:")[1].split("\n\n")[0], re.M)
    assert shown == ["run", "demo", "check", "lua", "shell", "ckpt", "new", "peek", "types"]
    guide = {row[0].split()[1].strip("`") for row in table(page("docs/guide.md"), "command") if "--version" not in row[0]}
    assert guide == set(shown)


# ---- tables


def sinks():
    """Sinks of the program, by the reference that it writes from its own table."""
    return re.findall(r'^## writeStream:format "(\w+)"$', page("docs/options.md"), re.M)


NEEDED = {**dict.fromkeys(("parquet", "orc", "json", "csv", "text", "delta"), {"path": "out"}),
          "odbc": {"connection": "Driver=SQLite3;Database=test.db", "table": "orders"},
          "kafka": {"kafka.bootstrap.servers": "localhost:9", "topic": "orders"}}


def guarantee(tmp_path, sink):
    needed = "".join(f':option("{key}", "{value}")' for key, value in NEEDED.get(sink, {}).items())
    (tmp_path / "job.lua").write_text(f'''local mt = require "moontide"
return mt.memoryStream("value STRING").writeStream:format "{sink}":queryName "q"
  :option("checkpointLocation", "ckpt"){needed}
''')
    done = moontide("check", "job.lua", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return re.search(rf"^sink +{sink}, (.*)$", done.stdout, re.M)[1]


@pytest.mark.parametrize("name, first, second", [("docs/guide.md", "format", "guarantee"),
                                                 ("docs/exactly-once.md", "sink", "guarantee")],
                         ids=["guide", "exactly-once"])
def test_the_guarantees_are_those_that_check_prints(tmp_path, name, first, second):
    said = {}
    for cells in table(page(name), first, second):
        said |= {sink: cells[1] for sink in re.findall(r"`(\w+)`", cells[0])}
    assert said == {sink: guarantee(tmp_path, sink) for sink in sinks()}


def test_the_page_of_options_is_what_the_program_writes():
    done = moontide("options")
    assert done.returncode == 0 and done.stdout == page("docs/options.md"), "run scripts/reference"


def test_options_that_the_guide_names_are_there():
    known = set(re.findall(r"^\| `([\w.*]+)` ", page("docs/options.md"), re.M)) | {"path"}
    text = page("docs/guide.md").split("## Reading Kafka")[1].split("## Steps")[0]
    named = {word for word in re.findall(r"`([a-z]+[A-Z]\w+)`", text)} - {"timestampType"}
    assert named and named <= known, named - known


def test_the_steps_of_the_guide_exist(tmp_path):
    steps = {step for row in table(page("docs/guide.md"), "step") for step in re.findall(r"`(\w+)\(", row[0])}
    assert {"fromJson", "map", "filter"} <= steps
    (tmp_path / "job.lua").write_text('local s = require("moontide").memoryStream "a INT"\n' + "".join(
        f"assert(type(s.{step}) == 'function')\n" for step in sorted(steps)) + 'return s.writeStream:format "noop"\n')
    done = moontide("check", "job.lua", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_types_of_the_guide_are_those_that_the_core_knows(tmp_path):
    text = page("docs/guide.md")
    listed = re.search(r"DDL types: (.*?),\s+and of these", text, re.S)[1].replace("\n", " ").split(", ")
    ddl = ", ".join(f"c{n} {name.replace('(p,s)', '(9,2)')}" for n, name in enumerate(listed))
    job = ('local s = require("moontide").memoryStream "v STRING"\n'
           'return s:fromJson("v", {}).writeStream:format "noop"\n')
    (tmp_path / "job.lua").write_text(job.format(lua(ddl)))
    assert moontide("check", "job.lua", cwd=tmp_path).returncode == 0
    (tmp_path / "job.lua").write_text(job.format(lua("a NOSUCH")))
    done = moontide("check", "job.lua", cwd=tmp_path)
    there = re.search(r"there are (.*?), ARRAY", done.stderr)[1].split(", ")
    assert done.returncode == JOB and sorted(there) == sorted(listed)
    named = {name for row in table(text, "type", "reads as") for name in re.findall(r"[A-Z]+", row[0])}
    assert named == {name.replace("(p,s)", "") for name in listed} | {"ARRAY", "STRUCT", "MAP"}


def test_where_from_json_differs_the_page_says_what_the_tests_against_spark_say():
    source = page("tests/columnar/json_spark_test.c")
    listed = re.search(r"differences\[\] = \{\n(.*?)\n\};", source, re.S)[1]
    tested = {(text.encode().decode("unicode_escape").encode("latin-1").decode(), reason)
              for text, reason in re.findall(r', "(\{.*)",\s+"([^"]*)"\}', listed)}
    rows = table(page("docs/differences-from-spark.md"), "what", "document")
    shown = {(text, row[0]) for row in rows for text in re.findall(r"`(\{.*?)`", row[1])}
    assert shown <= tested, shown - tested
    assert {reason for _, reason in shown} == {reason for _, reason in tested}


def test_links_between_the_pages_lead_somewhere():
    for path in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"
