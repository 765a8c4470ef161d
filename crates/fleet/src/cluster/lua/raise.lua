-- KEYS: a hash of the crawl. field, number -> the larger of this and the stored number
-- Sets a number, unless the stored one is larger. So the order in which processes set it does not matter.
local held = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
if held >= tonumber(ARGV[2]) then return held end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return tonumber(ARGV[2])
