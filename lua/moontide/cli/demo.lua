-- SPDX-License-Identifier: Apache-2.0
--- `moontide demo`: a Kafka and a producer inside this process, the job on them, and a look at
--- what it wrote.
local count = require("moontide.cli.ckpt").count
local host = require "moontide._host"

local M = {}

local PARTITIONS = 2
local BATCH_MS = 1000
local SPARE_MS = 10000 -- to read the last rows in, after the producer is done
local SHOWN = 10 -- rows of the result

local function say(format, ...)
  print(format:format(...))
  io.stdout:flush()
end

--- Gives on what the host gave; ends the demo when that was a failure: nil, message, class.
local function check(fail, value, message, class)
  if value == nil then
    error { code = fail(class, message) }
  end
  return value, message
end

local function show_first_rows(fail, folder, file)
  local _, rows = check(fail, host.head(folder .. "/" .. file.name, SHOWN))
  say("\nthe first rows of %s:\n%s", file.name, rows)
end

--- Prints the files of a Parquet folder with their rows, and the first rows of the first.
local function show_files(fail, folder)
  local files = check(fail, host.files(folder, ".parquet"))
  say("\nwritten to %s:\n\n%12s %12s  %s", folder, "rows", "bytes", "file")
  local total = 0
  for _, file in ipairs(files) do
    local rows = check(fail, host.head(folder .. "/" .. file.name, 0))
    say("%12s %12s  %s", count(rows), count(file.bytes), file.name)
    total = total + rows
  end
  say("%12s %12s  in %d files", count(total), "", #files)
  if files[1] then
    show_first_rows(fail, folder, files[1])
  end
end

local function show_result(fail, answer, rows)
  if answer.rows < rows then
    say("\nthe job read %s of %s rows: it starts at `latest`, or reads another topic?",
      count(answer.rows), count(rows))
  end
  for _, sink in ipairs(answer.sinks) do
    if sink.format == "parquet" then
      show_files(fail, sink.path)
    end
  end
end

local function run(args)
  local fail = args.fail
  local file = check(fail, host.realpath(args.file))
  local topic = args.set.topic or "orders"
  local folder = check(fail, host.tempdir())
  check(fail, host.chdir(folder))
  local mock = check(fail, host.mock(topic, PARTITIONS))
  say("a Kafka of its own at %s, topic %s with %d partitions", mock:brokers(), topic, PARTITIONS)
  say("%s orders in %d s; the job works in %s\n", count(args.rows), args.seconds, folder)
  args.set.brokers = mock:brokers()
  mock:produce(args.rows, args.seconds)
  local answer = host.run {
    file = file,
    set = args.set,
    terminal = host.isatty(1),
    interval_ms = BATCH_MS,
    max_rows = args.rows,
    max_ms = args.seconds * 1000 + SPARE_MS,
  }
  mock:stop()
  if answer.error then
    return args.fail_job(answer, file)
  end
  show_result(fail, answer, args.rows)
  return answer.code
end

--- Runs the demo of a job file.
---@param args { file: string, set: table<string, string>, rows: integer, seconds: integer, fail: function,
--- fail_job: function }
---@return integer exit code
function M.run(args)
  local ok, code = pcall(run, args)
  if ok then
    return code
  end
  return type(code) == "table" and code.code or error(code, 0)
end

return M
