//! [`Evidence`]: decides from experience which pages are worth rendering.
//!
//! Pages are grouped by the template of their address. The first pages of each template are rendered as samples. The
//! others follow if the samples gained links or words, and a few are rendered in any case to notice a change.

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

/// Why a page is rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RenderReason {
    /// The settings say so.
    Always,
    /// It is one of the samples of its template.
    Sample,
    /// The samples of its template have gained from it.
    Template,
    /// It is empty without its scripts.
    Empty,
}

/// How many pages of a template are rendered before it is judged.
const SAMPLES: u32 = 3;
/// One of this many pages of a template that gains nothing is rendered.
const RECHECK: u32 = 50;
/// A page gains if rendering adds a link, or this share of its words.
const WORD_SHARE: f64 = 0.1;
/// Fewer words are no gain: a clock, a counter, a greeting.
const MIN_WORDS: u64 = 20;
/// Limit on the templates of a host. All further ones count as one, so that a host with addresses of ever new shapes is
/// sampled like every other.
const MAX_TEMPLATES_PER_HOST: u32 = 200;
/// Limit on the templates of all hosts. Pages of others are rendered only if they are empty.
const MAX_TEMPLATES: usize = 200_000;

/// What is known about a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Template {
    /// Pages that were seen since the template was judged.
    seen: u32,
    /// Pages that are being rendered or were.
    started: u32,
    rendered: u32,
    gained: u32,
}

/// What rendering has gained so far, by template.
#[derive(Debug, Default)]
pub struct Evidence {
    templates: HashMap<u64, Template>,
    /// The number of templates by host.
    hosts: HashMap<u64, u32>,
}

/// The template of a page, and its host, both as hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemplateId {
    pub host: u64,
    pub template: u64,
}

impl Evidence {
    /// What counts as the template of a page: its own, or the common one of its host.
    fn key(&self, page: TemplateId) -> u64 {
        let is_full = self.hosts.get(&page.host).is_some_and(|count| *count >= MAX_TEMPLATES_PER_HOST);
        if is_full && !self.templates.contains_key(&page.template) { page.host } else { page.template }
    }

    /// Whether a page of this template is rendered, and why.
    pub fn decide(&mut self, page: TemplateId, is_empty: bool) -> Option<RenderReason> {
        let template = self.key(page);
        if !self.templates.contains_key(&template) {
            if self.templates.len() >= MAX_TEMPLATES {
                return is_empty.then_some(RenderReason::Empty);
            }
            *self.hosts.entry(page.host).or_default() += 1;
        }
        let known = self.templates.entry(template).or_default();
        known.seen = known.seen.saturating_add(1);
        let reason = if is_empty {
            Some(RenderReason::Empty)
        } else if known.started < SAMPLES {
            Some(RenderReason::Sample)
        } else if known.rendered >= SAMPLES && known.gained * 2 > known.rendered {
            Some(RenderReason::Template)
        } else {
            known.seen.is_multiple_of(RECHECK).then_some(RenderReason::Sample)
        };
        known.started = known.started.saturating_add(u32::from(reason.is_some()));
        reason
    }

    /// Notes what a rendered page has gained: links, and words beside the words that it had.
    pub fn note(&mut self, page: TemplateId, links: u32, words: u64, words_before: u64) {
        let template = self.key(page);
        let Some(known) = self.templates.get_mut(&template) else { return };
        let has_words = words >= MIN_WORDS && words as f64 >= words_before as f64 * WORD_SHARE;
        known.rendered = known.rendered.saturating_add(1);
        known.gained = known.gained.saturating_add(u32::from(links > 0 || has_words));
        // Old pages lose their weight, so that a change is noticed.
        if known.rendered >= SAMPLES * 8 {
            (known.rendered, known.gained) = (known.rendered / 2, known.gained / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(template: u64) -> TemplateId {
        TemplateId { host: 1, template }
    }

    #[test]
    fn a_template_without_gain_is_sampled_and_rechecked() {
        let mut evidence = Evidence::default();
        let mut rendered = 0;
        for _ in 0..1_000 {
            if evidence.decide(id(7), false).is_some() {
                rendered += 1;
                evidence.note(id(7), 0, 5, 200);
            }
        }
        assert!((SAMPLES..=SAMPLES + 1_000 / RECHECK).contains(&rendered), "{rendered}");
    }

    #[test]
    fn a_template_with_gain_is_rendered_from_the_fourth_page_on() {
        let mut evidence = Evidence::default();
        let reasons: Vec<_> = (0..5)
            .map(|_| {
                let reason = evidence.decide(id(7), false);
                evidence.note(id(7), 3, 0, 200);
                reason
            })
            .collect();
        assert_eq!(reasons[..3], [Some(RenderReason::Sample); 3]);
        assert_eq!(reasons[3..], [Some(RenderReason::Template); 2]);
        assert_eq!(evidence.decide(id(8), true), Some(RenderReason::Empty));
    }

    #[test]
    fn no_more_samples_begin_than_needed_while_the_first_are_being_rendered() {
        let mut evidence = Evidence::default();
        let begun = (0..20).filter(|_| evidence.decide(id(7), false).is_some()).count();
        assert_eq!(begun, SAMPLES as usize);
    }

    #[test]
    fn a_host_with_addresses_of_ever_new_shapes_is_sampled_and_other_hosts_are_judged_as_usual() {
        let mut evidence = Evidence::default();
        let rendered = (100..100_000).filter(|n| {
            let is_rendered = evidence.decide(id(*n), false).is_some();
            if is_rendered {
                evidence.note(id(*n), 0, 0, 200);
            }
            is_rendered
        });
        let rendered = rendered.count();
        assert!(rendered <= 200 + 3 + 100_000 / RECHECK as usize, "{rendered}");
        let other = TemplateId { host: 2, template: 7 };
        assert_eq!(evidence.decide(other, false), Some(RenderReason::Sample));
        assert!(evidence.templates.len() < 300);
    }
}
