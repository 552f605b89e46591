-- SPDX-License-Identifier: Apache-2.0
local cjson = require "cjson"
local program = require "spec.program"

--- A job over rows 1..n of a memory stream; `steps` and `writer` are Lua text.
local function job(steps, writer)
  return ([[
local mt = require "moontide"
local numbers = mt.memoryStream "n BIGINT"
numbers:addData { { n = 1 }, { n = 2 }, { n = 3 } }
return numbers%s.writeStream%s
]]):format(steps or "", writer or ':format "noop":trigger { availableNow = true }')
end

describe("the command line", function()
  local folder = program.folder(before_each, after_each)

  local function usage_error(arguments, ...)
    local done = folder:moontide(arguments)
    assert.equal(2, done.code)
    assert.equal("", done.out)
    for _, part in ipairs { ... } do
      assert.truthy(done.err:find(part, 1, true), ("no %q in %s"):format(part, done.err))
    end
  end

  it("names the versions of what is inside", function()
    local done = folder:moontide "--version"
    assert.equal(0, done.code)
    assert.truthy(done.out:match "^moontide %d+%.%d+%.%d+\n", done.out)
    for _, name in ipairs { "LuaJIT", "librdkafka", "Arrow", "LMDB", "simdjson" } do
      assert.truthy(done.out:match(name .. " %d+%.%d+%.%d+"), done.out)
    end
  end)

  it("helps on standard output, with the exit codes", function()
    local done = folder:moontide "--help"
    assert.equal(0, done.code)
    assert.equal("", done.err)
    assert.truthy(done.out:find("9  checkpoint", 1, true))
    assert.truthy(folder:moontide("run --help").out:find("--max-batches <n>", 1, true))
  end)

  it("suggests what a wrong word may have been", function()
    usage_error("rnu x.lua", "unknown command 'rnu'", "Did you mean 'run'?")
    usage_error("run x.lua --onc", "unknown option '--onc'", "Did you mean '--once'?")
  end)

  it("refuses a command line that says too little or nonsense", function()
    usage_error("", "Usage: moontide")
    usage_error("run", "JOB.lua", "moontide run --help")
    usage_error("ckpt", "command is required")
    usage_error("run x.lua --set brokers", "key=value", "'brokers'")
    usage_error("run x.lua --max-batches none", "'none' is not a whole number above 0")
    usage_error("run x.lua --max-batches 0", "'0' is not")
  end)

  it("hands --set to the job, with everything behind the first =", function()
    folder:write("job.lua", [[error(require "moontide".conf "where", 0)]])
    local done = folder:moontide "run job.lua --set where=x --set 'where=a=b c'"
    assert.truthy(done.err:find("a=b c", 1, true), done.err)
  end)

  it("tells a compile error at its line", function()
    folder:write("job.lua", 'local mt = require "moontide"\nlocal x = = 1\n')
    local done = folder:moontide "run job.lua"
    assert.equal(3, done.code)
    assert.truthy(done.err:match "^moontide: [^\n]*job%.lua:2: [^\n]*\n$", done.err)
    assert.equal("", done.out)
  end)

  it("refuses a job file that returns something else than a query", function()
    for _, text in ipairs { "", "return 7", "return {}", 'return require "moontide".readStream' } do
      folder:write("job.lua", text)
      local done = folder:moontide "run job.lua"
      assert.equal(3, done.code, text)
      assert.truthy(done.err:find("job.lua", 1, true), done.err)
    end
  end)

  it("names a job file that is not there", function()
    local done = folder:moontide "run nowhere.lua"
    assert.equal(3, done.code)
    assert.truthy(done.err:find("nowhere.lua", 1, true), done.err)
  end)

  it("says no checkpoint where there is none", function()
    local done = folder:moontide "ckpt show nowhere"
    assert.equal(9, done.code)
    assert.truthy(done.err:find("nowhere", 1, true), done.err)
  end)
end)

describe("moontide run", function()
  local folder = program.folder(before_each, after_each)

  it("ends with 0 when the trigger says it is over", function()
    folder:write("job.lua", job())
    local done = folder:moontide "run job.lua"
    assert.equal(0, done.code, done.err)
    assert.truthy(done.out:find("3 rows", 1, true), done.out)
  end)

  it("writes JSON and nothing else with --json, whatever the job prints", function()
    folder:write("job.lua", 'io.write "from the job"\nprint "again"\n'
      .. job("", ':format "console":trigger { availableNow = true }'))
    local done = folder:moontide "run job.lua --json"
    assert.equal(0, done.code, done.err)
    local lines = 0
    for line in done.out:gmatch "[^\n]+" do
      lines = lines + 1
      assert.equal(3, cjson.decode(line).numInputRows)
    end
    assert.equal(1, lines)
    assert.truthy(done.err:find("Batch: 0", 1, true), "the table went to standard error")
  end)

  it("warns that a temporary checkpoint is used, and leaves nothing behind", function()
    folder:write("job.lua", job())
    local done = folder:shell "export TMPDIR=$PWD/tmp; mkdir tmp; moontide run job.lua; ls tmp"
    assert.equal(0, done.code)
    assert.truthy(done.err:find("temporary", 1, true), done.err)
    assert.falsy(done.out:find("moontide-", 1, true), done.out)
  end)

  it("ends with the class of the error of a function", function()
    folder:write("job.lua", job [[:filter(function(row)
  return row.n < nil end)]])
    local done = folder:moontide "run job.lua"
    assert.equal(4, done.code, done.err)
    assert.truthy(done.err:find("job.lua:5", 1, true), done.err)
    assert.equal("", done.out)
  end)

  local BUSY = job([[:filter(function(row)
  local started = io.open("started", "w") started:close()
  while not io.open "go" do end
  return true end)]], ':format "noop":option("checkpointLocation", "ckpt")')

  it("shows its checkpoint while it runs", function()
    folder:write("job.lua", BUSY)
    local done = folder:shell [[
"$PROGRAM" run job.lua 2>log & pid=$!
until [ -e started ]; do sleep 0.01; done
moontide ckpt show ckpt >shown
kill -TERM $pid; touch go; wait $pid
]]
    assert.equal(0, done.code, folder:read "log")
    local shown = folder:read "shown"
    assert.truthy(shown:match "running +yes: pid %d+", shown)
    assert.truthy(shown:match "last plan +batch 0, [^\n]* not committed", shown)
    assert.truthy(shown:match "last commit +none", shown)
  end)

  it("finishes the batch on a signal and starts no other", function()
    folder:write("job.lua", BUSY)
    for _, signal in ipairs { "TERM", "INT" } do
      local done = folder:shell(([[
rm -rf started go ckpt
(trap - INT; exec "$PROGRAM" run job.lua) 2>log & pid=$!
until [ -e started ]; do sleep 0.01; done
kill -%s $pid
until grep -q "stopping after the batch" log; do sleep 0.01; done
touch go
wait $pid
]]):format(signal))
      assert.equal(0, done.code, done.err)
      assert.truthy(done.out:find("3 rows", 1, true), done.out)
    end
  end)

  it("ends at once on a second signal, and the next start runs the batch", function()
    folder:write("job.lua", BUSY)
    local done = folder:shell [[
"$PROGRAM" run job.lua 2>log & pid=$!
until [ -e started ]; do sleep 0.01; done
kill -TERM $pid
until grep -q "stopping after the batch" log; do sleep 0.01; done
kill -TERM $pid
wait $pid
]]
    assert.equal(143, done.code)
    assert.equal("", done.out)
    local show = cjson.decode(folder:moontide("ckpt show ckpt --json").out)
    assert.same({ 0, -1 }, { show.lastPlan, show.lastCommit })
  end)
end)
