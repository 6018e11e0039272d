-- Runs programs that the host's policy names, for checks that judge their output.
local program = {}

-- Returns the parsed output of a program and its exit status, or nil and a sentence. What a program cannot tell is unknown.
function program.json(host, name, args, seconds)
  local answer, _, text = host.program { name = name, args = args, json = true, timeout = seconds, limit = 1048576 }
  if not answer then return nil, text end
  if type(answer.json) ~= "table" then return nil, string.format("the program %s writes no JSON document", name) end
  return answer.json, answer.exit_status
end

-- Returns the text that a program writes, or nil and a sentence if it fails. `good` has the exit statuses that are no failure.
function program.text(host, name, args, seconds, good)
  local answer, _, text = host.program { name = name, args = args, timeout = seconds, limit = 1048576 }
  if not answer then return nil, text end
  if not (good or { [0] = true })[answer.exit_status] then
    local said = answer.errors ~= "" and answer.errors or answer.text
    return nil, string.format("the program %s fails (exit status %d): %s", name, answer.exit_status, said:match("[^\r\n]+") or "it says nothing")
  end
  return answer.text, answer.exit_status
end

return program
