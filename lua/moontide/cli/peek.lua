-- SPDX-License-Identifier: Apache-2.0
--- `moontide peek`: the newest records of a topic, and the columns that their JSON suggests.
--
-- It reads by the same source as a job, so what it says of brokers and topics is what a job would
-- say. Two of them: the first learns which partitions there are and where they begin, since
-- starting positions name every partition; the second learns where they end, and reads.
local core = require "moontide._core"
local count = require("moontide.cli.ckpt").count
local guess = require "moontide.cli.guess"
local host = require "moontide._host"
local json = require "moontide.values.json"
local options = require "moontide.options"
local paths = require "moontide.paths"
local schemas = require "moontide.schema"
local value = require "moontide.values"
local cjson = require "cjson"
local C = core.C

local M = {}

---@class mt.PeekArguments
---@field brokers string
---@field topic string
---@field n integer
---@field options { name: string, value: string }[] of the Kafka client
---@field fail fun(code: integer, text: string): integer

local USAGE = 2
local PATIENCE_MS = 10000 -- for brokers that do not answer
local SHOWN = 2000 -- bytes of a value

-- ---- reading

local function failed()
  local text, class = core.failure()
  error({ code = tonumber(C["MT_CLASS_" .. class]), text = text }, 0)
end

local function open(args, starting)
  local list = options.add_all({}, { ["kafka.bootstrap.servers"] = args.brokers, subscribe = args.topic,
    startingOffsets = starting })
  for _, option in ipairs(args.options) do list[#list + 1] = option end
  local given, keep = core.pairs(list)
  local out = core.new "struct mt_source *[1]"
  if C.mt_source_new("kafka", given, out, core.err) ~= 0 then failed() end
  return core.gc(out[0], C.mt_source_free), keep
end

-- Calls again what is to be called again, until the patience is at its end.
local function insist(source, call)
  local until_ms = host.now() + PATIENCE_MS
  while true do
    local now = host.now()
    local status = call(now)
    if status == C.MT_OK then return end
    if status ~= C.MT_RETRY then failed() end
    if now >= until_ms then
      error({ code = tonumber(C.MT_CLASS_SOURCE), text = ("no answer within %d seconds: %s"):format(PATIENCE_MS / 1000,
        core.string(source.state)) }, 0)
    end
    host.wait(source.wake_fd, math.max(10, math.min(250, tonumber(source.again_ms) - now)))
  end
end

-- Partition (as text) -> offset, where a source begins.
local function positions(source, topic)
  local out = core.new "char *[1]"
  insist(source, function(now) return source.type.resolve_start(source, now, out, core.err) end)
  local text = core.take(out[0])
  return cjson.decode(text)[topic], text
end

local function rows_of(source, from, to)
  local batch = core.gc(core.new "struct mt_batch", C.mt_batch_release)
  insist(source, function(now) return source.type.read(source, from, to, nil, now, batch, core.err) end)
  local schema, rows = schemas.copy(C.mt_source_schema(source)), {}
  for i = 0, tonumber(batch.array.length) - 1 do
    local row = {}
    for _, field in ipairs(schema.fields) do
      row[field.name] = value.read(field, batch.array.children[field.index], i)
    end
    rows[#rows + 1] = row
  end
  return rows
end

local function later(a, b)
  if a.timestamp ~= b.timestamp then return (a.timestamp or -1) > (b.timestamp or -1) end
  if a.partition ~= b.partition then return a.partition > b.partition end
  return a.offset > b.offset
end

-- The newest n of these rows, the oldest of them first.
local function newest(rows, n)
  table.sort(rows, later)
  local list = {}
  for i = math.min(n, #rows), 1, -1 do list[#list + 1] = rows[i] end
  return list
end

-- Offsets are not records: a compacted log has gaps, and marks of transactions take offsets.
local function read_back(source, topic, n, first, last, last_text)
  local back = n
  while true do
    local from, whole = {}, true
    for partition, offset in pairs(last) do
      from[partition] = math.max(first[partition], offset - back)
      whole = whole and from[partition] == first[partition]
    end
    local rows = rows_of(source, json.encode { [topic] = from }, last_text)
    if whole or #rows >= n then return newest(rows, n) end
    back = back * 16
  end
end

--- The newest records of a topic, as rows.
---@param args mt.PeekArguments
---@return table<string, any>[] rows, integer partitions, integer offsets between the ends of the log
function M.rows(args)
  local first = positions(open(args, "earliest"), args.topic)
  local at_end, partitions, offsets = {}, 0, 0
  for partition in pairs(first) do at_end[tonumber(partition)] = -1 end
  local source = open(args, { [args.topic] = at_end })
  local last, last_text = positions(source, args.topic)
  for partition, offset in pairs(last) do
    partitions, offsets = partitions + 1, offsets + offset - first[partition]
  end
  local rows = offsets > 0 and read_back(source, args.topic, args.n, first, last, last_text) or {}
  return rows, partitions, offsets
end

-- ---- showing

-- A terminal obeys control bytes, also those of C1 in UTF-8: they are shown as \xNN.
local function visible(bytes)
  local shown = bytes:sub(1, SHOWN)
  local function hex(text) return (text:gsub(".", function(c) return ("\\x%02x"):format(c:byte()) end)) end
  if C.mt_utf8_valid(bytes, #bytes) then
    while not C.mt_utf8_valid(shown, #shown) do shown = shown:sub(1, -2) end
    shown = shown:gsub("[%z\1-\8\11-\31\127]", hex):gsub("\194[\128-\159]", hex):gsub("\n", "\n  ")
  else
    shown = shown:gsub("[^\32-\126]", hex)
  end
  return shown .. (#bytes > SHOWN and (" … (%s bytes)"):format(count(#bytes)) or "")
end

local function time_of(micros)
  if not micros then return "no time" end
  return ("%s.%03d UTC"):format(os.date("!%Y-%m-%d %H:%M:%S", math.floor(micros / 1e6)), micros / 1e3 % 1000)
end

local function show(row)
  return ("%s[%d]@%s  %s  %s\n  %s"):format(row.topic, row.partition, value.text(row.offset), time_of(row.timestamp),
    row.key and "key " .. visible(row.key) or "no key", row.value and visible(row.value) or "null")
end

--- What is said of the columns of these rows' values.
---@param rows table<string, any>[]
---@return string
function M.columns(rows)
  local all, objects = nil, 0
  for _, row in ipairs(rows) do
    local one = row.value and guess.object(row.value)
    if one then all, objects = guess.merge(all, one), objects + 1 end
  end
  if objects == 0 then return "no columns to guess: none of these values is a JSON object" end
  return ([[
columns guessed from %s JSON object%s; a number with a point is DOUBLE here, DECIMAL(p,s) keeps it exact:
  :fromJson("value", "%s")]]):format(count(objects), objects == 1 and "" or "s", guess.ddl(all))
end

local function run(args)
  local rows, partitions, offsets = M.rows(args)
  local head = ("topic %s, %d partition%s, "):format(args.topic, partitions, partitions == 1 and "" or "s")
  if #rows == 0 then
    print(head .. (offsets == 0 and "no records" or "no records left to read in its log"))
    return 0
  end
  print(head .. ("the newest %d of %s offsets:"):format(#rows, count(offsets)))
  for _, row in ipairs(rows) do print(show(row)) end
  print("\n" .. M.columns(rows))
  return 0
end

-- The settings of the client as they were given; file:PATH is the text in there.
local function client_options(list)
  local out = {}
  for i, one in ipairs(list) do
    local path, text, problem = one.value:match "^file:(.*)", one.value, nil
    if path then text, problem = paths.read(path) end
    if not text then return nil, ("--option %s: %s"):format(one.name, problem) end
    out[i] = { name = one.name, value = path and text:gsub("\r?\n$", "") or text }
  end
  return out
end

--- Prints the newest records of a topic. Joins no group and commits nothing.
---@param args mt.PeekArguments
---@return integer exit code
function M.run(args)
  if args.topic:find "," then return args.fail(USAGE, "peek takes one topic, not " .. args.topic) end
  local missing
  args.options, missing = client_options(args.options)
  if missing then return args.fail(USAGE, missing) end
  local ok, problem = pcall(run, args)
  if ok then return problem end
  if type(problem) ~= "table" then error(problem, 0) end
  return args.fail(problem.code or USAGE, problem.text)
end

return M
