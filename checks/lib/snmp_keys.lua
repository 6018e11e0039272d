-- Makes keys of passwords, proves and encrypts, as version 3 of SNMP does (RFC 3414, RFC 3826, RFC 7860; keys of AES-192
-- and AES-256 as draft-blumenthal-aes-usm-04, or with a "c" behind them as Cisco makes them, draft-reeder-snmpv3-usm-3desede).
local bytes, faults = require "bytes", require "faults"

local keys = {}
local Keys = {}
Keys.__index = Keys

-- By the names of the arguments: the algorithm of host.crypto, and the bytes of its proof that are sent.
local PROOFS = {
  md5 = { "md5", 12 }, sha = { "sha1", 12 }, sha224 = { "sha224", 16 }, sha256 = { "sha256", 24 }, sha384 = { "sha384", 32 }, sha512 = { "sha512", 48 },
}
-- The cipher of host.crypto, the bytes of its key, and if a key that is too short grows by Cisco's rule.
local CIPHERS = {
  des = { "des-cbc", 16 }, aes = { "aes-cfb", 16 }, aes192 = { "aes-cfb", 24 }, aes256 = { "aes-cfb", 32 },
  aes192c = { "aes-cfb", 24, true }, aes256c = { "aes-cfb", 32, true },
}
-- The standard wants a password to be repeated to this length before its digest is taken.
local REPEATED = 1048576
local LEAST_PASSWORD = 8

local function known(answer, code, text)
  if not answer then faults.fail(code, text) end
  return bytes.of(answer)
end

local function checked(args, name)
  local password = args[name]
  if password and #password < LEAST_PASSWORD then
    faults.fail("bad-arguments", string.format("%s must have at least %d characters", name, LEAST_PASSWORD))
  end
  return password
end

-- Returns what the arguments of a check say about security: nothing, a proof, or a proof and encryption.
function keys.open(host, args)
  local made = setmetatable({ host = host, auth = checked(args, "auth_password"), privacy = checked(args, "privacy_password") }, Keys)
  if args.user == "" then faults.fail("bad-arguments", "version 3 needs a user") end
  if made.privacy and not made.auth then faults.fail("bad-arguments", "privacy_password needs an auth_password") end
  made.algorithm, made.proof_size = table.unpack(PROOFS[args.auth])
  made.cipher, made.key_size, made.is_cisco = table.unpack(CIPHERS[args.privacy])
  made.salt = string.unpack(">i8", known(host.crypto.random(8)))
  return made
end

-- Returns the key of a password for one device.
function Keys:_localized(password, engine)
  local digest = self.host.crypto.digest
  local key = known(digest(self.algorithm, password, REPEATED))
  return known(digest(self.algorithm, key .. engine .. key))
end

-- Makes the keys for the device that has this engine id.
function Keys:localize(engine)
  if self.auth then self.auth_key = self:_localized(self.auth, engine) end
  if not self.privacy then return end
  local key = self:_localized(self.privacy, engine)
  local last = key
  while #key < self.key_size do
    last = self.is_cisco and self:_localized(last, engine) or known(self.host.crypto.digest(self.algorithm, key))
    key = key .. last
  end
  self.privacy_key = key:sub(1, self.key_size)
end

-- Returns the proof of a message whose own proof is zeros.
function Keys:proof(message)
  return known(self.host.crypto.hmac(self.algorithm, self.auth_key, message)):sub(1, self.proof_size)
end

-- Returns the cipher's key, and its start for a message with this salt.
function Keys:_start(salt, boots, time)
  if self.cipher == "des-cbc" then return self.privacy_key:sub(1, 8), bytes.xor(self.privacy_key:sub(9, 16), salt) end
  return self.privacy_key, string.pack(">I4I4", boots, time) .. salt
end

-- Returns encrypted data and their salt, which no other message has.
function Keys:encrypt(data, boots, time)
  self.salt = self.salt + 1
  local salt = string.pack(">i8", self.salt)
  if self.cipher == "des-cbc" then
    salt = string.pack(">I4I4", boots, self.salt & 0xffffffff)
    data = data .. ("\0"):rep(-#data % 8)
  end
  local key, start = self:_start(salt, boots, time)
  return known(self.host.crypto.encrypt(self.cipher, key, start, data)), salt
end

function Keys:decrypt(data, salt, boots, time)
  if #salt ~= 8 or (self.cipher == "des-cbc" and #data % 8 ~= 0) then faults.fail("protocol", "the answer is not encrypted as it should be") end
  local key, start = self:_start(salt, boots, time)
  return known(self.host.crypto.decrypt(self.cipher, key, start, data))
end

return keys
