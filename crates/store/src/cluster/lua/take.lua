-- owner, epoch, room in all, room for each host that is not named, { host, room } ...
--   -> 1, queued, leased, quota left or -1, { host, links left, { fingerprint, depth, link } ... } ... | 0
if not is_held(ARGV[1], ARGV[2]) then return { 0 } end
local head = redis.call('HMGET', HEAD, 'queued', 'leased', 'quota')
local queued, leased = number(head[1]), number(head[2])
local room, others = tonumber(ARGV[3]), tonumber(ARGV[4])
if head[3] then room = math.min(room, number(head[3]) - leased) end
local result, named = { 1, 0, 0, 0 }, {}

local function take(host, most)
  if room <= 0 or most <= 0 then return end
  local taken, left = pull(host, math.min(most, room))
  if #taken == 0 then return end
  local links = { host, left }
  for _, link in ipairs(taken) do
    redis.call('HSET', RUN, link[1], struct.pack('>I4I2', link[2], #host) .. host .. link[3])
    links[#links + 1] = link[1]
    links[#links + 1] = link[2]
    links[#links + 1] = link[3]
  end
  result[#result + 1] = links
  room, queued, leased = room - #taken, queued - #taken, leased + #taken
end

for at = 5, #ARGV, 2 do
  named[ARGV[at]] = true
  take(ARGV[at], tonumber(ARGV[at + 1]))
end
if others > 0 and room > 0 then
  for _, host in ipairs(redis.call('HKEYS', HOST)) do
    if not named[host] then take(host, others) end
  end
end
redis.call('HSET', HEAD, 'queued', text(queued), 'leased', text(leased))
result[2], result[3] = queued, leased
result[4] = head[3] and (number(head[3]) - leased) or -1
return result
