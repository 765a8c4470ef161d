-- KEYS: a hash of the crawl. field, number -> the number that holds
-- Sets a number that never falls, whatever the order in which processes set it.
local held = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
if held >= tonumber(ARGV[2]) then return held end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return tonumber(ARGV[2])
