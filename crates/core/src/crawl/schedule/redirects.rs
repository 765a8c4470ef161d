//! [`RedirectGraph`]: recent redirects, to recognise loops.
//!
//! A redirect whose target is already known is not requested again, so a loop ends by itself. The graph distinguishes a
//! redirect that closes a loop from a redirect to a page that was fetched before.

use hashbrown::HashMap;

/// Redirects per generation. There are two generations, so the last 32,768 to 65,536 redirects are stored.
const CAPACITY: usize = 1 << 15;
/// Longer loops are not recognised.
const MAX_LOOP_LENGTH: usize = 64;

/// Recent redirects, as fingerprints of URLs.
#[derive(Debug, Default)]
pub struct RedirectGraph {
    /// The current generation: the target of each redirect.
    recent: HashMap<u64, u64>,
    /// The previous generation.
    older: HashMap<u64, u64>,
}

impl RedirectGraph {
    /// Adds a redirect. Returns whether it closes a loop.
    pub fn add(&mut self, from: u64, to: u64) -> bool {
        if self.recent.len() >= CAPACITY {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(from, to);
        let mut url = to;
        for _ in 0..MAX_LOOP_LENGTH {
            if url == from {
                return true;
            }
            match self.recent.get(&url).or_else(|| self.older.get(&url)) {
                Some(next) => url = *next,
                None => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_redirect_that_closes_a_loop_is_recognised() {
        let mut graph = RedirectGraph::default();
        assert!(graph.add(1, 1), "a loop of one");
        assert!(!graph.add(2, 3));
        assert!(!graph.add(3, 4));
        assert!(graph.add(4, 2));
        assert!(!graph.add(5, 3), "a redirect to a loop is not part of it");
        assert!(!graph.add(6, 7));
    }

    #[test]
    fn memory_is_bounded_and_recent_redirects_are_kept() {
        let mut graph = RedirectGraph::default();
        for number in 0..200_000 {
            assert!(!graph.add(number * 2, number * 2 + 1_000_001));
        }
        assert!(graph.recent.len() + graph.older.len() <= 2 * CAPACITY);
        assert!(!graph.add(9_000_000_001, 9_000_000_003));
        assert!(graph.add(9_000_000_003, 9_000_000_001));
    }
}
