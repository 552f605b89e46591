-- SPDX-License-Identifier: Apache-2.0
-- What docs/lua-rows.md says of rows and values: its job runs, each line of its table holds both ways.
local mt = require "moontide"
local paths = require "moontide.paths"
local support = require "spec.support"
local value = require "moontide.values"

local page = assert(paths.read "docs/lua-rows.md")

describe("the job of the page", function()
  it("sums up nested orders exactly", function()
    local folder = support.folder { ["job.lua"] = page:match "```lua\n(.-)```" }
    local orders = mt.memoryStream "value STRING"
    local totals = mt.job(folder .. "/job.lua", { sources = { orders = orders }, sink = "memory" }):start()
    orders:addData {
      { value = '{"id":1,"at":"2026-05-01T23:59:59Z","tax":0.19,"items":[{"sku":"a","price":1.50},{"price":2.05}]}' },
      { value = '{"id":2,"items":[]}' }, { value = '{"id":3}' },
    }
    totals:processAllAvailable()
    local rows = mt.table("totals"):collect()
    assert.same({ "2026-05-01", "4.22", 2, "1.50" },
      { rows[1].day, tostring(rows[1].total), mt.len(rows[1].skus), tostring(rows[1].by_sku.a) })
    assert.same({ "0.00", 0 }, { tostring(rows[2].total), mt.len(rows[2].skus) })
    totals:stop()
  end)
end)

-- type -> a value that is written and what is read, and one that is refused with the reason
local NULLS = { nil, mt.null }
local TYPES = {
  STRING = { "ä", "ä", 5, "takes strings %(mt.str%(v%) makes one%), not the number 5" },
  BINARY = { "\255", "\255", 5, "takes strings of bytes" },
  BOOLEAN = { true, true, 1, "takes true or false" },
  TINYINT = { -128, -128, 128, "ends at %-128 and 127; 128 does not fit" },
  SMALLINT = { 7LL, 7, 1.5, "takes whole numbers" },
  INT = { 2147483647, 2147483647, "7", 'takes whole numbers, not "7"' },
  BIGINT = { "9007199254740993", 9007199254740993LL, 2 ^ 60, "may be rounded already" },
  FLOAT = { 0.5, 0.5, 1e300, "does not fit" },
  DOUBLE = { 0.1, 0.1, "0.1", "takes numbers" },
  ["DECIMAL(10,2)"] = { "1.5", value.decimal "1.50", 0.1, "may be rounded already; use decimal text" },
  DATE = { "2026-05-01", "2026-05-01", "2026-5-1", 'takes "YYYY%-MM%-DD"' },
  TIMESTAMP = { "1970-01-01T00:00:01Z", 1000000, "1970-01-01 00:00:01", "is not a time with a zone" },
  ["STRUCT<a: INT>"] = { { a = 1 }, { a = 1 }, { b = 1 }, 'has no field "b"' },
  ["ARRAY<INT>"] = { { 1, 2 }, { 1, 2 }, { 1, nil, 3 }, "write mt.null there" },
  ["MAP<STRING, INT>"] = { { k = 1 }, { k = 1 }, { k = "1" }, 'v%["k"%] is INT' },
}

local function write(type_, step)
  local stream = mt.memoryStream "x INT"
  local frame = step(stream, type_)
  return support.run(frame, { { x = 1 } })[1].v
end

local function by_map(v)
  return function(stream, type_) return stream:map("v " .. type_, function() return { v = v } end) end, support.line()
end

local function by_column(v)
  return function(stream, type_) return stream:withColumn("v", type_, function() return v end) end, support.line()
end

for type_, case in pairs(TYPES) do
  local given, read, wrong, reason = case[1], case[2], case[3], case[4]
  describe("a value of " .. type_, function()
    for what, by in pairs { map = by_map, withColumn = by_column } do
      it("written by " .. what .. " is read back, null too", function()
        local back = write(type_, (by(given)))
        if type(read) == "table" then assert.same(read, back) else assert.is_true(read == back) end
        for i = 1, 2 do assert.is_nil(write(type_, (by(NULLS[i])))) end
      end)

      it("that does not fit is refused by " .. what .. " with line, record and reason", function()
        local step, line = by(wrong)
        local problem = support.error_of(write, type_, step)
        assert.matches(("^spec/lua_rows_spec.lua:%d: %s at orders%%[2%%]@100: v"):format(line, what), problem)
        assert.matches(reason, problem)
      end)
    end

    it("passes from addData through a row unchanged", function()
      local stream = mt.memoryStream("v " .. type_)
      local seen
      local rows = support.run(stream:map("v " .. type_, function(row)
        seen = mt.str(row.v)
        return { v = row.v }
      end), { { v = given } })
      assert.equal(seen, mt.str(rows[1].v))
    end)
  end)

  it("the page's table has a line for " .. type_, function()
    assert.matches("| [%u, ]*" .. type_:match "^%u+" .. "[%u, ]*[^|]*|", page)
  end)
end
