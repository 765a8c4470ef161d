-- fingerprint -> 1 if it is in the seen set, otherwise 0
-- The seen set is a linear hash table: see put.lua.
local head = redis.call('HMGET', HEAD, 'level', 'split')
local low = struct.unpack('>I4', ARGV[1], 5)
local index = low % 2 ^ number(head[1])
if index < number(head[2]) then index = low % 2 ^ (number(head[1]) + 1) end
local block, from = redis.call('HGET', SEEN, text(index)) or '', 1
while true do
  local at = string.find(block, ARGV[1], from, true)
  if not at then return 0 end
  -- A match counts only at the start of a fingerprint.
  if (at - 1) % 8 == 0 then return 1 end
  from = at + 1
end
