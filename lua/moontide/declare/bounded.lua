-- SPDX-License-Identifier: Apache-2.0
--- Bounded frames: mt.read…:load() and mt.createDataFrame. Steps are recorded as those of a stream are;
--- what asks for rows (count, collect, show, …) reads and runs them, anew each time.
local bounded = require "moontide.batch.bounded"
local core = require "moontide._core"
local dataframe = require "moontide.declare.dataframe"
local fault = require "moontide.fault"
local memory = require "moontide.declare.memory"
local object = require "moontide.object"
local ops = require "moontide.batch.ops"
local options = require "moontide.options"
local parquet = require "moontide.batch.parquet"
local paths = require "moontide.paths"
local rows = require "moontide.rows.row"
local schemas = require "moontide.schema"
local steps = require "moontide.declare.steps"
local suggest = require "moontide.suggest"
local tree = require "moontide.declare.tree"
local C = core.C

local M = {}

---@class mt.BoundedFrame: mt.DataFrame
local Frame = {}

local function make(state)
  state._make = make
  return object.new(Frame, state)
end

local function of(source)
  return make { _tree = tree.source(source), _schema = source.schema }
end

-- ---- steps that a stream has not

--- The first n rows.
---@param n integer
---@return mt.BoundedFrame
function Frame:limit(n)
  return dataframe.add(self, steps.limit, n)
end

-- ---- rows

-- Calls fn with each batch of the frame; nothing is there behind a fault that `check` noted.
local function each_batch(self, fn)
  if not self._tree then return end
  local next_batch, schema = bounded.batches(self)
  for batch in next_batch do
    local ok, problem = pcall(fn, batch, schema)
    C.mt_batch_release(batch)
    if not ok then error(problem, 0) end
  end
end

--- How many rows there are.
---@return integer
function Frame:count()
  local n = 0
  each_batch(self, function(batch) n = n + tonumber(batch.array.length) end)
  return n
end

--- All rows as plain tables.
---@return table<string, any>[]
function Frame:collect()
  local list = {}
  each_batch(self, function(batch, schema)
    for _, row in ipairs(rows.tables(schema, batch.array)) do list[#list + 1] = row end
  end)
  return list
end

--- The first n rows as plain tables.
---@param n integer
---@return table<string, any>[]
function Frame:take(n)
  steps.expect_rows("take", n)
  return self:limit(n):collect()
end

--- The first row as a plain table; nil: there is none.
---@return table<string, any>?
function Frame:first()
  return self:limit(1):collect()[1]
end

--- Whether there is no row.
---@return boolean
function Frame:isEmpty()
  return self:limit(1):count() == 0
end

--- Walks the rows, plain tables, some of which are in memory at a time: `for row in df:rows() do`.
---@return fun(): table<string, any>?
function Frame:rows()
  if not self._tree then return function() end end
  local next_batch, schema = bounded.batches(self)
  local list, i = {}, 0
  return function()
    i = i + 1
    while not list[i] do
      local batch = next_batch()
      if not batch then return nil end
      list, i = rows.tables(schema, batch.array), 1
      C.mt_batch_release(batch)
    end
    return list[i]
  end
end

-- The first n rows as one batch, which the caller releases.
local function first_rows(self, n)
  local next_batch, schema = bounded.batches(self:limit(n))
  local all
  for batch in next_batch do
    local both = all and ops.union(all, batch, schema)
    if both then
      C.mt_batch_release(all)
      C.mt_batch_release(batch)
    end
    all = both or batch
  end
  return all, schema
end

--- Prints the first rows as a table.
---@param n integer? 20
---@param truncate boolean|integer? true: 20 characters a cell; false: all; or how many
function Frame:show(n, truncate)
  n = n or 20
  steps.expect_rows("show", n)
  if not self._tree then return end
  local all, schema = first_rows(self, n + 1)
  local array = all and all.array or memory.array_of(schema, {})
  local more = tonumber(array.length) > n
  local shown = all and ops.first(all, math.min(n, tonumber(array.length)))
  local cut = truncate == false and 0 or tonumber(truncate) or 20
  print((core.take(C.mt_table_text(schema.c, shown and shown.array or array, cut)):gsub("\n$", "")))
  if more then print(("only showing top %d row%s"):format(n, n == 1 and "" or "s")) end
  for _, batch in ipairs { all, shown } do C.mt_batch_release(batch) end
  if not all then array.release(array) end
end

local getters = {
  isStreaming = function() return false end,
  writeStream = function()
    fault.raise "'writeStream' can be called only on streaming Dataset/DataFrame; a stream is mt.readStream…:load()"
  end,
  write = function() fault.raise(object.known_in_spark "write of a bounded frame") end,
}
for _, name in ipairs(dataframe.ACTIONS) do
  if not Frame[name] then getters[name] = function() fault.raise(object.known_in_spark(name)) end end
end

object.seal(Frame, {
  name = "DataFrame",
  parent = dataframe.class,
  getters = getters,
  hidden = { "writeStream" },
  otherwise = function() return make { _flawed = true } end,
  newindex = "; a frame is changed by its methods, which give a new one",
})
M.class = Frame

-- ---- mt.createDataFrame

local made = 0

--- A bounded frame of rows: tables with the names of a DDL; a missing name is null.
---@param list table<string, any>[]
---@param ddl string
---@return mt.BoundedFrame
function M.create(list, ddl)
  fault.expect("createDataFrame: the rows", list, "table")
  if type(ddl) ~= "string" then
    fault.raise(("createDataFrame takes rows and their columns as DDL, \"id BIGINT, name STRING\", not %s"):format(
      ddl == nil and "rows alone" or "a " .. type(ddl)))
  end
  local schema, problem = schemas.parse(ddl)
  if not schema then fault.raise("createDataFrame: " .. problem) end
  local clash = schema:clash()
  if clash then fault.raise(("createDataFrame: two columns are named %q"):format(clash)) end
  made = made + 1
  local name = "rows" .. made
  return of {
    format = "rows", name = name, words = "rows " .. name, options = {}, at = fault.here(), schema = schema,
    begin = bounded.of_rows(schema, memory.array_of(schema, list, "createDataFrame")),
  }
end

--- What stands for a frame at fault, under `check`.
function M.flawed()
  return make { _flawed = true }
end

-- ---- mt.read

---@class mt.DataFrameReader
---@field package _format string?
---@field package _options mt.Option[]
---@field package _flawed boolean?
local Reader = {}

---@return mt.DataFrameReader
function M.reader()
  return object.new(Reader, { _options = {} })
end

--- What is read: "parquet" (also where none is named).
---@param name string
---@return mt.DataFrameReader
function Reader:format(name)
  fault.expect("format", name, "string")
  return object.with(self, { _format = name:lower() })
end

--- Sets an option.
---@param name string in any case
---@param value_ string|number|boolean|table
---@return mt.DataFrameReader
function Reader:option(name, value_)
  if type(name) == "string" and name:lower() == "path" and type(value_) == "string" then
    value_ = paths.absolute(value_)
  end
  return object.with(self, { _options = options.add(self._options, name, value_) })
end

--- Sets several options.
---@param map table<string, string|number|boolean|table>
---@return mt.DataFrameReader
function Reader:options(map)
  fault.expect("options", map, "table")
  for name in pairs(map) do fault.expect("the name of an option", name, "string") end
  for _, name in ipairs(suggest.keys(map)) do self = self:option(name, map[name]) end
  return self
end

local LATER = object.later [[mergeSchema pathGlobFilter recursiveFileLookup modifiedBefore modifiedAfter
  datetimeRebaseMode int96RebaseMode ignoreCorruptFiles ignoreMissingFiles]]

local function expect_path_alone(list)
  for _, option in ipairs(list) do
    if option.name:lower() ~= "path" then
      for name, words in pairs(LATER) do
        if name:lower() == option.name:lower() then fault.raise("parquet: option " .. words, option.at) end
      end
      fault.raise(("parquet: unknown option %q; there is: path"):format(option.name), option.at)
    end
  end
end

local FORMATS, NOT_YET = { "parquet" }, { json = true, csv = true, orc = true, text = true, kafka = true, odbc = true,
  jdbc = true, delta = true, avro = true, xml = true }

local function expect_format(format)
  if format == "parquet" then return end
  if NOT_YET[format] then fault.raise(("mt.read: format %q is known in Spark, not here yet"):format(format)) end
  fault.raise(("mt.read: unknown format %q%s"):format(format, suggest.cure(format, FORMATS)))
end

--- The frame of what is read. Which columns a table has is looked for now, its rows when they are asked for.
---@param path string? the same as option "path"
---@return mt.BoundedFrame
function Reader:load(path)
  if self._flawed then return M.flawed() end
  if path ~= nil then return self:option("path", path):load() end
  expect_format(self._format or "parquet")
  expect_path_alone(self._options)
  local option = options.find(self._options, "path")
  if not option then fault.raise "parquet: say what is read, :load \"path\"" end
  local schema, begin = parquet.table(option.value)
  return of {
    format = "parquet", name = option.value, words = "parquet " .. option.value, options = self._options,
    at = fault.here(), schema = schema, begin = begin,
  }
end

--- The same as format "parquet" and load.
---@param path string
---@return mt.BoundedFrame
function Reader:parquet(path)
  return self:format "parquet":load(path)
end

object.seal(Reader, {
  name = "DataFrameReader",
  callable = true,
  otherwise = function(_, method) return (method == "load" or method == "parquet") and M.flawed() or nil end,
  newindex = "; set options with :option(name, value)",
  later = object.later "schema table csv json orc text xml jdbc",
})

return M
