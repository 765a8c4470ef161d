-- owner, milliseconds, whether pages are limited
--   -> 1, epoch, queued, pages | 0, owner, milliseconds left
-- An owner that has not released the bucket may have sent requests until the end of its lease, or until now if it is the
-- caller itself.
local head = redis.call('HMGET', HEAD, 'owner', 'epoch', 'until', 'queued', 'pages')
local now = clock()
if head[1] and head[1] ~= '' and head[1] ~= ARGV[1] and number(head[3]) > now then
  return { 0, head[1], number(head[3]) - now }
end
requeue()
if head[1] and head[1] ~= '' then
  redis.call('HSET', HEAD, 'asked', text(math.min(number(head[3]), now)), 'node', node())
end
if ARGV[3] == '1' then redis.call('HSETNX', HEAD, 'quota', 0) end
local epoch = redis.call('HINCRBY', HEAD, 'epoch', 1)
redis.call('HSET', HEAD, 'owner', ARGV[1], 'until', text(now + tonumber(ARGV[2])), 'taken', 0,
  'hosts', redis.call('HLEN', HOST))
return { 1, epoch, number(redis.call('HGET', HEAD, 'queued')), number(head[5]) }
