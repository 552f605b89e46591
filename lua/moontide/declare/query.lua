-- SPDX-License-Identifier: Apache-2.0
--- What a job returned: its queries, and each as a plan for the host, which is open sources and an
--- open sink, and the function that runs a batch.
local batchframe = require "moontide.batch.frame"
local config = require "moontide.config"
local core = require "moontide._core"
local dataframe = require "moontide.declare.dataframe"
local fault = require "moontide.fault"
local json = require "moontide.values.json"
local log = require "moontide.log"
local object = require "moontide.object"
local options = require "moontide.options"
local run = require "moontide.batch.run"
local schemas = require "moontide.schema"
local times = require "moontide.values.times"
local tree = require "moontide.declare.tree"
local writer = require "moontide.declare.writer"
local C = core.C

local M = {}

---@class mt.Plan
---@field name string?
---@field sources integer[] addresses of struct mt_source, now the host's
---@field sink integer? address of a struct mt_sink, now the host's; nil: a foreachBatch
---@field trigger mt.Trigger
---@field checkpoint string?
---@field start_options string JSON
---@field shape string JSON of what may not change unsaid between two starts
---@field time_zone string
---@field max_steps integer
---@field run fun(address: integer)
---@field keep any[] what must stay alive
---@field facts table for `check`: writer, sources, wanted columns of each, stages, schema

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

--- What a job returned, one by one: a query, or the entries of a list.
---@param value any
---@return any[]
function M.entries(value)
  if type(value) ~= "table" or getmetatable(value) ~= nil then return { value } end
  local list = {}
  for key in pairs(value) do
    if type(key) ~= "number" then
      fault.raise(("the job returned a table with the name %q; it returns a list of its queries: return { a, b }")
        :format(tostring(key)))
    end
    list[#list + 1] = key
  end
  table.sort(list)
  for i, key in ipairs(list) do
    if key ~= i then fault.raise(("entry %d of the list that the job returned is nil"):format(i)) end
    list[i] = value[key]
  end
  return list
end

-- What two queries of one job may not share, and the words for it.
local UNIQUE = {
  { of = function(query) return query._query_name end,
    words = "two queries have the name %q: give each one of its own with :queryName" },
  { of = writer.checkpoint,
    words = "two queries have the checkpointLocation %s: each keeps its place in a folder of its own" },
}

local function expect_distinct(queries)
  for _, unique in ipairs(UNIQUE) do
    local seen = {}
    for _, query in ipairs(queries) do
      local own = unique.of(query)
      if own and seen[own] then fault.raise(unique.words:format(own), query._at) end
      if own then seen[own] = true end
    end
  end
end

--- The queries that a job returned: one, or a list of them.
---@param value any
---@return mt.DataStreamWriter[]
function M.list(value)
  local queries = M.entries(value)
  for i = 1, math.max(1, #queries) do queries[i] = expect_query(queries[i]) end
  expect_distinct(queries)
  return queries
end

--- What a query is known by, at load, at a reload and when a batch is replayed.
---@param query mt.DataStreamWriter
---@param place integer in the job's list
---@return string
function M.identity(query, place)
  local checkpoint = writer.checkpoint(query)
  return checkpoint and "checkpoint " .. checkpoint
    or query._query_name and ("query %q"):format(query._query_name) or "query " .. place
end

--- True for a query no part of which was at fault under `check`.
---@param value any
---@return boolean
function M.is_whole(value)
  return object.is_a(value, writer.class) and not value._flawed and not value._flawed_frame
    and not value._left_out
end

local function needs_checkpoint(query)
  if query._temporary or writer.checkpoint(query) then return false end
  for _, name in ipairs(query._left_out or {}) do
    if name:lower() == "checkpointlocation" then return false end
  end
  local type_ = not query._foreach and C.mt_sink_type_of(query._format)
  return query._foreach ~= nil or type_ ~= nil and type_.needs_checkpoint
end

local function expect_checkpoint(query)
  if not needs_checkpoint(query) then return end
  fault.raise(("%s needs a checkpoint, the folder where the query keeps its place; "
    .. "add :option(\"checkpointLocation\", \"…\")"):format(query._foreach and "foreachBatch" or query._format),
    query._at)
end

-- A query's sink, the caller's, and what it points into; nil: its function writes.
local function sink_of(query, schema)
  if query._foreach then
    writer.expect_no_sink_options(query)
    return expect_checkpoint(query)
  end
  local made, sink, keep = pcall(writer.make_sink, query, schema)
  if not made and fault.noted then fault.guard(function() end, expect_checkpoint, query) end
  if not made then error(sink, 0) end
  local ok, problem = pcall(expect_checkpoint, query)
  if ok then return sink, keep end
  C.mt_sink_free(sink)
  error(problem, 0)
end

-- By names of one case; the core looks for these four.
local READS = { subscribe = "subscribe", subscribepattern = "subscribePattern", assign = "assign", path = "path" }

local function option_map(list)
  local map = {}
  for _, option in ipairs(list) do
    local name = option.name:lower()
    map[READS[name] or name] = option.secret and "***" or option.value
  end
  return map
end

-- What a restart or a reload compares with what the checkpoint began with.
local function shape_of(query, sources, sink, schema)
  local list = json.array {}
  for i, source in ipairs(sources) do
    list[i] = { name = source.name, format = source.format, options = option_map(source.options) }
  end
  return json.encode {
    sources = list,
    sink = sink and { identity = core.string(C.mt_sink_identity(sink)), columns = schema:ddl(),
      partitionBy = json.array(query._partition_by) } or { identity = "foreachBatch" },
  }
end

-- Where the sources were told to start, as JSON: of one, or a list.
local function start_options_of(sources)
  if #sources == 1 then return sources[1].start_options end
  local list = {}
  for i, source in ipairs(sources) do list[i] = source.start_options end
  return ("[%s]"):format(table.concat(list, ","))
end

-- The sources of a frame, opened, and the schemas of what they read.
local function open_sources(sources, wanted)
  local opened, reads = {}, {}
  for i, source in ipairs(sources) do
    opened[i] = core.gc(source.open(), C.mt_source_free)
    reads[i] = run.project(opened[i], source.schema, wanted[i])
  end
  return opened, reads
end

local function make(query)
  local frame = query._frame
  local sources, wanted = tree.sources(frame._tree), run.wanted(frame)
  local opened, reads = open_sources(sources, wanted)
  local stages, schema = run.bind(frame, reads)
  local sink, keep = sink_of(query, schema)
  return {
    name = query._query_name,
    sources = opened, sink = sink,
    trigger = query._trigger,
    checkpoint = writer.checkpoint(query),
    start_options = start_options_of(sources),
    shape = shape_of(query, sources, sink, schema),
    time_zone = times.zone(),
    max_steps = #stages,
    run = run.runner(stages, reads, query._foreach and batchframe.caller(query._foreach, schema, frame._spread)),
    keep = { keep, query, stages, schema, reads },
    facts = { query = query, sources = sources, wanted = wanted, stages = stages, schema = schema },
  }
end

-- Functions of a job that is not its state's only one: they read its own values with mt.conf, and errors
-- stand in its own files.
local function at_home(fn, home)
  return function(address)
    local config_before, job_before = config.use(home.config), fault.job(home.loaded)
    local ok, problem = pcall(fn, address)
    config.use(config_before)
    fault.job(job_before)
    if not ok then error(problem, 0) end
  end
end

--- Plans one query. Raises at the job's lines.
---@param query mt.DataStreamWriter
---@return mt.Plan
function M.plan(query)
  local plan = make(query)
  if plan.trigger.warning then log.warn(plan.trigger.warning) end
  if query._home then plan.run = at_home(plan.run, query._home) end
  for i, source in ipairs(plan.sources) do plan.sources[i] = core.address(core.gc(source, nil)) end
  plan.sink = plan.sink and core.address(plan.sink)
  return plan
end

--- Makes a plan, shows it, and closes its sources and sink again.
---@param query mt.DataStreamWriter
---@param show fun(plan: mt.Plan): any sources and sink are pointers here
function M.rehearse(query, show)
  local plan = make(query)
  local ok, result = pcall(show, plan)
  C.mt_sink_free(plan.sink)
  if not ok then error(result, 0) end
  return result
end

--- The mistakes in where rows go that do not hang on what the rows are, for a query whose frame was
--- at fault under `check`.
---@param value any
function M.rehearse_sink(value)
  if not object.is_a(value, writer.class) or value._flawed then return end
  local any = schemas.parse "any STRING"
  local sink, keep = sink_of(object.with(value, { _partition_by = {}, _spread = false }), any)
  C.mt_sink_free(sink)
  return keep
end

--- The options of a query's sink, for people.
---@param query mt.DataStreamWriter
---@return mt.Option[]
function M.sink_options(query)
  return options.without(query._options, "checkpointLocation")
end

return M
