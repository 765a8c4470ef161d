//! Operations on all buckets of a crawl: survey, copies and removal.

use std::collections::BTreeMap;
use std::sync::Arc;

use redis::Value;

use super::super::connection::Unreachable;
use super::super::host_note::WireNote;
use super::values::{array, bytes, count, integer, pairs};
use super::{BucketState, FleetClient, plain};
use crate::segments::Position;

/// How many buckets are enough to reach every node of a usual cluster.
const SAMPLED_BUCKETS: u32 = 64;
/// The state of a node, as it describes itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeState {
    /// In bytes.
    pub used_memory: u64,
    /// In bytes; 0 if there is no limit.
    pub max_memory: u64,
    /// The seconds since the last message of the replica that is best informed; `None` if there is no replica.
    pub replica_lag: Option<u64>,
    /// Its clock, in milliseconds since the Unix epoch.
    pub clock_ms: u64,
}

/// What results say about a bucket, beside its links.
#[derive(Clone, Debug, Default)]
pub struct RestoredBucket {
    /// The last settled sequence number of each lease: epoch, owner, number.
    pub positions: Vec<(u64, String, u64)>,
    /// Settled links that count towards the page limit.
    pub pages: u64,
    /// Bytes received for them, if they are limited.
    pub bytes: u64,
    pub notes: Vec<WireNote>,
}

/// How many buckets one pipeline removes or copies.
const BUCKETS_PER_PIPELINE: usize = 512;

impl FleetClient {
    /// The state of all buckets. Each bucket is read atomically, but not all together.
    pub fn survey(&mut self, buckets: u32) -> Result<Vec<BucketState>, Unreachable> {
        let fields = ["owner", "epoch", "until", "known", "queued", "leased", "settled", "pages", "bytes", "hosts"];
        let commands: Vec<_> = (0..buckets)
            .map(|bucket| {
                let key = format!("{{{}:{bucket}}}head", self.name);
                let mut parts = vec![b"HMGET".to_vec(), key.clone().into_bytes()];
                parts.extend(fields.iter().map(|field| field.as_bytes().to_vec()));
                plain(&key, parts)
            })
            .collect();
        let answers = self.nodes.run(&commands);
        let mut states = Vec::with_capacity(answers.len());
        for answer in answers {
            let reply = array(answer?);
            let number_at = |index: usize| reply.get(index).map_or(0, integer);
            let count_at = |index: usize| reply.get(index).map_or(0, count);
            states.push(BucketState {
                owner: reply
                    .first()
                    .map(|owner| String::from_utf8_lossy(&bytes(owner)).into_owned())
                    .unwrap_or_default(),
                epoch: number_at(1),
                until: number_at(2),
                known: count_at(3),
                queued: count_at(4),
                leased: count_at(5),
                settled: count_at(6),
                pages: count_at(7),
                bytes: count_at(8),
                hosts: count_at(9),
            });
        }
        Ok(states)
    }

    /// The state of each node that holds buckets.
    pub fn node_states(&mut self, buckets: u32) -> Result<Vec<NodeState>, Unreachable> {
        let commands: Vec<_> = (0..buckets.min(SAMPLED_BUCKETS))
            .map(|bucket| {
                let key = format!("{{{}:{bucket}}}head", self.name);
                plain(&key, vec![b"INFO".to_vec()])
            })
            .collect();
        let mut nodes = BTreeMap::new();
        for answer in self.nodes.run(&commands) {
            let text = match answer? {
                Value::VerbatimString { text, .. } => text,
                other => String::from_utf8_lossy(&bytes(&other)).into_owned(),
            };
            let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let number = |name| field(name).and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0);
            // `slave0:ip=...,lag=1`, the seconds since the last message of a replica.
            let lags = text.lines().filter_map(|line| {
                let replica = line.strip_prefix("slave")?.split_once(':')?.1;
                replica.split(',').find_map(|part| part.strip_prefix("lag=")?.trim().parse().ok())
            });
            let state = NodeState {
                used_memory: number("used_memory"),
                max_memory: number("maxmemory"),
                replica_lag: lags.min(),
                clock_ms: number("server_time_usec") / 1_000,
            };
            nodes.insert(field("run_id").unwrap_or("").to_owned(), state);
        }
        Ok(nodes.into_values().collect())
    }

    /// Writes to all buckets, reads their counts, and waits until the writes are replicated. All earlier writes are
    /// replicated then too. The states have only the counts.
    pub fn confirm(&mut self, buckets: u32) -> Result<Vec<BucketState>, Unreachable> {
        let scripts = Arc::clone(&self.scripts);
        let commands: Vec<_> = (0..buckets).map(|bucket| self.script(&scripts.confirm, bucket, Vec::new())).collect();
        let answers = self.nodes.run_replicated(&commands);
        let mut states = Vec::with_capacity(answers.len());
        for answer in answers {
            let reply = array(answer?);
            let count_at = |index: usize| reply.get(index).map_or(0, count);
            let [known, queued, leased, settled, pages, bytes] =
                [count_at(0), count_at(1), count_at(2), count_at(3), count_at(4), count_at(5)];
            states.push(BucketState { known, queued, leased, settled, pages, bytes, ..BucketState::default() });
        }
        Ok(states)
    }

    /// The last settled sequence number of every lease.
    pub fn positions(&mut self, buckets: u32) -> Result<Vec<Position>, Unreachable> {
        let commands: Vec<_> = (0..buckets)
            .map(|bucket| {
                let key = format!("{{{}:{bucket}}}head", self.name);
                plain(&key, vec![b"HGETALL".to_vec(), key.clone().into_bytes()])
            })
            .collect();
        let answers = self.nodes.run(&commands);
        let mut positions = Vec::new();
        for (bucket, answer) in (0..).zip(answers) {
            // The fields `e<epoch>:<owner>`, see `lua/prelude.lua`.
            for (field, value) in pairs(answer?) {
                let field = String::from_utf8_lossy(&field).into_owned();
                let Some((epoch, owner)) = field.strip_prefix('e').and_then(|rest| rest.split_once(':')) else {
                    continue;
                };
                if let (Ok(epoch), Ok(last)) = (epoch.parse(), String::from_utf8_lossy(&value).parse()) {
                    positions.push((bucket, epoch, owner.to_owned(), last));
                }
            }
        }
        Ok(positions)
    }

    /// Copies the notes about hosts to another round of the crawl, whose name in the store is `to`.
    pub fn copy_notes(&mut self, buckets: u32, to: &str) -> Result<(), Unreachable> {
        let all: Vec<u32> = (0..buckets).collect();
        for chunk in all.chunks(BUCKETS_PER_PIPELINE) {
            let note_key = |crawl: &str, bucket: u32| format!("{{{crawl}:{bucket}}}note");
            let reads: Vec<_> = chunk
                .iter()
                .map(|bucket| {
                    let key = note_key(&self.name, *bucket);
                    plain(&key, vec![b"HGETALL".to_vec(), key.clone().into_bytes()])
                })
                .collect();
            let mut writes = Vec::new();
            for (bucket, answer) in chunk.iter().zip(self.nodes.run(&reads)) {
                let fields = pairs(answer?);
                if !fields.is_empty() {
                    let key = note_key(to, *bucket);
                    let mut parts = vec![b"HSET".to_vec(), key.clone().into_bytes()];
                    parts.extend(fields.into_iter().flat_map(|(host, note)| [host, note]));
                    writes.push(plain(&key, parts));
                }
            }
            self.nodes.run_replicated(&writes).into_iter().try_for_each(|answer| answer.map(drop))?;
        }
        Ok(())
    }

    /// Sets what results say about buckets, beside their links. `now` is the time of the store in milliseconds since the
    /// Unix epoch. Notes and last requests get no node, so their waits begin now: see `since` in `lua/prelude.lua`.
    /// Repeating it has no further effect.
    pub fn restore_buckets(&mut self, buckets: &BTreeMap<u32, RestoredBucket>, now: u64) -> Result<(), Unreachable> {
        let buckets: Vec<_> = buckets.iter().collect();
        for chunk in buckets.chunks(BUCKETS_PER_PIPELINE) {
            let mut commands = Vec::new();
            for (bucket, RestoredBucket { positions, pages, bytes, notes }) in chunk {
                let keys = self.bucket_keys(**bucket);
                let [head, .., note] = keys.as_slice() else { continue };
                let epoch = positions.iter().map(|(epoch, ..)| *epoch).max().unwrap_or(0);
                let mut fields = vec![
                    ("epoch".to_owned(), epoch.to_string()),
                    ("pages".to_owned(), pages.to_string()),
                    ("bytes".to_owned(), bytes.to_string()),
                    ("asked".to_owned(), now.to_string()),
                    ("node".to_owned(), String::new()),
                ];
                fields.extend(
                    positions.iter().map(|(epoch, owner, last)| (format!("e{epoch}:{owner}"), last.to_string())),
                );
                let mut parts = vec![b"HSET".to_vec(), head.clone().into_bytes()];
                parts.extend(fields.into_iter().flat_map(|(field, value)| [field.into_bytes(), value.into_bytes()]));
                commands.push(plain(head, parts));
                for WireNote { host, wait_ms, text } in notes {
                    let value = [format!("{now}::{wait_ms}|").into_bytes(), text.clone()].concat();
                    let parts = vec![b"HSET".to_vec(), note.clone().into_bytes(), host.as_bytes().to_vec(), value];
                    commands.push(plain(note, parts));
                }
            }
            self.nodes.run_replicated(&commands).into_iter().try_for_each(|answer| answer.map(drop))?;
        }
        Ok(())
    }

    /// Removes all data of the crawl from the store.
    pub fn remove(&mut self, buckets: u32) -> Result<(), Unreachable> {
        self.remove_buckets(buckets)?;
        let key = self.crawl_key("meta");
        self.plain_replicated(&key, &[b"UNLINK", key.as_bytes()]).map(drop)
    }

    /// Removes all data of the crawl except its settings and final state. The stored results of puts expire by
    /// themselves.
    pub fn remove_buckets(&mut self, buckets: u32) -> Result<(), Unreachable> {
        let all: Vec<u32> = (0..buckets).collect();
        for chunk in all.chunks(BUCKETS_PER_PIPELINE) {
            let commands: Vec<_> = chunk
                .iter()
                .map(|bucket| {
                    let keys = self.bucket_keys(*bucket);
                    let mut parts = vec![b"UNLINK".to_vec()];
                    parts.extend(keys.iter().map(|key| key.clone().into_bytes()));
                    plain(keys.first().map_or("", String::as_str), parts)
                })
                .collect();
            self.nodes.run_replicated(&commands).into_iter().try_for_each(|answer| answer.map(drop))?;
        }
        for what in ["pool", "members", "starter"] {
            let key = self.crawl_key(what);
            self.plain_replicated(&key, &[b"UNLINK", key.as_bytes()])?;
        }
        Ok(())
    }
}
