-- SPDX-License-Identifier: Apache-2.0
--- A stream that a test fills: mt.memoryStream(ddl), with addData.
local columns = require "moontide.values.columns"
local core = require "moontide._core"
local dataframe = require "moontide.declare.dataframe"
local fault = require "moontide.fault"
local object = require "moontide.object"
local schemas = require "moontide.schema"
local suggest = require "moontide.suggest"
local tree = require "moontide.declare.tree"
local C = core.C

local M = {}

---@class mt.MemoryStream: mt.DataFrame
---@field package _pointer ffi.cdata* struct mt_source * that no query reads
local MemoryStream = {}

-- Arrays of the fields, out of rows that are tables. at.i is the row it is at.
local function arrays_of(schema, rows, at)
  local building = columns.building(schema.fields)
  local code = {
    ("local rows, at, %s = ...\nfor i = 0, #rows - 1 do at.i = i local t = rows[i + 1]"):format(building.names),
  }
  for n, field in ipairs(schema.fields) do
    code[#code + 1] = ("do local v = t[%q]\n%s end"):format(field.name, building.code(n))
  end
  code[#code + 1] = "end verify(#rows, at)"
  building.begin(#rows)
  assert(loadstring(table.concat(code, "\n"), "=moontide addData"))(rows, at, unpack(building.values))
  return building.finish(#rows)
end

local function check_rows(what, schema, rows)
  fault.expect(what, rows, "table")
  for i, row in ipairs(rows) do
    if type(row) ~= "table" then
      fault.raise(("%s: row %d is a %s; a row is a table of names"):format(what, i, type(row)))
    end
    for name in pairs(row) do
      if not schema.by_name[name] then
        fault.raise(("%s: row %d has %q, which is no column%s"):format(what, i, tostring(name),
          suggest.cure(name, schema:names())))
      end
    end
  end
  if #rows == 0 and next(rows) ~= nil then fault.raise(what .. " takes a list of rows: { { a = 1 } }") end
end

--- Columns, as one struct array, of rows that are tables with the schema's names.
---@param schema mt.Schema
---@param rows table<string, any>[]
---@param what string? who is given the rows, for errors
---@return ffi.cdata* struct ArrowArray, the caller's
function M.array_of(schema, rows, what)
  what = what or "addData"
  check_rows(what, schema, rows)
  local at = { i = 0 }
  local ok, arrays = pcall(arrays_of, schema, rows, at)
  if not ok then
    if not columns.is_misfit(arrays) then error(arrays, 0) end
    fault.raise(("%s: row %d: %s"):format(what, at.i + 1, arrays.text))
  end
  local out = core.new "struct ArrowArray"
  C.mt_array_struct(arrays, #schema.fields, #rows, out)
  return out
end

--- Adds rows: tables with the stream's column names; a missing name is null.
---@param rows table<string, any>[]
---@return mt.MemoryStream
function MemoryStream:addData(rows)
  local array = M.array_of(self._schema, rows)
  if C.mt_memory_source_add(self._pointer, array, core.err) ~= 0 then fault.raise((core.failure())) end
  return self
end

--- The stream as a frame.
---@return mt.DataFrame
function MemoryStream:toDF()
  return dataframe.of(self._tree.source)
end

local made = 0

--- A stream of rows that addData gives. For tests: what it holds does not outlive the process.
---@param ddl string
---@return mt.MemoryStream
function M.stream(ddl)
  fault.expect("memoryStream", ddl, "string")
  made = made + 1
  local name, at = "memory" .. made, fault.here()
  local out = core.new "struct mt_source *[1]"
  if C.mt_memory_source_new(ddl, name, out, core.err) ~= 0 then
    fault.raise("memoryStream: " .. core.failure())
  end
  local pointer = core.gc(out[0], C.mt_source_free)
  local function open()
    if C.mt_memory_source_again(pointer, out, core.err) ~= 0 then fault.raise((core.failure()), at) end
    return out[0]
  end
  local source = {
    format = "memory", name = name, words = "memory " .. name, options = {}, at = at, open = open,
    schema = schemas.copy(C.mt_source_schema(pointer)), start_options = "{}",
  }
  return object.new(MemoryStream,
    { _tree = tree.source(source), _schema = source.schema, _pointer = pointer })
end

object.seal(MemoryStream, { name = "MemoryStream", parent = dataframe.class })

return M
