-- SPDX-License-Identifier: Apache-2.0
--- The reader of streams: format, options, load. Every call gives a fresh one.
local core = require "moontide._core"
local dataframe = require "moontide.declare.dataframe"
local fault = require "moontide.fault"
local json = require "moontide.values.json"
local object = require "moontide.object"
local options = require "moontide.options"
local paths = require "moontide.paths"
local schemas = require "moontide.schema"
local C = core.C

local M = {}

---@class mt.DataStreamReader
---@field package _format string?
---@field package _options mt.Option[]
---@field package _name string?
---@field package _flawed boolean?
---@field package _left_out string[]? under `check`: options that were at fault
local Reader = {}

--- Where rows come from: what a plan needs to open it.
---@class mt.Source
---@field format string
---@field name string
---@field words string one line for people
---@field options mt.Option[]
---@field schema mt.Schema of all its columns
---@field at mt.At
---@field start_options string JSON of where it was told to start
---@field node mt.TreeNode? once a frame was made of it
---@field open fun(): ffi.cdata* a struct mt_source *, the caller's

---@return mt.DataStreamReader
function M.new()
  return object.new(Reader, { _options = {} })
end

--- What kind of source: "kafka".
---@param name string
---@return mt.DataStreamReader
function Reader:format(name)
  fault.expect("format", name, "string")
  return object.with(self, { _format = name:lower() })
end

--- Sets an option; JSON options may be tables.
---@param name string in any case
---@param value string|number|boolean|table
---@return mt.DataStreamReader
function Reader:option(name, value)
  if type(name) == "string" and name:lower() == "path" and type(value) == "string" then
    value = paths.absolute(value)
  end
  return object.with(self, { _options = options.add(self._options, name, value) })
end

--- Sets several options.
---@param map table<string, string|number|boolean|table>
---@return mt.DataStreamReader
function Reader:options(map)
  return object.with(self, { _options = options.add_all(self._options, map) })
end

--- Names the source.
---@param name string
---@return mt.DataStreamReader
function Reader:name(name)
  options.expect_name("name", name)
  return object.with(self, { _name = name })
end

local STARTS = { "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp" }

-- Where the source was told to start, to be compared on a restart.
local function start_options(list)
  local starts = {}
  for _, name in ipairs(STARTS) do
    local option = options.find(list, name)
    starts[name] = option and option.value
  end
  return json.encode(starts)
end

-- The source, owned by the caller; nil: the core failed.
local function make(reader, list)
  local given, keep = core.pairs(list)
  local out = core.new "struct mt_source *[1]"
  if C.mt_source_new(reader._format, given, out, core.err) ~= 0 then return nil end
  return out[0], keep
end

-- nil: under `check`, for want of an option that was at fault.
local function open(reader, at)
  local source, keep = make(reader, reader._options)
  if source == nil then
    options.fail(reader._options, at, function(list)
      local probe = make(reader, list)
      if probe then C.mt_source_free(probe) end
      return probe ~= nil
    end, reader._left_out)
    return nil
  end
  if reader._name then C.mt_source_rename(source, reader._name) end
  return source, keep
end

--- Under mt.job: the stream that stands in for the source of this name, or nil for the source itself.
---@type (fun(name: string): mt.DataFrame?)?
M.stand_in = nil

--- The frame of what is read. Touches no server.
---@param path string? the same as option "path"
---@return mt.DataFrame
function Reader:load(path)
  if self._flawed then return dataframe.flawed() end
  if path ~= nil then return self:option("path", path):load() end
  if not self._format then fault.raise "readStream: name a format first: :format \"kafka\"" end
  local at = fault.here()
  local probe = open(self, at)
  if not probe then return dataframe.flawed() end
  core.gc(probe, C.mt_source_free)
  if self._left_out then return dataframe.flawed() end
  local name = core.string(C.mt_source_name(probe))
  local other = M.stand_in and M.stand_in(name)
  if other then return other end
  return dataframe.of {
    format = self._format, name = name, options = self._options, at = at,
    words = ("%s %s"):format(self._format, name),
    schema = schemas.copy(C.mt_source_schema(probe)),
    start_options = start_options(self._options),
    open = function() return (open(self, at)) end,
  }
end

object.seal(Reader, {
  name = "DataStreamReader",
  callable = true,
  otherwise = function(self, method, first)
    if method == "load" then return dataframe.flawed() end
    if method == "option" or method == "options" then return options.leave_out(self, first) end
  end,
  newindex = "; set options with :option(name, value)",
  later = object.later "schema table csv json orc parquet text xml changes jdbc",
})

M.class = Reader

return M
