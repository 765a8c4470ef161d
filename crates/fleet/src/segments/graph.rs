//! The link graph of a fleet's results: the chunks in the segments of all rounds.

use super::{SegmentItem, SegmentStore};
use argiope_core::{StoreError, StoreErrorKind};
use argiope_store::disk::{GraphChunks, GraphRound, LinkGraph};
use std::io;
use std::path::{Path, PathBuf};

/// Opens the link graph of a crawl directory or of a fleet's results.
pub fn open_graph(directory: &Path, round: GraphRound) -> Result<LinkGraph, StoreError> {
    if !SegmentStore::has_results(directory) {
        return LinkGraph::open(directory, round);
    }
    let rounds = SegmentStore::open(directory).rounds().map_err(|error| segment_error(directory, &error))?;
    let last_round = if round == GraphRound::Previous && rounds > 1 { rounds - 1 } else { rounds };
    let chunks = Box::new(SegmentChunks { directory: directory.to_owned(), last_round });
    Ok(LinkGraph::of_chunks(directory, chunks, rounds > 1))
}

/// The chunks in the segments of all rounds up to this one.
struct SegmentChunks {
    directory: PathBuf,
    last_round: u32,
}

impl GraphChunks for SegmentChunks {
    fn read(&self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), StoreError> {
        let results = SegmentStore::open(&self.directory);
        let mut take = |item: SegmentItem<'_>| match item {
            SegmentItem::Graph(chunk) => each(chunk),
            _ => Ok(()),
        };
        let mut rounds = 1..=self.last_round;
        let read = rounds.try_for_each(|round| results.of_round(round).read_items(&mut take));
        read.map_err(|error| segment_error(&self.directory, &error))
    }
}

fn segment_error(directory: &Path, error: &io::Error) -> StoreError {
    StoreError::new(StoreErrorKind::File, format!("{}: {error}", directory.display()))
}
