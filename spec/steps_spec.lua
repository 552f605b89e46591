-- SPDX-License-Identifier: Apache-2.0
local mt = require "moontide"
local run = require "moontide.batch.run"
local support = require "spec.support"

local function numbers(n)
  local rows = {}
  for i = 1, n do rows[i] = { n = i, s = "s" .. i } end
  return rows
end

local function stream() return mt.memoryStream "n INT, s STRING" end

describe("filter", function()
  it("keeps rows for true and drops them for false and nil", function()
    local rows, counts = support.run(stream():filter(function(row)
      if row.n % 3 == 0 then return true end
      if row.n % 3 == 1 then return false end
    end), numbers(10))
    assert.same({ 3, 6, 9 }, { rows[1].n, rows[2].n, rows[3].n })
    assert.same({ { name = "filter", came = 10, went = 3, filtered = 7, malformed = 0 } }, counts)
  end)

  it("refuses any other answer, naming the row", function()
    local problem = support.error_of(support.run, stream():filter(function(row)
      return row.n > 2 and 1
    end), numbers(5))
    assert.matches("steps_spec.lua:" .. support.line() - 2
      .. ": filter at orders[2]@102: the function returned the number 1; true keeps the row, false and nil drop it",
      problem, 1, true)
  end)

  it("is where, too", function()
    assert.equal(2, #support.run(stream():where(function(row) return row.n < 3 end), numbers(5)))
  end)

  it("keeps the account of several steps", function()
    local _, counts = support.run(stream():filter(function(row) return row.n > 2 end)
      :filter(function(row) return row.n > 4 end), numbers(10))
    assert.same({ { 10, 8, 2 }, { 8, 6, 2 } }, {
      { counts[1].came, counts[1].went, counts[1].filtered },
      { counts[2].came, counts[2].went, counts[2].filtered },
    })
  end)

  it("names the source's row also behind other steps", function()
    local problem = support.error_of(support.run, stream():filter(function(row) return row.n % 2 == 0 end)
      :filter(function(row) return row.n < 8 or error "too big" end), numbers(10))
    assert.matches("orders[2]@107: too big", problem, 1, true)
  end)
end)

describe("map", function()
  it("makes each row the table that the function returns; a missing name is null", function()
    local rows = support.run(stream():map("a INT, b STRING", function(row)
      if row.n == 2 then return { b = row.s } end
      return { a = row.n * 10, b = row.s }
    end), numbers(3))
    assert.same({ { a = 10, b = "s1" }, { b = "s2" }, { a = 30, b = "s3" } }, rows)
  end)

  it("refuses a name that is no column, where the table is made", function()
    local problem = support.error_of(support.run, stream():map("count INT", function(row)
      if row.n == 3 then
        return { cuont = 1 }
      end
      return { count = 1 }
    end), numbers(5))
    assert.matches('steps_spec.lua:%d+: map at orders%[2%]@102: the result has no column "cuont"; '
      .. 'did you mean "count"%?', problem)
  end)

  it("refuses such a name also in a table that another function made", function()
    local function make(n) return n == 3 and { count = 1, more = 2 } or { count = 1 } end
    local problem = support.error_of(support.run, stream():map("count INT", function(row)
      return make(row.n)
    end), numbers(5))
    assert.matches('orders[2]@102: the result has no column "more"', problem, 1, true)
  end)

  it("refuses nil and what is no table", function()
    for answer, words in pairs { [false] = "returned the boolean false", [5] = "returned the number 5",
      ["x"] = 'returned "x"' } do
      assert.matches(words .. "; it returns a table or the row",
        support.error_of(support.run, stream():map("a INT", function() return answer end), numbers(1)))
    end
    assert.matches("returned nil; every row gives a table",
      support.error_of(support.run, stream():map("a INT", function() end), numbers(1)))
  end)

  it("takes the row itself for its columns", function()
    local rows = support.run(stream():map("s STRING, n INT", function(row) return row end), numbers(3))
    assert.same(numbers(3), rows)
  end)

  it("mixes rows and tables", function()
    for _, first in ipairs { 1, 2, 5 } do
      local rows = support.run(stream():map("s STRING, n INT", function(row)
        if row.n >= first and row.n < 5 then return { n = -row.n, s = row.s } end
        return row
      end), numbers(6))
      for n = 1, 6 do
        assert.same({ n = n >= first and n < 5 and -n or n, s = "s" .. n }, rows[n])
      end
    end
  end)

  it("converts the row's columns where the types differ", function()
    local rows = support.run(stream():map("n DOUBLE", function(row) return row end), numbers(2))
    assert.same({ { n = 1 }, { n = 2 } }, rows)
    local problem = support.error_of(support.run, stream():map("s INT", function(row) return row end), numbers(2))
    assert.matches('s is INT and takes whole numbers, not "s1"', problem)
  end)

  it("says which column of the result the row does not have", function()
    assert.matches('no column "x"', support.error_of(support.run,
      stream():map("n INT, x INT", function(row) return row end), numbers(1)))
  end)

  it("finds text that is not UTF-8, also cut between two rows", function()
    local parts = { "a", "b\195", "\169c", "d" }
    local problem = support.error_of(support.run, stream():map("s STRING", function(row)
      return { s = parts[row.n] }
    end), numbers(4))
    assert.matches("orders[2]@101: s is STRING; \"b\\xc3\" is not UTF-8", problem, 1, true)
    parts[2], parts[3] = "é", ""
    assert.equal("é", support.run(stream():map("s STRING", function(row)
      return { s = parts[row.n] }
    end), numbers(4))[2].s)
  end)

  it("names the line that gives a value which does not fit", function()
    local problem = support.error_of(support.run, stream():map("a TINYINT, b STRING", function(row)
      return {
        b = row.s,
        a = row.n * 100,
      }
    end), numbers(3))
    assert.matches("steps_spec.lua:" .. support.line() - 3 .. ": map at orders[2]@101: a is TINYINT", problem, 1, true)
  end)

  it("takes columns by the hundred and names of any characters", function()
    local ddl, odd = {}, { "end", "a b", 'q"q', "new\nline", "ünïcode", "1st" }
    for i, name in ipairs(odd) do ddl[i] = ("`%s` INT"):format(name) end
    for i = 1, 300 do ddl[#ddl + 1] = ("c%d %s"):format(i, i % 2 == 0 and "STRING" or "DOUBLE") end
    ddl = table.concat(ddl, ", ")
    local wide = mt.memoryStream(ddl)
    local rows = {}
    for n = 1, 100 do
      rows[n] = {}
      for i, name in ipairs(odd) do rows[n][name] = n * i end
      for i = 1, 300 do rows[n]["c" .. i] = i % 2 == 0 and "v" .. n or n / i end
    end
    local frame = wide:map(ddl, function(row) return mt.totable(row) end)
      :filter(function(row) return row["a b"] == 2 * row["end"] end)
    assert.same(rows, (support.run(frame, rows)))
  end)

  it("runs over no rows", function()
    assert.same({}, support.run(stream():map("a INT, b STRING", function() error "never" end), {}))
  end)
end)

describe("flatMap", function()
  local function repeated(row)
    local list = {}
    for i = 1, row.n % 4 do list[i] = { s = row.s, i = i } end
    return list
  end

  it("makes any number of rows of each, each from where its row came from", function()
    local back, counts, places = support.run(stream():flatMap("s STRING, i INT", repeated), numbers(6))
    assert.same({ { s = "s1", i = 1 }, { s = "s2", i = 1 }, { s = "s2", i = 2 }, { s = "s3", i = 1 },
      { s = "s3", i = 2 }, { s = "s3", i = 3 }, { s = "s5", i = 1 }, { s = "s6", i = 1 }, { s = "s6", i = 2 } }, back)
    assert.same({ "orders[2]@100", "orders[2]@101", "orders[2]@101", "orders[2]@102", "orders[2]@102",
      "orders[2]@102", "orders[2]@104", "orders[2]@105", "orders[2]@105" }, places)
    assert.equal(6, counts[1].came)
    assert.equal(9, counts[1].went)
    assert.equal(3, counts[1].made)
  end)

  it("counts rows that became fewer as filtered", function()
    local back, counts = support.run(stream():flatMap("n INT", function(row)
      return row.n == 2 and { { n = 2 } } or {}
    end), numbers(5))
    assert.same({ { n = 2 } }, back)
    assert.equal(4, counts[1].filtered)
    assert.is_nil(counts[1].made)
  end)

  it("makes no row of none", function()
    assert.same({}, support.run(stream():flatMap("n INT", function() error "never" end), {}))
    assert.same({}, support.run(stream():flatMap("s STRING", function() return {} end), numbers(5)))
  end)

  it("makes many of few, text too, batch after batch", function()
    local ready = support.ready(stream():flatMap("s STRING, d DOUBLE, f BOOLEAN", function(row)
      local list = {}
      for i = 1, 1000 do list[i] = { s = row.s .. "/" .. i, d = i % 7 ~= 0 and i or nil, f = i % 3 == 0 } end
      return list
    end))
    for _ = 1, 2 do
      local back = ready(numbers(20))
      assert.equal(20000, #back)
      for k, row in ipairs(back) do
        local n, i = math.ceil(k / 1000), (k - 1) % 1000 + 1
        if row.s ~= "s" .. n .. "/" .. i or row.d ~= (i % 7 ~= 0 and i or nil) or row.f ~= (i % 3 == 0) then
          assert.same({ "s" .. n .. "/" .. i, i }, row)
        end
      end
    end
  end)

  it("takes the row itself as an element", function()
    assert.same({ { n = 1, s = "s1" }, { n = 1, s = "s1" } },
      (support.run(stream():flatMap("n INT, s STRING", function(row) return { row, row } end), numbers(1))))
  end)

  it("is refused what is no array of tables, at the row", function()
    local cases = {
      { function() end, "the function returned nil; it returns an array of tables" },
      { function() return 1 end, "the function returned the number 1" },
      { function(row) return row end, "the function returned the row" },
      { function(row) return { n = row.n } end, "the function returned a table that is no array" },
      { function() return { { n = 1 }, 7 } end, "an element of the array is the number 7" },
      { function() return { { m = 1 } } end, 'the result has no column "m"' },
      { function() return { { n = "x" } } end, "n is INT and takes whole numbers" },
    }
    for _, case in ipairs(cases) do
      local problem = support.error_of(support.run, stream():flatMap("n INT", case[1]), numbers(2))
      assert.matches("steps_spec.lua:%d+: flatMap at orders%[2%]@100: ", problem)
      assert.matches(case[2], problem, 1, true)
    end
  end)

  it("names the row of text that is not UTF-8", function()
    assert.matches("flatMap at orders[2]@102: s is STRING", support.error_of(support.run,
      stream():flatMap("s STRING", function(row) return { { s = "a" }, { s = row.n == 3 and "\255" or "b" } } end),
      numbers(4)), 1, true)
  end)
end)

describe("coalesce and repartition", function()
  local function refused(what, fn)
    assert.matches(what, support.error_of(fn), 1, true)
  end

  it("stay with a union: of its first frame, else of the other, whose columns go by their place", function()
    local one, other = stream():repartition(3, "n"), stream():withColumnRenamed("s", "t")
    assert.same({ n = 3, columns = { "n" } }, one:union(other)._spread)
    assert.same({ n = 2, columns = { "s" } }, stream():union(other:repartition(2, "t"))._spread)
    assert.same({ n = 3, columns = { "n" } }, one:union(other:repartition(2, "t"))._spread)
    assert.is_nil(stream():union(other)._spread)
  end)

  it("are taken as in Spark and change no row", function()
    local frame = stream():coalesce(1):repartition(4):repartition(4, "n"):repartition("n", "s")
    assert.same(numbers(3), (support.run(frame, numbers(3))))
  end)

  it("say into how many files a batch goes, through steps behind them", function()
    local frame = stream():repartition(4, "n"):filter(function() return true end)
    assert.same({ n = 4, columns = { "n" } }, frame.writeStream._spread)
    assert.same({ n = 2, columns = { "n" } }, frame:coalesce(2)._spread)
    assert.equal(4, frame:coalesce(9)._spread.n)
    assert.equal(1, frame:repartition "s"._spread.n)
    assert.is_nil(stream():coalesce(3)._spread)
    assert.matches('repartition by "n": there is no such column any more where the rows are written',
      support.error_of(support.load, { ["job.lua"] = [[
local mt = require "moontide"
return mt.memoryStream "n INT, s STRING":repartition(2, "n"):drop "n"
  .writeStream:format "parquet":option("path", "/nowhere/t"):option("checkpointLocation", "/nowhere/c")]] }), 1, true)
  end)

  it("are told what cannot be", function()
    refused("coalesce takes a whole number of partitions above 0, not 0", function() stream():coalesce(0) end)
    refused("coalesce takes a whole number of partitions above 0, not nil", function() stream():coalesce() end)
    refused("repartition takes a whole number of partitions above 0, not 1.5", function() stream():repartition(1.5) end)
    refused('repartition: there is no column "m"', function() stream():repartition(2, "m") end)
    refused('repartition: there is no column "m"', function() stream():repartition "m" end)
  end)
end)

describe("limit", function()
  it("is refused on a stream with Spark's words and the way", function()
    assert.matches("Limit and take the first N rows are not supported on streaming Datasets; in foreachBatch",
      support.error_of(function() return stream():limit(3) end), 1, true)
  end)
end)

describe("withColumn", function()
  it("adds a column behind the others", function()
    local frame = stream():withColumn("twice", "BIGINT", function(row) return row.n * 2 end)
    assert.same({ "n", "s", "twice" }, frame.columns)
    assert.same({ { n = 1, s = "s1", twice = 2 }, { n = 2, s = "s2", twice = 4 } },
      (support.run(frame, numbers(2))))
  end)

  it("replaces one in its place, under its new type", function()
    local frame = stream():withColumn("n", "STRING", function(row) return mt.str(row.n) end)
    assert.equal("n STRING, s STRING", tostring(frame.schema))
    assert.same({ { n = "1", s = "s1" } }, (support.run(frame, numbers(1))))
  end)

  it("names line and row of a value that does not fit", function()
    local problem = support.error_of(support.run, stream():withColumn("x", "TINYINT", function(row)
      local big = row.n * 100
      return big
    end), numbers(3))
    assert.matches("steps_spec.lua:%d+: withColumn at orders%[2%]@101: x is TINYINT, .*200 does not fit", problem)
    assert.matches(":" .. support.line() - 3 .. ": withColumn", problem, 1, true)
  end)

  it("runs over no rows", function()
    assert.same({}, support.run(stream():withColumn("x", "STRING", function() error "never" end), {}))
  end)
end)

describe("columns", function()
  local rows = { { n = 1, s = "x" } }

  it("are chosen and ordered by select", function()
    local frame = stream():select("s", "n")
    assert.same({ "s", "n" }, frame.columns)
    assert.same(rows, (support.run(frame, rows)))
    assert.same({ "n", "s" }, stream():select("*").columns)
    assert.same({ "s" }, stream():select({ "s" }).columns)
  end)

  it("are left out by drop", function()
    assert.same({ { s = "x" } }, (support.run(stream():drop("n"), rows)))
  end)

  it("are renamed by withColumnRenamed", function()
    assert.same({ { number = 1, s = "x" } }, (support.run(stream():withColumnRenamed("n", "number"), rows)))
  end)

  it("of a STRUCT are opened by select", function()
    local frame = mt.memoryStream "n INT, d STRUCT<x: INT, in: STRUCT<y: STRING>>"
    assert.equal("x INT, in STRUCT<y: STRING>, n INT", tostring(frame:select("d.*", "n").schema))
    assert.equal("y STRING, x INT", tostring(frame:select("d.in.y", "d.x").schema))
  end)
end)

describe("the columns that a source reads", function()
  local function wanted(frame) return run.wanted(frame)[1] end

  it("are those that the steps need", function()
    local frame = mt.memoryStream "a INT, b INT, c INT, d INT"
    assert.same({ "a", "b", "c", "d" }, wanted(frame))
    assert.same({ "b", "c" }, wanted(frame:select("c", "b")))
    assert.same({ "a", "c", "d" }, wanted(frame:drop("b")))
    assert.same({ "b" }, wanted(frame:withColumnRenamed("b", "x"):select("x")))
    assert.same({ "a" }, wanted(frame:withColumnRenamed("b", "x"):drop("x", "c", "d")))
  end)

  it("are all that a function of the job could read", function()
    local frame = mt.memoryStream "a INT, b INT, c INT"
    local function keep() return true end
    assert.same({ "a", "b", "c" }, wanted(frame:filter(keep):select "a"))
    assert.same({ "a", "b" }, wanted(frame:select("a", "b"):filter(keep):select "a"))
    assert.same({ "a", "b", "c" }, wanted(frame:map("x INT", function() return {} end)))
  end)

  it("run through renames and drops as if all were read", function()
    local frame = mt.memoryStream("a INT, b INT, c INT"):withColumnRenamed("b", "x"):drop("a"):select("x")
    assert.same({ { x = 2 } }, (support.run(frame, { { a = 1, b = 2, c = 3 } })))
  end)
end)

describe("a batch", function()
  it("is the same rows whatever its size", function()
    local ready = support.ready(stream():filter(function(row) return row.n % 2 == 1 end)
      :withColumn("t", "STRING", function(row) return row.s .. "!" end)
      :map("k STRING, n BIGINT", function(row) return { k = row.t, n = row.n } end))
    for _, size in ipairs { 0, 1, 2, 63, 64, 65, 1000, 5000 } do
      local back = ready(numbers(size))
      assert.equal(math.ceil(size / 2), #back)
      for i, row in ipairs(back) do assert.same({ k = "s" .. 2 * i - 1 .. "!", n = 2 * i - 1 }, row) end
    end
  end)

  it("sees math.random seeded anew", function()
    local ready = support.ready(stream():map("r DOUBLE", function() return { r = math.random() } end))
    assert.same(ready(numbers(5)), ready(numbers(5)))
  end)
end)

describe("fromJson", function()
  local function texts(...)
    local rows = {}
    for i, text in ipairs { ... } do rows[i] = { value = text, offset = i, key = "k" } end
    return rows
  end

  local function stream_of_json() return mt.memoryStream "key BINARY, value BINARY, offset BIGINT" end

  it("parses into the DDL's columns and carries the kept ones along", function()
    local frame = stream_of_json():fromJson("value", "a INT, b STRING", { keep = { "offset" } })
    assert.same({ "value", "offset" }, run.wanted(frame)[1])
    local rows, counts = support.run(frame, texts('{"a":1,"b":"x"}', '{"b":"y","c":[]}', "broken", "  "))
    assert.same({ { a = 1, b = "x", offset = 1 }, { b = "y", offset = 2 }, { offset = 3 }, { offset = 4 } }, rows)
    assert.same({ name = "fromJson", came = 4, went = 4, filtered = 0, malformed = 0 }, counts[1])
  end)

  it("keeps nothing when nothing is to be kept", function()
    assert.same({ { a = 1 }, {} }, (support.run(stream_of_json():fromJson("value", "a INT"), texts('{"a":1}', ""))))
    assert.same({}, (support.run(stream_of_json():fromJson("value", "a INT"), {})))
  end)

  it("drops malformed records with DROPMALFORMED, kept columns too, and counts them", function()
    local frame = stream_of_json():fromJson("value", "a INT", { mode = "dropMalformed", keep = { "offset" } })
    local rows, counts = support.run(frame, texts('{"a":1}', "{", '{"a":3}', "}{"))
    assert.same({ { a = 1, offset = 1 }, { a = 3, offset = 3 } }, rows)
    assert.same({ name = "fromJson", came = 4, went = 2, filtered = 0, malformed = 2 }, counts[1])
    rows = support.run(stream_of_json():fromJson("value", "a INT", { mode = "DROPMALFORMED" }), texts("{", '{"a":3}'))
    assert.same({ { a = 3 } }, rows)
  end)

  it("stops with FAILFAST, naming and quoting the record", function()
    local frame = stream_of_json():fromJson("value", "a INT", { mode = "FAILFAST" })
    local ok, problem = pcall(support.run, frame, texts('{"a":1}', '{"a":oops}'))
    assert.is_false(ok)
    assert.equal("DATA", problem.class)
    assert.equal("REJECT", problem.status)
    assert.matches("^[^:]*steps_spec.lua:%d+: fromJson: orders%[2%]@101 ", problem.text)
    assert.matches('{"a":oops}', problem.text, 1, true)
  end)

  it("keeps the text of malformed records in a column of the DDL", function()
    for name, options in pairs { _corrupt_record = {}, bad = { columnNameOfCorruptRecord = "bad" } } do
      local rows = support.run(stream_of_json():fromJson("value", "a INT, " .. name .. " STRING", options),
        texts('{"a":1}', "broken"))
      assert.same({ { a = 1 }, { [name] = "broken" } }, rows)
    end
  end)

  it("puts the fields into one STRUCT with as, opened by select and read by rows", function()
    local frame = stream_of_json():fromJson("value", "a INT, b STRING", { as = "d", keep = { "offset" } })
    local input = texts('{"a":1,"b":"x"}', "", '{"a":3}')
    assert.same({ { offset = 1, a = 1, b = "x" }, { offset = 2 }, { offset = 3, a = 3 } },
      (support.run(frame:select("offset", "d.*"), input)))
    local seen = {}
    support.run(frame:filter(function(row) seen[row.offset] = row.d and row.d.a or "null" end), input)
    assert.same({ 1, "null", 3 }, seen)
    assert.same({ { b = "x" } }, (support.run(frame:filter(function(row)
      return row.d ~= nil and row.d.b == "x"
    end):select("d.b"), input)))
  end)

  it("keeps the source's place of a row through all that", function()
    local frame = stream_of_json():fromJson("value", "a INT", { mode = "DROPMALFORMED" })
      :filter(function(row) return row.a ~= 3 or error "three" end)
    assert.matches("orders[2]@102: three",
      support.error_of(support.run, frame, texts("{", '{"a":1}', '{"a":3}')), 1, true)
  end)

  it("reads nested types, and opens what is in them", function()
    local ddl = "n INT, s STRUCT<a: ARRAY<STRUCT<x: INT>>, t: STRUCT<y: DOUBLE>>, m MAP<STRING, BIGINT>"
    local seen = {}
    local frame = stream_of_json():fromJson("value", ddl, { as = "d" })
      :select("d.n", "d.s", "d.s.t.y", "d.m"):filter(function(row)
        seen[#seen + 1] = { row.n, row.s and row.s.a and row.s.a[1] and row.s.a[1].x, row.y, row.m and row.m.k }
        return true
      end):select("n", "y")
    local rows = support.run(frame, texts(
      '{"n":1,"s":{"a":[{"x":7},null],"t":{"y":0.5}},"m":{"k":9}}', "", '{"n":2,"s":{"t":null}}', '{"n":3,"s":[]}'))
    assert.same({ { n = 1, y = 0.5 }, {}, { n = 2 }, { n = 3 } }, rows)
    assert.same({ { 1, 7, 0.5, 9 }, {}, { 2 }, { 3 } }, seen)
  end)

  it("opens every field of a STRUCT with .*", function()
    local frame = stream_of_json():fromJson("value", "s STRUCT<a: INT, b: STRING>, c INT", { as = "d" })
      :select("d.s.*", "d.c")
    assert.same({ { a = 1, b = "x", c = 2 }, { c = 3 }, {} }, (support.run(frame,
      texts('{"s":{"a":1,"b":"x"},"c":2}', '{"c":3}', " "))))
  end)

  it("refuses a MAP whose keys are no STRING where it is declared", function()
    local problem = support.error_of(function() stream_of_json():fromJson("value", "m MAP<INT, INT>") end)
    assert.matches("steps_spec.lua:" .. support.line() - 1
      .. ': fromJson: field "m" is MAP<INT, INT>, but JSON has only STRING as the key type of a MAP', problem, 1, true)
  end)
end)
