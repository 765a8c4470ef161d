//! [`CrawlOrders`]: what was changed on purpose after a crawl began. They hold for all its processes.
//!
//! The store has them in one field. Every process reads it with its heartbeats, and a change replaces the text that it
//! was made from, so two changes at the same time are both kept.

use argiope_core::crawl::control::Control;
use argiope_core::crawl::rules::Pace;
use serde::{Deserialize, Serialize};

/// The most patterns that can be excluded.
const MAX_EXCLUDES: usize = 1_000;

/// Changes to a crawl. Limits replace those of [`FleetSettings`](super::FleetSettings).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CrawlOrders {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pages: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Time from the start of the crawl, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time_ms: Option<u64>,
    /// Pages a second over all processes; 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// Start no request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_paused: bool,
    /// All processes end; a later one does not start.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_stopped: bool,
    /// Patterns of URLs that are not fetched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excludes: Vec<String>,
}

impl CrawlOrders {
    /// Reads the text in the store. What cannot be read, or may not be, is ignored: others may have written it.
    pub(super) fn read(text: &[u8]) -> Self {
        let mut orders: Self = serde_json::from_slice(text).unwrap_or_default();
        orders.rate = orders.rate.filter(|rate| rate.is_finite() && *rate >= 0.0);
        orders.excludes.truncate(MAX_EXCLUDES);
        orders
    }

    /// Applies what a person wants; the error says why it is refused.
    pub fn apply(&mut self, control: &Control) -> Result<(), String> {
        match control {
            Control::Pause => self.is_paused = true,
            Control::Resume => (self.is_paused, self.is_stopped) = (false, false),
            Control::Stop => self.is_stopped = true,
            Control::Pace { pace } => self.pace = Some(*pace),
            Control::Rate { rate } => self.rate = Some(rate.map_or(0.0, |rate| rate.per_second)),
            Control::Exclude { .. } | Control::ExcludeHost { .. } => {
                let pattern = control.exclude_pattern().unwrap_or_default();
                if self.excludes.len() >= MAX_EXCLUDES {
                    return Err(format!("{MAX_EXCLUDES} patterns are excluded already"));
                }
                if !self.excludes.contains(&pattern) {
                    self.excludes.push(pattern);
                }
            }
        }
        Ok(())
    }

    /// The controls that lead from earlier orders to these, for one process. The rate is not among them, because each
    /// process has a share of it.
    pub fn controls_since(&self, before: &Self) -> Vec<Control> {
        let mut controls = Vec::new();
        if self.is_paused != before.is_paused {
            controls.push(if self.is_paused { Control::Pause } else { Control::Resume });
        }
        if let Some(pace) = self.pace.filter(|_| self.pace != before.pace) {
            controls.push(Control::Pace { pace });
        }
        let new = self.excludes.iter().filter(|pattern| !before.excludes.contains(pattern));
        controls.extend(new.map(|pattern| Control::Exclude { pattern: pattern.clone() }));
        if self.is_stopped && !before.is_stopped {
            controls.push(Control::Stop);
        }
        controls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_become_orders_and_orders_controls() {
        let mut orders = CrawlOrders::default();
        let exclude = Control::Exclude { pattern: "/a/".to_owned() };
        for control in [Control::Pause, exclude.clone(), exclude.clone(), Control::Stop] {
            orders.apply(&control).expect("allowed");
        }
        assert_eq!(orders.controls_since(&CrawlOrders::default()), [Control::Pause, exclude, Control::Stop]);
        let before = orders.clone();
        orders.apply(&Control::Resume).expect("allowed");
        assert_eq!(orders.controls_since(&before), [Control::Resume]);
        assert_eq!(CrawlOrders::read(&serde_json::to_vec(&orders).expect("JSON")), orders);
        orders.apply(&Control::Rate { rate: None }).expect("allowed");
        assert_eq!(orders.rate, Some(0.0));
    }

    #[test]
    fn orders_of_others_are_bounded() {
        let many: Vec<String> = (0..2_000).map(|number| number.to_string()).collect();
        let text = serde_json::json!({ "excludes": many, "rate": -1.0, "unknown": 1 }).to_string();
        let orders = CrawlOrders::read(text.as_bytes());
        assert_eq!((orders.excludes.len(), orders.rate), (MAX_EXCLUDES, None));
        assert_eq!(CrawlOrders::read(b"no JSON"), CrawlOrders::default());
    }
}
