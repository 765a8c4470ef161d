-- -> known, queued, leased, settled, pages, bytes
-- Returns the counts after a write, so that WAIT covers all earlier writes.
redis.call('HINCRBY', HEAD, 'confirmed', 1)
local head = redis.call('HMGET', HEAD, 'known', 'queued', 'leased', 'settled', 'pages', 'bytes')
return { number(head[1]), number(head[2]), number(head[3]), number(head[4]), number(head[5]), number(head[6]) }
