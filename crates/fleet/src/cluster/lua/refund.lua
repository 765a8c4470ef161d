-- owner, epoch -> number, amount | 0, 0
-- Takes the pages that an idle bucket does not need out of its quota. The refund stays recorded until `refunded` deletes
-- it.
if not is_held(ARGV[1], ARGV[2]) then return { 0, 0 } end
local head = redis.call('HMGET', HEAD, 'queued', 'leased', 'quota', 'refunds', 'refund')
if number(head[5]) > 0 then return { number(head[4]), number(head[5]) } end
if number(head[1]) > 0 or number(head[2]) > 0 or number(head[3]) <= 0 then return { 0, 0 } end
redis.call('HSET', HEAD, 'quota', 0, 'refund', head[3])
return { redis.call('HINCRBY', HEAD, 'refunds', 1), number(head[3]) }
