-- SPDX-License-Identifier: Apache-2.0
local mt = require "moontide"
local support = require "spec.support"
local jitwatch = require "moontide.rows.jitwatch"
local util = require "jit.util"

local function rows(n)
  local list = {}
  for i = 1, n do list[i] = { n = i, s = "s" .. i, amount = i % 3 ~= 0 and i / 2 or nil } end
  return list
end

local function stream() return mt.memoryStream "n INT, s STRING, amount DOUBLE" end

-- Runs fn over one batch of n rows; gives what fn returned.
local function over(n, fn)
  local result
  support.foreach(stream(), function(...) result = fn(...) end)(rows(n))
  return result
end

-- The error of the same.
local function error_over(n, fn)
  return support.error_of(over, n, fn)
end

local function numbers(frame)
  local list = {}
  for i, row in ipairs(frame:collect()) do list[i] = row.n end
  return list
end

describe("a batch of foreachBatch", function()
  it("says what rows is for when it is called by hand, and shows a table that was raised", function()
    assert.matches("batch:rows%(%) is for a loop: .*batch:collect", error_over(1, function(batch)
      local next_row = batch:rows()
      next_row()
    end))
    assert.matches("foreachBatch, batch 17: { code = 1 }$", error_over(1, function() error { code = 1 } end))
  end)

  it("knows its id, its time and what it read", function()
    over(4, function(batch, id)
      assert.equal(17, id)
      assert.equal(17, batch.id)
      assert.equal(1760000000123456, batch.time)
      assert.equal(batch.time, mt.now())
      assert.same({
        { topic = "orders", partition = 2, fromOffset = 100, untilOffset = 104 },
        { topic = "orders", partition = 10, fromOffset = 0, untilOffset = 7 },
      }, batch:offsetRanges())
    end)
    assert.is_true(math.abs(mt.now() / 1e6 - os.time()) < 5)
  end)

  it("has the frame's columns, behind its steps", function()
    support.foreach(stream():filter(function(row) return row.n > 2 end):drop "s", function(batch)
      assert.same({ "n", "amount" }, batch.columns)
      assert.equal("n INT, amount DOUBLE", tostring(batch.schema))
      assert.is_false(batch.isStreaming)
      assert.equal(3, batch:count())
      assert.same({ { n = 3 }, { n = 4, amount = 2 }, { n = 5, amount = 2.5 } }, batch:collect())
    end)(rows(5))
  end)

  it("runs each step once, when it is called", function()
    local called = 0
    over(10, function(batch)
      local kept = batch:filter(function(row)
        called = called + 1
        return row.n > 4
      end)
      assert.equal(10, called)
      local twice = kept:map("n INT", function(row) return { n = row.n * 2 } end)
        :withColumn("t", "STRING", function(row) return "t" .. row.n end)
      assert.same({ n = 10, t = "t10" }, twice:collect()[1])
      assert.same({ "t", "m" }, twice:select("t", "n"):withColumnRenamed("n", "m").columns)
      assert.equal(6, kept:count() + kept:cache():persist():where(function() return false end):count())
      assert.equal(10, called)
      assert.equal(10, batch:count())
    end)
  end)

  it("reads JSON", function()
    local lines = mt.memoryStream "value STRING"
    support.foreach(lines, function(batch)
      local parsed = batch:fromJson("value", "a INT, _corrupt_record STRING")
      assert.same({ { a = 1 }, { _corrupt_record = "{" } }, parsed:collect())
    end) { { value = '{"a": 1}' }, { value = "{" } }
  end)

  it("is split in two, its function called once a row; false and nil go right", function()
    local called = 0
    over(7, function(batch)
      local left, right = batch:split(function(row)
        called = called + 1
        if row.n % 2 == 0 then return true end
        if row.n > 3 then return false end
      end)
      assert.same({ 2, 4, 6 }, numbers(left))
      assert.same({ 1, 3, 5, 7 }, numbers(right))
      assert.equal(7, called)
      local all, none = batch:split(function() return true end)
      assert.equal(7, all:count())
      assert.same({}, none:collect())
    end)
    assert.matches("split at orders[2]@101: the function returned the number 2; true puts the row left, false and nil "
      .. "right", error_over(3, function(batch) batch:split(function(row) return row.n == 1 or row.n end) end), 1, true)
  end)

  it("is cut by limit and put together by union", function()
    over(5, function(batch)
      assert.same({ 1, 2 }, numbers(batch:limit(2)))
      assert.same({}, numbers(batch:limit(0)))
      assert.equal(5, batch:limit(99):count())
      local odd, even = batch:split(function(row) return row.n % 2 == 1 end)
      assert.same({ 2, 4, 1, 3, 5 }, numbers(even:union(odd)))
      assert.same({ "n", "s", "amount" }, batch:union(batch:map("x INT, y STRING, z DOUBLE", function(row)
        return { x = -row.n, y = row.s }
      end)).columns)
      assert.matches("filter at orders[2]@102: third", support.error_of(function()
        even:union(odd):filter(function(row) return row.n ~= 3 or error "third" end)
      end), 1, true)
    end)
    for words, bad in pairs {
      ["3 columns %(n INT, s STRING, amount DOUBLE%) and 1 columns %(n INT%)"] = { "n" },
      ["column 1 is n INT here and s STRING there"] = { "s", "n", "amount" },
    } do
      assert.matches(words, error_over(1, function(batch) batch:union(batch:select(bad)) end))
    end
    assert.matches("union takes another frame", error_over(1, function(batch) batch:union(stream()) end))
    assert.matches("limit takes a whole number of rows, not %-1", error_over(1, function(batch) batch:limit(-1) end))
  end)

  it("is walked row by row, loops within loops too", function()
    over(6, function(batch)
      local seen, pairs_seen, before = {}, 0, nil
      for row in batch:rows() do
        if before then
          assert.matches("turn is over: n cannot be read", support.error_of(function() return before.n end))
        end
        before = row
        seen[#seen + 1] = mt.totable(row)
        for other in batch:rows() do
          if row.n == other.n then pairs_seen = pairs_seen + 1 end
          if other.n == 3 then break end
        end
      end
      assert.same(rows(6), seen)
      assert.equal(3, pairs_seen)
      for _ in batch:filter(function() return false end):rows() do error "none" end
    end)
  end)

  it("has columns that read as arrays, nulls as nil", function()
    local wide = mt.memoryStream [[n INT, b BIGINT, d DECIMAL(9,2), ok BOOLEAN, day DATE, a ARRAY<INT>,
      st STRUCT<x: INT>]]
    support.foreach(wide, function(batch)
      local b, d, ok, day, a, st = batch:column "b", batch:column "d", batch:column "ok", batch:column "day",
        batch:column "a", batch:column "st"
      assert.equal(3, #b)
      assert.equal("9007199254740993", mt.str(b[1]))
      assert.equal(5, b[2])
      assert.is_nil(b[3])
      assert.equal("1.50", tostring(d[1]))
      assert.is_true(ok[1])
      assert.is_false(ok[2])
      assert.equal("2026-11-30", day[1])
      assert.equal(2, mt.len(a[1]))
      local one, two = st[1], st[2]
      assert.same({ 7, 8 }, { one.x, two.x })
      assert.matches('column "b" has rows 1 to 3, and no 4', support.error_of(function() return b[4] end))
      for _, i in ipairs { 0, -1, 1.5, 2 ^ 40, "x" } do
        assert.matches("and no", support.error_of(function() return b[i] end))
      end
      assert.matches('column "b" is read%-only', support.error_of(function() b[1] = 2 end))
      assert.matches('column: there is no column "c"; there are: n, b, d,', support.error_of(batch.column, batch, "c"))
    end) {
      { n = 1, b = 9007199254740993LL, d = "1.5", ok = true, day = "2026-11-30", a = { 1, 2 }, st = { x = 7 } },
      { n = 2, b = 5, ok = false, st = { x = 8 } }, { n = 3 },
    }
  end)

  it("is shown as the console shows it", function()
    local shown = {}
    over(3, function(batch)
      rawset(_G, "print", function(text) shown[#shown + 1] = text end)
      local ok, problem = pcall(batch.show, batch, 2)
      rawset(_G, "print", print)
      assert(ok, problem)
    end)
    assert.same({ "+---+---+------+\n|  n|  s|amount|\n+---+---+------+\n|  1| s1|   0.5|\n|  2| s2|   1.0|\n"
      .. "+---+---+------+", "only showing top 2 rows" }, shown)
  end)

  it("refuses names that are none, as every frame does", function()
    for words, fn in pairs {
      ['DataFrame has no "conut"; did you mean "count"%?'] = function(batch) return batch.conut end,
      ["count is called with a colon"] = function(batch) return batch.count() end,
      ["groupBy is known in Spark, not here yet"] = function(batch) return batch.groupBy end,
      ["take is known in Spark, not here yet"] = function(batch) return batch:take(1) end,
      ["'writeStream' can be called only on streaming"] = function(batch) return batch.writeStream end,
      ["a frame is changed by its methods"] = function(batch) batch.columns = {} end,
      ['select: there is no column "x"'] = function(batch) batch:select "x" end,
      ["split takes a function of the row, not nil"] = function(batch) batch:split() end,
    } do
      assert.matches(words, error_over(1, fn))
    end
  end)
end)

describe("what foreachBatch handed out", function()
  it("is an error when its batch is over, and says which", function()
    local kept = {}
    local run = support.foreach(stream(), function(batch, _, state)
      if kept.batch then
        for what, use in pairs {
          ["a frame of it was asked for count"] = function() return kept.batch:count() end,
          ["a frame of it was asked for columns"] = function() return kept.filtered.columns end,
          ["a frame of it was asked for union"] = function() return batch:union(kept.batch) end,
          ["a frame of it was asked for save"] = function() kept.writer:save() end,
          ["a column of it was asked for value 1"] = function() return kept.column[1] end,
          ["a column of it was asked for its length"] = function() return #kept.column end,
          ["a loop over rows of it was asked for the next row"] = function() return kept.next(kept.walk) end,
          ["the state of it was asked for get"] = function() return kept.state:get "x" end,
          ["the state of it was asked for pairs"] = function() return kept.pairs() end,
          ["turn is over: n cannot be read"] = function() return kept.row.n end,
        } do
          local fresh = batch:column "n"
          assert.equal(1, fresh[1])
          local next_row, walk = batch:rows()
          assert.is_true(next_row(walk).n > 0)
          local words = support.error_of(use)
          assert.matches(what, words)
          if not what:find "turn" then assert.matches("batch 17 is over", words) end
        end
        return
      end
      kept.batch, kept.filtered, kept.state = batch, batch:filter(function() return true end), state
      kept.column, kept.writer = batch:column "n", batch.write:format "noop"
      kept.next, kept.walk = batch:rows()
      kept.pairs = state:pairs()
      kept.row = kept.next(kept.walk)
    end)
    run(rows(2))
    run(rows(2))
    assert.equal(2, #rows(2))
  end)

  it("is released when the function returns, and when it fails", function()
    for _, fails in ipairs { false, true } do
      local kept
      pcall(support.foreach(stream(), function(batch)
        kept = batch:filter(function(row) return row.n > 1 end)
        if fails then error "on purpose" end
      end), rows(3))
      assert.is_true(rawget(kept, "_batch").array.release == nil)
    end
  end)
end)

describe("a state that cannot be read", function()
  local states = require "moontide.batch.state"

  -- A foreachBatch whose state finds every key too short to look up.
  local function over_broken(fn)
    local native = states.native
    states.native = function(state, doom)
      local store = native(state, doom)
      local get = store.get
      store.get = function(key) return get(key, 0) end
      return store
    end
    local problem = support.error_of(support.foreach(mt.memoryStream "n INT", fn), { { n = 1 } })
    states.native = native
    return problem
  end

  it("fails the batch at the line that read, whatever the function makes of the error", function()
    local line = support.line() + 2
    local problem = over_broken(function(_, _, state)
      pcall(state.get, state, "k")
    end)
    assert.matches(("foreach_spec.lua:%d: state: "):format(line), problem, 1, true)
    assert.equal(problem, over_broken(function(_, _, state)
      assert(pcall(state.get, state, "k"), "another one")
    end):gsub(":%d+:", (":%d:"):format(line), 1))
  end)

  it("lets no save begin after that", function()
    local saved
    over_broken(function(batch, _, state)
      pcall(state.get, state, "k")
      saved = pcall(function() batch.write:format "noop":save() end)
    end)
    assert.is_false(saved)
  end)
end)

describe("an error in foreachBatch", function()
  it("of the function itself names its line and the batch", function()
    local text = error_over(2, function()
      error "no such luck"
    end)
    local words = ("foreach_spec.lua:%d: foreachBatch, batch 17: no such luck"):format(support.line() - 2)
    assert.matches(words, text, 1, true)
    text = error_over(2, function(batch)
      batch:select "x"
    end)
    assert.matches(("foreach_spec.lua:%d: foreachBatch, batch 17: select: there is no column"):format(
      support.line() - 3), text, 1, true)
  end)

  it("that comes without its place stands at the function", function()
    local sulks = setmetatable({}, { __tostring = function() error "no words" end })
    local text = error_over(2, function() error(sulks) end)
    local words = text:match "^spec/foreach_spec%.lua:%d+: foreachBatch, batch 17: (.*)$"
    assert.is_true(words == "error in error handling" or words == "no words", text) -- the latter from machine code
    local function deeper() return 1 + deeper() end
    text = error_over(2, function() deeper() end)
    assert.matches("foreachBatch, batch 17: stack overflow", text, 1, true)
  end)

  it("of a row function has the words of every row function", function()
    assert.matches(("foreach_spec.lua:%d: filter at orders[2]@102: amount is null here; write (row.amount or 0) > 0")
      :format(support.line()), error_over(5, function(batch) batch:filter(function(row) return row.amount > 0 end) end),
      1, true)
    local data = error_over(5, function(batch)
      batch:withColumn("t", "TINYINT", function(row) return row.n * 100 end)
    end)
    assert.matches("withColumn at orders[2]@101: t is TINYINT", data, 1, true)
  end)

  it("about a null in a loop over rows names the row and the cure", function()
    assert.matches(("foreach_spec.lua:%d: foreachBatch, batch 17 at orders[2]@102: amount is null here; write "
      .. "(row.amount or 0)"):format(support.line() + 3), error_over(5, function(batch)
      local sum = 0
      for row in batch:rows() do
        sum = sum + row.amount
      end
    end), 1, true)
  end)

  it("may be caught, and the batch goes on", function()
    assert.equal(3, over(3, function(batch)
      local ok, problem = pcall(batch.filter, batch, function() error "on purpose" end)
      assert.is_false(ok)
      assert.matches("filter at orders[2]@100: on purpose", tostring(problem), 1, true)
      return batch:filter(function() return true end):count()
    end))
  end)
end)

describe("steps called anew in each batch", function()
  it("are made once, whatever closures they are given", function()
    local compiled = 0
    local run = support.foreach(stream(), function(batch, id)
      local mine = id - 16
      local kept = batch:filter(function(row) return row.n > mine end)
      assert.equal(6 - mine, kept:count())
      assert.equal(12 - mine, batch:filter(function(row) return row.n > mine end):union(batch):count())
      kept:map("m INT", function(row) return { m = row.n + mine } end):select "m"
      local sum, column = 0, batch:column "n"
      for i = 1, #column do sum = sum + column[i] end
      assert.equal(21, sum)
      batch:split(function(row) return row.n > mine end)
    end)
    run(rows(6))
    local real = loadstring
    rawset(_G, "loadstring", function(...)
      compiled = compiled + (select(2, ...) == "=moontide addData" and 0 or 1) -- those make the input
      return real(...)
    end)
    local ok, problem = pcall(function()
      for _ = 2, 6 do run(rows(6)) end
    end)
    rawset(_G, "loadstring", real)
    assert(ok, problem)
    assert.equal(0, compiled)
  end)

  it("may stand inside a row function of the same step", function()
    over(3, function(batch)
      local function deep(frame, level)
        return frame:filter(function(row)
          return level == 0 or deep(frame, level - 1):count() == row.n
        end)
      end
      assert.same({ 3 }, numbers(deep(batch, 1)))
      assert.equal(1, deep(batch, 1):count())
    end)
  end)

  it("run as machine code, loops over rows and columns too", function()
    local function traces(run)
      local sources = {}
      local function watch(what, _, func, pc)
        local source = what == "start" and util.funcinfo(func, pc).source or ""
        if source:find "foreach_spec" or source:find "^=moontide [^a]" then sources[#sources + 1] = source end
      end
      jit.attach(watch, "trace")
      run()
      jit.attach(watch)
      jitwatch.attach()
      return #sources
    end
    local sums = {}
    local run = support.foreach(stream(), function(batch)
      local sum = 0
      for row in batch:rows() do sum = sum + row.n end
      local column = batch:column "n"
      for i = 1, #column do sum = sum + column[i] end
      sums[#sums + 1] = sum + batch:filter(function(row) return row.n % 2 == 0 end):count()
    end)
    local many = rows(20000)
    local turns, made = 0
    repeat -- which exits of a trace get hot when is for the JIT to say; in the end none do
      made, turns = traces(function() run(many) end), turns + 1
    until made == 0 or turns == 20
    assert.equal(0, made)
    assert.equal(sums[1], sums[#sums])
  end)
end)

describe("a writer of a batch", function()
  local function problem_of(fn)
    return error_over(1, function(batch) fn(batch.write, batch) end)
  end

  it("shares the names and refusals of every writer", function()
    for words, fn in pairs {
      ['DataFrameWriter has no "sav"; did you mean "save"%?'] = function(w) w:sav() end,
      ["saveAsTable is known in Spark, not here yet"] = function(w) w:saveAsTable "t" end,
      ["insertInto is known in Spark, not here yet"] = function(w) w:insertInto "t" end,
      ['partitionBy: there is no column "x"'] = function(w) w:partitionBy "x" end,
      ["checkpointLocation is the query's"] = function(w) w:option("checkpointLocation", "c") end,
      ['option "path" is empty'] = function(w) w:option("path", "") end,
      ["the path is given twice"] = function(w) w:option("path", "a"):save "b" end,
      ["save is called with a colon"] = function(w) w.save() end,
      ["save: the path is empty"] = function(w) w:save "" end,
    } do
      assert.matches(words, problem_of(fn))
    end
  end)

  it("appends, and says why not another mode", function()
    for mode, words in pairs { overwrite = "take away what earlier batches wrote", ignore = "the first batch alone",
      error = "from the second batch on", ErrorIfExists = "from the second batch on", upsert = "for databases" } do
      assert.matches(words, problem_of(function(w) w:mode(mode):save() end))
    end
    assert.matches('unknown mode "apend"; did you mean "append"%?', problem_of(function(w) w:mode "apend" end))
    over(1, function(batch) batch.write:format "noop":mode "append" end)
  end)
end)

describe("foreachBatch at writeStream", function()
  local function load_error(text)
    return support.load_error("local mt = require 'moontide'\nlocal s = mt.memoryStream 'n INT'\nreturn s.writeStream\n"
      .. text)
  end

  it("needs a checkpoint and takes no sink of its own", function()
    for text, words in pairs {
      [":foreachBatch(function() end)"] = "4: foreachBatch needs a checkpoint",
      [":foreachBatch(1)"] = "4: foreachBatch takes a function of the batch, its id and the state, not a number",
      [":format 'noop'\n:foreachBatch(print)"] = "5: foreachBatch says itself where rows go: leave :format away",
      [":foreachBatch(print)\n:partitionBy 'n'"] = "5: foreachBatch says itself where rows go: leave :partitionBy away",
      [":foreachBatch(print)\n:name 'n'"] = "leave :name away",
      [":foreachBatch(print)\n:foreachBatch(print)"] = "foreachBatch is given twice",
      [":foreachBatch(print)\n:option('path', 'x')"] = '5: option "path" is one of a sink',
    } do
      assert.matches(words, load_error(text), 1, true)
    end
  end)

  it("is a plan without a sink, whose shape says so", function()
    local plan = support.load("return require 'moontide'.memoryStream('n INT').writeStream\n"
      .. ":foreachBatch(function() end):option('checkpointLocation', 'c')")
    assert.is_nil(plan.sink)
    assert.matches('"sink":{"identity":"foreachBatch"}', plan.shape, 1, true)
    support.free(plan)
    plan = support.load "return require 'moontide'.memoryStream('n INT'):select('n').writeStream:format 'noop'"
    assert.matches('"sink":{"columns":"n INT","identity":"noop","partitionBy":[]},"sources":[{"format":"memory",',
      plan.shape, 1, true)
    support.free(plan)
  end)
end)
