-- Proves a password by SCRAM (RFC 5802, RFC 7677) as a client, without channel binding; the server has to prove that it knows it, too.
local bytes, faults = require "bytes", require "faults"

local scram = {}

local function known(answer, code, text)
  if not answer then faults.fail(code, text) end
  return answer
end

-- Begins a proof for a user; an empty one where the protocol has named the user already. Returns the proof, whose `first` is the first message.
function scram.begin(host, algorithm, user)
  local nonce = known(host.crypto.random(18))
  local bare = "n=" .. user:gsub("=", "=3D"):gsub(",", "=2C") .. ",r=" .. nonce
  return { host = host, algorithm = algorithm, nonce = nonce, bare = bare, first = "n,," .. bare }
end

local function hmac(proof, key, text)
  return bytes.of(known(proof.host.crypto.hmac(proof.algorithm, key, text)))
end

-- Answers the server's challenge. Returns the second message.
function scram.answer(proof, password, challenge)
  local whole, salt, rounds = challenge:match("^r=([^,]+),s=([^,]+),i=(%d+)")
  salt = salt and bytes.of_base64(salt)
  if not salt or whole:sub(1, #proof.nonce) ~= proof.nonce or whole == proof.nonce then
    faults.fail("protocol", "the server's challenge is not one of SCRAM")
  end
  local host, last = proof.host, "c=biws,r=" .. whole
  proof.salted = bytes.of(known(host.crypto.pbkdf2(proof.algorithm, password, salt, math.tointeger(tonumber(rounds)))))
  proof.messages = proof.bare .. "," .. challenge .. "," .. last
  local client = hmac(proof, proof.salted, "Client Key")
  local stored = bytes.of(known(host.crypto.digest(proof.algorithm, client)))
  return last .. ",p=" .. bytes.base64(bytes.xor(client, hmac(proof, stored, proof.messages)))
end

-- Fails unless the server's last message proves that it knows the password.
function scram.finish(proof, message)
  local signature = hmac(proof, hmac(proof, proof.salted, "Server Key"), proof.messages)
  if message ~= "v=" .. bytes.base64(signature) then
    faults.fail("protocol", "the server does not know the password itself: it may be another one that listens there")
  end
end

return scram
