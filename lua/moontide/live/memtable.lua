-- SPDX-License-Identifier: Apache-2.0
--- mt.table(name): the rows that a memory sink holds, as they are now.
local core = require "moontide._core"
local fault = require "moontide.fault"
local object = require "moontide.object"
local rows = require "moontide.rows.row"
local schemas = require "moontide.schema"
local C = core.C

local M = {}

---@class mt.Table rows of a memory sink
---@field columns string[]
---@field schema string DDL
---@field package _schema mt.Schema
---@field package _batch ffi.cdata* struct mt_batch
local Table = {}

--- The table of a query's memory sink.
---@param name string the query's
---@return mt.Table
function M.of(name)
  fault.expect("mt.table", name, "string")
  local batch = core.gc(core.new "struct mt_batch", C.mt_batch_release)
  if not C.mt_memory_table(name, batch) then
    fault.raise(("there is no table %q; a query with :format \"memory\" and this :queryName makes it when it "
      .. "begins"):format(name))
  end
  local schema = schemas.copy(batch.schema)
  batch.schema = schema.c -- the sink's goes when a query of this name begins anew
  return object.new(Table, { _schema = schema, _batch = batch })
end

---@return integer
function Table:count()
  return tonumber(self._batch.array.length)
end

--- All rows as plain tables, in the order they came.
---@return table<string, any>[]
function Table:collect()
  return rows.tables(self._schema, self._batch.array)
end

--- Prints all rows.
function Table:show()
  print((self:text():gsub("\n$", "")))
end

-- As show prints them.
function Table:text()
  return core.take(C.mt_table_text(self._schema.c, self._batch.array, 0))
end

--- Prints the schema as Spark's tree.
function Table:printSchema()
  print((self._schema:tree():gsub("\n$", "")))
end

object.seal(Table, {
  name = "Table",
  getters = {
    columns = function(self) return self._schema:names() end,
    schema = function(self) return self._schema:ddl() end,
  },
  hidden = { "text" },
})
M.class = Table

return M
