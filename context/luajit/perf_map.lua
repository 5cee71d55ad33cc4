-- SPDX-License-Identifier: Apache-2.0
-- Writes the traces that LuaJIT compiles to /tmp/perf-PID.map, by which profilers name them: LuaJIT itself does so only
-- when it was built for it. LUA_INIT=@THIS_FILE has `luajit` run it first; a program that embeds LuaJIT runs it by dofile().
-- A trace has the name of the function that it begins in. What is interpreted is in no trace.
local jit_util = require("jit.util")
local ffi = require("ffi")
ffi.cdef("int getpid(void);")

local file, pid
local begun, traces = {}, {} -- by the number of the trace

-- "name file:line" of a function; the name stands in the line that defines it, if that can be read.
local function name_of(func, pc)
    local info = jit_util.funcinfo(func, pc)
    if not info.loc then return "[builtin]" end
    local place = info.loc:gsub(":%d+$", "")
    if info.linedefined == 0 then return ("main chunk " .. place):gsub("%c", " ") end
    local path, wanted, at, name = info.source:match("^@(.*)"), info.linedefined, 0, nil
    local source = path and io.open(path)
    for line in source and source:lines() or function() end do
        at = at + 1
        if at == wanted then
            name = line:match("function%s+([%w_.:]+)") or line:match("([%w_.]+)%s*=%s*function")
            break
        end
    end
    if source then source:close() end
    return ("%s %s:%d"):format(name or "function", place, wanted):gsub("%c", " ")
end

-- A process that was forked writes a file of its own, with all that was compiled before.
local function write(line)
    local now = ffi.C.getpid()
    if now ~= pid then
        pid, file = now, io.open(("/tmp/perf-%d.map"):format(now), "w")
        if not file then return end
        file:setvbuf("line")
        for _, each in pairs(traces) do file:write(each) end
    elseif file then
        file:write(line)
    end
end

jit.attach(function(what, trace, func, pc)
    if what == "start" then
        begun[trace] = name_of(func, pc)
    elseif what == "stop" then
        local code, address = jit_util.tracemc(trace)
        if not code then return end
        traces[trace] = ("%x %x %s\n"):format(address, #code, begun[trace] or "[trace]")
        write(traces[trace])
    elseif what == "flush" then
        begun, traces = {}, {}
    end
end, "trace")
