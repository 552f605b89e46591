-- SPDX-License-Identifier: Apache-2.0
--- The writer of a stream: what a job returns. Every call gives a fresh one.
local core = require "moontide._core"
local destination = require "moontide.declare.destination"
local fault = require "moontide.fault"
local object = require "moontide.object"
local options = require "moontide.options"
local suggest = require "moontide.suggest"
local C = core.C

local M = {}

---@class mt.DataStreamWriter: mt.Destination
---@field package _trigger mt.Trigger
---@field package _query_name string?
---@field package _foreach function? of foreachBatch: it says itself where rows go
---@field package _flawed boolean? under `check`: one of its own methods was at fault
---@field package _flawed_frame boolean? and: its frame was
---@field package _given table<string, boolean> methods that name a sink, as far as called
local Writer = {}

---@class mt.Trigger
---@field kind "default"|"processingTime"|"availableNow"|"once"
---@field interval_ms integer
---@field text string as given, for people
---@field warning string? what speaks against it

--- A writer of a frame.
---@param frame mt.DataFrame
---@return mt.DataStreamWriter
function M.of(frame)
  local state = destination.state(frame)
  state._flawed, state._flawed_frame = nil, frame._flawed
  state._trigger, state._given = { kind = "default", interval_ms = 0, text = "at once" }, {}
  return object.new(Writer, state)
end

-- ---- one sink that is declared, or a function

local function clash(name, at)
  fault.raise(("foreachBatch says itself where rows go: leave :%s away and write batch.write:%s … inside the "
    .. "function"):format(name, name), at)
end

-- A method that says something of the declared sink.
local function of_a_sink(name)
  Writer[name] = function(self, ...)
    if self._foreach then clash(name) end
    local changed, given = destination.class[name](self, ...), { [name] = true }
    for one in pairs(self._given) do given[one] = true end
    return object.with(changed, { _given = given })
  end
end
for _, name in ipairs { "format", "partitionBy", "name" } do of_a_sink(name) end

--- Hands each batch to a function, which writes it wherever it wants, exactly once to each sink
--- that can.
---@param fn fun(batch: mt.Batch, id: integer, state: mt.State)
---@return mt.DataStreamWriter
function Writer:foreachBatch(fn)
  if type(fn) ~= "function" then
    fault.raise(("foreachBatch takes a function of the batch, its id and the state, not %s"):format(
      fn == nil and "nil" or "a " .. type(fn)))
  end
  if self._foreach then fault.raise "foreachBatch is given twice; one function may write to several sinks" end
  local given = next(self._given)
  if given then clash(given) end
  return object.with(self, { _foreach = fn, _at = fault.here() })
end

--- Refuses options of a foreachBatch that belong to the sinks inside it.
---@param self mt.DataStreamWriter
function M.expect_no_sink_options(self)
  for _, option in ipairs(options.without(self._options, "checkpointLocation")) do
    local words = ("option %q is one of a sink; beside foreachBatch there is checkpointLocation alone, the others "
      .. "stand at batch.write inside the function"):format(option.name)
    fault.guard(function() end, fault.raise, words, option.at)
  end
end

local function expect_local(path)
  if not path:find "^%a[%w+.-]*://" or path:find "^[fF]ile:" then return end
  fault.raise(("checkpointLocation is a folder on a local disk, not %s: a batch is committed by a write "
    .. "that is durable at once and by one process alone"):format(path))
end

--- Sets an option of the sink, or checkpointLocation.
---@param name string in any case
---@param value string|number|boolean
---@return mt.DataStreamWriter
function Writer:option(name, value)
  if type(name) ~= "string" or name:lower() ~= "checkpointlocation" then
    return destination.class.option(self, name, value)
  end
  if type(value) == "string" then expect_local(value) end
  local path = destination.path('option "checkpointLocation"', value)
  return object.with(self, { _options = options.add(self._options, name, path) })
end

--- What of the result is written. "append" is the one there is.
---@param mode string
---@return mt.DataStreamWriter
function Writer:outputMode(mode)
  fault.expect("outputMode", mode, "string")
  local word = mode:lower()
  if word == "append" then return self end
  if word == "complete" or word == "update" then
    fault.raise(("[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: %s. This "
      .. "output mode is not supported for no streaming aggregations on streaming DataFrames/DataSets; "
      .. "write :outputMode \"append\""):format(word))
  end
  fault.raise(("unknown output mode %q%s"):format(mode,
    suggest.cure(mode, { "append", "update", "complete" })))
end

local TRIGGERS = { "processingTime", "availableNow", "once" }
local TRIGGERS_LATER = { continuous = true, realTime = true }

local function processing_time(text)
  if type(text) ~= "string" then
    fault.raise(("trigger: processingTime is a text such as \"10 seconds\", not a %s"):format(type(text)))
  end
  local ms = core.new "int64_t[1]"
  if C.mt_trigger_parse_interval(text, ms, core.err) ~= 0 then fault.raise((core.failure())) end
  return { kind = "processingTime", interval_ms = tonumber(ms[0]), text = "every " .. text }
end

local function flag_trigger(kind, value, text)
  if value ~= true then
    fault.raise(("trigger: %s is true or not given, not %s"):format(kind, tostring(value)))
  end
  return { kind = kind, interval_ms = 0, text = text }
end

local ONCE_WARNING = "trigger once takes all that is there into one batch, whatever its size; Spark has "
  .. "deprecated it: availableNow keeps to the limits"

local function expect_one_trigger(given)
  local kinds = suggest.keys(given)
  for _, kind in ipairs(kinds) do
    if TRIGGERS_LATER[kind] then fault.raise("trigger: " .. object.known_in_spark(kind)) end
    if kind ~= "processingTime" and kind ~= "availableNow" and kind ~= "once" then
      fault.raise(("unknown trigger %q%s"):format(kind, suggest.cure(kind, TRIGGERS)))
    end
  end
  if #kinds == 0 then
    fault.raise("trigger takes one of { processingTime = \"10 seconds\" }, { availableNow = true }, "
      .. "{ once = true }")
  elseif #kinds > 1 then
    fault.raise(("trigger takes exactly one kind, not %s"):format(table.concat(kinds, " and ")))
  end
end

--- When a batch starts: exactly one of the three. Without a trigger: at once after the last.
---@param given { processingTime: string?, availableNow: boolean?, once: boolean? }
---@return mt.DataStreamWriter
function Writer:trigger(given)
  fault.expect("trigger", given, "table")
  for key in pairs(given) do
    if type(key) ~= "string" then
      fault.raise "trigger takes names: { processingTime = \"10 seconds\" }"
    end
  end
  expect_one_trigger(given)
  local trigger = given.processingTime ~= nil and processing_time(given.processingTime)
    or given.availableNow ~= nil
      and flag_trigger("availableNow", given.availableNow, "what is there now, then end")
    or flag_trigger("once", given.once, "one batch of what is there now, then end")
  if trigger.kind == "once" then trigger.warning = ONCE_WARNING end
  return object.with(self, { _trigger = trigger })
end

--- The query's name, in progress and logs, and of its memory table.
---@param name string
---@return mt.DataStreamWriter
function Writer:queryName(name)
  options.expect_name("queryName", name)
  return object.with(self, { _query_name = name })
end

--- Starts a query, where scripts drive their queries themselves; nil: a job file returns it.
---@type (fun(writer: mt.DataStreamWriter): mt.StreamingQuery)?
M.starter = nil

local function expect_starter(name)
  if M.starter then return end
  fault.raise(("%s: a job file does not start its query; leave :%s() away and return the query: "
    .. "return df.writeStream…"):format(name, name))
end

--- Starts the query, under `moontide lua` and in the shell; a job file returns it instead.
---@param path string? the same as option "path"
---@return mt.StreamingQuery
function Writer:start(path)
  expect_starter "start"
  if path ~= nil then self = self:option("path", path) end
  return M.starter(self)
end

function Writer:toTable() -- luacheck: ignore self
  expect_starter "toTable"
  fault.raise(object.known_in_spark "toTable")
end

-- The sink, owned by the caller, and what it may point into; nil: the core failed.
local function make(self, list, schema)
  local settings, keep = destination.settings(self, options.without(list, "checkpointLocation"))
  settings.query_name = self._query_name
  local out = core.new "struct mt_sink *[1]"
  if C.mt_sink_new(settings, schema.c, out, core.err) ~= 0 then return nil end
  return out[0], { keep, schema }
end

--- The mistakes of a writer that only the whole of it shows, at the job's lines; and its sink.
---@param self mt.DataStreamWriter
---@param schema mt.Schema of the rows, outlives the sink
---@return ffi.cdata*? sink owned by the caller; nil: under `check`, for want of an option that was at fault
---@return table? keep what the sink may point into
function M.make_sink(self, schema)
  local sink, keep = make(self, self._options, schema)
  if sink == nil then
    options.fail(self._options, self._at, function(list)
      local probe = make(self, list, schema)
      if probe then C.mt_sink_free(probe) end
      return probe ~= nil
    end, self._left_out)
  end
  return sink, keep
end

---@param self mt.DataStreamWriter
---@return string? absolute
function M.checkpoint(self)
  local option = options.find(self._options, "checkpointLocation")
  return option and option.value
end

object.seal(Writer, {
  name = "DataStreamWriter",
  parent = destination.class,
  callable = true,
  newindex = "; set options with :option(name, value)",
  later = object.later "foreach clusterBy insertInto save saveAsTable",
})
M.class = Writer

return M
