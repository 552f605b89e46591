-- SPDX-License-Identifier: Apache-2.0
--- The command line: what `moontide` does with its arguments, and its exit code.
local argparse = require "argparse"
local host = require "moontide._host"

local M = {}

local INTERNAL, USAGE, JOB = 1, 2, 3 -- exit codes of our own; the rest come with their errors

local EXIT_CODES = [[
Exit codes:
   0  ended, or stopped when asked to      6  source: broker, topic, sign-in
   1  a fault in Moontide itself           7  data loss: offsets that are gone
   2  command line                         8  sink: destination refused or away
   3  job: the file does not load          9  checkpoint: damaged, owned, too old
   4  script: a function failed on a row  10  machine: disk, memory, file handles
   5  data: a record the job refuses      128+N  ended at once by signal N
                                          141  standard output has no reader any more]]

--- "key=value" as a pair; nil and a message when it is not one.
local function setting(text)
  local key, value = text:match "^([%w_.]+)=(.*)$"
  if not key then
    return nil, ("--set takes key=value, not '%s'"):format(text)
  end
  return { key = key, value = value }
end

local function positive(text)
  local n = text:match "^%d+$" and tonumber(text)
  if not n or n < 1 or n > 2 ^ 53 then
    return nil, ("'%s' is not a whole number above 0"):format(text)
  end
  return n
end

-- A batch's number as ckpt show prints it.
local function batch_id(text)
  return text:match "^%d+$" and tonumber(text) or nil, ("'%s' is not the number of a batch"):format(text)
end

-- "kafka.security.protocol=SSL" as an option of the Kafka source.
local function client_option(text)
  local name, value = text:match "^([kK][aA][fF][kK][aA]%.[%w_.]+)=(.*)$"
  if not name then
    return nil, ("--option takes kafka.NAME=VALUE, a setting of the Kafka client, not '%s'"):format(text)
  end
  return { name = name, value = value }
end

local function yes_or_no(text)
  return (text == "yes" or text == "no") and text or nil, ("'%s' is neither yes nor no"):format(text)
end

local function add_set(command)
  command:option "--set"
    :argname "<key=value>"
    :description "A value for mt.conf in the job; may be repeated, the last one counts."
    :count "*"
    :convert(setting)
end

local function add_job(command)
  command:argument("JOB.lua", "The job file."):target "job"
end

local function version()
  local v = host.versions()
  return ("moontide %s\n%s, librdkafka %s, Arrow %s, LMDB %s, simdjson %s"):format(
    v.moontide, jit.version, v.librdkafka, v.arrow, v.lmdb, v.simdjson)
end

local function add_run(parser)
  local run = parser:command("run")
    :summary "Run a job until it ends or is stopped."
    :description(
      "Runs a job until its trigger says that it is over, it fails, or it is stopped.\n"
        .. "SIGINT and SIGTERM finish the batch under way and stop; a second one ends the process\n"
        .. "at once, and the next start recovers. Where a job returns several queries, each has a\n"
        .. "thread; when one fails the others stop after their batch. When the job file or a module\n"
        .. "of it is edited, or on SIGHUP, it is loaded again and takes over between two batches, if a\n"
        .. "restart would go on with it. Standard output is results and progress only.")
  add_job(run)
  add_set(run)
  run:flag("--once", "Take what is there now, within the job's limits, then end (availableNow).")
  run:option("--max-batches", "Stop each query after this many batches."):argname "<n>":convert(positive)
  run:epilog("Examples:\n   moontide run job.lua --set brokers=kafka:9092\n"
    .. "   moontide run job.lua --once --json >progress.jsonl")
  run:flag("--no-reload", "Keep to the job as it was loaded when its files change, or on SIGHUP.")
  run:flag("--finish-with-new-script")
    :description "Once: finish a batch that some sinks hold a part of with the script as it is now."
  run:option("--accept-replay")
    :argname "<batch>"
    :description "Once: what sinks hold of this batch stands, though its rows came out otherwise now."
    :convert(batch_id)
  run:option("--sink-holds")
    :args(2)
    :argname { "<batch>", "yes|no" }
    :description "Once: whether the sink holds this batch, where the destination has forgotten what it holds."
    :convert { batch_id, yes_or_no }
  run:flag("--json", "Progress as JSON, one object a line, and nothing else on standard output.")
end

local function add_demo(parser)
  local demo = parser:command("demo")
    :summary "Show a job at work on a Kafka inside this process."
    :description(
      "Starts a small Kafka inside this process, produces orders to the topic of the job\n"
        .. "(--set topic=NAME, else \"orders\"), sets `brokers` and runs the job on them, one batch a\n"
        .. "second. It works in a new temporary folder, so relative paths of the job begin empty.")
  add_job(demo)
  add_set(demo)
  demo:option("--rows", "Orders to produce."):argname "<n>":default "20000":convert(positive)
  demo:option("--seconds", "Time to produce them in."):argname "<s>":default "5":convert(positive)
end

local function add_check(parser)
  local check = parser:command("check")
    :summary "Show what a job does, without touching a server."
    :description "Prints source, steps and sink with the schema after each step, and what the sink promises."
  add_job(check)
  add_set(check)
end

local function add_lua(parser)
  local lua = parser:command("lua")
    :summary "Run a Lua script that starts and drives queries itself."
    :description(
      "Runs FILE as plain Lua with `require \"moontide\"` and the program's core. There :start() gives\n"
        .. "a StreamingQuery, which moves on while the script waits for it: awaitTermination,\n"
        .. "processAllAvailable, mt.awaitAny. Nothing is loaded again or retried. mt.conf reads\n"
        .. "MOONTIDE_<NAME> from the environment.")
  lua:argument("FILE", "The script."):target "file"
  lua:argument("args", "Its arguments: ... and `arg`."):args "*"
  parser:command("shell")
    :summary "Try things out at a prompt."
    :description(
      "A Lua prompt with Moontide as `mt`. An expression's value is printed; an unfinished line is\n"
        .. "asked for more; a line that begins with : or . goes on with the one before. TAB completes.\n"
        .. "Without a terminal it reads the same from standard input.")
end

local function add_ckpt(parser)
  local ckpt = parser:command("ckpt")
    :summary "Look at a checkpoint, or copy it."
    :command_target "ckpt_command"
  local show = ckpt:command("show")
    :summary "Say what a checkpoint holds; also while its query runs."
    :description "Query, last plan and commit, offsets, script, sinks, state, and how to start again."
  show:argument("DIR", "The checkpoint's folder (checkpointLocation)."):target "dir"
  show:flag("--json", "All of it, as one JSON object.")
  local backup = ckpt:command("backup")
    :summary "Copy a checkpoint into a file; also while its query runs."
    :description(
      "Writes a copy that is whole and durable, also while the query goes on. To go back to it, stop\n"
        .. "the query and put the file into an empty folder as data.mdb. A sink that remembers its batches\n"
        .. "notices when it is further than a copy that was put back, and the query does not start.")
  backup:argument("DIR", "The checkpoint's folder (checkpointLocation)."):target "dir"
  backup:argument("FILE", "The file to write; it must not be there yet."):target "file"
end

local function add_new(parser)
  local new = parser:command("new")
    :summary "Write a small job to begin with."
    :description "Writes NAME.lua, which check and demo take as it is. A file that is there is left as it is."
  new:argument("NAME", "The job's name, a folder in front if you like: clicks, jobs/clicks."):target "name"
end

local function few(text)
  local n = positive(text)
  if not n or n > 10000 then
    return nil, ("'%s' is not a whole number from 1 to 10000"):format(text)
  end
  return n
end

local function add_peek(parser)
  local peek = parser:command("peek")
    :summary "Show the newest records of a topic, and columns for them."
    :description(
      "Prints records with partition, offset, time, key and value, the newest last, and the\n"
        .. "columns that their JSON suggests, to be pasted into a job. Joins no consumer group.")
  peek:argument("BROKER", "Where to ask first: host:port, more with commas."):target "brokers"
  peek:argument("TOPIC", "The topic."):target "topic"
  peek:option("-n", "Records to show."):argname "<n>":default "5":convert(few)
  peek:option "--option"
    :argname "<key=value>"
    :description("A setting of the Kafka client, as a job has it: kafka.security.protocol=SSL; may be repeated. "
      .. "A value file:PATH is read from there.")
    :count "*"
    :target "options"
    :convert(client_option)
  peek:epilog("Examples:\n   moontide peek localhost:9092 orders -n 20\n"
    .. "   moontide peek kafka:9093 orders --option kafka.security.protocol=SASL_SSL \\\n"
    .. "      --option kafka.sasl.mechanism=PLAIN --option kafka.sasl.username=me \\\n"
    .. "      --option kafka.sasl.password=file:password")
end

local function add_types(parser)
  local types = parser:command("types")
    :summary "Help an editor: types of all that a job may call."
    :description(
      "Writes moontide.d.lua into a folder, which lua-language-server reads to complete and check\n"
        .. "jobs there, and a .luarc.json that says they are LuaJIT's. Run it again after an upgrade.")
  types:argument("DIR", "The folder of your jobs."):target "dir"
end

local function new_parser()
  local parser = argparse("moontide")
    :description "Streams from Kafka through a Lua script into tables, exactly once."
    :epilog(EXIT_CODES .. "\n\nMore about one command: moontide <command> --help")
    :command_target "command"
    :help_description_margin(28)
    :usage_max_width(90)
  parser:flag("-V --version", "Print the version, and those of what is inside.")
    :action(function()
      print(version())
      os.exit(0)
    end)
  add_run(parser)
  add_demo(parser)
  add_check(parser)
  add_lua(parser)
  add_ckpt(parser)
  add_new(parser)
  add_peek(parser)
  add_types(parser)
  parser:command("options"):hidden(true)
  return parser
end

--- Writes a failure to standard error and gives its exit code back.
---@param code integer
---@param text string
---@return integer
function M.fail(code, text)
  io.stderr:write("moontide: ", text, "\n")
  return code
end

-- The failure of a job that ran. The first mistake of a declaration ends a run; a file that does not compile
-- has no other.
local function fail_job(answer, file)
  local check = answer.code == JOB and loadfile(file)
    and ("\nTry: moontide check %s, which tells all mistakes at once"):format(file)
  return M.fail(answer.code, answer.error .. (check or ""))
end

local function values_of(settings)
  local set = {}
  for _, pair in ipairs(settings) do
    set[pair.key] = pair.value
  end
  return set
end

local commands = {}

function commands.run(args)
  local answer = host.run {
    file = args.job,
    set = values_of(args.set),
    once = args.once,
    max_batches = args.max_batches,
    no_reload = args.no_reload,
    finish_with_new_script = args.finish_with_new_script,
    accept_replay = args.accept_replay,
    said_batch = args.sink_holds and args.sink_holds[1],
    said_held = args.sink_holds and args.sink_holds[2] == "yes",
    json = args.json,
    terminal = not args.json and host.isatty(1),
  }
  return answer.error and fail_job(answer, args.job) or answer.code
end

function commands.demo(args)
  return require("moontide.cli.demo").run {
    file = args.job,
    set = values_of(args.set),
    rows = args.rows,
    seconds = args.seconds,
    fail = M.fail,
    fail_job = fail_job,
  }
end

function commands.check(args)
  return require("moontide.cli.check").main { file = args.job, set = values_of(args.set) }
end

function commands.lua(args)
  return require("moontide.live.script").run { file = args.file, args = args.args, fail = M.fail }
end

function commands.shell()
  return require("moontide.live.shell").run()
end

function commands.ckpt(args)
  args.fail = M.fail
  return require("moontide.cli.ckpt")[args.ckpt_command](args)
end

function commands.new(args)
  return require("moontide.cli.new").run { name = args.name, fail = M.fail }
end

function commands.peek(args)
  return require("moontide.cli.peek").run { brokers = args.brokers, topic = args.topic, n = args.n,
    options = args.options, fail = M.fail }
end

function commands.types(args)
  return require("moontide.cli.types").run { dir = args.dir, fail = M.fail }
end

--- Writes the page of options; scripts/reference keeps it. Not for users.
function commands.options()
  io.stdout:write(require("moontide.cli.reference").text())
  return 0
end

--- Lua specs, on busted inside this program: `moontide spec FILE…`. Not for users.
local function spec(argv)
  arg = { [0] = "spec", unpack(argv, 2) } -- luacheck: globals arg
  require("moontide.live").begin() -- once: busted loads modules anew for each file, and C types stay declared
  local ok, why = pcall(require "busted.runner", { standalone = false })
  if ok then
    return 0
  end
  return why and M.fail(INTERNAL, tostring(why)) or INTERNAL
end

-- What stands behind the script of `moontide lua` is the script's, options too.
local function own_arguments(argv)
  if argv[1] ~= "lua" or not argv[2] or argv[2]:sub(1, 1) == "-" then return argv end
  local own = { "lua", argv[2], "--" }
  for i = 3, #argv do own[i + 1] = argv[i] end
  return own
end

--- Runs one command; argv[0] is the program.
---@param argv string[]
---@return integer exit code
function M.main(argv)
  if argv[1] == "spec" then
    return spec(argv)
  end
  local parser = new_parser()
  if #argv == 0 then
    io.stderr:write(parser:get_help(), "\n")
    return USAGE
  end
  local ok, args = parser:pparse(own_arguments(argv))
  if not ok then
    local command = commands[argv[1]] and " " .. argv[1] or ""
    return M.fail(USAGE, ("%s\nTry: moontide%s --help"):format(args, command))
  end
  return commands[args.command](args)
end

return M
