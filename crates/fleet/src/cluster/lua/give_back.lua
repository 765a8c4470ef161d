-- owner, epoch, { fingerprint, host, rank, link } ... -> 1, count | 0
if not is_held(ARGV[1], ARGV[2]) then return { 0, 0 } end
local count = 0
for at = 3, #ARGV, 4 do
  if redis.call('HDEL', RUN, ARGV[at]) == 1 then
    push(ARGV[at + 1], tonumber(ARGV[at + 2]), { ARGV[at] }, { ARGV[at + 3] })
    count = count + 1
  end
end
redis.call('HINCRBY', HEAD, 'leased', 0 - count)
redis.call('HINCRBY', HEAD, 'queued', count)
return { 1, count }
