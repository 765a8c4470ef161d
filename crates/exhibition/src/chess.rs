//! The chess exhibition of the article "A Web Crawler With asyncio Coroutines", in virtual time: a champion plays 24
//! games, one after the other or all at once.
//!
//! The scheduler is the crawler's own [`Keeper`]. A board is a host, and a pair of moves is a page that links to the next
//! pair. The champion's move is the CPU time of a fetch, and the opponent's move is the response time of the host. Only
//! the clock is simulated, so the result does not depend on real time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::time::WallClock;
use argiope_core::crawl::rules::{Config, Pace, RobotsPolicy};
use argiope_core::crawl::schedule::keeper::{Keeper, Next};
use argiope_core::crawl::visit::Visit;
use argiope_core::{FollowList, Link, LinkKind, Outcome, Time};
use argiope_store::MemoryFrontier;

use argiope_runtime::Error;

/// Links need no protection against collisions here.
const FINGERPRINT_KEY: u64 = 0;

/// The number of boards and the speed of the players.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChessExhibition {
    pub boards: u32,
    /// Moves per side in a game.
    pub moves: u32,
    /// Time of a champion's move.
    pub champion: Duration,
    /// Time of an opponent's move.
    pub opponent: Duration,
}

impl ChessExhibition {
    /// The numbers of the article.
    pub const POLGAR: Self =
        Self { boards: 24, moves: 30, champion: Duration::from_secs(5), opponent: Duration::from_secs(55) };
}

/// The result of an exhibition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChessResult {
    /// When the champion made her last move.
    pub last_move: Duration,
    /// When the last opponent has made the last move.
    pub end: Duration,
    pub moves: u32,
    /// The largest number of games in progress at one time.
    pub at_once: usize,
}

/// A scheduled move of an opponent: its time, its number, and the visit that stands for it.
struct PlannedMove {
    at: Time,
    number: u32,
    visit: Box<Visit>,
}

/// Plays with at most `at_once` games in progress and this number of champions.
pub fn play(exhibition: ChessExhibition, at_once: usize, champions: usize) -> Result<ChessResult, Error> {
    let config = Config {
        roots: (0..exhibition.boards).map(|board| format!("http://board-{board}.test/1")).collect(),
        concurrency: at_once,
        per_host: Some(1),
        // No limit, because all boards have the same address.
        per_ip: Some(0),
        pace: Pace::Full,
        robots: RobotsPolicy::Ignore,
        allow_private: true,
        ..Config::default()
    };
    let rules = Arc::new(config.compile(FINGERPRINT_KEY)?);
    let mut keeper = Keeper::new(MemoryFrontier::new(FINGERPRINT_KEY), rules, WallClock { start: 0 });
    let mut now = Time::ZERO;
    keeper.begin(now)?;
    // The times from which the champions are free for the next move.
    let mut champions_free_at: BinaryHeap<Reverse<Time>> = (0..champions.max(1)).map(|_| Reverse(Time::ZERO)).collect();
    let mut opponent_moves: BinaryHeap<Reverse<PlannedMove>> = BinaryHeap::new();
    let mut result = ChessResult { last_move: Duration::ZERO, end: Duration::ZERO, moves: 0, at_once: 0 };
    loop {
        let wait = match keeper.next(now)? {
            Next::Resolve(board, _) => {
                // The time to live is a day, longer than the exhibition.
                let addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
                keeper.resolved(board, Ok((addresses, Duration::from_secs(86_400))), now);
                continue;
            }
            Next::Fetch(job) => {
                let Reverse(free_at) = champions_free_at.pop().unwrap_or(Reverse(now));
                let moved_at = free_at.max(now) + exhibition.champion;
                champions_free_at.push(Reverse(moved_at));
                result.moves += 1;
                result.last_move = result.last_move.max(moved_at.since(Time::ZERO));
                let at = moved_at + exhibition.opponent;
                let mut visit = Visit::requested(job, Outcome::Ok, at);
                visit.facts.started = now;
                visit.facts.timings.total = Some(at - now);
                visit.for_keeper.set_found(next_move(&visit.link, exhibition.moves));
                opponent_moves.push(Reverse(PlannedMove { at, number: result.moves, visit: Box::new(visit) }));
                result.at_once = result.at_once.max(opponent_moves.len());
                continue;
            }
            Next::Done(_) => return Ok(ChessResult { end: now.since(Time::ZERO), ..result }),
            Next::Wait(until) => until,
        };
        keeper.take_settled();
        match opponent_moves.pop() {
            Some(Reverse(reply)) if reply.at <= wait => {
                now = reply.at;
                keeper.finished(reply.visit, now)?;
            }
            later => {
                opponent_moves.extend(later);
                now = wait;
            }
        }
    }
}

/// The link to the next page. The path of a page is its number.
fn next_move(link: &Link, moves: u32) -> FollowList {
    let number = link.url.target().trim_start_matches('/').parse::<u32>().unwrap_or(moves);
    let next = (number < moves).then(|| link.url.join(&format!("/{}", number + 1)).ok()).flatten();
    let redirects = 0;
    let mut found = FollowList::new(FINGERPRINT_KEY, link.depth + 1, redirects);
    if let Some(next) = next {
        found.push(next.as_ref(), LinkKind::Anchor);
    }
    found
}

impl PartialEq for PlannedMove {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for PlannedMove {}

impl PartialOrd for PlannedMove {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PlannedMove {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLGAR: ChessExhibition = ChessExhibition::POLGAR;

    fn hours(hours: u64) -> Duration {
        Duration::from_secs(hours * 3600)
    }

    #[test]
    fn one_game_after_the_other_takes_twelve_hours() {
        let result = play(POLGAR, 1, 1).unwrap();
        assert_eq!(result.end, hours(12));
        assert_eq!((result.moves, result.at_once), (24 * 30, 1));
    }

    #[test]
    fn from_table_to_table_takes_one_hour() {
        let result = play(POLGAR, 24, 1).unwrap();
        // After her last move, the last opponent makes one more.
        assert_eq!((result.last_move, result.end), (hours(1), hours(1) + POLGAR.opponent));
        assert_eq!((result.moves, result.at_once), (24 * 30, 24));
    }

    #[test]
    fn the_opponents_alone_take_half_an_hour() {
        // With a champion at every board, a game takes thirty pairs of moves of one minute each.
        let result = play(POLGAR, 24, 24).unwrap();
        assert_eq!(result.end, hours(1) / 2);
    }

    #[test]
    fn a_champion_who_is_twice_as_fast_takes_half_an_hour() {
        let faster = ChessExhibition {
            champion: Duration::from_millis(2_500),
            opponent: Duration::from_millis(57_500),
            ..POLGAR
        };
        let result = play(faster, 24, 1).unwrap();
        assert_eq!(result.last_move, hours(1) / 2);
    }
}
