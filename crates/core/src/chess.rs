//! The chess exhibition of the founding documents, in virtual time, played by the scheduler that crawls.
//!
//! A master plays 24 boards. She needs 5 s for a move, an opponent 55 s, and a game has 30 pairs of moves. A board is a
//! host, a move is a fetch, and the opponent's answer is the answer; the [`Workbench`] says to which board she goes next.
//! What differs is only who waits: the master, at the board, or the board, for the master.
//!
//! | | the master | how long |
//! |---|---|---|
//! | one after the other | waits at each board for the answer | 24 x 30 x 60 s = 12 h |
//! | from table to table | moves, and goes on to the next board | 24 x 30 x 5 s = 1 h |
//! | the opponents alone | there is one for every board | 30 x 60 s = 30 min |
//!
//! The last line is a bound: no way of waiting gets below it. The second is bound by the master's own work.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use crate::job::{Job, LaneId};
use crate::link::{Link, LinkKind};
use crate::outcome::Outcome;
use crate::rules::{Config, ConfigError, Pace, RobotsPolicy};
use crate::time::Time;
use crate::url::Url;
use crate::visit::Visit;
use crate::workbench::{Next, Workbench};

/// The numbers of an exhibition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhibition {
    pub boards: u32,
    /// Pairs of moves in a game.
    pub moves: u32,
    /// What the master needs for a move.
    pub master: Duration,
    /// What an opponent needs for a move.
    pub opponent: Duration,
}

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Play {
    /// The master stays at a board until her move is answered.
    OneAfterTheOther,
    /// The master goes on as soon as she has moved.
    TableToTable,
    /// A master for every board: only the opponents' clock counts.
    OpponentsAlone,
}

/// How long an exhibition took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Played {
    /// Until the master may leave: after her last move, or after its answer where she waits for it.
    pub master: Duration,
    /// Until the last move is answered.
    pub all: Duration,
    /// How many moves were made.
    pub moves: u64,
}

impl Default for Exhibition {
    /// The numbers of the founding documents.
    fn default() -> Self {
        Self { boards: 24, moves: 30, master: Duration::from_secs(5), opponent: Duration::from_secs(55) }
    }
}

impl Exhibition {
    /// Plays all games.
    pub fn play(&self, play: Play) -> Result<Played, ConfigError> {
        let mut bench = self.set_up(play)?;
        let (mut now, mut free, mut left, mut last) = (Time::ZERO, Time::ZERO, Time::ZERO, Time::ZERO);
        let mut moves = 0;
        // Answers that are being thought about; the number keeps those of one moment in order.
        let mut answers: BinaryHeap<Reverse<(Time, u64)>> = BinaryHeap::new();
        let mut games: Vec<Option<Job>> = Vec::new();
        loop {
            // Only a master who is free looks for the next board.
            let next = if now < free { Next::Wait(free) } else { bench.next(now) };
            let until = match next {
                Next::Fetch(job) => {
                    let moved = now + self.master;
                    let answered = moved + self.opponent;
                    (free, left) = match play {
                        Play::OneAfterTheOther => (now, answered),
                        Play::TableToTable => (moved, moved),
                        Play::OpponentsAlone => (now, answered),
                    };
                    answers.push(Reverse((answered, moves)));
                    games.push(Some(job));
                    moves += 1;
                    continue;
                }
                Next::Resolve(board, _) => {
                    let number = u8::try_from(board.0 % 250).unwrap_or_default();
                    let table = IpAddr::V4(Ipv4Addr::new(192, 0, 2, number));
                    bench.resolved(board, Ok((vec![table], Duration::MAX)), now);
                    continue;
                }
                Next::Settle(_) | Next::Recall(..) => continue,
                Next::Wait(until) => until,
            };
            match answers.peek().copied() {
                Some(Reverse((at, number))) if at <= until => {
                    answers.pop();
                    now = at;
                    last = at;
                    if let Some(job) = games.get_mut(number as usize).and_then(Option::take) {
                        bench.finish(&answer(job, now), now);
                    }
                }
                _ if until.is_never() => break,
                _ => now = until,
            }
        }
        Ok(Played { master: left - Time::ZERO, all: last - Time::ZERO, moves })
    }

    /// The boards, each with all of its moves.
    fn set_up(&self, play: Play) -> Result<Workbench, ConfigError> {
        let boards = usize::try_from(self.boards.max(1)).unwrap_or(usize::MAX);
        let config = Config {
            roots: vec!["http://board-0.example/".into()],
            robots: RobotsPolicy::Ignore,
            allow_private: true,
            pace: Pace::Full,
            per_host: Some(1),
            per_ip: Some(0),
            concurrency: if play == Play::OneAfterTheOther { 1 } else { boards },
            ..Config::default()
        };
        let mut bench = Workbench::new(Arc::new(config.compile(0)?));
        for board in 0..self.boards {
            let name = format!("board-{board}.example");
            let moves = (0..self.moves).filter_map(|number| {
                let url = Url::parse(&format!("http://{name}/{number}")).ok()?;
                Some(Link { url, via: None, depth: 0, redirects: 0, tries: 0, kind: LinkKind::Anchor })
            });
            bench.offer(LaneId(board), &name, 0, Time::ZERO);
            bench.give(LaneId(board), moves.collect(), 0, Time::ZERO);
        }
        Ok(bench)
    }
}

fn answer(job: Job, now: Time) -> Visit {
    let slot = Some((job.lane, job.slot));
    Visit { slot, ..Visit::bare(job.link, job.purpose, Outcome::Ok, now) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(play: Play) -> Played {
        Exhibition::default().play(play).expect("settings that make sense")
    }

    #[test]
    fn the_founding_documents_are_right() {
        let seconds = |played: Played| played.master.as_secs();
        assert_eq!(seconds(play(Play::OneAfterTheOther)), 43_200);
        assert_eq!(seconds(play(Play::TableToTable)), 3_600);
        assert_eq!(seconds(play(Play::OpponentsAlone)), 1_800);
    }

    #[test]
    fn every_move_is_made_and_answered() {
        for how in [Play::OneAfterTheOther, Play::TableToTable, Play::OpponentsAlone] {
            assert_eq!(play(how).moves, 24 * 30);
        }
        // The last opponent thinks on after the master has left.
        assert_eq!(play(Play::TableToTable).all.as_secs(), 3_655);
    }

    #[test]
    fn with_a_quick_master_the_opponents_decide() {
        let quick = Exhibition { master: Duration::from_secs(1), ..Exhibition::default() };
        let played = quick.play(Play::TableToTable).expect("settings that make sense");
        assert_eq!(played.all.as_secs(), 30 * 56 + 23);
    }
}
