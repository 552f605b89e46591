-- SPDX-License-Identifier: Apache-2.0
-- What a person sees of a job that runs in the program.
local program = require "spec.program"

describe("a job that runs", function()
  local folder

  before_each(function() folder = program.folder() end)
  after_each(function() folder:remove() end)

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
end)
