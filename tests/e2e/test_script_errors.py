# SPDX-License-Identifier: Apache-2.0
"""A mistake in the job is told at its line; the batch stays uncommitted, and a mended file
goes on with every row once."""
import signal

import pytest

from harness import DATA, JOB, MACHINE, MOONTIDE, SCRIPT, assert_exactly_once, lua, read_table

STEPS = ':select("partition", "offset", "value")'
DDL = '"n BIGINT, amount DOUBLE", { keep = { "partition", "offset", "value" } }'


@pytest.fixture
def topic(kafka):
    name = kafka.topic(2)
    kafka.produce_values(name, 0, ['{"n":%d,"amount":%d}' % (n, n) for n in range(20)])
    kafka.produce_values(name, 1, ['{"n":20,"amount":1}', '{"n":21}', '{"n":22,"amount":2}'])
    return name


def line_of(text, marker):
    return next(n for n, line in enumerate(text.splitlines(), 1) if marker in line)


def test_an_error_in_a_row_function_names_line_and_record_and_a_mended_file_goes_on(kafka, work, topic):
    steps = f''':fromJson("value", {DDL})
:filter(function(row)
  return row.amount + 1 > 0
end)'''
    source = {"maxOffsetsPerTrigger": 20}
    broken = work.job(topic, steps, source=source)
    done = work.run(broken)
    assert done.code == SCRIPT, repr(done)
    assert f"job.lua:{line_of(broken, 'row.amount + 1')}" in done.err
    assert f"{topic}[1]@1" in done.err or ("partition 1" in done.err and "offset 1" in done.err)
    assert "amount" in done.err and "null" in done.err
    stored = read_table(work.out).num_rows
    assert stored == sum(p["numInputRows"] for p in done.progress())
    assert work.run(broken).code == SCRIPT, "the same file fails again"
    assert read_table(work.out).num_rows == stored

    mended = work.job(topic, steps.replace("row.amount", "(row.amount or 0)"), source=source)
    again = work.run_ok(mended)
    produced = {(0, n): '{"n":%d,"amount":%d}' % (n, n) for n in range(20)}
    produced |= {(1, 0): '{"n":20,"amount":1}', (1, 1): '{"n":21}', (1, 2): '{"n":22,"amount":2}'}
    assert_exactly_once(read_table(work.out), produced)
    assert again.progress()[0]["batchId"] == len(done.progress())


def test_an_error_raised_by_the_script_keeps_its_words(work, topic):
    text = work.job(topic, ''':map("n INT", function(row)
  if row.partition == 1 and row.offset == 2 then
    error("no customer for this row")
  end
  return { n = 1 }
end)''')
    done = work.run(text)
    assert done.code == SCRIPT and "no customer for this row" in done.err, repr(done)
    assert f"job.lua:{line_of(text, 'no customer')}" in done.err and f"{topic}[1]@2" in done.err
    assert not work.out.exists() or read_table(work.out).num_rows == 0


@pytest.mark.parametrize("value, words", [
    ("'text'", ["n", "INT"]), ("1.5", ["n", "INT", "1.5"]), ("2^31", ["n", "INT"]), ("{}", ["n", "INT"]),
], ids=["text", "fraction", "too large", "table"])
def test_a_value_that_does_not_fit_its_column_names_column_and_record(work, topic, value, words):
    text = work.job(topic, f''':map("n INT", function(row)
  return {{ n = {value} }}
end)''')
    done = work.run(text)
    assert done.code in (SCRIPT, DATA), repr(done)
    for word in [*words, f"{topic}[0]@0", "job.lua:"]:
        assert word in done.err, f"{word!r} is not in: {done.err}"
    assert not work.out.exists() or read_table(work.out).num_rows == 0


def test_failfast_names_the_record_and_quotes_it(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ['{"a":1}', '{"a":oops}'])
    done = work.run(work.job(topic, ':fromJson("value", "a INT", { mode = "FAILFAST" })'))
    assert done.code == DATA, repr(done)
    assert f"{topic}[0]@1" in done.err and '{"a":oops}' in done.err


def run_text(work, text):
    (work.dir / "job.lua").write_text(text)
    return work.command("run", work.dir / "job.lua").finish(20)


@pytest.mark.parametrize("text, words", [
    ('local mt = require "moontide"\nreturn mt.readStream:format("kafka"\n', ["job.lua:2"]),
    ('local mt = require "moontide"\n\nerror("no such day")\n', ["job.lua:3", "no such day"]),
    ('return 42\n', ["job.lua", "return", "query"]),
    ('local mt = require "moontide"\n', ["job.lua", "return", "query"]),
    ('local mt = require "moontide"\nreturn mt.readStraem\n', ["job.lua:2", "readStream"]),
    ('local mt = require "moontide"\nreturn mt.readStream:format "kafka"\n'
     '  :option("kafka.boostrap.servers", "x:1")\n  :option("subscribe", "t"):load()\n',
     ["job.lua:", "kafka.bootstrap.servers"]),
    ('local mt = require "moontide"\nreturn mt.readStream:format "kafka":option("kafka.bootstrap.servers", "x:1")\n'
     '  :option("subscribe", "t"):load()\n  .writeStream:format "parquet":option("path", "x")\n', ["checkpointLocation"]),
    ('local mt = require "moontide"\nlocal b = mt.conf "brokers"\n', ["job.lua:2", "brokers", "--set"]),
], ids=["does not compile", "raises", "returns a number", "returns nothing", "misspelt method", "misspelt option",
        "no checkpoint", "no value for conf"])
def test_a_job_that_does_not_load_is_told_at_its_line(work, text, words):
    done = run_text(work, text)
    assert done.code == JOB, repr(done)
    for word in words:
        assert word in done.err, f"{word!r} is not in: {done.err}"
    assert done.out == "" and not work.out.exists()


def test_a_column_that_is_not_there_is_told_at_its_line(work, topic):
    text = work.job(topic, ':fromJson("value", "amount DOUBLE")\n:select("amuont")')
    done = work.run(text)
    assert done.code == JOB and f"job.lua:{line_of(text, 'amuont')}" in done.err and "amount" in done.err, repr(done)


def test_a_script_that_asks_for_more_than_there_is_says_so(work, topic):
    text = work.job(topic, ''':filter(function(row)
  return #string.rep("x", 1e10) > 0
end)''')
    done = work.run(text)
    assert done.code == SCRIPT and "string.rep: 10000000000 times" in done.err, repr(done)
    assert f"job.lua:{line_of(text, 'string.rep')}" in done.err and f"{topic}[0]@0" in done.err
    text = work.job(topic, ''':filter(function(row)
  local text = string.rep("x", 1e9)
  return #(text .. "y") > 0 and #(text .. "z") > 0
end)''')
    (work.dir / "job.lua").write_text(text)
    done = work.command("run", work.dir / "job.lua", program=["prlimit", f"--as={3 << 30}", MOONTIDE]).finish()
    assert done.code == MACHINE and "script out of memory" in done.err and "batch 0" in done.err, repr(done)
    assert "job.lua" in done.err and not work.out.exists() or read_table(work.out).num_rows == 0


def test_mistakes_of_a_declaration_point_at_check(work, topic):
    done = work.run(work.job(topic, ":selct 'a'"))
    assert done.code == JOB and "Try: moontide check " in done.err, repr(done)
    assert "Try:" not in work.run("local x = = 1").err, "there is one mistake that it could tell"
    assert "Try:" not in work.command("run", "nowhere.lua").finish().err


def test_a_filter_must_say_true_or_false(work, topic):
    text = work.job(topic, ''':filter(function(row)
  return 1
end)''')
    done = work.run(text)
    assert done.code == SCRIPT and "filter" in done.err and f"{topic}[0]@0" in done.err, repr(done)


def test_prints_go_to_standard_error(work, topic):
    text = work.job(topic, ''':filter(function(row)
  if row.offset == 0 then print("hello from the script") end
  return true
end)
:select("offset")''')
    done = work.run_ok(text)
    assert "hello from the script" in done.err and len(done.progress()) == 1


def test_a_record_that_kills_the_process_is_counted_in_attempts_and_a_mended_script_goes_on(kafka, work, topic):
    """The count is durable before each attempt, so that it is seen that one batch dies again and again."""
    each = '''local ffi = require "ffi"
ffi.cdef "void abort(void);"
state:put("seen", (state:get "seen" or 0) + 1)
for row in batch:rows() do
  if row.partition == 1 and row.offset == 2 then ffi.C.abort() end
end
batch.write:format "parquet":save(%s)''' % lua(work.out)
    kills = work.job(topic, STEPS, each=each)
    for attempt in 1, 2, 3:
        assert work.run(kills).code == -signal.SIGABRT
        shown = work.command("ckpt", "show", work.checkpoint).finish(20)
        assert f"attempt {attempt}, not committed" in shown.out, shown.out
    work.run_ok(work.job(topic, STEPS, each=each.replace("ffi.C.abort()", "assert(state:get 'seen' == 1)")))
    assert read_table(work.out).num_rows == 23
