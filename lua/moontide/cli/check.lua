-- SPDX-License-Identifier: Apache-2.0
--- `moontide check`: what a job would do, without touching a server. All its mistakes at once,
--- each at its line; or sources, steps and sink, with the columns after each step. A checkpoint
--- that is there is read as a start reads it: one that is damaged is a mistake of the same kind.
local config = require "moontide.config"
local core = require "moontide._core"
local fault = require "moontide.fault"
local job = require "moontide.declare.job"
local json = require "moontide.values.json"
local options = require "moontide.options"
local query = require "moontide.declare.query"
local C = core.C

local M = {}

-- Exit codes: the job file does not load, or declares what cannot be; nothing but a checkpoint is wrong.
local JOB, CHECKPOINT = 3, 9

-- ---- facts

local function columns_of(schema)
  local list = {}
  for i, field in ipairs(schema.fields) do list[i] = { name = field.name, type = field.ddl } end
  return json.array(list)
end

local function options_of(list)
  local map = {}
  for _, option in ipairs(list) do
    map[option.name] = config.is_secret(option.value) and "***" or config.mask(option.value)
  end
  return map
end

local function sources_of(facts)
  local list = {}
  for i, source in ipairs(facts.sources) do
    list[i] = { format = source.format, name = source.name, options = options_of(source.options),
      columns = columns_of(source.schema), reads = json.array(facts.wanted[i]) }
  end
  return list
end

-- Whose rows a step takes: "step 1", "source orders".
local function from_of(stage, sources)
  local list = {}
  for i, from in ipairs(stage.from) do
    list[i] = from > 0 and "step " .. from or "source " .. sources[-from].name
  end
  return list
end

local function steps_of(stages, sources)
  local list = {}
  for i, stage in ipairs(stages) do
    list[i] = { kind = stage.step.kind, words = stage.step.words, line = stage.step.at.line,
      file = stage.step.at.file, columns = columns_of(stage.out), from = from_of(stage, sources) }
  end
  return json.array(list)
end

local function warnings_of(plan, sink)
  local list = json.array {}
  local often = plan.trigger.kind == "default"
    or plan.trigger.kind == "processingTime" and plan.trigger.interval_ms < 10000
  if sink.exactlyOnce and (sink.format == "parquet" or sink.format == "delta") and often then
    list[#list + 1] = "a batch starts more often than every 10 seconds: that makes many small files"
  end
  if sink.exactlyOnce == false then
    list[#list + 1] = ("%s %s a batch again when it is replayed (at least once)"):format(sink.format,
      sink.format == "kafka" and "is given" or "shows")
  end
  if sink.exactlyOnce and sink.format == "kafka" then
    list[#list + 1] = "a reader of the topic sees each batch whole and once with isolation.level=read_committed; "
      .. "another sees also what was taken back"
  end
  list[#list + 1] = plan.trigger.warning
  return list
end

-- Of the whole job, not of one query.
local function warnings_of_job()
  local list = json.array(config.unread())
  for _, name in ipairs(job.c_modules()) do
    list[#list + 1] = ("the C module %q is not kept with the job's text"):format(name)
  end
  return list
end

-- A function says only when it runs which sinks it writes to.
local function sink_of(plan)
  local writer = plan.facts.query
  if writer._foreach then
    local info = debug.getinfo(writer._foreach, "S")
    return { format = "foreachBatch", ["function"] = ("%s:%d"):format(info.source:gsub("^[@=]", ""), info.linedefined),
      options = {}, partitionBy = json.array {} }
  end
  return {
    format = writer._format, identity = core.string(C.mt_sink_identity(plan.sink)),
    exactlyOnce = C.mt_sink_is_exactly_once(plan.sink),
    options = options_of(query.sink_options(writer)), partitionBy = json.array(writer._partition_by),
    files = writer._spread and writer._spread.n, filesBy = writer._spread and json.array(writer._spread.columns),
  }
end

-- At the line that names the checkpoint.
local function expect_sound_checkpoint(plan)
  if not plan.checkpoint or C.mt_store_verify(plan.checkpoint, core.err) == 0 then return end
  local option = options.find(plan.facts.query._options, "checkpointLocation")
  local words, class = core.failure()
  local one = fault.at(words, option.at)
  one.class = class
  error(one, 0)
end

local function facts_of(plan)
  expect_sound_checkpoint(plan)
  local sink = sink_of(plan)
  return {
    name = plan.name,
    sources = sources_of(plan.facts),
    steps = steps_of(plan.facts.stages, plan.facts.sources),
    sink = sink,
    trigger = { kind = plan.trigger.kind, intervalMs = plan.trigger.interval_ms, words = plan.trigger.text },
    checkpoint = plan.checkpoint,
    warnings = warnings_of(plan, sink),
  }
end

-- ---- loading, with all faults noted

-- The facts of each query that is not at fault already.
local function finish(returned)
  local entries, whole = query.entries(returned), true
  for _, one in ipairs(entries) do whole = whole and query.is_whole(one) end
  if whole or #fault.noted == 0 then fault.guard(function() end, query.list, returned) end
  local list = json.array {}
  for _, one in ipairs(entries) do
    local rehearse = query.is_whole(one) and query.rehearse or query.rehearse_sink
    list[#list + 1] = fault.guard(function() end, rehearse, one, facts_of)
  end
  return list
end

-- In the order of the job's lines.
local function sorted(faults)
  local place = {}
  for i, one in ipairs(faults) do
    place[one] = ("%s:%08d:%08d"):format(one.at and one.at.file or "", one.at and one.at.line or 0, i)
  end
  table.sort(faults, function(a, b) return place[a] < place[b] end)
  return faults
end

local function errors_of(faults)
  local list = json.array {}
  for i, one in ipairs(faults) do
    list[i] = { file = one.at and one.at.file, line = one.at and one.at.line, text = config.mask(one.words or one.text),
      whole = config.mask(one.text) }
  end
  return list
end

-- 0 where there is no fault.
local function exit_code(faults)
  local code = 0
  for _, one in ipairs(faults) do
    code = code ~= JOB and one.class == "CHECKPOINT" and CHECKPOINT or JOB
  end
  return code
end

--- What a job would do, or its faults in `errors`.
---@param file string
---@param conf { set: table<string, string>? }
---@return table facts
---@return integer code to exit with
function M.facts(file, conf)
  fault.noted = {}
  local ok, queries = pcall(job.run, file, conf, finish)
  local noted = fault.noted
  fault.noted = nil
  if not ok then
    if not fault.is_fault(queries) then error(queries, 0) end
    noted[#noted + 1] = queries
  end
  if #noted > 0 then return { job = file, errors = errors_of(sorted(noted)) }, exit_code(noted) end
  return { job = file, errors = json.array {}, queries = queries, warnings = warnings_of_job() }, 0
end

-- ---- text

local function ddl_of(columns)
  local parts = {}
  for i, column in ipairs(columns) do parts[i] = column.name .. " " .. column.type end
  return table.concat(parts, ", ")
end

local function add_options(lines, map)
  local names = {}
  for name in pairs(map) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do lines[#lines + 1] = ("            %s = %s"):format(name, map[name]) end
end

local function add_sources(lines, facts)
  for _, source in ipairs(facts.sources) do
    lines[#lines + 1] = ("source      %s %s"):format(source.format, source.name)
    lines[#lines + 1] = "            " .. ddl_of(source.columns)
    lines[#lines + 1] = ("            read: %s"):format(table.concat(source.reads, ", "))
    add_options(lines, source.options)
  end
end

-- Whose rows a step takes is said where it is not what stands above it.
local function add_steps(lines, facts)
  local given, above = {}, "source " .. facts.sources[#facts.sources].name
  for _, source in ipairs(facts.sources) do given["source " .. source.name] = ddl_of(source.columns) end
  for i, step in ipairs(facts.steps) do
    local from, after = table.concat(step.from, " and "), ddl_of(step.columns)
    lines[#lines + 1] = ("step %-6d %s%s"):format(i, step.words, from == above and "" or " of " .. from)
    lines[#lines + 1] = "            " .. (after == given[step.from[1]] and "the same columns" or after)
    above = "step " .. i
    given[above] = after
  end
end

local function add_query(lines, facts)
  local sink = facts.sink
  add_sources(lines, facts)
  add_steps(lines, facts)
  if sink["function"] then
    lines[#lines + 1] = ("sink        foreachBatch, function at %s"):format(sink["function"])
    lines[#lines + 1] = "            exactly once to each sink that can; which they are is seen when it runs"
  else
    lines[#lines + 1] = ("sink        %s, %s"):format(sink.format, sink.exactlyOnce and "exactly once"
      or "at least once")
    lines[#lines + 1] = ("            known as %s"):format(sink.identity)
  end
  if #sink.partitionBy > 0 then
    lines[#lines + 1] = ("            a folder for each %s"):format(table.concat(sink.partitionBy, ", "))
  end
  if sink.files and sink.files > 1 then
    lines[#lines + 1] = ("            %d files a batch%s"):format(sink.files,
      #sink.filesBy > 0 and ", by " .. table.concat(sink.filesBy, ", ") or "")
  end
  add_options(lines, sink.options)
  lines[#lines + 1] = ("trigger     %s"):format(facts.trigger.words)
  lines[#lines + 1] = ("checkpoint  %s"):format(facts.checkpoint or "a temporary one")
  for _, warning in ipairs(facts.warnings) do lines[#lines + 1] = "warning     " .. warning end
end

local function add_errors(lines, errors)
  for i, one in ipairs(errors) do lines[i] = one.whole end
  lines[#lines + 1] = #errors == 1 and "1 error" or ("%d errors"):format(#errors)
end

--- The facts as text for people.
---@param facts table
---@return string
function M.text(facts)
  local lines, n = {}, facts.queries and #facts.queries
  if #facts.errors > 0 then
    add_errors(lines, facts.errors)
    return table.concat(lines, "\n")
  end
  local name = n == 1 and facts.queries[1].name
  lines[1] = ("job         %s%s"):format(facts.job, name and (" (%s)"):format(name)
    or n > 1 and (", %d queries"):format(n) or "")
  for i, one in ipairs(facts.queries) do
    if n > 1 then lines[#lines + 1] = ("\nquery       %s"):format(one.name or i) end
    add_query(lines, one)
  end
  for _, warning in ipairs(facts.warnings) do lines[#lines + 1] = "warning     " .. warning end
  return table.concat(lines, "\n")
end

--- Checks a job and prints the report: text, or one JSON object. Gives the exit code.
---@param args { file: string, set: table<string, string>?, json: boolean? }
---@return integer
function M.main(args)
  local facts, code = M.facts(args.file, { set = args.set })
  for _, one in ipairs(facts.errors) do one.whole = not args.json and one.whole or nil end
  local out = code ~= 0 and not args.json and io.stderr or io.stdout
  out:write(args.json and json.encode(facts) or M.text(facts), "\n")
  return code
end

return M
