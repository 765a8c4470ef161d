//! Which buckets a process releases and takes, so that all processes have equal work: [`plan`].
//!
//! Every process makes the plan for itself, from the survey that all of them make. The plans agree as far as the surveys
//! do, and leases decide where they do not. The work of a bucket is the number of its hosts with work, because a host
//! is asked by one process at a time, whatever it has queued. Buckets without such hosts are divided by number, so that
//! the owner of a new host is there before its first link.

/// The weight of a host with work. A bucket weighs 1 more than its hosts, and a crawl has thousands of buckets.
const HOST_WEIGHT: u64 = 1_000;
/// How many buckets a process starts to release at a time. Those with the most work come first.
const MAX_RELEASED: usize = 256;

/// A bucket in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedBucket {
    /// Its hosts with work.
    pub hosts: u64,
    pub owner: PlannedOwner,
}

/// Who has a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedOwner {
    /// The process with this index among those that take buckets.
    Taker(usize),
    /// A process that takes none: it is gone, or releases what it has. So is a bucket that is being released.
    Other,
    /// The bucket can be acquired.
    Free,
}

/// How uneven the work may be before buckets are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tolerance {
    /// Processes have joined or left: 5 % above the mean.
    Small,
    /// The same processes as before, whose work changes all the time: 20 % above the mean.
    Large,
}

/// What a process does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub release: Vec<u32>,
    pub acquire: Vec<u32>,
}

/// The plan for the process with the index `me` among `takers` processes.
pub fn plan(buckets: &[PlannedBucket], me: usize, takers: usize, tolerance: Tolerance) -> Plan {
    let mut loads = vec![0; takers];
    for bucket in buckets {
        if let PlannedOwner::Taker(owner) = bucket.owner
            && let Some(load) = loads.get_mut(owner)
        {
            *load += weight(bucket);
        }
    }
    Plan { release: released(buckets, me, loads.clone(), tolerance), acquire: acquired(buckets, me, loads) }
}

fn weight(bucket: &PlannedBucket) -> u64 {
    bucket.hosts.saturating_mul(HOST_WEIGHT).saturating_add(1)
}

/// The buckets with this owner, the heaviest first.
fn heaviest_first(buckets: &[PlannedBucket], owner: PlannedOwner) -> Vec<(u32, u64)> {
    let owned = (0..).zip(buckets).filter(|(_, bucket)| bucket.owner == owner);
    let mut owned: Vec<(u32, u64)> = owned.map(|(number, bucket)| (number, weight(bucket))).collect();
    owned.sort_unstable_by_key(|(number, weight)| (std::cmp::Reverse(*weight), *number));
    owned
}

/// The buckets that a process with too much work releases: the heaviest that bring it closer to the process with the
/// least work.
fn released(buckets: &[PlannedBucket], me: usize, mut loads: Vec<u64>, tolerance: Tolerance) -> Vec<u32> {
    let total: u64 = buckets.iter().map(weight).sum();
    let Some(mean) = total.checked_div(loads.len() as u64) else { return Vec::new() };
    let limit = match tolerance {
        Tolerance::Small => mean + mean / 20,
        Tolerance::Large => mean + mean / 5,
    };
    if loads.get(me).is_none_or(|load| *load <= limit) {
        return Vec::new();
    }
    let mut released = Vec::new();
    for (number, weight) in heaviest_first(buckets, PlannedOwner::Taker(me)) {
        let Some(least) = least_loaded(&loads) else { break };
        if released.len() >= MAX_RELEASED || loads[me] <= mean {
            break;
        }
        // Otherwise the other one would have more than this process has now.
        if loads[least] + weight < loads[me] {
            loads[me] -= weight;
            loads[least] += weight;
            released.push(number);
        }
    }
    released
}

/// The free buckets that a process acquires: each goes to the process with the least work.
fn acquired(buckets: &[PlannedBucket], me: usize, mut loads: Vec<u64>) -> Vec<u32> {
    let mut acquired = Vec::new();
    for (number, weight) in heaviest_first(buckets, PlannedOwner::Free) {
        let Some(least) = least_loaded(&loads) else { break };
        loads[least] += weight;
        if least == me {
            acquired.push(number);
        }
    }
    acquired
}

/// The process with the least work.
fn least_loaded(loads: &[u64]) -> Option<usize> {
    (0..loads.len()).min_by_key(|index| loads[*index])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            (mixed ^ (mixed >> 31)) % end
        }
    }

    /// A fleet in rounds of surveys. A bucket that a process starts to release is free one survey later.
    struct Fleet {
        buckets: Vec<PlannedBucket>,
        /// The buckets that their owner releases.
        leaving: Vec<u32>,
        takers: usize,
        /// How many buckets have begun to move.
        moves: usize,
    }

    impl Fleet {
        fn new(random: &mut Random, hosts: u64, takers: usize) -> Self {
            let mut buckets = vec![PlannedBucket { hosts: 0, owner: PlannedOwner::Free }; 4_096];
            (0..hosts).for_each(|_| buckets[random.below(4_096) as usize].hosts += 1);
            Self { buckets, leaving: Vec::new(), takers, moves: 0 }
        }

        /// One survey of each process, in some order. Each sees what the others have done before it.
        fn survey(&mut self, random: &mut Random, tolerance: Tolerance) {
            for number in std::mem::take(&mut self.leaving) {
                self.buckets[number as usize].owner = PlannedOwner::Free;
            }
            let first = random.below(self.takers as u64) as usize;
            for offset in 0..self.takers {
                let me = (first + offset) % self.takers;
                let Plan { release, acquire } = plan(&self.buckets, me, self.takers, tolerance);
                self.moves += release.len();
                for number in &release {
                    self.buckets[*number as usize].owner = PlannedOwner::Other;
                }
                self.leaving.extend(release);
                for number in acquire {
                    self.buckets[number as usize].owner = PlannedOwner::Taker(me);
                }
            }
        }

        /// The hosts of each process.
        fn shares(&self) -> Vec<u64> {
            let of = |me| self.buckets.iter().filter(move |bucket| bucket.owner == PlannedOwner::Taker(me));
            (0..self.takers).map(|me| of(me).map(|bucket| bucket.hosts).sum()).collect()
        }

        /// Asserts that each share is within 15 % of the mean, and all buckets have an owner.
        fn check(&self, context: &str) {
            let shares = self.shares();
            let mean = shares.iter().sum::<u64>() as f64 / shares.len() as f64;
            let is_even = shares.iter().all(|share| (*share as f64 - mean).abs() <= 0.15 * mean);
            assert!(is_even, "{context}: {shares:?}");
            assert!(self.leaving.is_empty(), "{context}: buckets are still released");
            let is_owned = |bucket: &PlannedBucket| matches!(bucket.owner, PlannedOwner::Taker(_));
            assert!(self.buckets.iter().all(is_owned), "{context}: buckets without an owner");
        }
    }

    #[test]
    fn shares_are_even_within_fifteen_surveys_of_a_join_or_a_death() {
        for seed in 0..100 {
            let mut random = Random(seed);
            let takers = 1 + random.below(7) as usize;
            // At least 25 hosts for each process, after the join too.
            let hosts = 25 * (takers as u64 + 1) + random.below(2_000);
            let mut fleet = Fleet::new(&mut random, hosts, takers);
            (0..2).for_each(|_| fleet.survey(&mut random, Tolerance::Small));
            fleet.check(&format!("seed {seed}, start"));
            fleet.takers += 1;
            (0..15).for_each(|_| fleet.survey(&mut random, Tolerance::Small));
            fleet.check(&format!("seed {seed}, join"));
            // The last process dies. Its leases have ended.
            fleet.takers -= 1;
            for bucket in &mut fleet.buckets {
                if bucket.owner == PlannedOwner::Taker(fleet.takers) {
                    bucket.owner = PlannedOwner::Free;
                }
            }
            (0..15).for_each(|_| fleet.survey(&mut random, Tolerance::Small));
            fleet.check(&format!("seed {seed}, death"));
        }
    }

    #[test]
    fn small_changes_of_work_move_nothing() {
        let mut random = Random(7);
        let mut fleet = Fleet::new(&mut random, 400, 4);
        (0..3).for_each(|_| fleet.survey(&mut random, Tolerance::Small));
        fleet.moves = 0;
        for _ in 0..200 {
            // A host has no more work, and another one gets some.
            let with_work: Vec<usize> = (0..4_096).filter(|number| fleet.buckets[*number].hosts > 0).collect();
            let ended = with_work[random.below(with_work.len() as u64) as usize];
            fleet.buckets[ended].hosts -= 1;
            fleet.buckets[random.below(4_096) as usize].hosts += 1;
            fleet.survey(&mut random, Tolerance::Large);
        }
        // 200 of 400 hosts were replaced.
        assert!(fleet.moves < 50, "{} buckets moved", fleet.moves);
    }

    #[test]
    fn a_bucket_that_would_only_swap_the_roles_is_not_moved() {
        let heavy = |owner| PlannedBucket { hosts: 10, owner };
        let buckets = [heavy(PlannedOwner::Taker(0)), PlannedBucket { hosts: 0, owner: PlannedOwner::Taker(1) }];
        assert_eq!(plan(&buckets, 0, 2, Tolerance::Small), Plan::default());
        // Two of them can be shared.
        let buckets = [heavy(PlannedOwner::Taker(0)), heavy(PlannedOwner::Taker(0))];
        assert_eq!(plan(&buckets, 0, 2, Tolerance::Small).release, [0]);
        let free = [heavy(PlannedOwner::Free), heavy(PlannedOwner::Free)];
        let of = |me| plan(&free, me, 2, Tolerance::Small).acquire;
        assert_eq!((of(0), of(1)), (vec![0], vec![1]));
    }
}
