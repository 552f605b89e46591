-- SPDX-License-Identifier: Apache-2.0
-- Values of ARRAY, STRUCT and MAP, written by a function or addData and read back from the column.
local mt = require "moontide"
local support = require "spec.support"
local value = require "moontide.values"

local stored, refused = support.stored, support.refused

describe("an ARRAY", function()
  it("is written from a list and read as one", function()
    assert.same({ 1, 2, 3 }, stored("ARRAY<INT>", { 1, 2, 3 }))
    assert.same({ "a", "b" }, stored("ARRAY<STRING>", { "a", "b" }))
    assert.same({}, stored("ARRAY<INT>", {}))
    assert.is_nil(stored("ARRAY<INT>", nil))
    assert.is_nil(stored("ARRAY<INT>", mt.null))
  end)

  it("keeps nulls wherever they stand", function()
    for _, list in ipairs { { mt.null, 2, mt.null }, { nil, 2, nil, n = 3 }, mt.array(3, nil, 2, nil) } do
      local back = stored("ARRAY<INT>", list)
      assert.equal(3, mt.len(back))
      local seen = {}
      for i, v in mt.items(back) do seen[i] = v == nil and "null" or v end
      assert.same({ "null", 2, "null" }, seen)
    end
    assert.equal(2, mt.len(stored("ARRAY<INT>", mt.array(2))))
    assert.equal(0, mt.len(stored("ARRAY<INT>", mt.array(0))))
  end)

  it("of exact values stays exact", function()
    local back = stored("ARRAY<BIGINT>", { 9007199254740993LL, "9223372036854775807", 5 })
    assert.equal("9007199254740993 9223372036854775807 5", ("%s %s %s"):format(mt.str(back[1]), mt.str(back[2]),
      mt.str(back[3])))
    assert.equal("1.50", tostring(stored("ARRAY<DECIMAL(10,2)>", { "1.5" })[1]))
    assert.same({ "2026-05-01" }, stored("ARRAY<DATE>", { "2026-05-01" }))
    assert.same({ true, false, true }, stored("ARRAY<BOOLEAN>", { true, false, true }))
  end)

  it("with a hole says how to write null", function()
    assert.matches("v has an element 3 and a nil before it; write mt.null there, or {…, n = 3}",
      refused("ARRAY<INT>", { 1, nil, 3 }), 1, true)
    assert.matches("v has an element 3 of 2", refused("ARRAY<INT>", { 1, 2, 3, n = 2 }))
    assert.matches("n is how many elements the list has, not the number 1.5", refused("ARRAY<INT>", { n = 1.5 }))
  end)

  it("refuses what is no list", function()
    assert.matches('v is ARRAY<INT> and takes a list, not "x"', refused("ARRAY<INT>", "x"))
    assert.matches('v is a list, which has no key "a"', refused("ARRAY<INT>", { 1, a = 2 }))
    assert.matches("v is a list, which has no key 0", refused("ARRAY<INT>", { [0] = 1 }))
    assert.matches("takes a list", refused("ARRAY<INT>", setmetatable({}, {})))
  end)

  it("names the element that does not fit", function()
    assert.matches('v[2] is INT and takes whole numbers, not "x"', refused("ARRAY<INT>", { 1, "x" }), 1, true)
    assert.matches("v[2][1] is TINYINT, which ends at", refused("ARRAY<ARRAY<TINYINT>>", { {}, { 300 } }), 1, true)
    assert.matches("v[2] is STRING; \"\\xff\" is not UTF-8", refused("ARRAY<STRING>", { "a", "\255" }), 1, true)
  end)
end)

describe("a STRUCT", function()
  it("is written from a table and read by name", function()
    local back = stored("STRUCT<a: INT, b: STRUCT<c: STRING, d: DOUBLE>>", { a = 1, b = { c = "x" } })
    assert.equal(1, back.a)
    assert.equal("x", back.b.c)
    assert.is_nil(back.b.d)
    assert.is_nil(stored("STRUCT<a: INT>", nil))
    assert.is_nil(stored("STRUCT<a: INT, b: STRUCT<c: STRING>>", { a = 1 }).b)
  end)

  it("names an unknown field with its path", function()
    local type_ = "STRUCT<items: ARRAY<STRUCT<price: DOUBLE NOT NULL, name: STRING>>>"
    assert.matches('v.items[2] has no field "prce"; did you mean "price"?',
      refused(type_, { items = { { price = 1 }, { price = 1, prce = 2 } } }), 1, true)
    assert.matches("v.items[2].price is NOT NULL and is null here",
      refused(type_, { items = { { price = 1 }, {} } }), 1, true)
    assert.matches('v.items[1].price is DOUBLE and takes numbers, not "1"',
      refused(type_, { items = { { price = "1" } } }), 1, true)
    assert.matches('v.items[2].name is STRING; "\\xc3" is not UTF-8',
      refused(type_, { items = { { price = 1, name = "ok" }, { price = 1, name = "\195" } } }), 1, true)
  end)

  it("takes a row, and a STRUCT of one", function()
    local stream = mt.memoryStream "n INT, d STRUCT<x: BIGINT, name: STRING>"
    local ddl = "whole STRUCT<n: INT, d: STRUCT<x: BIGINT, name: STRING>>, d STRUCT<name: STRING>"
    local rows = support.run(stream:map(ddl, function(row) return { whole = row, d = row.d } end),
      { { n = 1, d = { x = 9007199254740993LL, name = "in" } }, { n = 2 } })
    assert.equal("9007199254740993", mt.str(rows[1].whole.d.x))
    assert.equal("in", rows[1].d.name)
    assert.equal(2, rows[2].whole.n)
    assert.is_nil(rows[2].whole.d)
    assert.is_nil(rows[2].d)
  end)

  it("refuses other values", function()
    assert.matches("takes a table of its fields or a row, not the number 1", refused("STRUCT<a: INT>", 1))
    assert.matches("v has no field 1", refused("STRUCT<a: INT>", { 1 }))
  end)
end)

describe("a MAP", function()
  it("is written from a table and read by key, in one order", function()
    local back = stored("MAP<STRING, INT>", { b = 2, a = 1, c = mt.null })
    assert.equal(1, back.a)
    assert.equal(2, back.b)
    assert.is_nil(back.c)
    assert.equal(3, mt.len(back))
    local keys = {}
    for key in mt.fields(back) do keys[#keys + 1] = key end
    assert.same({ "a", "b", "c" }, keys)
    assert.equal(0, mt.len(stored("MAP<STRING, INT>", {})))
  end)

  it("finds a 64-bit key by value", function()
    local back = stored("MAP<BIGINT, STRING>", { [9007199254740993LL] = "big", [5] = "five" })
    assert.equal("big", back[9007199254740993LL])
    assert.equal("five", back[5])
    assert.equal("five", back[5LL])
    assert.is_nil(back[9007199254740995LL])
    assert.is_nil(back[6LL])
    local of_decimals = stored("MAP<DECIMAL(5,2), INT>", { ["1.5"] = 15 })
    assert.equal(15, of_decimals[value.decimal "1.50"])
  end)

  it("refuses keys that are equal by value, and null as a key", function()
    assert.matches("v: the keys 5 and 5 are equal", refused("MAP<BIGINT, INT>", { [5] = 1, [5LL] = 2 }))
    assert.matches("v: the keys 1.5 and 1.50 are equal",
      refused("MAP<DECIMAL(5,2), INT>", { ["1.5"] = 1, ["1.50"] = 2 }))
    assert.matches("are equal", refused("MAP<STRUCT<a: INT>, INT>", { [{ a = 1 }] = 1, [{ a = 1LL }] = 2 }))
    assert.matches("a key of v is null; a map has no null key", refused("MAP<STRING, INT>", { [mt.null] = 1 }))
  end)

  it("names the entry that does not fit", function()
    assert.matches('v["a"] is INT and takes whole numbers, not "x"', refused("MAP<STRING, INT>", { a = "x" }), 1, true)
    assert.matches("a key of v is INT and takes whole numbers", refused("MAP<INT, INT>", { x = 1 }))
    assert.matches('v["k"][2].n is INT',
      refused("MAP<STRING, ARRAY<STRUCT<n: INT>>>", { k = { {}, { n = "1" } } }), 1, true)
    assert.matches('v["k"] is STRING; "\\xff" is not UTF-8',
      refused("MAP<STRING, STRING>", { a = "fine", k = "\255" }), 1, true)
    assert.matches("takes a table of keys and values, not the boolean true", refused("MAP<STRING, INT>", true))
  end)
end)

describe("nested columns of many rows", function()
  local DDL = [[id INT, a ARRAY<INT>, s STRUCT<x: BIGINT, t: STRING, l: ARRAY<STRING>>,
    m MAP<STRING, DOUBLE>, deep ARRAY<STRUCT<k: STRING, v: ARRAY<MAP<STRING, ARRAY<INT>>>>>]]

  local function random_list(n, of)
    local list = { n = math.random(0, n) }
    for i = 1, list.n do
      if math.random() > 0.2 then list[i] = of(i) end
    end
    return list
  end

  local function random_map(of)
    local map = {}
    for i = 1, math.random(0, 4) do map["key" .. i] = math.random() > 0.2 and of(i) or mt.null end
    return map
  end

  local function text(i) return ("t"):rep(math.random(0, 30)) .. i end
  local function number(i) return i * math.random(100) end

  local function random_row(id)
    local function maybe(v) return math.random() > 0.15 and v or nil end
    return {
      id = id, a = maybe(random_list(5, number)),
      s = maybe { x = maybe(2 ^ 40 * id), t = maybe(text(id)), l = maybe(random_list(3, text)) },
      m = maybe(random_map(number)),
      deep = maybe(random_list(3, function(i)
        return { k = text(i), v = maybe(random_list(3, function()
          return random_map(function() return random_list(3, number) end)
        end)) }
      end)),
    }
  end

  -- One text for a value before it was written and for what is read.
  local function plain(v)
    if type(v) ~= "table" then return v == nil and "null" or mt.str(v) end
    if v == mt.null then return "null" end
    local parts, n = {}, rawget(v, "n") or value.shape_of(v) and value.shape_of(v).n
    if n then
      for i = 1, n do parts[i] = plain(v[i]) end
      return "[" .. table.concat(parts, ",") .. "]"
    end
    local names = {}
    for _, key in ipairs(value.names(v) or {}) do names[key] = true end
    for key in pairs(v) do names[key] = true end
    for key in pairs(names) do
      if rawget(v, key) ~= nil and rawget(v, key) ~= mt.null then parts[#parts + 1] = key .. "=" .. plain(v[key]) end
    end
    table.sort(parts)
    return "{" .. table.concat(parts, ",") .. "}"
  end

  it("read back as they were written, through addData and map", function()
    local rows, copies = {}, {}
    for i = 1, 2000 do rows[i] = random_row(i) end
    for i, row in ipairs(rows) do copies[i] = plain(row) end
    local stream = mt.memoryStream(DDL)
    local same = support.run(stream:map(DDL, function(row)
      return { id = row.id, a = row.a, s = row.s, m = row.m, deep = row.deep }
    end), rows)
    for i, row in ipairs(same) do assert.equal(copies[i], plain(row)) end
  end)
end)

describe("addData", function()
  it("names the row that does not fit, and the value in it", function()
    local stream = mt.memoryStream "n INT, items ARRAY<STRUCT<price: DOUBLE>>"
    local problem = support.error_of(stream.addData, stream,
      { { n = 1 }, { n = 2, items = { { price = 1 }, { price = "2" } } } })
    assert.matches('addData: row 2: items[2].price is DOUBLE and takes numbers, not "2"', problem, 1, true)
    local names = mt.memoryStream "s STRING"
    assert.matches("addData: row 3: s is STRING; .* is not UTF%-8",
      support.error_of(names.addData, names, { { s = "a" }, {}, { s = "\255" } }))
  end)
end)
