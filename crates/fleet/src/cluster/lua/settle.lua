-- owner, epoch, sequence number, pages, bytes, count, fingerprint x count -> 1 | 0 and why
-- All or nothing. Repeating the last number succeeds without an effect.
if not is_held(ARGV[1], ARGV[2]) then return { 0, 'epoch' } end
local position = 'e' .. ARGV[2] .. ':' .. ARGV[1]
local last, sequence = number(redis.call('HGET', HEAD, position)), tonumber(ARGV[3])
if sequence == last then return { 1, 'again' } end
if sequence ~= last + 1 then return { 0, 'sequence' } end
local count = tonumber(ARGV[6])
for at = 7, 6 + count do
  if redis.call('HEXISTS', RUN, ARGV[at]) == 0 then return { 0, 'not leased' } end
end
for at = 7, 6 + count do
  redis.call('HDEL', RUN, ARGV[at])
end
-- `0 - count`, because `-count` for zero is written as -0, which HINCRBY refuses.
redis.call('HINCRBY', HEAD, 'leased', 0 - count)
redis.call('HINCRBY', HEAD, 'settled', count)
redis.call('HINCRBY', HEAD, 'pages', ARGV[4])
if ARGV[5] ~= '0' then redis.call('HINCRBY', HEAD, 'bytes', ARGV[5]) end
if redis.call('HEXISTS', HEAD, 'quota') == 1 then redis.call('HINCRBY', HEAD, 'quota', 0 - tonumber(ARGV[4])) end
redis.call('HSET', HEAD, position, ARGV[3])
return { 1, 'settled' }
