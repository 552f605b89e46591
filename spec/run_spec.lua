-- SPDX-License-Identifier: Apache-2.0
-- What a person sees of a job that runs in the program.
local program = require "spec.program"

describe("a job that runs", function()
  local folder = program.folder(before_each, after_each)

  -- Runs a job over rows 1..n of a memory stream; `steps` is Lua text.
  local function run(n, steps, arguments)
    folder:write("job.lua", ([[
local mt = require "moontide"
local rows = {}
for i = 1, %d do rows[i] = { n = i, name = i %% 2 == 0 and "even" or nil, amount = i / 4 } end
local s = mt.memoryStream("n BIGINT, name STRING, amount DOUBLE"):addData(rows)
%s]]):format(n, steps))
    return folder:moontide("run job.lua " .. (arguments or ""))
  end

  it("shows its rows on the console, after all its steps", function()
    local done = run(4, [[
return s:filter(function(row) return row.n > 1 end)
  :withColumn("twice", "BIGINT", function(row) return row.n * 2 end)
  :select("n", "twice", "name")
  .writeStream:format "console":trigger { availableNow = true }]])
    assert.equal(0, done.code)
    local table_ = done.out:gsub(" ", "")
    assert.matches("|n|twice|name|", table_, 1, true)
    assert.matches("|2|4|even|\n|3|6|NULL|\n|4|8|even|\n", table_, 1, true)
    assert.is_nil(table_:find("|1|2|", 1, true))
  end)

  it("prints to standard error, a hundred lines a batch and then a count", function()
    local done = run(250, [[
print("loading", 1760000000000001)
return s:filter(function(row)
  print("row", row.n)
  return true
end).writeStream:format "noop":trigger { availableNow = true }]], "--json")
    assert.equal(0, done.code)
    assert.matches("loading\t1760000000000001", done.err, 1, true)
    local _, printed = done.err:gsub("row\t%d+\n", "")
    assert.equal(100, printed)
    assert.matches("150 more lines of the job were not printed", done.err, 1, true)
    assert.is_nil(done.out:find("row\t", 1, true))
  end)

  it("masks secrets in what it prints", function()
    local done = run(1, [[
local key = mt.secret "KEY"
print("the key is " .. key .. ", " .. key .. "!")
return s.writeStream:format "noop":trigger { availableNow = true }]], "--set KEY=opensesame")
    assert.equal(0, done.code)
    assert.matches("the key is ***, ***!", done.err, 1, true)
    assert.is_nil((done.err .. done.out):find("opensesame", 1, true))
  end)

  it("masks secrets in the words of an error", function()
    local done = run(1, [[
local key = mt.secret "KEY"
return s:filter(function(row) error("no row for " .. key) end)
  .writeStream:format "noop":trigger { availableNow = true }]], "--set KEY=opensesame")
    assert.equal(4, done.code)
    assert.matches("no row for ***", done.err, 1, true)
    assert.is_nil((done.err .. done.out):find("opensesame", 1, true))
  end)

  it("ends with code 4 for a mistake in a function, and 5 for a value that does not fit", function()
    local steps = [[
return s:withColumn("x", "TINYINT", function(row)
  %s
end).writeStream:format "noop":trigger { availableNow = true }]]
    local done = run(3, steps:format "return row.name:len()")
    assert.equal(4, done.code)
    assert.matches('job.lua:6: withColumn at row 0 of memory1: name is null here; write (row.name or ""):len()',
      done.err, 1, true)
    done = run(3, steps:format "return row.n * 100")
    assert.equal(5, done.code)
    assert.matches("job.lua:6: withColumn at row 1 of memory1: x is TINYINT", done.err, 1, true)
  end)

  it("prints the rows of a batch before its line, and nothing of another batch between", function()
    folder:write("job.lua", [[
local mt = require "moontide"
return mt.readStream:format "kafka":option("kafka.bootstrap.servers", mt.conf "brokers")
  :option("subscribe", "orders"):option("startingOffsets", "earliest"):load()
  :select("partition", "offset").writeStream:format "console"]])
    local done = folder:moontide "demo job.lua --rows 60 --seconds 2"
    assert.equal(0, done.code)
    local shown = {}
    for line in done.out:gmatch "[^\n]+" do
      shown[#shown + 1] = line:match "^Batch: %d+" or line:match "^batch %d+"
    end
    assert.truthy(#shown >= 4, done.out)
    for i = 1, #shown, 2 do
      local batch = (i - 1) / 2
      assert.same({ "Batch: " .. batch, "batch " .. batch }, { shown[i], shown[i + 1] })
    end
  end)

  it("ends like others when nobody reads what it prints, after its batch", function()
    folder:write("job.lua", ([[
local mt = require "moontide"
local s = mt.memoryStream("n BIGINT"):addData { { n = 1 } }
return s.writeStream:format "console":option("checkpointLocation", %q):trigger { availableNow = true }]]):format(
      folder:path "checkpoint"))
    local done = folder:shell "exec 3> >(:); wait $!; moontide run job.lua >&3"
    assert.equal(128 + 13, done.code)
    assert.matches("standard output was closed by its reader", done.err, 1, true)
    assert.is_nil(done.err:find("ERROR", 1, true))
    assert.matches('"lastCommit":0', folder:moontide("ckpt show checkpoint --json").out, 1, true)
  end)

  it("says so where there are too few file handles to begin", function()
    folder:write("job.lua", "return nil")
    local done = folder:shell "exec 3>&- 4>&-; ulimit -n 4; moontide run job.lua"
    assert.equal(10, done.code)
    assert.matches("the run cannot start: Too many open files", done.err, 1, true)
  end)

  it("runs several queries, each with variables of its own, and names them", function()
    local two = [[
local seen = 0
local function number(row) seen = seen + 1; return seen end
local function numbered(name)
  return s:withColumn("seen", "INT", number).writeStream:format "memory":queryName(name)
    :trigger { availableNow = true }
end
return { numbered "left", numbered "right", s:withColumn("seen", "INT", number)
  .writeStream:format "console":trigger { availableNow = true } }]]
    local done = run(2, two)
    assert.equal(0, done.code)
    assert.matches("left: batch 0 ", done.out, 1, true)
    assert.matches("right: batch 0 ", done.out, 1, true)
    assert.matches("query 3: batch 0 ", done.out, 1, true)
    assert.matches("query 3:\n[^\n]+\nBatch: 0\n", done.out)
    assert.matches("|2|even|0.5|2|", (done.out:gsub(" ", "")), 1, true)
    local names = {}
    for line in run(2, two, "--json").out:gmatch "[^\n]+" do
      local progress = require("cjson").decode(line)
      names[tostring(progress.name)] = progress.numInputRows
    end
    assert.same({ left = 2, right = 2, [tostring(require("cjson").null)] = 2 }, names)
  end)

  it("stops all queries after their batch when one fails, and ends with its code", function()
    local done = run(2, [[
return { s.writeStream:format "noop":queryName "good":trigger { processingTime = "1 hour" },
  s:filter(function(row) return row.name:len() end).writeStream:format "noop":queryName "bad" }]])
    assert.equal(4, done.code)
    assert.matches("bad failed: the other queries stop after their batch; its error: batch 0: [^\n]*name is null",
      done.err)
    assert.matches("moontide: bad: batch 0: [^\n]*name is null here", done.err)
  end)

  it("begins no query when one of them does not load", function()
    local done = run(2, [[
return { s.writeStream:format "console":queryName "good", s.writeStream:format "console":option("numRow", 5) }]])
    assert.equal(3, done.code)
    assert.equal("", done.out)
    assert.matches("job.lua:5: ", done.err, 1, true)
  end)

  it("counts --max-batches for each query", function()
    local done = run(2, [[
return { s.writeStream:format "noop":queryName "a", s.writeStream:format "noop":queryName "b" }]],
      "--max-batches 1")
    assert.equal(0, done.code)
    assert.matches("a: batch 0", done.out, 1, true)
    assert.matches("b: batch 0", done.out, 1, true)
  end)
end)
