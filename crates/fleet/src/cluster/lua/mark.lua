-- owner, epoch, { fingerprint, link } ... -> 1 | 0
-- Replaces leased links, so that their next owner gets the mark that their requests were sent. Idempotent.
if not is_held(ARGV[1], ARGV[2]) then return 0 end
for at = 3, #ARGV, 2 do
  local entry = redis.call('HGET', RUN, ARGV[at])
  if not entry then return 0 end
  local rank, take, place, host = unpack_run(entry)
  redis.call('HSET', RUN, ARGV[at], pack_run(rank, take, place, host, ARGV[at + 1]))
end
return 1
