-- SPDX-License-Identifier: Apache-2.0
local mt = require "moontide"
local support = require "spec.support"

local DDL = "order_id BIGINT, event STRING, amount DOUBLE, day DATE, `end` INT, ok BOOLEAN"

local function orders()
  return mt.memoryStream(DDL)
end

-- The error of a filter over one row.
local function error_with(row, fn)
  return support.error_of(support.run, orders():filter(fn), { row })
end

describe("a row", function()
  it("is read by name, also by a keyword's", function()
    local seen
    support.run(orders():filter(function(row)
      seen = { row.order_id, row.event, row.amount, row.day, row["end"], row.ok }
    end), { { order_id = 1, event = "view", amount = 0.5, day = "2026-05-01", ["end"] = 7, ok = true } })
    assert.same({ 1, "view", 0.5, "2026-05-01", 7, true }, seen)
  end)

  it("names an unknown column at the script's line", function()
    local problem = error_with({}, function(row) return row.amout end)
    assert.matches('rows_spec.lua:%d+: filter at orders%[2%]@100: no column "amout"; did you mean "amount"%?',
      problem)
    assert.matches(":" .. support.line() - 3 .. ":", problem, 1, true)
  end)

  it("lists the columns when none is near", function()
    assert.matches('no column "customer"; there are: order_id, event', error_with({}, function(row)
      return row.customer
    end))
  end)

  it("refuses to be written", function()
    assert.matches("a row is read%-only: amount cannot be set", error_with({}, function(row) row.amount = 1 end))
  end)

  it("prints itself", function()
    local text
    support.run(orders():filter(function(row) text = tostring(row) end),
      { { order_id = 9007199254740993LL, event = 'a "b"\n', amount = 69.01 } })
    assert.equal('{ order_id = 9007199254740993, event = "a \\"b\\"\\x0a", amount = 69.01, day = null, '
      .. "end = null, ok = null }", text)
  end)

  it("refuses to be read after its turn", function()
    local kept
    local run = support.ready(orders():filter(function(row) kept = row return true end))
    run { { order_id = 1 } }
    assert.matches("this row's turn is over: order_id cannot be read; keep mt.totable%(row%)",
      support.error_of(function() return kept.order_id end))
    run { { order_id = 2 } }
    assert.matches("turn is over", support.error_of(function() return kept.order_id end))
    assert.equal("row (its turn is over)", tostring(kept))
  end)

  it("of another function's loop is over too, also after an error", function()
    local kept
    local frame = orders():filter(function(row) kept = row error "no" end)
    support.error_of(support.run, frame, { { order_id = 1 } })
    assert.matches("turn is over", support.error_of(function() return kept.order_id end))
  end)

  local function two(fn, ddl)
    local frame = (ddl and mt.memoryStream(ddl) or orders()):filter(fn)
    return support.error_of(support.run, frame, { { order_id = 1, d = { x = 1 } }, { order_id = 2, d = { x = 2 } } })
  end

  it("refuses to be read in another row's turn, wherever it was kept", function()
    local kept, list = nil, {}
    local function keep(row) kept = kept or row end
    local ways = {
      function(row) kept = kept or row return kept.order_id == 1 end,
      function(row) list[#list + 1] = row return list[1].order_id == 1 end,
      function(row) list.first = list.first or row return list.first.order_id == 1 end,
      function(row) keep(row) return kept.order_id == 1 end,
      function(row) kept = kept or { row } return kept[1].order_id == 1 end,
      function(row) kept = kept or function() return row.order_id end return kept() == 1 end,
      function(row) local r = row kept = kept or r return kept.order_id == 1 end,
      function(...) kept = kept or (...) return kept.order_id == 1 end,
    }
    for i, way in ipairs(ways) do
      kept, list = nil, {}
      local problem = two(way)
      assert.matches("@101: this row's turn is over: order_id cannot be read", problem, 1, true, "way " .. i)
    end
  end)

  it("that a map returned late is refused too", function()
    local kept
    local frame = orders():map("order_id BIGINT", function(row)
      kept = kept or row
      return kept
    end)
    assert.matches("@101: this row's turn is over: order_id",
      support.error_of(support.run, frame, { { order_id = 1 }, { order_id = 2 } }), 1, true)
  end)

  it("is not read after an error, not even in the next batch", function()
    local kept
    local run = support.ready(orders():filter(function(row)
      kept = kept or row
      return kept.order_id > 0 and error "no"
    end))
    for _ = 1, 2 do
      support.error_of(run, { { order_id = 1 } })
      assert.matches("turn is over", support.error_of(function() return kept.order_id end))
    end
  end)

  it("is walked by mt.fields in the order of the schema, nulls too", function()
    local names, values = {}, {}
    support.run(orders():filter(function(row)
      for name, v in mt.fields(row) do
        names[#names + 1] = name
        values[name] = v
      end
    end), { { order_id = 5, ok = false } })
    assert.same({ "order_id", "event", "amount", "day", "end", "ok" }, names)
    assert.same({ order_id = 5, ok = false }, values)
  end)

  it("is copied by mt.totable", function()
    local copies = {}
    support.run(orders():filter(function(row) copies[#copies + 1] = mt.totable(row) end),
      { { order_id = 1, event = "a" }, { order_id = 2 } })
    assert.same({ { order_id = 1, event = "a" }, { order_id = 2 } }, copies)
  end)

  it("stays itself for pairs, next and ipairs of a job, which would see nothing", function()
    support.with_globals(function()
      require("moontide.declare.job").install()
      for name, walk in pairs { pairs = pairs, next = next, ipairs = ipairs } do
        assert.matches(name .. " does not see into a row; use mt.fields%(row%)",
          error_with({}, function(row) return walk(row) end))
      end
    end)
  end)

  it("sees nulls of one batch and none of the next", function()
    local run = support.ready(orders():filter(function(row) return (row.amount or -1) > 0 end))
    assert.equal(1, #run { { amount = 1 }, {} })
    assert.equal(2, #run { { amount = 1 }, { amount = 2 } })
    assert.equal(0, #run { {}, {} })
    assert.equal(0, #run {})
  end)
end)

describe("computing with a null", function()
  local cases = {
    { "a comparison", function(row) return row.amount > 0 end, "amount is null here; write (row.amount or 0) > 0" },
    { "a sum", function(row) return row.amount + 1 > 0 end, "amount is null here; write (row.amount or 0)" },
    { "a concatenation", function(row) return row.event .. "x" end, 'event is null here; write (row.event or "")' },
    { "a method", function(row) return row.event:upper() == "X" end,
      'event is null here; write (row.event or ""):upper()' },
    { "a length", function(row) return #row.event > 0 end, 'event is null here; write #(row.event or "") > 0' },
    { "a library function", function(row) return math.floor(row.amount) end,
      "amount is null here; write (row.amount or 0)" },
  }
  for _, case in ipairs(cases) do
    it("names the column and the cure in " .. case[1], function()
      local problem = error_with({}, case[2])
      assert.matches(case[3], problem, 1, true)
      assert.matches("orders[2]@100", problem, 1, true)
    end)
  end

  it("lists the row's null columns when the line does not tell which", function()
    local problem = error_with({ event = "x", ok = true }, function(row)
      local a = row.amount
      return a > 0
    end)
    assert.matches("attempt to compare .*; null in this row: order_id, amount, day, end", problem)
  end)

  it("says nothing of nulls when the nil is a global", function()
    assert.matches("global 'nothing_of_that_name' %(a nil value%)$", error_with({}, function()
      return nothing_of_that_name.x -- luacheck: ignore
    end))
  end)

  it("says nothing of nulls when the nil is another's", function()
    local nothing = {}
    local problem = error_with({}, function() return nothing.total + 1 end)
    assert.matches("attempt to perform arithmetic on field 'total' %(a nil value%)$", problem)
  end)
end)

describe("nested values of a row", function()
  local core = require "moontide._core"
  local loops = require "moontide.rows.loops"
  local schemas = require "moontide.schema"
  local C = core.C

  local schema = assert(schemas.parse [[n INT, d STRUCT<x: BIGINT, name: STRING, in: STRUCT<y: DOUBLE>>,
    headers ARRAY<STRUCT<key: STRING, value: BINARY>>, m MAP<STRING, INT>]])

  -- Two rows: one whole, one null all over but n.
  local function batch()
    local err = core.err
    local columns = core.new "struct mt_column[4]"
    for i, field in ipairs(schema.fields) do C.mt_column_init(columns + (i - 1), field.c) end
    local function text(column, v) assert(C.mt_column_add_bytes(column, v, #v, err) == 0) end
    C.mt_column_add_int(columns[0], 1, err)
    C.mt_column_add_int(columns[0], 2, err)
    local d = columns[1]
    C.mt_column_add_int(d.children[0], 9007199254740993LL, err)
    text(d.children[1], "inner")
    C.mt_column_add_double(d.children[2].children[0], 0.5, err)
    C.mt_column_close_row(d.children[2], err)
    C.mt_column_close_row(d, err)
    C.mt_column_add_null(d, err)
    local entry = columns[2].children[0]
    text(entry.children[0], "k1")
    text(entry.children[1], "v1")
    C.mt_column_close_row(entry, err)
    text(entry.children[0], "k2")
    C.mt_column_add_null(entry.children[1], err)
    C.mt_column_close_row(entry, err)
    C.mt_column_close_row(columns[2], err)
    C.mt_column_add_null(columns[2], err)
    local pair = columns[3].children[0]
    text(pair.children[0], "one")
    C.mt_column_add_int(pair.children[1], 1, err)
    C.mt_column_close_row(pair, err)
    C.mt_column_close_row(columns[3], err)
    C.mt_column_add_null(columns[3], err)
    local arrays = core.new "struct ArrowArray[4]"
    for i = 0, 3 do
      C.mt_column_finish(columns + i, arrays + i)
      C.mt_column_deinit(columns + i)
    end
    local one = require("moontide.batch.ops").batch()
    one.schema = schema.c
    C.mt_array_struct(arrays, 4, 2, one.array)
    return one
  end

  local function each(fn)
    local loop = loops.filter(schema, fn)
    local ok, problem = pcall(loop.run, batch(), fn, core.new "int32_t[2]")
    loop.rest()
    if not ok then error(problem, 0) end
  end

  it("are views for STRUCT", function()
    local seen = {}
    each(function(row)
      seen[row.n] = row.d == nil and "null" or { mt.str(row.d.x), row.d.name, row.d["in"].y }
    end)
    assert.same({ { "9007199254740993", "inner", 0.5 }, "null" }, seen)
  end)

  it("name an unknown field of a STRUCT", function()
    assert.matches('no column "nme"; did you mean "name"%?', support.error_of(each, function(row)
      return row.n == 1 and row.d.nme
    end))
  end)

  it("are copied with the row", function()
    local copy
    each(function(row) copy = row.n == 1 and mt.totable(row) or copy end)
    assert.equal("inner", copy.d.name)
    assert.equal(0.5, copy.d["in"].y)
  end)

  it("are lists for ARRAY, of which mt.items and mt.len see nulls", function()
    local seen = {}
    each(function(row)
      if row.headers then
        for i, header in mt.items(row.headers) do seen[i] = { header.key, header.value or "null" } end
        seen.n, seen.plain = mt.len(row.headers), #row.headers
      end
    end)
    assert.same({ { "k1", "v1" }, { "k2", "null" }, n = 2, plain = 2 }, seen)
  end)

  it("are read by key for MAP", function()
    local seen
    each(function(row)
      if row.m then
        for k, v in mt.fields(row.m) do seen = { row.m.one, k, v } end
      end
    end)
    assert.same({ 1, "one", 1 }, seen)
  end)
end)

describe("mt.with", function()
  local NESTED = "n INT, amount DOUBLE, d STRUCT<x: BIGINT, t: STRING>, l ARRAY<STRUCT<a: INT, b: INT>>"

  local function with(fn)
    local rows = { { n = 1, amount = 0.5, d = { x = 7, t = "t" }, l = { { a = 1, b = 2 } } }, { n = 2 } }
    return support.run(mt.memoryStream(NESTED):map(NESTED, fn), rows)
  end

  it("is the row with other values in some columns", function()
    local rows = with(function(row)
      if row.n == 1 then return mt.with(row, { amount = mt.null }) end
      return mt.with(row, { amount = 3, d = { x = 1 } })
    end)
    assert.same({ 1, 2 }, { rows[1].n, rows[2].n })
    assert.is_nil(rows[1].amount)
    assert.equal(3, rows[2].amount)
    assert.equal("t", rows[1].d.t)
    assert.equal(1, rows[2].d.x)
    assert.equal(2, rows[1].l[1].b)
  end)

  it("changes a STRUCT of a row, and one in a list", function()
    local rows = with(function(row)
      if not row.d then return row end
      return mt.with(row, { d = mt.with(row.d, { t = "new" }), l = { mt.with(row.l[1], { b = 5 }) } })
    end)
    assert.equal(7, rows[1].d.x)
    assert.equal("new", rows[1].d.t)
    assert.same({ 1, 5 }, { rows[1].l[1].a, rows[1].l[1].b })
  end)

  it("refuses a name that is no column, what is no row, and what are no changes", function()
    assert.matches('the result has no column "amout"; did you mean "amount"?',
      support.error_of(with, function(row) return mt.with(row, { amout = 1 }) end), 1, true)
    assert.matches("mt.with takes a row", support.error_of(mt.with, {}, {}))
    assert.matches("mt.with takes a table of what changes",
      support.error_of(with, function(row) return mt.with(row) end))
  end)

  it("prints itself, and is copied and walked as a row is", function()
    local text, copy, names = nil, nil, {}
    with(function(row)
      local other = mt.with(row, { amount = 9 })
      if row.n == 1 then
        text, copy = tostring(other), mt.totable(other)
        for name in mt.fields(other) do names[#names + 1] = name end
      end
      return other
    end)
    assert.equal('{ n = 1, amount = 9, d = { x = 7, t = "t" }, l = { { a = 1, b = 2 } } }', text)
    assert.same({ n = 1, amount = 9, d = { x = 7, t = "t" }, l = { { a = 1, b = 2 } } }, copy)
    assert.same({ "n", "amount", "d", "l" }, names)
  end)
end)

describe("mt.str", function()
  it("writes nested values of a row and tables whole", function()
    local texts = {}
    support.run(mt.memoryStream "l ARRAY<BIGINT>, m MAP<STRING, DECIMAL(5,2)>, s STRUCT<a: STRING>":filter(function(row)
      texts = { mt.str(row.l), mt.str(row.m), mt.str(row.s), tostring(row) }
    end), { { l = { 9007199254740993LL, mt.null }, m = { ["a b"] = "1.5", c = mt.null }, s = { a = "q\"" } } })
    assert.same({ "{ 9007199254740993, null }", '{ ["a b"] = 1.50, c = null }', '{ a = "q\\"" }',
      '{ l = { 9007199254740993, null }, m = { ["a b"] = 1.50, c = null }, s = { a = "q\\"" } }' }, texts)
    assert.equal('{ 1, "x", [-1] = 0, a = { b = true } }', mt.str { 1, "x", a = { b = true }, [-1] = 0 })
    assert.equal("text", mt.str "text")
    assert.equal("{}", mt.str {})
  end)
end)

describe("a list of a row", function()
  it("refuses what would be lost, and says how to change a copy", function()
    local stream = mt.memoryStream "l ARRAY<INT>"
    local problem = support.error_of(support.run, stream:filter(function(row) row.l[3] = 1 end), { { l = { 1, 2 } } })
    assert.matches("a value of a row is read%-only: %[3%] cannot be set; mt.totable%(value%)", problem)
    local copy
    support.run(stream:filter(function(row) copy = mt.totable(row.l) end), { { l = { 1, mt.null } } })
    copy[3] = 5
    assert.equal(2, mt.len(copy)) -- a list with nulls keeps its length
  end)
end)

describe("columns that mt.with leaves alone", function()
  local core = require "moontide._core"
  local ops = require "moontide.batch.ops"
  local schemas = require "moontide.schema"
  local FLAT = "n INT, s STRING, t STRING, x DOUBLE"
  local schema = assert(schemas.parse(FLAT))

  -- What is read in C is built.
  local function moves() return require("moontide.rows.loops").small_batch <= 500 end

  -- Runs map over n rows; the result's rows and whether s, t, x and n are the row's own columns.
  local function map(out_ddl, n, fn)
    local list = {}
    for i = 1, n do list[i] = { n = i, s = "s" .. i, t = i % 3 > 0 and "t" .. i or nil, x = i / 2 } end
    local batch = support.batch(schema, list)
    local out = assert(schemas.parse(out_ddl))
    local step = { kind = "map", fn = fn }
    local made = ops.of(step, schema, out)(batch, nil, {})
    local moved = {}
    for _, field in ipairs(out.fields) do
      local from = schema.by_name[field.name]
      moved[field.name] = from and made.array.children[field.index].buffers[1]
        == batch.array.children[from.index].buffers[1] or false
    end
    local back = support.rows_of(made, out)
    core.C.mt_batch_release(made)
    return back, moved, list
  end

  it("are moved, not rebuilt", function()
    local back, moved, list = map(FLAT, 1000, function(row)
      if row.n % 10 == 0 then return row end
      return mt.with(row, { x = row.n * 2, t = row.n % 7 == 0 and mt.null or nil })
    end)
    if moves() then assert.same({ n = true, s = true, t = false, x = false }, moved) end
    for i, row in ipairs(back) do
      local old = list[i]
      assert.equal(old.s, row.s)
      assert.equal(i % 10 == 0 and old.x or i * 2, row.x)
      if i % 7 == 0 and i % 10 ~= 0 then assert.is_nil(row.t) else assert.equal(old.t, row.t) end
    end
  end)

  it("are filled in when a later row changes them, or is no such row", function()
    for _, n in ipairs { 300, 40000 } do -- in C, and compiled
      local back, _, list = map(FLAT, n, function(row)
        if row.n == 200 then return mt.with(row, { s = "other" }) end
        if row.n == 250 then return { n = 250 } end
        return mt.with(row, { x = 0 })
      end)
      for i, row in ipairs(back) do
        if i == 250 then
          assert.same({ n = 250 }, row)
        else
          assert.equal(i == 200 and "other" or list[i].s, row.s)
          assert.equal(list[i].t, row.t)
          assert.equal(i == 200 and 100 or 0, row.x)
        end
      end
    end
  end)

  it("are built when the result has them in another type", function()
    local back, moved = map("n BIGINT, s STRING, x DOUBLE", 500, function(row) return mt.with(row, { x = 1 }) end)
    if moves() then assert.same({ n = false, s = true, x = false }, moved) end
    assert.same({ n = 500, s = "s500", x = 1 }, back[500])
  end)
end)
