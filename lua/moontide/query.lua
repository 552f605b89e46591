-- SPDX-License-Identifier: Apache-2.0
--- What a job returned, as a plan for the host: an open source and sink, and the function that
--- runs a batch.
local core = require "moontide._core"
local dataframe = require "moontide.dataframe"
local fault = require "moontide.fault"
local log = require "moontide.log"
local object = require "moontide.object"
local options = require "moontide.options"
local run = require "moontide.run"
local writer = require "moontide.writer"
local C = core.C

local M = {}

---@class mt.Plan
---@field name string?
---@field source integer address of a struct mt_source, now the host's
---@field sink integer address of a struct mt_sink, now the host's
---@field trigger mt.Trigger
---@field checkpoint string?
---@field start_options string JSON
---@field time_zone string
---@field max_steps integer
---@field run fun(address: integer)
---@field keep any[] what must stay alive
---@field facts table for `check`: writer, wanted columns, stages, schema

local function expect_query(value)
  if object.is_a(value, writer.class) then return value end
  if object.is_a(value, dataframe.class) then
    fault.raise "the job returned a DataFrame; end it with .writeStream and where the rows go"
  elseif value == nil then
    fault.raise "the job returned nothing; it returns its query: return df.writeStream…"
  end
  local what = getmetatable(value) and type(value) == "table" and tostring(value) or type(value)
  fault.raise(("the job returned a %s; it returns its query: return df.writeStream…"):format(what))
end

--- The writers among what a job returned: one, or a list of one.
---@param value any
---@return mt.DataStreamWriter
function M.only(value)
  if type(value) ~= "table" or getmetatable(value) ~= nil then return expect_query(value) end
  if #value > 1 then
    fault.raise(("the job returned %d queries; one query a file for now, several come later"):format(#value))
  end
  return expect_query(value[1])
end

--- True for a query no part of which was at fault under `check`.
---@param value any
---@return boolean
function M.is_whole(value)
  return object.is_a(value, writer.class) and not value._flawed
end

local function expect_checkpoint(query, sink)
  if writer.checkpoint(query) or not C.mt_sink_needs_checkpoint(sink) then return end
  fault.raise(("%s needs a checkpoint, the folder where the query keeps its place; "
    .. "add :option(\"checkpointLocation\", \"…\")"):format(query._format), query._at)
end

local function make(query)
  local frame = query._frame
  local source = core.gc(frame._source.open(), C.mt_source_free)
  local names = run.wanted(frame)
  local read = run.project(source, frame._source.schema, names)
  local stages, schema = run.bind(frame._steps, read)
  local sink, keep = writer.make_sink(query, schema)
  local ok, problem = pcall(expect_checkpoint, query, sink)
  if not ok then
    C.mt_sink_free(sink)
    error(problem, 0)
  end
  return {
    name = query._query_name,
    source = source, sink = sink,
    trigger = query._trigger,
    checkpoint = writer.checkpoint(query),
    start_options = frame._source.start_options,
    time_zone = "UTC",
    max_steps = #stages,
    run = run.runner(stages, read),
    keep = { keep, query, stages, schema, read },
    facts = { query = query, wanted = names, stages = stages, schema = schema },
  }
end

--- Plans what a job returned. Raises at the job's lines.
---@param value any
---@return mt.Plan[] one plan
function M.plan(value)
  local plan = make(M.only(value))
  if plan.trigger.warning then log.warn(plan.trigger.warning) end
  plan.source = core.address(core.gc(plan.source, nil))
  plan.sink = core.address(plan.sink)
  return { plan }
end

--- Makes a plan, shows it, and closes its source and sink again.
---@param value any
---@param show fun(plan: mt.Plan): any source and sink are pointers here
function M.rehearse(value, show)
  local plan = make(M.only(value))
  local ok, result = pcall(show, plan)
  C.mt_sink_free(plan.sink)
  if not ok then error(result, 0) end
  return result
end

--- The options of a query's sink, for people.
---@param query mt.DataStreamWriter
---@return mt.Option[]
function M.sink_options(query)
  return options.without(query._options, "checkpointLocation")
end

return M
