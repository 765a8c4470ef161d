-- KEYS: the pool. bucket, number -> 1
-- Deletes the record of a completed grant.
local pending = redis.call('HGET', KEYS[1], 't' .. ARGV[1])
if pending and string.match(pending, '(%d+):') == ARGV[2] then redis.call('HDEL', KEYS[1], 't' .. ARGV[1]) end
return 1
