-- SPDX-License-Identifier: Apache-2.0
-- Frames with several sources, and frames that branch from one.
local check = require "moontide.cli.check"
local mt = require "moontide"
local run = require "moontide.batch.run"
local support = require "spec.support"
local tree = require "moontide.declare.tree"

local function fault_of(fn) return (support.error_of(fn):gsub("^[^\n]-:%d+: ", "")) end

local function numbers(first, last)
  local rows = {}
  for n = first, last do rows[#rows + 1] = { n = n, s = "s" .. n } end
  return rows
end

local function odd(row) return row.n % 2 == 1 end
local function even(row) return row.n % 2 == 0 end

local function kafka(topic, name)
  local reader = mt.readStream:format "kafka":option("subscribe", topic)
    :option("kafka.bootstrap.servers", "localhost:9")
  return (name and reader:name(name) or reader):load()
end

describe("a union", function()
  it("has the rows of the first source, then those of the second, by place and with the names of the first", function()
    local one, other = mt.memoryStream "n INT, s STRING", mt.memoryStream "k INT, t STRING"
    local rows, counts, places = support.run(one:union(other:withColumnRenamed("k", "m")),
      { { n = 1, s = "a" }, { n = 2 } }, { { k = 3, t = "c" } })
    assert.same({ { n = 1, s = "a" }, { n = 2 }, { n = 3, s = "c" } }, rows)
    assert.same({ "orders[2]@100", "orders[2]@101", "returns[2]@100" }, places)
    assert.same({ name = "union", came = 3, went = 3, filtered = 0, malformed = 0 }, counts[2])
  end)

  it("goes on with steps, whose errors name the place of either source", function()
    local one, other = mt.memoryStream "n INT, s STRING", mt.memoryStream "n INT, s STRING"
    local frame = one:filter(odd):union(other:filter(even)):filter(function(row)
      return row.n ~= 12 or error "twelve"
    end)
    local ready = support.ready(frame)
    assert.same({ { n = 1, s = "s1" }, { n = 3, s = "s3" }, { n = 10, s = "s10" } },
      (ready(numbers(1, 3), numbers(9, 11))))
    assert.matches("filter at returns[2]@103: twelve",
      support.error_of(ready, numbers(1, 3), numbers(9, 14)), 1, true)
    assert.equal(0, #ready({}, {}))
    assert.equal(1, #ready({}, numbers(2, 2)))
  end)

  it("of frames that branch from one reads it once and does what they share once", function()
    local called = 0
    local base = mt.memoryStream "n INT, s STRING":withColumn("t", "STRING", function(row)
      called = called + 1
      return row.s .. "!"
    end)
    local frame = base:filter(odd):union(base:filter(even)):union(base)
    local rows, counts, places = support.run(frame, numbers(1, 3))
    assert.equal(3, called)
    local seen = {}
    for i, row in ipairs(rows) do seen[i] = row.t end
    assert.same({ "s1!", "s3!", "s2!", "s1!", "s2!", "s3!" }, seen)
    assert.equal("orders[2]@101", places[3])
    assert.equal("orders[2]@102", places[6])
    local names = {}
    for i, count in ipairs(counts) do names[i] = ("%s %d %d"):format(count.name, count.came, count.went) end
    assert.same({ "withColumn 3 3", "filter 3 2", "filter 3 1", "union 3 3", "union 6 6" }, names)
    assert.equal(1, #run.wanted(frame))
    assert.same({ { n = 4, s = "s4" }, { n = 4, s = "s4" } },
      (support.run((function(s) return s:union(s) end)(mt.memoryStream "n INT, s STRING"), numbers(4, 4))))
  end)

  it("reads of each source what the steps need, by the place of the column", function()
    local one, other = mt.memoryStream "a INT, b INT, c INT", mt.memoryStream "x INT, y INT, z INT"
    local frame = one:union(other:filter(function() return true end)):drop "a":select "c"
    assert.same({ { "c" }, { "x", "y", "z" } }, run.wanted(frame))
    assert.same({ { c = 3 }, { c = 6 } },
      (support.run(frame, { { a = 1, b = 2, c = 3 } }, { { x = 4, y = 5, z = 6 } })))
    local twice = one:union(one:select("c", "b", "a")):select "a"
    assert.same({ { "a", "b", "c" } }, run.wanted(twice))
    assert.same({ { a = 1 }, { a = 3 } }, (support.run(twice, { { a = 1, b = 2, c = 3 } })))
  end)

  it("by name takes the other's columns in any order", function()
    local one, other = mt.memoryStream "n INT, s STRING", mt.memoryStream "s STRING, n INT"
    assert.same({ { n = 1, s = "a" }, { n = 2, s = "b" } },
      (support.run(one:unionByName(other), { { n = 1, s = "a" } }, { { s = "b", n = 2 } })))
    assert.equal('unionByName: the other frame has no column "s"; there are: s2, n',
      fault_of(function() one:unionByName(other:withColumnRenamed("s", "s2")) end))
    assert.matches('unionByName: this frame has no column "more"', fault_of(function()
      one:unionByName(other:withColumn("more", "INT", function() end))
    end), 1, true)
    assert.same({ "n", "s" }, one:unionAll(mt.memoryStream "x INT, y STRING").columns)
  end)

  it("may be null where one of them may be", function()
    local one = mt.memoryStream "n INT NOT NULL, s STRING"
    assert.is_false(one:union(mt.memoryStream "n INT NOT NULL, s STRING").schema[1].nullable)
    assert.is_true(one:union(mt.memoryStream "n INT, s STRING").schema[1].nullable)
  end)

  it("of what does not go together is refused", function()
    local one = mt.memoryStream "n INT, s STRING"
    assert.equal("union: 2 columns (n INT, s STRING) and 1 columns (n INT)",
      fault_of(function() one:union(mt.memoryStream "n INT") end))
    assert.equal("union: column 2 is s STRING here and d DOUBLE there",
      fault_of(function() one:union(mt.memoryStream "n INT, d DOUBLE") end))
    assert.equal("union takes another frame, not nil", fault_of(function() one:union() end))
    assert.matches('union: two sources have the name "orders"; give one of its own with :name before :load',
      fault_of(function() kafka "orders":union(kafka "orders") end), 1, true)
    assert.equal("orders", (kafka "orders":union(kafka("orders", "more"))._tree.inputs[1].source.name))
  end)

  it("is explained as a tree", function()
    local base = kafka "orders":select "value"
    local frame = base:filter(odd):union(kafka "returns":select "value":union(base)):withColumnRenamed("value", "v")
    local all = "(key, value, topic, partition, offset, timestamp, timestampType)"
    local text = [[
union
├ kafka orders ALL
│   select(value)
│   filter(function at spec/union_spec.lua:LINE)
└ union
  ├ kafka returns ALL
  │   select(value)
  └ kafka orders (read once, above)
      select(value)
  withColumnRenamed(value → v)]]
    text = text:gsub("ALL", all):gsub("LINE", debug.getinfo(odd, "S").linedefined)
    assert.equal(text, tree.text(frame._tree))
  end)
end)

describe("a query over two sources", function()
  local JOB = [[
local mt = require "moontide"
local function read(topic)
  return mt.readStream:format "kafka":option("kafka.bootstrap.servers", "localhost:9")
    :option("subscribe", topic):option("startingOffsets", "earliest"):load()
end
return read "orders":select("key", "value"):union(read "returns":select("key", "value"))
  .writeStream:format "noop"]]

  local function facts_of(text)
    local folder = support.folder { ["job.lua"] = text }
    return support.with_globals(function() return check.facts(folder .. "/job.lua", {}) end)
  end

  it("has both in its plan, in the order in which the job names them", function()
    local plan = support.load { ["job.lua"] = JOB }
    assert.equal(2, #plan.sources)
    local shape = mt.json.decode(plan.shape)
    assert.same({ "orders", "returns" }, { shape.sources[1].name, shape.sources[2].name })
    assert.equal('[{"startingOffsets":"earliest"},{"startingOffsets":"earliest"}]', plan.start_options)
    support.free(plan)
  end)

  it("is shown by check with the source of each step", function()
    local facts = facts_of(JOB)
    assert.same({}, facts.errors)
    local text = check.text(facts)
    for _, words in ipairs { "source      kafka orders", "source      kafka returns", "read: key, value",
      "step 1      select(key, value) of source orders", "step 2      select(key, value) of source returns",
      "step 3      union of step 1 and step 2\n            the same columns" } do
      assert.matches(words, text, 1, true)
    end
  end)

  it("finds faults before and behind a union, each once", function()
    local facts = facts_of [[
local mt = require "moontide"
local one, other = mt.memoryStream "n INT", mt.memoryStream "n INT"
local bad = one:select "m"
local frame = bad:union(other):union(one):select "x"
local behind = one:union(bad)
  :select "y"
return { frame.writeStream:format "noop", behind.writeStream:format "noop" }]]
    local lines = {}
    for i, one in ipairs(facts.errors) do lines[i] = one.line end
    assert.same({ 3, 6 }, lines)
  end)
end)
