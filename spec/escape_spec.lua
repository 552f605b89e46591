-- SPDX-License-Identifier: Apache-2.0
local escape = require "moontide.rows.escape"
local loops = require "moontide.rows.loops"
local mt = require "moontide"
local support = require "spec.support"

local function keeps(fn, structs) return escape.keeps(fn, structs or {}) end

local sink, other = {}, nil
local function helper(row) sink.row = row end

describe("a function keeps its row in its own hands when it", function()
  local ways = {
    ["reads fields"] = function(row) return row.a == 1 and (row.b or 0) > 2 or row["c d"] end,
    ["reads fields by a name it works out"] = function(row) return row[other] end,
    ["has a loop over a field"] = function(row)
      local n = 0
      for i = 1, #row.s do n = n + row.s:byte(i) end
      return n > row.n
    end,
    ["returns the row"] = function(row) return row end,
    ["returns a table of fields"] = function(row) return { a = row.a, b = row.b .. "x", c = tostring(row.c) } end,
    ["returns the row with changes"] = function(row) return mt.with(row, { a = row.a * 2 }) end,
    ["returns it so on one of its ways"] = function(row)
      if row.a == 1 then return row end
      local b = row.b
      return mt.with(row, { a = b or 2, c = { 1, row.c and helper(row.c) or 3 } })
    end,
    ["does not look at it"] = function() return true end,
  }
  for name, fn in pairs(ways) do
    it(name, function() assert.is_true(keeps(fn)) end)
  end
end)

describe("a function may let its row out when it", function()
  local ways = {
    ["stores it outside"] = function(row) other = row end,
    ["stores it in a table"] = function(row) sink.row = row end,
    ["stores it under a name it works out"] = function(row) sink[row.a] = row end,
    ["puts it into a new table"] = function(row) return { row } end,
    ["uses it as a key"] = function(row) sink[row] = true end,
    ["gives it to a function"] = function(row) return helper(row) end,
    ["keeps the row with changes"] = function(row) other = mt.with(row, { a = 1 }) return other end,
    ["gives the row with changes to a function"] = function(row) return helper(mt.with(row, { a = 1 })) end,
    ["gives it to something else that is called with"] = function(row) return sink.with(row, { a = 1 }) end,
    ["puts it into its own changes"] = function(row) return mt.with(row, { a = row }) end,
    ["gives it to a method"] = function(row) return sink:add(row) end,
    ["makes a function that sees it"] = function(row) return function() return row.a end end,
    ["has another variable for it"] = function(row) local r = row return r.a end,
    ["has no name for it"] = function(...) return (...) end,
    ["has it in a choice"] = function(row) local r = sink.x and row or sink return r.a end,
  }
  for name, fn in pairs(ways) do
    it(name, function() assert.is_false(keeps(fn)) end)
  end

  it("is one of C's", function() assert.is_false(keeps(print)) end)
end)

describe("a proof that hangs on mt.with", function()
  it("is none for another closure that has something else by that name", function()
    local stream, kept, later = mt.memoryStream "n INT", nil, nil
    local function make(module)
      return function(row) return module.with(row, { n = 2 }) end
    end
    local keeper = { with = function(row)
      later = kept and support.error_of(function() return kept.n end)
      kept = row
      return { n = row.n }
    end }
    local loop, building = loops.map(stream._schema, stream._schema, make(mt))
    for _, fn in ipairs { make(mt), make(keeper), make(mt) } do
      building.begin(2)
      loop.run(support.batch(stream._schema, { { n = 1 }, { n = 5 } }), fn)
      building.discard()
      loop.rest()
    end
    assert.matches("this row's turn is over", later)
  end)

  it("holds for closures over the same mt, which go on with one loop", function()
    local function make() return function(row) return mt.with(row, { a = 1 }) end end
    local keeps_it, trusted = escape.keeps(make(), {})
    assert.is_true(keeps_it)
    assert.is_true(escape.holds(make(), trusted))
  end)
end)

describe("a STRUCT of a row", function()
  local structs = { d = true }

  it("is followed to where it is read", function()
    assert.is_true(keeps(function(row) return row.d.x > 1 and row.d.y end, structs))
    assert.is_true(keeps(function(row)
      local d = row.d
      return d.x + d.y > row.n
    end, structs))
    assert.is_true(keeps(function(row)
      local d = row.d
      if row.n > 1 then return d.x end
      return d.y
    end, structs))
  end)

  it("may get out like the row", function()
    assert.is_false(keeps(function(row) other = row.d end, structs))
    assert.is_false(keeps(function(row) other = row[sink.name] end, structs))
    assert.is_false(keeps(function(row) helper(row.d) end, structs))
    assert.is_false(keeps(function(row) local d = sink.x and row.d or nil other = d end, structs))
    assert.is_false(keeps(function(row)
      local d
      for _ = 1, 2 do
        other = d
        d = row.d
      end
    end, structs))
    assert.is_true(keeps(function(row) other = row.d end))
  end)
end)
