-- owner, epoch, number, room in all, room for each host that is not named, { host, room } ...
--   -> 1, queued, leased, quota left or -1, milliseconds since an earlier owner may have asked or -1,
--      { host, links left, wait, age of the note, note, link ... } ... | 0
-- Hosts that are not named get the note about them, its age and what is left of its wait, in milliseconds.
-- Idempotent: repeating a number returns the links that it leased before.
if not is_held(ARGV[1], ARGV[2]) then return { 0 } end
local head = redis.call('HMGET', HEAD, 'queued', 'leased', 'quota', 'taken', 'asked', 'node')
local queued, leased = number(head[1]), number(head[2])
local this, last = tonumber(ARGV[3]), number(head[4])
local room, others = tonumber(ARGV[4]), tonumber(ARGV[5])
if head[3] then room = math.min(room, number(head[3]) - leased) end
local result, named, place = { 1, 0, 0, 0, -1 }, {}, 0
if this < last then return { 0 } end
for at = 6, #ARGV, 2 do named[ARGV[at]] = true end

-- The beginning of a host's result.
local function about(host, left)
  local found = not named[host] and redis.call('HGET', NOTE, host)
  if not found then return { host, left, 0, 0, '' } end
  local at, by, wait, note = unpack_note(found)
  local age = since(at, by)
  return { host, left, math.max(wait - age, 0), age, note }
end

-- Leases up to `max_links` links of a host.
local function take(host, max_links)
  if room <= 0 or max_links <= 0 then return end
  local taken, left = pull(host, math.min(max_links, room))
  if #taken == 0 then return end
  local links = about(host, left)
  for _, link in ipairs(taken) do
    place = place + 1
    redis.call('HSET', RUN, link[1], pack_run(link[2], this, place, host, link[3]))
    links[#links + 1] = link[3]
  end
  result[#result + 1] = links
  room, queued, leased = room - #taken, queued - #taken, leased + #taken
end

-- Adds the links that the take with this number leased before.
local function repeat_answer()
  local run, hosts = redis.call('HGETALL', RUN), {}
  for index = 1, #run, 2 do
    local _, taken, at, host, link = unpack_run(run[index + 1])
    if taken == this then
      hosts[host] = hosts[host] or {}
      table.insert(hosts[host], { at, link })
    end
  end
  for host, taken in pairs(hosts) do
    table.sort(taken, function(a, b) return a[1] < b[1] end)
    local left = 0
    for _, level in ipairs(levels_of(host)) do left = left + level[4] end
    local links = about(host, left)
    for _, link in ipairs(taken) do
      links[#links + 1] = link[2]
    end
    result[#result + 1] = links
  end
end

if this == last then
  repeat_answer()
else
  for at = 6, #ARGV, 2 do
    take(ARGV[at], tonumber(ARGV[at + 1]))
  end
  if others > 0 and room > 0 then
    for _, host in ipairs(redis.call('HKEYS', HOST)) do
      if not named[host] then take(host, others) end
    end
  end
  redis.call('HSET', HEAD, 'queued', text(queued), 'leased', text(leased), 'taken', ARGV[3])
end
result[2], result[3] = queued, leased
result[4] = head[3] and (number(head[3]) - leased) or -1
if head[5] then result[5] = since(number(head[5]), head[6]) end
return result
