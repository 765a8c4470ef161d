//! [`Diff`]: what changed between two rounds of a crawl, or between two crawls.
//!
//! Invariant: memory is bounded. The states of all URLs are sorted with an external merge sort, and each URL is compared
//! once.

use std::borrow::Cow;
use std::collections::HashMap;

use argiope_core::base::digest::BodyDigest;
use argiope_core::crawl::record::page_state::PageState;
use argiope_core::crawl::schedule::keeper::{Change, Changes, Comparison};
use argiope_core::{ErrorKind, Outcome};
use argiope_store::disk::HistoryEvent;
use serde::{Deserialize, Serialize};

use crate::records::{self, ReadError, StoredRecord};
use crate::results::Results;
use crate::sorted::Sorted;

/// Maximum number of redirects that are kept per round, to find all members of a redirect loop.
const MAX_REDIRECTS: usize = 10_000;

/// The fields of a record that the comparison needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordState {
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The kind of error, if the record has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<BodyDigest>,
}

impl RecordState {
    fn of(record: StoredRecord) -> Self {
        Self {
            outcome: record.outcome.unwrap_or(Outcome::Failed),
            status: record.status,
            error: record.error.as_deref().map(|error| error.kind),
            redirect: record.redirect.map(Cow::into_owned),
            digest: record.digest,
        }
    }

    fn page_state(&self) -> PageState<'_> {
        PageState {
            outcome: self.outcome,
            status: self.status,
            has_error: self.error.is_some(),
            digest: self.digest,
            redirect: self.redirect.as_deref(),
        }
    }
}

/// A URL whose state differs between the earlier and the later round or crawl.
#[derive(Debug)]
pub struct DiffEntry<'a> {
    pub url: &'a str,
    pub comparison: Comparison,
    pub before: Option<&'a RecordState>,
    pub after: Option<&'a RecordState>,
}

/// Totals of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffTotals {
    pub changes: Changes,
    /// URLs that the later round has not visited yet.
    pub unvisited: u64,
}

/// The states of all URLs before and after.
pub struct Diff {
    states: Sorted,
    /// The number of the earlier round. States with other numbers than `before` and `after` belong to older rounds.
    before: u32,
    /// The number of the later round.
    after: u32,
    /// Whether a URL without a later record is gone. False for a recrawl, which requests every known URL again: such a URL
    /// is still queued.
    absent_is_gone: bool,
}

impl Diff {
    /// Compares the last two rounds of a crawl; `None` if there is only one. `progress` receives the number
    /// of records read so far.
    pub fn of_rounds(results: &Results, progress: &mut dyn FnMut(u64)) -> Result<Option<Self>, ReadError> {
        let mut states = Sorted::default();
        let after = add_rounds(results, 0, &mut states, progress)?;
        let Some(before) = after.checked_sub(1) else { return Ok(None) };
        Ok(Some(Self { states, before, after, absent_is_gone: false }))
    }

    /// Compares the last rounds of two crawls.
    pub fn of_crawls(before: &Results, after: &Results, progress: &mut dyn FnMut(u64)) -> Result<Self, ReadError> {
        let mut states = Sorted::default();
        let before = add_rounds(before, 0, &mut states, progress)?;
        let after = add_rounds(after, before + 1, &mut states, progress)?;
        Ok(Self { states, before, after, absent_is_gone: true })
    }

    /// Calls `each` with every URL that differs, in alphabetical order.
    pub fn each(
        &mut self,
        mut each: impl FnMut(DiffEntry<'_>) -> Result<(), ReadError>,
    ) -> Result<DiffTotals, ReadError> {
        let mut totals = DiffTotals::default();
        let (absent_is_gone, before, after) = (self.absent_is_gone, self.before, self.after);
        let mut compare = |pair: &UrlPair| -> Result<(), ReadError> {
            let states = [&pair.before, &pair.after].map(|state| state.as_ref().map(RecordState::page_state));
            match &states {
                [None, None] => return Ok(()),
                [Some(_), None] if !absent_is_gone => {
                    totals.unvisited += 1;
                    return Ok(());
                }
                _ => {}
            }
            if let [Some(Some(before)), Some(Some(after))] =
                states.each_ref().map(|state| state.as_ref().map(|state| state.digest.map(|digest| digest.algorithm())))
                && before != after
            {
                return Err(ReadError::Usage(format!(
                    "the digests of the two crawls cannot be compared: one has {before}, the other {after}; crawl with the \
                     same --digest"
                )));
            }
            let comparison = Comparison::of(states[0].as_ref(), states[1].as_ref());
            totals.changes.count(comparison);
            if comparison.change == Change::Same && comparison.note.is_none() {
                return Ok(());
            }
            each(DiffEntry { url: &pair.url, comparison, before: pair.before.as_ref(), after: pair.after.as_ref() })
        };
        let mut pair = UrlPair::default();
        self.states.each(|line| {
            let Some((url, round, state)) = decode_line(line) else { return Ok(()) };
            if pair.url != url {
                compare(&pair)?;
                pair = UrlPair { url: url.to_owned(), ..UrlPair::default() };
            }
            let state_in_pair = match round {
                round if round == before => &mut pair.before,
                round if round == after => &mut pair.after,
                _ => return Ok(()),
            };
            // A member of a redirect loop has two states: one from its own record, without an error, and one from the
            // record that closed the loop. The state with the error takes precedence.
            if state_in_pair.as_ref().is_none_or(|other| other.error.is_none()) {
                *state_in_pair = Some(state);
            }
            Ok::<(), ReadError>(())
        })?;
        compare(&pair)?;
        Ok(totals)
    }
}

/// One URL and its state before and after.
#[derive(Default)]
struct UrlPair {
    url: String,
    before: Option<RecordState>,
    after: Option<RecordState>,
}

/// Adds the pages of all rounds of a crawl. Rounds are numbered from `first_round`. Returns the number of the last one.
fn add_rounds(
    results: &Results,
    first_round: u32,
    states: &mut Sorted,
    progress: &mut dyn FnMut(u64),
) -> Result<u32, ReadError> {
    let (mut round, mut count) = (first_round, 0);
    let mut redirects = RedirectStates::default();
    results.walk_latest(|event| {
        match event {
            HistoryEvent::Round => {
                round += 1;
                redirects.0.clear();
            }
            HistoryEvent::FinalOutcome { line, .. } | HistoryEvent::Line { line } => {
                let record = records::read(line)?;
                if record.is_page() && record.is_plain_get() {
                    for (url, state) in redirects.add(&record) {
                        states.push(&encode_line(round, &url, &state))?;
                    }
                    states.push(&encode_line(round, &record.url.clone(), &RecordState::of(record)))?;
                }
                count += 1;
                progress(count);
            }
            HistoryEvent::Link { .. } | HistoryEvent::Note { .. } => {}
        }
        Ok(())
    })?;
    Ok(round)
}

/// The redirects of a round that have no error, by URL; at most [`MAX_REDIRECTS`].
#[derive(Default)]
struct RedirectStates(HashMap<String, RecordState>);

impl RedirectStates {
    /// Adds a page. If it closes a loop of redirects, returns the other members with an error, because every member of a loop
    /// is broken.
    fn add(&mut self, record: &StoredRecord) -> Vec<(String, RecordState)> {
        let Some(to) = &record.redirect else { return Vec::new() };
        match record.error.as_ref().map(|error| error.kind) {
            None if self.0.len() < MAX_REDIRECTS => {
                self.0.insert(record.url.to_string(), RecordState::of(record.clone()));
            }
            Some(ErrorKind::RedirectLoop) => {
                let (mut members, mut url) = (Vec::new(), to.to_string());
                while url != record.url
                    && let Some(state) = self.0.remove(&url)
                {
                    let next = state.redirect.clone().unwrap_or_default();
                    members.push((url, RecordState { error: Some(ErrorKind::RedirectLoop), ..state }));
                    url = next;
                }
                return members;
            }
            None | Some(_) => {}
        }
        Vec::new()
    }
}

/// A line that sorts by URL: URL, number of the round, state. Neither a URL nor JSON contains a NUL byte or a line feed.
fn encode_line(round: u32, url: &str, state: &RecordState) -> Vec<u8> {
    let mut line = url.as_bytes().to_vec();
    line.extend(format!("\0{round}\0").into_bytes());
    // Cannot fail: the state is plain data with text keys.
    line.extend(serde_json::to_vec(state).unwrap_or_default());
    line
}

/// Reverses [`encode_line`].
fn decode_line(line: &[u8]) -> Option<(&str, u32, RecordState)> {
    let mut parts = line.splitn(3, |byte| *byte == 0);
    let mut text = || std::str::from_utf8(parts.next()?).ok();
    let (url, round) = (text()?, text()?.parse().ok()?);
    Some((url, round, serde_json::from_slice(parts.next()?).ok()?))
}
