-- SPDX-License-Identifier: Apache-2.0
-- Frames that have an end: rows that are given, and Parquet tables.
local check = require "moontide.cli.check"
local live = require "moontide.live"
local mt = require "moontide"
local support = require "spec.support"

live.begin()

-- A table that Spark's stream wrote, as if it had written it here.
local function table_of_spark()
  local folder = support.folder {}
  os.execute(("cp -r tests/data/spark-orders/table/. %s; sed -i 's,/srv/lake/orders/table,%s,' %s/_spark_metadata/*")
    :format(folder, folder, folder))
  return folder
end

local function numbers(n)
  local rows = {}
  for i = 1, n do rows[i] = { n = i, s = "v" .. i } end
  return mt.createDataFrame(rows, "n BIGINT, s STRING")
end

-- What show prints.
local function printed(fn)
  local lines, before = {}, _G.print
  rawset(_G, "print", function(text) lines[#lines + 1] = text end)
  local ok, problem = pcall(fn)
  rawset(_G, "print", before)
  assert(ok, problem)
  return table.concat(lines, "\n")
end

describe("a bounded frame", function()
  it("has the rows that were given, exactly", function()
    local df = mt.createDataFrame({ { id = 9007199254740993LL, price = "1.10", tags = { "a", "b" } }, {} },
      "id BIGINT, price DECIMAL(10,2), tags ARRAY<STRING>")
    assert.is_false(df.isStreaming)
    assert.same({ "id", "price", "tags" }, df.columns)
    local rows = df:collect()
    assert.equal("9007199254740993", mt.str(rows[1].id))
    assert.equal("1.10", mt.str(rows[1].price))
    assert.same({ "a", "b" }, { rows[1].tags[1], rows[1].tags[2] })
    assert.same({}, rows[2])
    assert.equal(2, df:count())
  end)

  it("takes all steps, and runs them anew for each question", function()
    local calls = 0
    local df = numbers(10):filter(function(row)
      calls = calls + 1
      return row.n % 2 == 0
    end):map("m BIGINT, s STRING", function(row) return { m = row.n * 10, s = row.s } end)
    assert.equal(0, calls)
    assert.equal(5, df:count())
    assert.same({ { m = 20, s = "v2" }, { m = 40, s = "v4" } }, df:limit(2):collect())
    assert.same({ { s = "v6" } }, df:filter(function(row) return row.m == 60 end):select "s":collect())
    assert.same({ a = "v2" }, df:withColumnRenamed("s", "a"):drop "m":first())
    assert.same({ { x = 1 }, { x = 1 }, { x = 2 } }, numbers(2):flatMap("x INT", function(row)
      return row.n == 1 and { { x = 1 }, { x = 1 } } or { { x = 2 } }
    end):collect())
    assert.equal(40, calls)
    assert.same({ { v = 7 } }, mt.createDataFrame({ { j = '{"v":7}' } }, "j STRING"):fromJson("j", "v INT"):collect())
  end)

  it("puts frames behind one another, and limits what comes before and after", function()
    local both = numbers(3):union(numbers(2))
    assert.equal(5, both:count())
    local seen = {}
    for row in both:limit(4):rows() do seen[#seen + 1] = row.n end
    assert.same({ 1, 2, 3, 1 }, seen)
    assert.equal(3, numbers(3):limit(1):union(numbers(2)):count())
    local twice = numbers(2)
    assert.equal(4, twice:union(twice):count())
    assert.same({}, numbers(2):limit(0):collect())
    assert.is_true(numbers(0):isEmpty())
    assert.is_nil(numbers(0):first())
    assert.equal(2, #numbers(3):take(2))
    assert.same({ n = 1, s = "v1" }, numbers(1):unionByName(numbers(1):select("s", "n")):collect()[2])
  end)

  it("is shown as Spark does", function()
    assert.equal("+---+---+\n|  n|  s|\n+---+---+\n|  1| v1|\n|  2| v2|\n+---+---+\nonly showing top 2 rows",
      printed(function() numbers(3):show(2) end))
    assert.equal("+---+---+\n|  n|  s|\n+---+---+\n+---+---+", printed(function() numbers(0):show() end))
  end)

  it("tells a row function's error with its line", function()
    local df = numbers(2):filter(function(row) return row.n + row.s > 1 end)
    assert.matches("bounded_spec.lua:" .. support.line() - 1, support.error_of(df.count, df), 1, true)
  end)

  it("refuses what is for streams, and streams what is for it, with the cure", function()
    assert.matches("'writeStream' can be called only on streaming", support.error_of(function()
      return numbers(1).writeStream
    end))
    assert.matches("Queries with streaming sources must be executed with writeStream.start()",
      support.error_of(function() return mt.memoryStream "n INT":count() end), 1, true)
    assert.matches("a bounded frame and a stream do not go together", support.error_of(function()
      return mt.createDataFrame({}, "n INT"):union(mt.memoryStream "n INT")
    end))
    assert.matches("limit takes a whole number of rows, not 1.5", support.error_of(function()
      return numbers(1):limit(1.5)
    end))
    assert.matches("createDataFrame: row 2 has \"m\", which is no column", support.error_of(function()
      return mt.createDataFrame({ { n = 1 }, { m = 1 } }, "n INT")
    end))
    assert.matches("createDataFrame takes rows and their columns as DDL", support.error_of(mt.createDataFrame, {}))
    assert.matches('unknown format "parqet"; did you mean "parquet"?',
      support.error_of(function() return mt.read:format "parqet":load "x" end), 1, true)
    assert.matches('format "csv" is known in Spark, not here yet',
      support.error_of(function() return mt.read:format "csv":load "x" end), 1, true)
    assert.matches('unknown option "shiny"',
      support.error_of(function() return mt.read:option("shiny", 1):load "x" end), 1, true)
    assert.matches("/no/such", support.error_of(function() return mt.read:load "/no/such" end), 1, true)
  end)

  it("is read at a job's top level, also under check", function()
    local text = [[
local mt = require "moontide"
local names = {}
for row in mt.createDataFrame({ { id = 1, name = "one" } }, "id INT, name STRING"):rows() do
  names[row.id] = row.name
end
return mt.memoryStream "id INT"
  :withColumn("name", "STRING", function(row) return names[row.id] end)
  .writeStream:format "noop"]]
    local plan = support.load(text)
    support.free(plan)
    local facts = support.with_globals(function()
      return check.facts(support.folder { ["job.lua"] = text } .. "/job.lua", {})
    end)
    assert.same({}, facts.errors)
    facts = support.with_globals(function()
      return check.facts(support.folder { ["job.lua"] = [[
local mt = require "moontide"
local a = mt.createDataFrame({}, "n INTT")
local n = a:filter(print):count() + #a:collect() + #mt.read:load("/no/such"):take(5)
a:show(n)
return a:foo().writeStream]] } .. "/job.lua", {})
    end)
    local lines = {}
    for i, one in ipairs(facts.errors) do lines[i] = one.line end
    assert.same({ 2, 3, 5, 5 }, lines)
  end)
end)

describe("a Parquet table that is read", function()
  it("has the files that its log names, and its folders as columns", function()
    local folder = table_of_spark()
    os.execute(("cp $(ls %s/event=view/*.parquet | head -1) %s/event=view/stray.parquet"):format(folder, folder))
    local df = mt.read:format "parquet":load(folder)
    os.execute(("rm -r %s/_spark_metadata"):format(folder))
    assert.is_true(mt.read:load(folder):count() > df:count())
    assert.equal("event", df.columns[#df.columns])
    assert.is_true(df:count() > 0)
    local by_event = {}
    for row in df:rows() do by_event[row.event] = (by_event[row.event] or 0) + 1 end
    assert.same({ "purchase", "refund", "view" }, (function()
      local names = {}
      for name in pairs(by_event) do names[#names + 1] = name end
      table.sort(names)
      return names
    end)())
    assert.equal(by_event.view, df:filter(function(row) return row.event == "view" end):select "event":count())
    assert.equal(df:count(), df:select "event":count())
  end)

  it("is also one file, with times of Spark's old form", function()
    local df = mt.read:parquet "tests/data/spark-int96.parquet"
    assert.is_true(#df:collect() > 0)
  end)

  it("is not a file of other kinds", function()
    local folder = support.folder { ["part-0.parquet"] = "no table" }
    assert.matches("cannot read .*part%-0.parquet", support.error_of(function() return mt.read:load(folder) end))
    assert.matches("holds no Parquet file", support.error_of(function()
      return mt.read:load(support.folder { _SUCCESS = "", [".x"] = "" })
    end))
  end)
end)
