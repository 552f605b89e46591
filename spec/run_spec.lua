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
end)
