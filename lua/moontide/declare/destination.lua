-- SPDX-License-Identifier: Apache-2.0
--- Where rows go, as a job says it: what the writer of a stream and that of a batch have in common.
local core = require "moontide._core"
local fault = require "moontide.fault"
local object = require "moontide.object"
local options = require "moontide.options"
local paths = require "moontide.paths"
local suggest = require "moontide.suggest"

local M = {}

---@class mt.Destination
---@field package _frame mt.DataFrame
---@field package _format string
---@field package _options mt.Option[]
---@field package _partition_by string[]
---@field package _spread { n: integer, columns: string[] }? files that a batch is written into
---@field package _name string?
---@field package _at mt.At where :format, else .writeStream or .write stands
---@field package _flawed boolean?
---@field package _left_out string[]? under `check`: options that were at fault
local Destination = {}

--- What every destination begins with.
---@param frame mt.DataFrame
---@return table
function M.state(frame)
  return { _frame = frame, _format = "parquet", _options = {}, _partition_by = {}, _at = fault.here(),
    _flawed = frame._flawed, _spread = frame._spread }
end

--- Where the rows go: parquet (the default), console, memory, noop.
---@generic T: mt.Destination
---@param self T
---@param name string
---@return T
function Destination:format(name)
  fault.expect("format", name, "string")
  return object.with(self, { _format = name:lower(), _at = fault.here() })
end

--- The path of an option, save or the like, as the one name of its folder.
---@param what string
---@param path any
---@return string
function M.path(what, path)
  fault.expect(what, path, "string")
  if path == "" then fault.raise(what .. " is empty") end
  return paths.absolute(path)
end

--- Sets an option of the sink.
---@generic T: mt.Destination
---@param self T
---@param name string in any case
---@param value string|number|boolean
---@return T
function Destination:option(name, value)
  if type(name) == "string" and name:lower() == "path" then value = M.path('option "path"', value) end
  return object.with(self, { _options = options.add(self._options, name, value) })
end

--- Sets several options.
---@generic T: mt.Destination
---@param self T
---@param map table<string, string|number|boolean>
---@return T
function Destination:options(map)
  fault.expect("options", map, "table")
  for name in pairs(map) do fault.expect("the name of an option", name, "string") end
  for _, name in ipairs(suggest.keys(map)) do self = self:option(name, map[name]) end
  return self
end

--- The sink's name: how it knows its batches after its options changed.
---@generic T: mt.Destination
---@param self T
---@param name string
---@return T
function Destination:name(name)
  options.expect_name("name", name)
  return object.with(self, { _name = name })
end

--- Folders of files by the values of these columns: column=value/.
---@generic T: mt.Destination
---@param self T
---@param ... string|string[]
---@return T
function Destination:partitionBy(...)
  local names = select("#", ...) == 1 and type(...) == "table" and (...) or { ... }
  local seen = {}
  for _, name in ipairs(names) do
    fault.expect("partitionBy", name, "string")
    local schema = self._frame._schema
    local field, cure = true, nil
    if schema then field, cure = schema:find(name) end
    if not field then fault.raise(("partitionBy: there is no column %q%s"):format(name, cure)) end
    if seen[name] then fault.raise(("partitionBy: %q is named twice"):format(name)) end
    seen[name] = true
  end
  if self._frame._schema and #names > 0 and #names == #self._frame._schema.fields then
    fault.raise "partitionBy takes every column: leave one for the files"
  end
  return object.with(self, { _partition_by = names })
end

local function names_of(columns)
  local list = {}
  for i, name in ipairs(columns) do list[i] = { name = name } end
  return core.pairs(list)
end

--- The settings of a sink, and what they point into.
---@param self mt.Destination
---@param list mt.Option[]
---@return ffi.cdata* struct mt_sink_settings
---@return any[] keep
function M.settings(self, list)
  local settings = core.new "struct mt_sink_settings"
  local given, keep = core.pairs(list)
  local partition_by, keep_too = names_of(self._partition_by)
  local spread = self._spread or { n = 0, columns = {} }
  local spread_by, keep_more = names_of(spread.columns)
  settings.format, settings.name, settings.n_files = self._format, self._name, spread.n
  settings.options, settings.partition_by, settings.spread_by = given, partition_by, spread_by
  return settings, { keep, keep_too, keep_more, self, settings }
end

object.seal(Destination, {
  name = "Destination",
  otherwise = function(self, method, first)
    if method == "option" or method == "options" then return options.leave_out(self, first) end
  end,
})
M.class = Destination

return M
