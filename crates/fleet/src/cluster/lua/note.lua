-- owner, epoch, { host, milliseconds that the host must not be asked, note } ... -> 1 | 0
-- Stores notes about hosts for the next owner. The wait is kept with the clock of this node.
if not is_held(ARGV[1], ARGV[2]) then return 0 end
for at = 3, #ARGV, 3 do
  redis.call('HSET', NOTE, ARGV[at], pack_note(ARGV[at + 1], ARGV[at + 2]))
end
return 1
