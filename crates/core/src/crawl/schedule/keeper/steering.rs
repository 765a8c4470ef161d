//! [`SteeringState`]: what the user changed while the crawl was running: pause, pace, rate and excludes.
//!
//! Pace, rate and excludes are stored with the crawl's progress, so that a resumed crawl has them. A pause is not
//! stored.

use super::Keeper;
use crate::base::time::Time;
use crate::crawl::control::{Control, ControlVerdict};
use crate::crawl::rules::{Pace, Rules};
use crate::crawl::schedule::carryover::Steering;
use crate::crawl::schedule::frontier::{Frontier, History, StoreError};
use crate::crawl::schedule::keeper::End;
use crate::page::scope::ScopeRule;

/// Limit on patterns that are excluded while a crawl is running: every URL is matched against all of them.
const MAX_EXCLUDES: usize = 1_000;

/// The changes to the running crawl, and the settings that they replace.
pub(super) struct SteeringState {
    given_pace: Pace,
    given_rate: Option<f64>,
    changes: Steering,
}

impl SteeringState {
    /// Without changes.
    pub fn new(rules: &Rules) -> Self {
        Self { given_pace: rules.pace, given_rate: rules.rate, changes: Steering::default() }
    }

    /// Takes the changes of earlier runs. If the command line has another value than when the change was made, the
    /// command line wins.
    fn recall(&mut self, stored: Steering) {
        let Steering { pace, rate, excludes } = stored;
        let pace = pace.filter(|(given, _)| *given == self.given_pace);
        let rate = rate.filter(|(given, _)| *given == self.given_rate);
        self.changes = Steering { pace, rate, excludes };
    }

    /// The changes to store.
    pub fn changes(&self) -> &Steering {
        &self.changes
    }

    fn set_pace(&mut self, pace: Pace) {
        self.changes.pace = Some((self.given_pace, pace));
    }

    fn set_rate(&mut self, rate: Option<f64>) {
        self.changes.rate = Some((self.given_rate, rate));
    }

    /// All excludes, with one more; `None` if it is one of them already.
    ///
    /// # Errors
    ///
    /// Why no pattern can be added.
    fn excludes_with(&self, pattern: String) -> Result<Option<Vec<String>>, String> {
        let excludes = &self.changes.excludes;
        if excludes.contains(&pattern) {
            return Ok(None);
        }
        if excludes.len() >= MAX_EXCLUDES {
            return Err(format!("{MAX_EXCLUDES} patterns are excluded already"));
        }
        Ok(Some(excludes.iter().cloned().chain([pattern]).collect()))
    }
}

impl<F: Frontier + History> Keeper<F> {
    /// Applies a command of the user.
    pub fn control(&mut self, control: &Control, now: Time) -> Result<ControlVerdict, StoreError> {
        match control {
            Control::Pause => self.bench.set_paused(true),
            Control::Resume => self.bench.set_paused(false),
            Control::Stop => self.stop(End::Stopped),
            Control::Pace { pace } => {
                self.steering.set_pace(*pace);
                self.bench.set_pace(*pace, now);
            }
            Control::Rate { rate } => {
                let rate = rate.map(|rate| rate.per_second);
                self.steering.set_rate(rate);
                self.bench.set_rate(rate, now);
            }
            Control::Exclude { .. } | Control::ExcludeHost { .. } => {
                let pattern = control.exclude_pattern().unwrap_or_default();
                return self.exclude(pattern, now);
            }
        }
        Ok(ControlVerdict::Done)
    }

    /// The changes made while the crawl was running, in this run and earlier ones.
    pub fn steering(&self) -> &Steering {
        self.steering.changes()
    }

    /// Excludes a pattern, and removes the matching links from the workbench.
    fn exclude(&mut self, pattern: String, now: Time) -> Result<ControlVerdict, StoreError> {
        let all = match self.steering.excludes_with(pattern) {
            Ok(Some(all)) => all,
            Ok(None) => return Ok(ControlVerdict::Done),
            Err(why) => return Ok(ControlVerdict::Refused(why)),
        };
        if let Err(bad) = self.admission.exclude(&all) {
            return Ok(ControlVerdict::Refused(bad.to_string()));
        }
        self.steering.changes.excludes = all;
        for link in self.bench.remove(|link| self.admission.is_excluded(link), now) {
            self.skip(&link, ScopeRule::Exclude.as_str())?;
        }
        Ok(ControlVerdict::Done)
    }

    /// Applies the changes of earlier runs.
    pub(super) fn recall_steering(&mut self, stored: Steering, now: Time) {
        self.steering.recall(stored);
        let changes = self.steering.changes();
        if let Some((_, pace)) = changes.pace {
            self.bench.set_pace(pace, now);
        }
        if let Some((_, rate)) = changes.rate {
            self.bench.set_rate(rate, now);
        }
        // The patterns were checked when they were added.
        let _ = self.admission.exclude(&changes.excludes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crawl::rules::Config;

    fn state(pace: Pace) -> SteeringState {
        let config = Config { roots: vec!["http://h/".into()], pace, ..Config::default() };
        SteeringState::new(&config.compile(0).expect("valid settings"))
    }

    #[test]
    fn a_later_run_keeps_a_change_unless_its_command_line_has_another_value() {
        let mut first = state(Pace::Steady);
        first.set_pace(Pace::Gentle);
        first.set_rate(Some(2.0));
        let mut same = state(Pace::Steady);
        same.recall(first.changes().clone());
        assert_eq!(same.changes(), first.changes());
        let mut other = state(Pace::Full);
        other.recall(first.changes().clone());
        assert_eq!((other.changes().pace, other.changes().rate), (None, Some((None, Some(2.0)))));
    }

    #[test]
    fn a_pattern_is_excluded_once_and_only_a_thousand_are() {
        let mut state = state(Pace::Steady);
        assert_eq!(state.excludes_with("a".into()), Ok(Some(vec!["a".to_owned()])));
        state.changes.excludes = (0..MAX_EXCLUDES).map(|number| number.to_string()).collect();
        assert_eq!(state.excludes_with("7".into()), Ok(None));
        assert!(state.excludes_with("a".into()).is_err());
    }
}
