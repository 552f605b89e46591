-- SPDX-License-Identifier: Apache-2.0
--- A streaming DataFrame: sources and steps, and the schema they make. Nothing runs here.
local fault = require "moontide.fault"
local object = require "moontide.object"
local steps = require "moontide.declare.steps"
local tree = require "moontide.declare.tree"
local writer = require "moontide.declare.writer"

local M = {}

---@class mt.DataFrame
---@field columns string[] names of the columns
---@field schema mt.ColumnInfo[] the columns; tostring gives DDL
---@field isStreaming boolean
---@field writeStream mt.DataStreamWriter a fresh writer at each access
---@field package _tree mt.TreeNode? nil: after a fault that `check` noted, or of a batch
---@field package _schema mt.Schema? nil: unknown, after a fault that `check` noted
---@field package _spread { n: integer, columns: string[] }? files that a batch is written into
---@field package _copy (fun(frame: mt.DataFrame, changes: table): mt.DataFrame)? of a batch
---@field package _flawed boolean? there was such a fault
---@field package _make (fun(state: table): mt.DataFrame)? of a bounded frame: makes one more
---@field package _apply (fun(frame: mt.DataFrame, make: function, ...): mt.DataFrame)? of a batch: runs a
--- step now
local DataFrame = {}

---@class mt.ColumnInfo
---@field name string
---@field type string Spark's DDL of the type
---@field nullable boolean

---@class mt.Row read-only view of one row, for one call: row.name
---@field [string] any the column's value

--- A frame over a source.
---@param source mt.Source
---@return mt.DataFrame
function M.of(source)
  return object.new(DataFrame, { _tree = tree.source(source), _schema = source.schema })
end

--- A frame of which nothing is known, after a fault that `check` noted.
function M.flawed()
  return object.new(DataFrame, { _flawed = true })
end

-- These name their columns whatever they are given, so behind them mistakes are found again.
local NAMES_COLUMNS = { [steps.map] = true, [steps.flat_map] = true, [steps.from_json] = true }

-- These look up names in the columns there are.
local LOOKS_UP = { [steps.select] = true, [steps.drop] = true, [steps.rename] = true }

-- A frame behind others: of their kind.
local function made(frame, state)
  if frame._make then return frame._make(state) end
  return object.new(DataFrame, state)
end

local function add(frame, make, ...)
  if frame._apply then return frame._apply(frame, make, ...) end
  if not frame._schema and LOOKS_UP[make] then return frame end
  local step = make(...)
  if not frame._schema and not NAMES_COLUMNS[make] then return frame end
  local schema = step:derive(frame._schema)
  return made(frame, { _tree = frame._tree and tree.step(step, { frame._tree }, schema),
    _flawed = frame._flawed, _schema = schema, _spread = frame._spread })
end
M.add = add

local function spread(frame, n, columns)
  local changes = { _spread = { n = n, columns = columns } }
  return frame._copy and frame._copy(frame, changes) or object.with(frame, changes)
end

-- Into how many files a union goes: as its first frame was told, else as the other; by columns of its own.
local function spread_of_union(one, other)
  local own = other._spread
  if one._spread or not own then return one._spread end
  local columns, names = {}, one._schema:names()
  for i, name in ipairs(own.columns) do columns[i] = names[other._schema.by_name[name].index + 1] end
  return { n = own.n, columns = columns }
end
M.spread_of_union = spread_of_union

-- select("a", "b") or select { "a", "b" }
local function names_of(...)
  local first = ...
  if select("#", ...) == 1 and type(first) == "table" then return first end
  return { ... }
end

--- Keeps the rows for which fn returns true; false and nil drop a row.
---@param fn fun(row: mt.Row): boolean?
---@return mt.DataFrame
function DataFrame:filter(fn)
  return add(self, steps.filter, fn)
end

--- The same as filter.
---@param fn fun(row: mt.Row): boolean?
---@return mt.DataFrame
function DataFrame:where(fn)
  return add(self, steps.filter, fn)
end

--- Makes of each row the row that fn returns as a table: a missing name is null, another is an error.
---@param ddl string columns of the result
---@param fn fun(row: mt.Row): table
---@return mt.DataFrame
function DataFrame:map(ddl, fn)
  return add(self, steps.map, ddl, fn)
end

--- Makes of each row any number of rows: fn returns an array of tables, empty for none.
---@param ddl string columns of the result
---@param fn fun(row: mt.Row): table[]
---@return mt.DataFrame
function DataFrame:flatMap(ddl, fn)
  return add(self, steps.flat_map, ddl, fn)
end

--- One column more, or another value for one that is there.
---@param name string
---@param type string
---@param fn fun(row: mt.Row): any
---@return mt.DataFrame
function DataFrame:withColumn(name, type, fn)
  return add(self, steps.with_column, name, type, fn)
end

--- Only these columns: names, "d.x" out of a STRUCT, "d.*" for all of it.
---@param ... string|string[]
---@return mt.DataFrame
function DataFrame:select(...)
  return add(self, steps.select, self._schema, names_of(...))
end

--- All columns but these.
---@param ... string|string[]
---@return mt.DataFrame
function DataFrame:drop(...)
  return add(self, steps.drop, self._schema, names_of(...))
end

--- Another name for a column.
---@param from string
---@param to string
---@return mt.DataFrame
function DataFrame:withColumnRenamed(from, to)
  return add(self, steps.rename, self._schema, from, to)
end

--- Parses JSON text into the columns of a DDL.
---@param column string STRING or BINARY
---@param ddl string
---@param options { as: string?, keep: string[]?, mode: string?, columnNameOfCorruptRecord: string? }?
---@return mt.DataFrame
function DataFrame:fromJson(column, ddl, options)
  return add(self, steps.from_json, self._schema, column, ddl, options)
end

-- Both read by one query: people and checkpoints tell them apart by name.
local function expect_distinct_sources(one, other)
  local by_name = {}
  for _, source in ipairs(tree.sources(one)) do by_name[source.name] = source end
  for _, source in ipairs(tree.sources(other)) do
    local known = by_name[source.name]
    if known and known ~= source then
      fault.raise(("union: two sources have the name %q; give one of its own with :name before :load, or use one "
        .. "frame twice: it is read once"):format(source.name))
    end
  end
end

local function kind_of(frame)
  return frame._apply and "a batch" or frame._make and "a bounded frame" or "a stream"
end

local function expect_alike(what, one, other)
  if not object.is_a(other, DataFrame) then
    fault.raise(("%s takes another frame, not %s"):format(what, other == nil and "nil" or "a " .. type(other)))
  elseif kind_of(one) ~= kind_of(other) then
    fault.raise(("%s: %s and %s do not go together"):format(what, kind_of(one), kind_of(other)))
  end
end

--- The rows of this frame, then those of another, in every batch. Columns go by their place and have the
--- names of this frame; their types are equal.
---@param other mt.DataFrame
---@return mt.DataFrame
function DataFrame:union(other)
  expect_alike("union", self, other)
  if not self._schema or not other._schema then
    return made(self, { _flawed = true, _schema = self._schema })
  end
  local step = steps.union(self._schema, other._schema)
  local schema = step:derive(self._schema, other._schema)
  if self._flawed or other._flawed then return made(self, { _flawed = true, _schema = schema }) end
  if not self._make then expect_distinct_sources(self._tree, other._tree) end
  return made(self, { _tree = tree.step(step, { self._tree, other._tree }, schema), _schema = schema,
    _spread = spread_of_union(self, other) })
end

--- The same as union.
---@param other mt.DataFrame
---@return mt.DataFrame
function DataFrame:unionAll(other)
  return self:union(other)
end

--- A union whose columns go by their names: the other frame has the same, in any order.
---@param other mt.DataFrame
---@return mt.DataFrame
function DataFrame:unionByName(other, ...)
  if not object.is_a(other, DataFrame) then fault.raise "unionByName takes another frame" end
  if select("#", ...) > 0 then fault.raise(("unionByName: %s"):format(object.known_in_spark "allowMissingColumns")) end
  if not self._schema or not other._schema then return self:union(other) end
  steps.expect_same_names(self._schema, other._schema)
  return self:union(other:select(self._schema:names()))
end

--- No more than n files a batch.
---@param n integer
---@return mt.DataFrame
function DataFrame:coalesce(n)
  steps.expect_coalesce(n)
  if not self._spread or self._spread.n <= n then return self end
  return spread(self, n, self._spread.columns)
end

--- n files a batch: its rows in order, in even parts; with columns, rows with equal values in one file.
---@param n integer|string without a number: one file
---@param ... string columns
---@return mt.DataFrame
function DataFrame:repartition(n, ...)
  if not self._schema then return self end
  steps.expect_repartition(self._schema, n, ...)
  if type(n) == "string" then return spread(self, 1, {}) end
  return spread(self, n, { ... })
end

--- Accepted as in Spark; a stream has nothing to keep.
---@return mt.DataFrame
function DataFrame:cache()
  return self
end

--- Accepted as in Spark; a stream has nothing to keep.
---@return mt.DataFrame
function DataFrame:persist()
  return self
end

--- Prints the schema as Spark's tree.
function DataFrame:printSchema()
  if self._schema then print((self._schema:tree():gsub("\n$", ""))) end
end

--- Prints the sources and the steps.
function DataFrame:explain()
  if self._tree then print(tree.text(self._tree)) end
end

local function column_infos(frame)
  local infos = {}
  for i, field in ipairs(frame._schema and frame._schema.fields or {}) do
    infos[i] = { name = field.name, type = field.ddl, nullable = field.nullable }
  end
  return setmetatable(infos, { __tostring = function()
    return frame._schema and frame._schema:ddl() or ""
  end })
end

-- What Spark refuses on a stream, with its words and the cure.
local function refused(name)
  return function(self)
    if self._flawed then return function() return self end end
    fault.raise(("%s: Queries with streaming sources must be executed with writeStream.start(); return "
      .. "df.writeStream… from the job, with :format \"console\" to look at rows"):format(name))
  end
end

local ACTIONS = { "count", "show", "collect", "take", "first", "head", "tail", "foreach", "isEmpty",
  "toLocalIterator", "toPandas", "describe", "summary", "rows", "limit" }
local getters = {
  columns = function(self) return self._schema and self._schema:names() or {} end,
  schema = column_infos,
  isStreaming = function() return true end,
  writeStream = function(self) return writer.of(self) end,
  write = function()
    fault.raise("'write' can not be called on streaming Dataset/DataFrame; use writeStream")
  end,
}
for _, name in ipairs(ACTIONS) do getters[name] = refused(name) end
function getters.limit()
  fault.raise("limit: Limit and take the first N rows are not supported on streaming Datasets; in foreachBatch, "
    .. "batch:limit(n) takes the first rows of a batch")
end

object.seal(DataFrame, {
  name = "DataFrame",
  getters = getters,
  hidden = ACTIONS,
  otherwise = M.flawed,
  newindex = "; a frame is changed by its methods, which give a new one",
  later = object.later [[agg alias approxQuantile checkpoint colRegex corr cov createGlobalTempView
    createOrReplaceGlobalTempView createOrReplaceTempView createTempView crossJoin crosstab cube distinct
    dropDuplicates dropDuplicatesWithinWatermark drop_duplicates dropna dtypes except exceptAll explode
    fillna foreachPartition freqItems groupBy groupby groupingSets hint inputFiles intersect
    intersectAll join joinWith lateralJoin localCheckpoint mapInArrow mapInPandas melt mergeInto na
    observe offset orderBy pivot randomSplit rdd reduce registerTempTable repartitionByRange
    replace rollup sameSemantics sample sampleBy selectExpr semanticHash sort sortWithinPartitions
    sparkSession sql stat storageLevel subtract to toDF toJSON transform transpose
    unpersist unpivot withColumns withColumnsRenamed withMetadata
    withWatermark writeTo]],
})
M.class, M.ACTIONS = DataFrame, ACTIONS

return M
