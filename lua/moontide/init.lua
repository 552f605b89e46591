-- SPDX-License-Identifier: Apache-2.0
--- Moontide: Spark Structured Streaming's job, in Lua. `local mt = require "moontide"`.
local bounded = require "moontide.declare.bounded"
local config = require "moontide.config"
local dataframe = require "moontide.declare.dataframe"
local escape = require "moontide.rows.escape"
local fault = require "moontide.fault"
local json = require "moontide.values.json"
local json_parse = require "moontide.values.json_parse"
local log = require "moontide.log"
local memory = require "moontide.declare.memory"
local now = require "moontide.now"
local object = require "moontide.object"
local reader = require "moontide.declare.reader"
local rows = require "moontide.rows.row"
local suggest = require "moontide.suggest"
local value = require "moontide.values"
local writes = require "moontide.rows.writes"

-- A table of functions in which an unknown name is an error.
local function known(what, functions)
  return setmetatable(functions, { __index = function(_, key)
    fault.raise(("%s has no %q%s"):format(what, tostring(key), suggest.cure(key, suggest.keys(functions))))
  end })
end

---@class mt
---@field readStream mt.DataStreamReader a fresh reader at each access
---@field read mt.DataFrameReader a fresh reader at each access, of what has an end
---@field null any null, where nil cannot stand
---@field json { encode: (fun(v: any): string), decode: (fun(text: string): any) } exact JSON
---@field log { debug: fun(...), info: fun(...), warn: fun(...), error: fun(...) }
local mt = {
  null = value.NULL,
  log = { debug = log.debug, info = log.info, warn = log.warn, error = log.error },
  now = now.now,
  date = value.date,
  timestamp = value.timestamp,
  fmt = value.fmt,
  str = value.str,
  len = value.len,
  items = value.items,
  array = value.array,
  json = known("mt.json", { encode = json.encode, decode = json_parse.decode }),
}

--- A value from --set name=value, else from MOONTIDE_<NAME>, else the default.
---@generic T: string|number|boolean
---@param name string
---@param default T? its type is the result's; without one the value must be given
---@return T
function mt.conf(name, default)
  return fault.guard(function() return "<" .. tostring(name) .. ">" end, config.conf, name, default)
end

--- A value from --set, MOONTIDE_<NAME>, or a file named there as file:PATH. Never stored or printed.
---@param name string
---@return string
function mt.secret(name)
  return fault.guard(function() return config.stand_in_secret(name) end, config.secret, name)
end

--- A stream of rows that addData gives. For tests: what it holds does not outlive the process.
---@param ddl string
---@return mt.MemoryStream
function mt.memoryStream(ddl)
  return fault.guard(dataframe.flawed, memory.stream, ddl)
end

--- A bounded frame of rows: tables with the names of a DDL; a missing name is null.
---@param rows_ table<string, any>[]
---@param ddl string
---@return mt.BoundedFrame
function mt.createDataFrame(rows_, ddl)
  return fault.guard(bounded.flawed, bounded.create, rows_, ddl)
end

local orders = setmetatable({}, { __mode = "k" }) -- fields or shape -> names in order, and where each is

local function order_of(names, key)
  local order = { names = names, at = {} }
  for i, name in ipairs(names) do order.at[name] = i end
  orders[key] = order
  return order
end

local function order_of_row(fields)
  local names = {}
  for i, field in ipairs(fields) do names[i] = field.name end
  return order_of(names, fields)
end

-- A stateless iterator: a closure for each row would keep the row function from being compiled.
local function next_field(walk, name)
  local order = walk.order
  local key = order.names[name == nil and 1 or order.at[name] + 1]
  if key ~= nil then return key, walk.of[key] end
end

--- Walks names (or keys) and values in the order of the schema: `for name, v in mt.fields(row) do`.
---@param row mt.Row|table a row, or a STRUCT or MAP of one
function mt.fields(row)
  local fields = rows.fields_of(row)
  local order = orders[fields or row]
  if not order then
    local names = not fields and (value.names(row) or fault.raise "mt.fields takes a row, or a STRUCT or MAP of one")
    order = fields and order_of_row(fields) or order_of(names, row)
  end
  return next_field, { order = order, of = row }
end

--- A plain table with a deep copy of a row, or of a STRUCT, ARRAY or MAP in one: to change, and to
--- keep after the row's turn.
---@param row mt.Row|table
---@return table
function mt.totable(row)
  if not rows.fields_of(row) and not value.shape_of(row) then
    fault.raise "mt.totable takes a row, or a STRUCT, ARRAY or MAP of one"
  end
  return rows.plain(row)
end

--- The row with other values in some columns, for map to return: `return mt.with(row, { amount = 0 })`.
---@param row mt.Row|table a row, or a STRUCT of one
---@param changes table<string, any> mt.null makes a column null
---@return table
function mt.with(row, changes)
  local shape = value.shape_of(row)
  if not rows.is_row(row) and not (shape and shape.kind == "STRUCT") then
    fault.raise "mt.with takes a row, or a STRUCT of one, and a table of what changes"
  end
  if type(changes) ~= "table" or getmetatable(changes) ~= nil then
    fault.raise "mt.with takes a table of what changes: mt.with(row, { amount = 0 })"
  end
  local result = rows.with(row, changes)
  return result
end

escape.views[mt.with] = true
for _, name in ipairs { "len", "items", "fields" } do writes.harmless[mt[name]] = true end
for _, name in ipairs { "totable", "str" } do writes.harmless[mt[name]] = "copy" end

local function later(name)
  return ("mt.%s is not here yet"):format(name)
end

local LATER = { file = "mt.file is for job files" }
LATER.odbc = later "odbc"
for _, name in ipairs { "awaitAny", "job", "table" } do
  LATER[name] = ("mt.%s is for `moontide lua`, the shell and specs, where queries start; a job returns them")
    :format(name)
end
for name in ("col expr lit sql udf functions streams range catalog udtf"):gmatch "%S+" do
  LATER[name] = object.known_in_spark("mt." .. name)
end

return setmetatable(mt, {
  __index = function(_, key)
    if key == "readStream" then return reader.new() end
    if key == "read" then return bounded.reader() end
    if LATER[key] then fault.raise(LATER[key]) end
    local names = suggest.keys(mt)
    names[#names + 1], names[#names + 2] = "readStream", "read"
    fault.raise(("mt has no %q%s"):format(tostring(key), suggest.cure(key, names)))
  end,
  __newindex = function(_, key)
    fault.raise(("mt.%s is not to be assigned to"):format(tostring(key)))
  end,
})
