-- SPDX-License-Identifier: Apache-2.0
-- An ARRAY, MAP or STRUCT read of a row is read-only, also where it has the element that is set.
local loops = require "moontide.rows.loops"
local mt = require "moontide"
local schemas = require "moontide.schema"
local support = require "spec.support"
local writes = require "moontide.rows.writes"

local DDL = "n INT, a ARRAY<INT>, s STRUCT<x: INT, l: ARRAY<INT>>, m MAP<STRING, INT>, "
  .. "deep ARRAY<STRUCT<k: INT, v: ARRAY<INT>>>"
local nested = writes.nested_names(assert(schemas.parse(DDL)).fields)

local function data()
  return { n = 7, a = { 3, 1, 2 }, s = { x = 1, l = { 4, 5 } }, m = { k = 1, ["9"] = 2 },
    deep = { { k = 1, v = { 1, 2 } }, { k = 2, v = { 3 } } } }
end

local function problem_of(fn)
  return support.error_of(support.run, mt.memoryStream(DDL):filter(fn), { data(), data() })
end

-- With the globals that a job has: those of a spec are found by a function.
local function lines(fn) return writes.find(setfenv(fn, _G), nested).lines end

local outside, keep, helper = {}, nil, nil
local function set_first(list) list[1] = 5 end
local function sum_of(list)
  local sum = 0
  for i = 1, #list do sum = sum + list[i] end
  return sum
end

local changes = {
  ["an element of an ARRAY is set"] = function(row) row.a[1] = 5 end,
  ["one is set by a number it works out"] = function(row) row.a[row.n - 6] = 5 end,
  ["an element is set to nil"] = function(row) row.a[3] = nil end,
  ["it is set through a variable"] = function(row)
    local list = row.n > 1 and row.a or nil
    list[1] = 5
  end,
  ["it is set in a loop"] = function(row)
    for i, v in ipairs(row.a) do row.a[i] = v end
    local list = row.a
    for i, v in ipairs(list) do list[i] = v + 1 end
  end,
  ["a field of a STRUCT in an ARRAY is set"] = function(row) row.deep[1].k = 5 end,
  ["one that a loop walks over is set"] = function(row)
    for _, one in mt.items(row.deep) do one.k = 5 end
  end,
  ["a list in a STRUCT in an ARRAY is changed"] = function(row) row.deep[2].v[1] = 5 end,
  ["a list in a STRUCT is changed"] = function(row) row.s.l[1] = 5 end,
  ["a key of a MAP is set"] = function(row) row.m.k = 5 end,
  ["a key of a MAP that is worked out is set"] = function(row) row.m[tostring(9)] = 5 end,
  ["a helper sets it"] = function(row) set_first(row.a) end,
  ["a helper that is passed on sets it"] = function(row) pcall(set_first, row.a) end,
  ["table.insert is called"] = function(row) table.insert(row.a, 1) end,
  ["table.remove is called"] = function(row) table.remove(row.a) end,
  ["table.sort is called"] = function(row) table.sort(row.a) end,
  ["rawset is called"] = function(row) rawset(row.a, 1, 5) end,
  ["rawset adds one"] = function(row) rawset(row.a, 4, 5) end,
  ["it is put into a table first"] = function(row)
    local t = { list = row.a }
    t.list[1] = 5
    return t.list == nil
  end,
  ["it is put into an upvalue first"] = function(row)
    keep = row.a
    keep[1] = 5
    return keep == nil
  end,
  ["it is put into an upvalue's table first"] = function(row)
    outside.list = row.a
    outside.list[1] = 5
    return outside.list == nil
  end,
  ["a closure sets it"] = function(row)
    local list = row.a
    helper = function() list[1] = 5 end
    helper()
  end,
  ["its metatable is taken"] = function(row) debug.setmetatable(row.a, nil) end,
  ["the row goes to a helper"] = function(row)
    local function inner(r) r.a[1] = 5 end
    inner(row)
  end,
  ["a function of any number of arguments sets it"] = function(...) (...).a[1] = 5 end,
}

for _, way in ipairs { "compiled", "in C" } do
  describe("a value of a row is read-only, " .. way .. ":", function()
    local before
    setup(function() before, loops.small_batch = loops.small_batch, way == "in C" and math.huge or 0 end)
    teardown(function() loops.small_batch = before end)
    for name, fn in pairs(changes) do
      it(name, function()
        local problem = problem_of(fn)
        assert.matches("a value of a row is read-only: ", problem, 1, true)
        assert.matches("; mt.totable(value) gives a table to change", problem, 1, true)
      end)
    end
  end)
end

describe("the error of a changed value", function()
  it("names the line, the column and the row", function()
    local problem = problem_of(function(row)
      if row.n > 1 then
        row.a[1] = 5
      end
    end)
    assert.matches("orders[2]@100", problem, 1, true)
    assert.matches(("a was changed (line %d)"):format(support.line() - 4), problem, 1, true)
  end)

  it("comes at the first row that is changed, and no other", function()
    local rows = { data(), data(), data() }
    rows[2].n = 8
    local problem = support.error_of(support.run, mt.memoryStream(DDL):filter(function(row)
      if row.n == 8 then row.a[1] = 5 end
    end), rows)
    assert.matches("orders[2]@101", problem, 1, true)
  end)

  it("is that of map and withColumn too", function()
    assert.matches("a was changed", support.error_of(support.run, mt.memoryStream(DDL):map("a ARRAY<INT>", function(row)
      row.a[1] = 5
      return { a = row.a }
    end), { data() }))
    assert.matches("a was changed", support.error_of(support.run, mt.memoryStream(DDL):withColumn("b", "INT",
      function(row)
        table.sort(row.a)
        return row.a[1]
      end), { data() }))
  end)
end)

describe("a function changes no value of its row when it", function()
  local total = 0
  local ways = {
    ["reads elements"] = function(row)
      local sum, deep = 0, row.deep
      for i = 1, deep and #deep or 0 do sum = sum + (deep[i].k or 0) end
      return sum > row.s.x
    end,
    ["walks with ipairs and mt.items"] = function(row)
      for _, v in ipairs(row.a) do total = total + v end
      for _, one in mt.items(row.deep) do total = total + one.k end
      return mt.len(row.a) > 2
    end,
    ["gives others numbers and text of it"] = function(row)
      return math.floor(row.a[1]) + sum_of { row.n } > 0 and tostring(row.n):upper() == mt.str(row.a)
    end,
    ["sets a table of its own"] = function(row)
      local t = {}
      for i = 1, #row.a do t[i] = row.a[i] * 2 end
      outside[row.n] = true
      return { a = t, s = row.s, m = { k = row.m.k } }
    end,
    ["changes a copy"] = function(row)
      local list = mt.totable(row.a)
      list[1] = 5
      return { a = list }
    end,
  }
  for name, fn in pairs(ways) do
    it(name, function() assert.same({}, lines(fn)) end)
  end

  it("has no ARRAY or MAP in its row", function()
    assert.same({}, writes.find(changes["a helper sets it"], writes.nested_names(
      assert(schemas.parse "n INT, s STRUCT<x: INT>").fields)).lines)
  end)
end)

describe("what cannot be told from the code", function()
  it("is no error as long as nothing was changed", function()
    local six = mt.memoryStream(DDL):filter(function(row) return sum_of(row.a) == 6 end)
    local rows = support.run(six, { data(), data() })
    assert.equal(2, #rows)
    rows = support.run(mt.memoryStream(DDL):filter(function(row)
      local a, b = row.deep, row.m
      return select("#", pcall(sum_of, row.a), pcall(pairs, a), pcall(pairs, b)) > 0
    end), { data(), { n = 1 } })
    assert.equal(2, #rows)
  end)

  it("is looked at where another closure has another function by that name", function()
    local stream = mt.memoryStream "n INT, a ARRAY<INT>"
    local function make(module)
      return function(row) return module.len(row.a) == 1 end
    end
    local first = make(mt)
    local loop = loops.filter(stream._schema, first)
    local function run(fn)
      local sel = require "moontide._core".new "int32_t[2]"
      return loop.run(support.batch(stream._schema, { { n = 1, a = { 1 } }, { n = 2, a = { 1 } } }), fn, sel)
    end
    assert.equal(2, run(first))
    assert.matches("a was changed", support.error_of(run, make { len = set_first }))
  end)
end)

describe("ipairs of a job", function()
  local function walk(list)
    return support.with_globals(function()
      require "moontide.declare.job".guard()
      local rows = support.run(mt.memoryStream "a ARRAY<INT>":filter(function(row)
        for _ in ipairs(row.a) do end -- luacheck: ignore
        return true
      end), { { a = list } })
      return #rows
    end)
  end

  it("walks a list without nulls", function()
    assert.equal(1, walk { 1, 2 })
    assert.equal(1, walk {})
  end)

  it("raises at one with nulls, which it would not see to the end", function()
    local words = "element 2 of 3 is one; mt.items(list) walks nulls too"
    assert.matches(words, support.error_of(walk, { 1, mt.null, 3 }), 1, true)
    assert.matches("element 2 of 2", support.error_of(walk, { 1, mt.null }), 1, true)
  end)
end)

describe("pairs, ipairs and next of a job", function()
  it("say how a column is walked", function()
    support.with_globals(function()
      require "moontide.declare.job".guard()
      for name, walk in next, { pairs = pairs, ipairs = ipairs, next = next } do
        support.foreach(mt.memoryStream "n INT", function(batch)
          local n = batch:column "n"
          assert.equal(2, #n)
          assert.matches(name .. " takes a table, not column n INT; a column is walked by number: for i = 1, #column",
            support.error_of(walk, n), 1, true)
        end) { { n = 1 }, { n = 2 } }
      end
    end)
  end)
end)

describe("a loop over the rows of a batch", function()
  local function over(fn, rows)
    return support.foreach(mt.memoryStream(DDL), fn)(rows or { data(), data() })
  end

  it("raises when the turn is over in which a value was changed", function()
    local turns = 0
    local problem = support.error_of(over, function(batch)
      for row in batch:rows() do
        turns = turns + 1
        row.a[1] = 5
      end
    end)
    assert.equal(1, turns)
    assert.matches("a value of a row is read-only: a was changed", problem, 1, true)
  end)

  it("raises too when it is left in that turn", function()
    assert.matches("a was changed", support.error_of(over, function(batch)
      for row in batch:rows() do
        table.sort(row.a)
        if row.n == 7 then break end
      end
    end))
  end)

  it("raises nothing else, and copies are the job's own", function()
    local sum = 0
    over(function(batch)
      for row in batch:rows() do
        local list = mt.totable(row.a)
        list[1] = 10
        sum = sum + sum_of(list) + sum_of(row.a) + row.m.k
      end
      local all = batch:collect()
      all[1].a[1] = 5
      sum = sum + all[1].a[1]
    end)
    assert.equal(2 * (13 + 6 + 1) + 5, sum)
  end)
end)
