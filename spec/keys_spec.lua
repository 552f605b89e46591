-- SPDX-License-Identifier: Apache-2.0
local keys = require "moontide.rows.keys"

local names = { user = true, cents = true, date = true }

local proved = {
  ["a literal"] = function(row) return { user = row.u, cents = row.a * 100 } end,
  ["constants"] = function() return { user = "x", cents = 1 } end,
  ["alternatives and calls inside"] = function(row)
    return { user = row.u or "x", cents = (row.a or 0) * 100, date = tostring(row.ts) }
  end,
  ["a table filled name by name"] = function(row)
    local t = {}
    t.user = row.u
    if row.a then t.cents = 3 end
    return t
  end,
  ["several returns"] = function(row)
    if row.a then return { user = 1 } end
    return { cents = 2 }
  end,
  ["nil on one way"] = function(row)
    if row.a then return { user = 1 } end
    return nil
  end,
  ["a loop beside"] = function()
    local t = {}
    for i = 1, 3 do t.user = i end
    return t
  end,
}

local unproved = {
  ["a name that is no column"] = function(row) return { usr = row.u } end,
  ["a constant name that is no column"] = function() return { usr = 1 } end,
  ["a name stored later"] = function(row)
    local t = {}
    if row.a then t.cent = 3 end
    return t
  end,
  ["another function's table"] = function(row) return tostring(row) end,
  ["a choice of two tables"] = function(row) return row.a and { user = 1 } or { bad = 1 } end,
  ["a table given away"] = function(row)
    local t = { user = 1 }
    rawset(t, row.k, 1)
    return t
  end,
  ["a table under a second name"] = function()
    local t = { user = 1 }
    local u = t
    u.x = 3
    return t
  end,
  ["a closure over the table"] = function()
    local t
    local function add() t.x = 1 end
    t = { user = 1 }
    add()
    return t
  end,
  ["numbers as keys"] = function() return { 1, 2 } end,
  ["results as keys"] = function(row) return { tostring(row) } end,
  ["a computed key"] = function(row)
    local t = {}
    t[row.k] = 1
    return t
  end,
  ["a jump back to the return"] = function(row)
    local t = { user = 1 }
    while true do
      if row.a then return t end
      t = { x = 1 }
    end
  end,
  ["an upvalue"] = function() return names end,
  ["a row written over"] = function(row)
    row = { bad = row.x }
    return row
  end,
}

describe("the keys of returned tables", function()
  for what, fn in pairs(proved) do
    it("are proved for " .. what, function()
      local yes, may_return_row = keys.proves(fn, names)
      assert.is_true(yes)
      assert.is_false(may_return_row)
    end)
  end

  for what, fn in pairs(unproved) do
    it("are not proved for " .. what, function()
      assert.is_false((keys.proves(fn, names)))
    end)
  end

  it("leave open that the row itself is returned", function()
    local yes, may_return_row = keys.proves(function(row)
      if row.a then return { user = 1 } end
      return row
    end, names)
    assert.is_true(yes)
    assert.is_true(may_return_row)
  end)

  it("are not proved for a C function", function()
    assert.is_false((keys.proves(print, names)))
  end)
end)
