-- SPDX-License-Identifier: Apache-2.0
--- `moontide ckpt`: what a checkpoint says, for people; and a copy of it.
local cjson = require "cjson"

local M = {}

local function time(seconds)
  return os.date("!%Y-%m-%d %H:%M:%S UTC", seconds)
end

--- A whole number with its thousands apart: 1,234,567.
---@param n number
---@return string
function M.count(n)
  local text = ("%.0f"):format(n)
  local head = #text % 3
  local groups = { text:sub(1, head) }
  for at = head + 1, #text, 3 do
    groups[#groups + 1] = text:sub(at, at + 2)
  end
  return (table.concat(groups, ","):gsub("^,", ""))
end

local count = M.count

local function is(value)
  return value ~= nil and value ~= cjson.null
end

local function sorted_keys(map, less)
  local keys = {}
  for key in pairs(map) do
    keys[#keys + 1] = key
  end
  table.sort(keys, less)
  return keys
end

local function numerically(a, b)
  return tonumber(a) < tonumber(b)
end

--- Adds one line a partition: "orders[0]  1,234"; other positions as their JSON.
local function add_position(add, position)
  if type(position) ~= "table" then
    return add("", is(position) and cjson.encode(position) or "none yet")
  end
  for _, topic in ipairs(sorted_keys(position)) do
    local partitions = position[topic]
    if type(partitions) ~= "table" then
      return add("", cjson.encode(position))
    end
    for _, partition in ipairs(sorted_keys(partitions, numerically)) do
      add("", ("%s[%s]  %s"):format(topic, partition, count(partitions[partition])))
    end
  end
end

local function add_offsets(add, plan)
  for _, source in ipairs(plan.sources) do
    add("offsets", ("next to read from %s"):format(source.name))
    add_position(add, source["end"])
  end
end

local function add_commit(add, show)
  local commit = show.commit
  if not is(commit) then
    return add("last commit", "none")
  end
  add("last commit", ("batch %d, %s"):format(show.lastCommit, time(commit.committedAtMs / 1000)))
  add("", is(commit.rowsRead) and ("%s rows read"):format(count(commit.rowsRead))
    or "not read again: the sink held it already")
  for _, sink in ipairs(commit.sinks) do
    add("", ("%s rows stored by %s"):format(count(sink.stored), sink.sink))
  end
end

-- What the destinations of a foreachBatch say that they hold of the query.
local function add_saves(add, sinks)
  for _, sink in ipairs(sinks) do
    add("sink", sink.sink)
    local marker = sink.about.marker
    if is(sink.about.error) then
      add("", sink.about.error)
    elseif is(marker) then
      add("", ("its marker: batch %d, %s rows, digest %s"):format(marker.batch, count(marker.rows), marker.digest))
    else
      add("", ("%s rows of the batch given, no marker there (%s)"):format(count(sink.rows), sink.about.guarantee))
    end
  end
end

local function add_state(add, states)
  for _, state in ipairs(states) do
    local keys = ("%s %s"):format(count(state.keys), state.keys == 1 and "key" or "keys")
    add("state", ("%s: %s, %s bytes"):format(state.name, keys, count(state.bytes)))
  end
end

local function add_plan(add, show)
  local plan = show.plan
  if not is(plan) then
    return add("last plan", "none")
  end
  add("last plan", ("batch %d, %s, attempt %d%s"):format(show.lastPlan, time(plan.batchTimeUs / 1e6),
    plan.attempt, show.lastPlan > show.lastCommit and ", not committed" or ""))
  add("script", plan.bundle)
  if #show.sinks > 0 then
    return add_saves(add, show.sinks)
  end
  if plan.sinks[1] == "foreachBatch" then
    return add("sink", "foreachBatch, no save yet")
  end
  for _, sink in ipairs(plan.sinks) do
    add("sink", sink)
    add("", ("%s: query %s, batch %d"):format(show.lastPlan > show.lastCommit and "the marker to look for there"
      or "its marker", show.queryId, show.lastPlan))
    add("", ("            digest %s"):format(plan.digest))
  end
end

local function add_next(add, show)
  if show.lastPlan > show.lastCommit then
    add("next start", ("finishes batch %d: %s whether it is there; if not, it is read"):format(show.lastPlan,
      #show.sinks > 0 and "each sink is asked" or "the sink is asked"))
    add("", "and run again over the same offsets, with the job file as it is then")
    if #show.sinks > 0 then
      add("", "(if one of several holds it, with the script that began it)")
    end
  else
    add("next start", ("goes on with batch %d"):format(show.lastCommit + 1))
  end
  add("start again", "use a new checkpointLocation (and a new path: this one holds these batches),")
  add("", "or remove both folders; starting options such as startingOffsets count only then")
end

--- The lines of `moontide ckpt show` for what the core says of a checkpoint.
---@param show table decoded JSON of mt_checkpoint_show
---@return string
function M.text(show)
  local lines = {}
  local function add(label, text)
    lines[#lines + 1] = ("%-12s %s"):format(label, text)
  end
  add("checkpoint", show.checkpoint)
  add("query", show.queryId)
  local owner = is(show.store.owner) and show.store.owner or nil
  add("running", show.store.running and ("yes: " .. (owner or "owner unknown")) or "no")
  add_commit(add, show)
  if is(show.committedPlan) then
    add_offsets(add, show.committedPlan)
  end
  add_plan(add, show)
  add_state(add, show.state)
  add_next(add, show)
  return table.concat(lines, "\n")
end

--- Prints what the checkpoint in a folder says.
---@param args { dir: string, json: boolean?, fail: fun(code: integer, text: string): integer }
---@return integer exit code
function M.show(args)
  local json, message, class = require("moontide._host").show(args.dir)
  if not json then
    return args.fail(class, message)
  end
  print(args.json and json or M.text(cjson.decode(json)))
  return 0
end

--- Copies a checkpoint into a file, also while its query runs.
---@param args { dir: string, file: string, fail: fun(code: integer, text: string): integer }
---@return integer exit code
function M.backup(args)
  local done, message, class = require("moontide._host").backup(args.dir, args.file)
  if not done then
    return args.fail(class, message)
  end
  print(("%s is written; to go back to it, stop the query and put it in an empty folder as data.mdb"):format(args.file))
  return 0
end

return M
