//! [`FleetClient`]: batched operations on the buckets of a fleet.

mod values;
mod whole_crawl;

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use redis::Value;

use super::codec::{QueuedLink, TakenLink, decode};
use super::connection::{Answer, Kind, Nodes, Script, StoreCommand, Unreachable};
use super::host_note::{HostNews, WireNote};
pub(super) use values::{array, bytes};
use values::{integer, number};
pub use whole_crawl::{NodeState, RestoredBucket};

/// The tolerated clock skew, in milliseconds: a lease lasts this much longer in the store than for its owner. For short
/// leases it is less (see [`store_lease_ms`]).
const SKEW_MS: u64 = 2_000;
/// First line of all scripts except `put`. It allows them to run on a node that is out of memory, because renewing
/// leases and settling results must still work there. `put`, which fills the store, has to wait.
const RUNS_WHEN_FULL: &str = "#!lua flags=allow-oom\n";

/// The Lua scripts in `lua/`, one per operation.
///
/// A page limit is a pool of pages, from which buckets get their quota. A *grant* moves pages from the pool to a
/// bucket, and a *refund* moves unused ones back. Pool and bucket may be on different nodes, so each transfer has three
/// steps, and an entry describes it until its last step.
struct Scripts {
    acquire: Script,
    renew: Script,
    release: Script,
    put: Script,
    take: Script,
    settle: Script,
    give_back: Script,
    /// Replaces leased links, to mark them as sent.
    mark: Script,
    /// Stores notes about hosts.
    note: Script,
    /// Changes a number, and returns the counts of a bucket. `WAIT` waits for the last write of its own connection and
    /// for all writes before it. So after this script, it also covers the writes of other processes.
    confirm: Script,
    /// Second step of a grant: adds the pages to the quota of the bucket.
    credit: Script,
    /// First step of a refund: takes the unused quota out of the bucket.
    refund: Script,
    /// Last step of a refund: deletes the entry of the transfer in the bucket.
    refunded: Script,
    /// First step of a grant: takes pages out of the pool.
    grant: Script,
    /// Last step of a grant: deletes the entry of the transfer in the pool.
    granted: Script,
    /// Second step of a refund: adds the pages to the pool.
    accept: Script,
    /// Sets a field of a hash, even on a node that is out of memory. (Such a node refuses `HSET`.)
    keep: Script,
    /// Sets a number, unless the stored one is larger.
    raise: Script,
    /// Replaces the orders of the crawl.
    steer: Script,
}

impl Scripts {
    fn new() -> Self {
        // Scripts on the keys of a bucket start with the prelude.
        let bucket_script =
            |source: &str| Script::new([RUNS_WHEN_FULL, include_str!("../lua/prelude.lua"), source].concat());
        let crawl_script = |source: &str| Script::new([RUNS_WHEN_FULL, source].concat());
        Self {
            acquire: bucket_script(include_str!("../lua/acquire.lua")),
            renew: bucket_script(include_str!("../lua/renew.lua")),
            release: bucket_script(include_str!("../lua/release.lua")),
            put: Script::new([include_str!("../lua/prelude.lua"), include_str!("../lua/put.lua")].concat()),
            take: bucket_script(include_str!("../lua/take.lua")),
            settle: bucket_script(include_str!("../lua/settle.lua")),
            give_back: bucket_script(include_str!("../lua/give_back.lua")),
            mark: bucket_script(include_str!("../lua/mark.lua")),
            note: bucket_script(include_str!("../lua/note.lua")),
            confirm: bucket_script(include_str!("../lua/confirm.lua")),
            credit: bucket_script(include_str!("../lua/credit.lua")),
            refund: bucket_script(include_str!("../lua/refund.lua")),
            refunded: bucket_script(include_str!("../lua/refunded.lua")),
            grant: crawl_script(include_str!("../lua/grant.lua")),
            granted: crawl_script(include_str!("../lua/granted.lua")),
            accept: crawl_script(include_str!("../lua/accept.lua")),
            keep: crawl_script(include_str!("../lua/keep.lua")),
            raise: crawl_script(include_str!("../lua/raise.lua")),
            steer: crawl_script(include_str!("../lua/steer.lua")),
        }
    }
}

/// A process's view of the buckets of one crawl.
pub struct FleetClient {
    pub nodes: Nodes,
    scripts: Arc<Scripts>,
    /// The name of the crawl, or of a later round of it ([`CrawlRound::store_name`](super::CrawlRound::store_name)).
    name: String,
    /// The id of this process, which owns the buckets that it leases.
    owner: String,
    /// A random number that identifies this client. Together with the number of a put it identifies the put. The store
    /// answers a repeated put with the stored result.
    client_id: u64,
    /// The number of the last call of [`FleetClient::put_idempotent`].
    puts: u64,
    /// Maximum number of links of one host, without those that are not limited ([`QueuedLink::is_limited`]); 0 for no
    /// limit.
    max_per_host: u64,
}

/// A bucket that was acquired.
#[derive(Clone, Debug)]
pub struct Acquired {
    pub bucket: u32,
    pub epoch: u64,
    /// The number of queued links.
    pub queued: u64,
}

/// The fencing token of a bucket. The epoch rises with every acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseToken {
    pub bucket: u32,
    pub epoch: u64,
}

/// The state that new links get.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PutAs {
    Queued,
    Settled,
}

/// The effect of a put on a bucket.
#[derive(Clone, Debug, Default)]
pub struct PutResult {
    /// For each link, whether it is new and was queued. A link above the limit of its host is dropped.
    pub new: Vec<bool>,
    /// The number of queued links of the bucket.
    pub queued: u64,
}

/// A request to lease links of a bucket.
#[derive(Clone, Debug)]
pub struct TakeRequest {
    pub token: LeaseToken,
    /// Counted from 1 for each token. If the last number is sent again, the store returns the same links again.
    pub sequence: u64,
    /// The maximum number of links in total.
    pub max_links: usize,
    /// The maximum number of links of each host that is not in `hosts`.
    pub max_per_other_host: usize,
    /// Hosts with their own maximum number of links.
    pub hosts: Vec<(Box<str>, usize)>,
}

/// The links that a take leased.
#[derive(Clone, Debug, Default)]
pub struct TakeResult {
    /// The number of links of the bucket that are still queued.
    pub queued: u64,
    /// The number of links of the bucket that are leased.
    pub leased: u64,
    /// How many more pages may be leased from this bucket; `None` without a page limit.
    pub quota: Option<u64>,
    pub hosts: Vec<TakenHost>,
}

/// The leased links of one host.
#[derive(Clone, Debug)]
pub struct TakenHost {
    pub host: Box<str>,
    /// How many links of the host are still queued.
    pub left: u64,
    /// What earlier owners knew about the host; without the note if the request named the host.
    pub news: HostNews,
    pub links: Vec<TakenLink>,
}

/// Links of one bucket that are settled together.
#[derive(Clone, Debug)]
pub struct SettleRequest {
    pub token: LeaseToken,
    /// Counted from 1 for each token. If the last number is sent again, nothing changes. The store rejects any other
    /// number that does not follow the last one.
    pub sequence: u64,
    /// How many of the links count towards the page limit.
    pub pages: u64,
    /// Bytes received for the links; 0 without a byte limit.
    pub bytes: u64,
    pub fingerprints: Vec<u64>,
}

/// The store's reply to a [`SettleRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettleReply {
    /// The links are settled, by this request or by an earlier attempt with the same number.
    Accepted,
    /// Nothing was settled, for this reason.
    Refused(String),
}

/// The state of a bucket, as [`FleetClient::survey`] reads it: its lease, and the numbers of its links.
#[derive(Clone, Debug, Default)]
pub struct BucketState {
    /// The process that leased the bucket last; empty if it was released.
    pub owner: String,
    pub epoch: u64,
    /// When the lease ends, in milliseconds since the Unix epoch by the clock of the node.
    pub until: u64,
    /// Hosts with work.
    pub hosts: u64,
    pub known: u64,
    pub queued: u64,
    pub leased: u64,
    pub settled: u64,
    /// Settled links that count towards the page limit.
    pub pages: u64,
    /// Bytes received for settled links; 0 without a byte limit.
    pub bytes: u64,
}

impl FleetClient {
    pub fn new(nodes: Nodes, name: &str, owner: &str) -> Self {
        let client_id = RandomState::new().hash_one(owner);
        Self {
            nodes,
            scripts: Arc::new(Scripts::new()),
            name: name.to_owned(),
            owner: owner.to_owned(),
            client_id,
            puts: 0,
            max_per_host: 0,
        }
    }

    /// Sets the maximum number of links of one host. `put` drops further ones, except those that are not limited
    /// ([`QueuedLink::is_limited`]).
    pub fn set_max_per_host(&mut self, max_links: Option<u64>) {
        self.max_per_host = max_links.unwrap_or(0);
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same connections for another crawl, or for another round of this one.
    #[must_use]
    pub fn with_name(mut self, name: String) -> Self {
        self.name = name;
        self
    }

    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// A key of the crawl as a whole. The part in braces is the hash tag: all keys with the same tag are on one node.
    pub fn crawl_key(&self, what: &str) -> String {
        format!("{{{}}}{what}", self.name)
    }

    /// The keys of a bucket, in the order in which scripts declare them. `lua/prelude.lua` describes their contents.
    pub fn bucket_keys(&self, bucket: u32) -> Vec<String> {
        ["head", "seen", "host", "queue", "run", "note"]
            .iter()
            .map(|what| format!("{{{}:{bucket}}}{what}", self.name))
            .collect()
    }

    /// A call of a script on the keys of a bucket.
    fn script<'a>(&self, script: &'a Script, bucket: u32, arguments: Vec<Vec<u8>>) -> StoreCommand<'a> {
        let keys = self.bucket_keys(bucket);
        let key = keys.first().cloned().unwrap_or_default();
        StoreCommand { key, kind: Kind::Script { script, keys, arguments } }
    }

    /// A call of a script on the pool of pages, from which buckets get portions of the page limit.
    fn pool_script<'a>(&self, script: &'a Script, arguments: Vec<Vec<u8>>) -> StoreCommand<'a> {
        let key = self.crawl_key("pool");
        StoreCommand { key: key.clone(), kind: Kind::Script { script, keys: vec![key], arguments } }
    }

    /// The first arguments of scripts that check the fencing token: owner and epoch.
    fn token_arguments(&self, token: LeaseToken) -> Vec<Vec<u8>> {
        vec![self.owner.clone().into_bytes(), number(token.epoch)]
    }

    /// Acquires those of the buckets that no other process holds. The caller must count the duration of the lease from
    /// a time before this call. With `is_limited`, only as many pages can be leased as the quota of the bucket allows
    /// ([`Self::grant`]).
    pub fn acquire(&mut self, buckets: &[u32], lease_ms: u64, is_limited: bool) -> Result<Vec<Acquired>, Unreachable> {
        let scripts = Arc::clone(&self.scripts);
        let duration = number(store_lease_ms(lease_ms));
        let commands: Vec<_> = buckets
            .iter()
            .map(|bucket| {
                let limited = number(u64::from(is_limited));
                let arguments = vec![self.owner.clone().into_bytes(), duration.clone(), limited];
                self.script(&scripts.acquire, *bucket, arguments)
            })
            .collect();
        let answers = self.nodes.run_replicated(&commands);
        // `lua/acquire.lua` describes the reply. The same holds for the other scripts.
        let mut acquired = Vec::new();
        for (bucket, answer) in buckets.iter().zip(answers) {
            let reply = array(answer?);
            if reply.first().is_some_and(|is_done| integer(is_done) == 1) {
                acquired.push(Acquired {
                    bucket: *bucket,
                    epoch: reply.get(1).map_or(0, integer),
                    queued: reply.get(2).map_or(0, integer),
                });
            }
        }
        Ok(acquired)
    }

    /// Renews leases, and stores how many hosts of each bucket have work. Returns for each whether this process still has
    /// it.
    pub fn renew(&mut self, leases: &[(LeaseToken, u64)], lease_ms: u64) -> Result<Vec<bool>, Unreachable> {
        let scripts = Arc::clone(&self.scripts);
        let duration = number(store_lease_ms(lease_ms));
        let commands: Vec<_> = leases
            .iter()
            .map(|(token, hosts)| {
                let arguments = [self.token_arguments(*token), vec![duration.clone(), number(*hosts)]].concat();
                self.script(&scripts.renew, token.bucket, arguments)
            })
            .collect();
        self.nodes.run_replicated(&commands).into_iter().map(|answer| Ok(integer(&answer?) == 1)).collect()
    }

    /// Releases buckets and puts their leased links back into the queue.
    pub fn release(&mut self, tokens: &[LeaseToken]) -> Result<(), Unreachable> {
        let scripts = Arc::clone(&self.scripts);
        let commands: Vec<_> = tokens
            .iter()
            .map(|token| self.script(&scripts.release, token.bucket, self.token_arguments(*token)))
            .collect();
        self.nodes.run_replicated(&commands).into_iter().try_for_each(|answer| answer.map(drop))
    }

    /// Puts links into their buckets. Returns once they are replicated. A put may be repeated, but then it reports the
    /// links of the earlier attempt as known, not as new.
    pub fn put(&mut self, batches: &[(u32, Vec<QueuedLink>)]) -> Result<Vec<PutResult>, Unreachable> {
        // 0: the store does not keep the result.
        self.put_numbered(batches, 0, PutAs::Queued)
    }

    /// Adds links that are settled: they become known, and are not queued.
    pub fn put_settled(&mut self, batches: &[(u32, Vec<QueuedLink>)]) -> Result<(), Unreachable> {
        self.put_numbered(batches, 0, PutAs::Settled).map(drop)
    }

    /// Like [`Self::put`], for callers that need to know exactly which links are new. The store keeps the result
    /// for a while, and answers a repeated attempt with it. Each bucket may occur once.
    pub fn put_idempotent(&mut self, batches: &[(u32, Vec<QueuedLink>)]) -> Result<Vec<PutResult>, Unreachable> {
        self.puts += 1;
        self.put_numbered(batches, self.puts, PutAs::Queued)
    }

    /// Puts links. With a number other than 0, the store keeps the result for repeated attempts.
    fn put_numbered(
        &mut self,
        batches: &[(u32, Vec<QueuedLink>)],
        put_number: u64,
        put_as: PutAs,
    ) -> Result<Vec<PutResult>, Unreachable> {
        let scripts = Arc::clone(&self.scripts);
        // For each bucket, the number of links, and the indexes of the sent links in the order in which they are sent.
        let mut orders = Vec::new();
        let commands: Vec<_> = batches
            .iter()
            .map(|(bucket, links)| {
                // Links of one host and rank are one group. Duplicates are removed before sorting by rank, so that
                // the first of equal links wins, as if they were put one by one.
                let mut seen = HashSet::new();
                let mut order: Vec<usize> =
                    (0..links.len()).filter(|index| seen.insert(links[*index].fingerprint)).collect();
                order.sort_by(|a, b| {
                    let (a, b) = (&links[*a], &links[*b]);
                    (&a.host, a.rank).cmp(&(&b.host, b.rank))
                });
                let mut arguments = vec![number(put_number)];
                let group_of = |index: usize| {
                    let QueuedLink { host, rank, is_limited, .. } = &links[index];
                    // Whether a link is limited is not a sort key, so that links of one host and rank stay in the order
                    // of arrival.
                    (host, rank, *is_limited && self.max_per_host > 0)
                };
                let mut groups = order.chunk_by(|a, b| group_of(*a) == group_of(*b));
                while let Some(group @ [first, ..]) = groups.next() {
                    let first = &links[*first];
                    let max_links = if first.is_limited { self.max_per_host } else { 0 };
                    arguments.extend([
                        first.host.as_bytes().to_vec(),
                        match put_as {
                            PutAs::Queued => first.rank.to_string().into_bytes(),
                            PutAs::Settled => b"settled".to_vec(),
                        },
                        number(max_links),
                        number(group.len() as u64),
                    ]);
                    for index in group {
                        let link = &links[*index];
                        arguments.extend([link.fingerprint.to_be_bytes().to_vec(), link.bytes.clone()]);
                    }
                }
                orders.push((links.len(), order));
                let mut command = self.script(&scripts.put, *bucket, arguments);
                if let Kind::Script { keys, .. } = &mut command.kind {
                    keys.push(format!("{{{}:{bucket}}}put:{:x}", self.name, self.client_id));
                }
                command
            })
            .collect();
        let answers = self.nodes.run_replicated(&commands);
        let mut results = Vec::new();
        for ((count, order), answer) in orders.into_iter().zip(answers) {
            let reply = array(answer?);
            let flags = reply.first().map(bytes).unwrap_or_default();
            let mut new = vec![false; count];
            for (index, flag) in order.into_iter().zip(flags) {
                new[index] = flag == b'1';
            }
            results.push(PutResult { new, queued: reply.get(2).map_or(0, integer) });
        }
        Ok(results)
    }

    /// Leases links. `None` if the bucket has another owner or epoch. After an error, repeat with the same sequence
    /// numbers to get the links that were already leased.
    pub fn take(&mut self, requests: &[TakeRequest]) -> Result<Vec<Option<TakeResult>>, Unreachable> {
        let scripts = Arc::clone(&self.scripts);
        let commands: Vec<_> = requests
            .iter()
            .map(|request| {
                let mut arguments = self.token_arguments(request.token);
                arguments.extend([
                    number(request.sequence),
                    number(request.max_links as u64),
                    number(request.max_per_other_host as u64),
                ]);
                for (host, max_links) in &request.hosts {
                    arguments.extend([host.as_bytes().to_vec(), number(*max_links as u64)]);
                }
                self.script(&scripts.take, request.token.bucket, arguments)
            })
            .collect();
        let answers = self.nodes.run_replicated(&commands);
        answers.into_iter().map(|answer| take_result(array(answer?))).collect()
    }

    /// Settles links; each request is atomic and has its own reply.
    pub fn settle(&mut self, requests: &[SettleRequest]) -> Result<Vec<SettleReply>, Unreachable> {
        let scripts = Arc::clone(&self.scripts);
        let commands: Vec<_> = requests
            .iter()
            .map(|request| {
                let mut arguments = self.token_arguments(request.token);
                arguments.extend([
                    number(request.sequence),
                    number(request.pages),
                    number(request.bytes),
                    number(request.fingerprints.len() as u64),
                ]);
                arguments.extend(request.fingerprints.iter().map(|fingerprint| fingerprint.to_be_bytes().to_vec()));
                self.script(&scripts.settle, request.token.bucket, arguments)
            })
            .collect();
        let answers = self.nodes.run_replicated(&commands);
        answers.into_iter().map(|answer| Ok(settle_reply(&array(answer?)))).collect()
    }

    /// Puts leased links back into the queue with their current state. Returns `false` if the bucket has another owner
    /// or epoch.
    pub fn give_back(&mut self, token: LeaseToken, links: &[QueuedLink]) -> Result<bool, Unreachable> {
        let scripts = Arc::clone(&self.scripts);
        let mut arguments = self.token_arguments(token);
        for link in links {
            arguments.extend([
                link.fingerprint.to_be_bytes().to_vec(),
                link.host.as_bytes().to_vec(),
                link.rank.to_string().into_bytes(),
                link.bytes.clone(),
            ]);
        }
        let command = self.script(&scripts.give_back, token.bucket, arguments);
        let answer = self.run_one_replicated(command)?;
        Ok(array(answer).first().is_some_and(|done| integer(done) == 1))
    }

    /// Replaces the stored form of leased links. If the bucket gets another owner, that owner gets this form. Returns
    /// `false` if the bucket already has another owner, or if one of the links is not leased.
    pub fn update_leased(&mut self, token: LeaseToken, links: &[QueuedLink]) -> Result<bool, Unreachable> {
        let scripts = Arc::clone(&self.scripts);
        let mut arguments = self.token_arguments(token);
        for link in links {
            arguments.extend([link.fingerprint.to_be_bytes().to_vec(), link.bytes.clone()]);
        }
        let command = self.script(&scripts.mark, token.bucket, arguments);
        Ok(integer(&self.run_one_replicated(command)?) == 1)
    }

    /// Stores notes about hosts for the next owners of their buckets. Returns for each bucket whether this process still
    /// has it.
    pub fn keep_notes(&mut self, notes: &[(LeaseToken, Vec<WireNote>)]) -> Result<Vec<bool>, Unreachable> {
        let scripts = Arc::clone(&self.scripts);
        let commands: Vec<_> = notes
            .iter()
            .map(|(token, notes)| {
                let mut arguments = self.token_arguments(*token);
                for WireNote { host, wait_ms, text } in notes {
                    arguments.extend([host.as_bytes().to_vec(), number(*wait_ms), text.clone()]);
                }
                self.script(&scripts.note, token.bucket, arguments)
            })
            .collect();
        self.nodes.run_replicated(&commands).into_iter().map(|answer| Ok(integer(&answer?) == 1)).collect()
    }

    /// Moves up to `wanted` pages from the pool to the quota of a bucket; returns how many. If an earlier transfer to
    /// this bucket is incomplete, completes that one instead.
    pub fn grant(&mut self, bucket: u32, wanted: u64) -> Result<u64, Unreachable> {
        let scripts = Arc::clone(&self.scripts);
        let id = number(bucket);
        let grant = self.pool_script(&scripts.grant, vec![id.clone(), number(wanted)]);
        let reply = array(self.run_one_replicated(grant)?);
        let [transfer, amount] = [0, 1].map(|index| reply.get(index).map_or(0, integer));
        if transfer == 0 {
            return Ok(0);
        }
        let credit = self.script(&scripts.credit, bucket, vec![number(transfer), number(amount)]);
        self.run_one_replicated(credit)?;
        let granted = self.pool_script(&scripts.granted, vec![id, number(transfer)]);
        self.run_one_replicated(granted)?;
        Ok(amount)
    }

    /// Moves the unused quota of an idle bucket back to the pool; returns how many pages.
    pub fn refund(&mut self, token: LeaseToken) -> Result<u64, Unreachable> {
        let scripts = Arc::clone(&self.scripts);
        let refund = self.script(&scripts.refund, token.bucket, self.token_arguments(token));
        let reply = array(self.run_one_replicated(refund)?);
        let [transfer, amount] = [0, 1].map(|index| reply.get(index).map_or(0, integer));
        if transfer == 0 {
            return Ok(0);
        }
        let accept = self.pool_script(&scripts.accept, vec![number(token.bucket), number(transfer), number(amount)]);
        self.run_one_replicated(accept)?;
        let refunded = self.script(&scripts.refunded, token.bucket, vec![number(transfer)]);
        self.run_one_replicated(refunded)?;
        Ok(amount)
    }

    /// Runs one plain Redis command on a key of the crawl.
    pub fn plain(&mut self, key: &str, parts: &[&[u8]]) -> Result<Value, Unreachable> {
        self.run_one(plain(key, parts.iter().map(|part| part.to_vec()).collect()))
    }

    /// Like [`Self::plain`], and waits until the write is replicated.
    pub fn plain_replicated(&mut self, key: &str, parts: &[&[u8]]) -> Result<Value, Unreachable> {
        self.run_one_replicated(plain(key, parts.iter().map(|part| part.to_vec()).collect()))
    }

    /// Sets a field of a hash of the crawl, even if the store is full. Does not wait for replication.
    pub fn keep_field(&mut self, what: &str, field: &str, value: Vec<u8>) -> Result<(), Unreachable> {
        let scripts = Arc::clone(&self.scripts);
        let key = self.crawl_key(what);
        let (keys, arguments) = (vec![key.clone()], vec![field.as_bytes().to_vec(), value]);
        self.run_one(StoreCommand { key, kind: Kind::Script { script: &scripts.keep, keys, arguments } }).map(drop)
    }

    /// Sets a number of the crawl, unless the stored one is larger. Returns the larger one.
    pub fn raise_field(&mut self, what: &str, field: &str, value: u64) -> Result<u64, Unreachable> {
        let scripts = Arc::clone(&self.scripts);
        let key = self.crawl_key(what);
        let (keys, arguments) = (vec![key.clone()], vec![field.as_bytes().to_vec(), number(value)]);
        let raise = StoreCommand { key, kind: Kind::Script { script: &scripts.raise, keys, arguments } };
        Ok(integer(&self.run_one_replicated(raise)?))
    }

    /// Replaces the orders of the crawl, if they are still `before`. Adds pages to the pool. With `continues`, the crawl
    /// runs again after its end.
    pub(super) fn steer(
        &mut self,
        before: &[u8],
        orders: Vec<u8>,
        more_pages: u64,
        continues: bool,
    ) -> Result<bool, Unreachable> {
        let scripts = Arc::clone(&self.scripts);
        let (key, pool) = (self.crawl_key("meta"), self.crawl_key("pool"));
        let arguments = vec![before.to_vec(), orders, number(more_pages), number(u64::from(continues))];
        let kind = Kind::Script { script: &scripts.steer, keys: vec![key.clone(), pool], arguments };
        Ok(integer(&self.run_one_replicated(StoreCommand { key, kind })?) == 1)
    }

    /// Runs one command that writes, and waits for its replication.
    fn run_one_replicated(&mut self, command: StoreCommand<'_>) -> Answer {
        let mut answers = self.nodes.run_replicated(&[command]);
        answers.pop().unwrap_or_else(|| Ok(Value::Nil))
    }

    /// Runs one command without waiting for replication.
    fn run_one(&mut self, command: StoreCommand<'_>) -> Answer {
        let mut answers = self.nodes.run(&[command]);
        answers.pop().unwrap_or_else(|| Ok(Value::Nil))
    }
}

/// A plain Redis command. `key` decides which node gets it.
fn plain(key: &str, parts: Vec<Vec<u8>>) -> StoreCommand<'static> {
    StoreCommand { key: key.to_owned(), kind: Kind::Plain(parts) }
}

/// Decodes the reply to a settle: 1, or 0 and the reason.
fn settle_reply(reply: &[Value]) -> SettleReply {
    if reply.first().is_some_and(|is_done| integer(is_done) == 1) {
        return SettleReply::Accepted;
    }
    SettleReply::Refused(reply.get(1).map(|why| String::from_utf8_lossy(&bytes(why)).into_owned()).unwrap_or_default())
}

/// Decodes the reply to a take; `None` if the bucket has another owner or epoch.
fn take_result(reply: Vec<Value>) -> Result<Option<TakeResult>, Unreachable> {
    if reply.first().is_none_or(|is_done| integer(is_done) != 1) {
        return Ok(None);
    }
    let number_at = |index: usize| reply.get(index).map_or(0, integer);
    let quota = match reply.get(3) {
        Some(Value::Int(left)) => u64::try_from(*left).ok(),
        _ => None,
    };
    let mut result = TakeResult { queued: number_at(1), leased: number_at(2), quota, hosts: Vec::new() };
    let asked_ms = match reply.get(4) {
        Some(Value::Int(ago)) => u64::try_from(*ago).ok(),
        _ => None,
    };
    // The reply ends with one array for each host: name, number of links left, the note with its wait and its age, then
    // the leased links.
    for host in reply.into_iter().skip(5) {
        let fields = array(host);
        let [host, left, wait, age, text, fields @ ..] = fields.as_slice() else { continue };
        let news = HostNews { wait_ms: integer(wait), asked_ms, age_ms: integer(age), text: bytes(text) };
        let host: Box<str> = String::from_utf8_lossy(&bytes(host)).into();
        let damaged = || Unreachable::permanent(format!("a queued link of {host} is damaged"));
        let links = fields.iter().map(|link| decode(&bytes(link), &host).ok_or_else(damaged));
        let links = links.collect::<Result<_, _>>()?;
        result.hosts.push(TakenHost { host, left: integer(left), news, links });
    }
    Ok(Some(result))
}

/// The duration of a lease in the store, given its duration for the owner. At most a third is added, so that other
/// processes do not wait long for short leases.
fn store_lease_ms(lease_ms: u64) -> u64 {
    lease_ms + SKEW_MS.min(lease_ms / 3)
}
