//! The link graph of a fleet's results: the chunks in the segments of all rounds.

use super::{SegmentItem, SegmentStore};
use argiope_core::{StoreError, StoreErrorKind};
use argiope_store::disk::{GraphChunks, GraphRound, LinkGraph};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Opens the link graph of a crawl directory or of a fleet's results.
pub fn open_graph(directory: &Path, round: GraphRound) -> Result<LinkGraph, StoreError> {
    if !SegmentStore::has_results(directory) {
        return LinkGraph::open(directory, round);
    }
    graph_of(directory, SegmentStore::open(directory), round)
}

/// Opens the link graph of the results in a directory.
pub fn graph_of(directory: &Path, results: SegmentStore, round: GraphRound) -> Result<LinkGraph, StoreError> {
    let rounds = results.rounds().map_err(|error| segment_error(directory, &error))?;
    let last_round = if round == GraphRound::Previous && rounds > 1 { rounds - 1 } else { rounds };
    let chunks = Box::new(SegmentChunks { directory: directory.to_owned(), results, rounds: 1..=last_round });
    Ok(LinkGraph::of_chunks(directory, chunks, rounds > 1))
}

/// The links of the pages of one round of the results in a directory.
pub fn graph_of_round(directory: &Path, results: SegmentStore) -> LinkGraph {
    let rounds = results.round()..=results.round();
    let chunks = Box::new(SegmentChunks { directory: directory.to_owned(), results, rounds });
    LinkGraph::of_chunks(directory, chunks, false)
}

/// The chunks in the segments of some rounds.
struct SegmentChunks {
    directory: PathBuf,
    results: SegmentStore,
    rounds: RangeInclusive<u32>,
}

impl GraphChunks for SegmentChunks {
    fn read(&self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), StoreError> {
        let mut take = |item: SegmentItem<'_>| match item {
            SegmentItem::Graph(chunk) => each(chunk),
            _ => Ok(()),
        };
        let mut rounds = self.rounds.clone();
        let read = rounds.try_for_each(|round| self.results.of_round(round).read_items(&mut take));
        read.map_err(|error| segment_error(&self.directory, &error))
    }
}

fn segment_error(directory: &Path, error: &io::Error) -> StoreError {
    StoreError::new(StoreErrorKind::File, format!("{}: {error}", directory.display()))
}
