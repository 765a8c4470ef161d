//! [`CarriedStates`]: delays and failures that still apply to hosts whose lanes were evicted.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use crate::base::job::LaneId;
use crate::base::outcome::Failure;
use crate::base::time::Time;
use crate::crawl::schedule::lane::{Addresses, Lane};

/// Limit on the evicted lanes whose states are kept.
const MAX_CARRIED: usize = 65_536;

/// The states of evicted lanes, until they end.
#[derive(Default)]
pub(super) struct CarriedStates {
    by_lane: HashMap<LaneId, Carried>,
    /// The keys of `by_lane`, in the order in which the states end.
    ends: BTreeSet<(Time, LaneId)>,
}

/// A delay or failure that still applies to an evicted lane.
struct Carried {
    /// No request to the host starts before this time.
    until: Time,
    /// If the host was given up: why.
    given_up: Option<Box<GivenUp>>,
}

struct GivenUp {
    failure: Failure,
    tries: u8,
}

impl CarriedStates {
    /// Keeps the delay or failure that still applies to a lane. Returns false if there is no room for it.
    pub fn keep(&mut self, id: LaneId, lane: &Lane, now: Time) -> bool {
        while let Some((until, ended)) = self.ends.first().copied().filter(|(until, _)| *until <= now) {
            self.ends.remove(&(until, ended));
            self.by_lane.remove(&ended);
        }
        let carried = match &lane.addresses {
            Addresses::Failed { failure, tries, until } if *until > now => {
                let given_up = GivenUp { failure: failure.clone(), tries: *tries };
                Carried { until: *until, given_up: Some(Box::new(given_up)) }
            }
            _ => Carried { until: lane.pace.due(), given_up: None },
        };
        if carried.until <= now {
            return true;
        }
        if self.by_lane.len() >= MAX_CARRIED {
            return false;
        }
        self.ends.insert((carried.until, id));
        self.by_lane.insert(id, carried);
        true
    }

    /// Applies the kept state of a lane that is in memory again.
    pub fn apply(&mut self, id: LaneId, lane: &mut Lane) {
        let Some(Carried { until, given_up }) = self.by_lane.remove(&id) else { return };
        self.ends.remove(&(until, id));
        match given_up {
            Some(given_up) => {
                lane.addresses = Addresses::Failed { failure: given_up.failure, tries: given_up.tries, until };
            }
            None => lane.pace.back_off_until(until),
        }
    }

    /// Memory use in bytes: three times the size of each value, because its key is in the map and in the ordered set.
    pub fn bytes(&self) -> usize {
        self.by_lane.len() * 3 * size_of::<Carried>()
    }
}
