//! How the messages to the keeper are processed.

use argiope_core::crawl::control::{Control, ControlVerdict};
use argiope_core::crawl::fetcher::{PartMessage, PartRequest};
use argiope_core::crawl::schedule::keeper::End;
use argiope_core::crawl::visit::{SiteFile, Visit};
use argiope_engine::DnsAnswer;

use super::KeeperLoop;
use crate::error::Error;
use crate::keeper_message::KeeperMessage;
use crate::status;
use argiope_store::Store;

/// The average length of a link, in bytes.
const LINK_BYTES: usize = 128;

impl<F: Store> KeeperLoop<F> {
    /// Processes one message; returns whether to end at once.
    pub(super) fn receive(&mut self, message: KeeperMessage) -> Result<bool, Error> {
        let now = self.clock.now();
        match message {
            KeeperMessage::Visits(visits) => {
                for visit in visits {
                    let cost = processing_cost(&visit);
                    self.visits.push(visit.for_keeper.slot().map(|(lane, _)| lane), visit, cost);
                }
            }
            KeeperMessage::Part(PartMessage::Request(PartRequest { link, part })) => {
                self.keeper.ask_part(link, part, now)?;
            }
            KeeperMessage::Part(PartMessage::PageEnded(tab)) => self.keeper.end_parts(tab, now),
            KeeperMessage::Sent(request) => self.keeper.bench_mut().sent(request, now),
            KeeperMessage::Resolved(DnsAnswer { lane, result }) => self.keeper.resolved(lane, result, now),
            KeeperMessage::Feed(links, answer) => {
                if self.keeper.ended().is_none() || self.commits.has_crawl_directory() {
                    answer(self.keeper.put_all(&links, now)?);
                }
            }
            KeeperMessage::Robots(url) => self.keeper.ask_robots(url, now)?,
            KeeperMessage::Processed(pages, receipt) => self.pages_processed(&pages, receipt, now)?,
            KeeperMessage::AwaitIdle(after, signal) => self.reader.await_idle(now + after, signal),
            KeeperMessage::Taken { pages, is_waiting } => self.reader.has_taken(pages, is_waiting),
            KeeperMessage::Hold => {
                self.reader.holds += 1;
                self.update_open();
            }
            KeeperMessage::Release => {
                self.reader.holds = self.reader.holds.saturating_sub(1);
                // Settled pages that were not collected yet keep the crawl open too.
                self.collect_settled(now)?;
                self.update_open();
            }
            KeeperMessage::Detach => {
                self.reader.is_gone = true;
                self.update_open();
            }
            KeeperMessage::Durable(batch) => {
                self.commits.mark_durable(&batch, self.keeper.frontier_mut())?;
                self.give_receipts();
            }
            KeeperMessage::Fault(fault) => return Err(fault),
            KeeperMessage::Stop(end) => {
                self.keeper.stop(end);
                self.drain_until = self.drain_until.min(now + self.drain_time);
            }
            KeeperMessage::Status(answer) => {
                // The receiver may be gone.
                let _ = answer.send(status::compute(&self.keeper, &mut self.tally, &self.rules, now));
            }
            KeeperMessage::Host(name, answer) => {
                let _ = answer.send(status::host_named(&self.keeper, &name, now));
            }
            KeeperMessage::Control(Control::Stop, answer) => {
                let _ = answer.send(Ok(()));
                return self.receive(KeeperMessage::Stop(End::Stopped));
            }
            KeeperMessage::Control(control, answer) => {
                let verdict = self.keeper.control(&control, now)?;
                if verdict == ControlVerdict::Done {
                    self.collect_settled(now)?;
                    self.send_commit(now)?;
                }
                let _ = answer.send(verdict.into_result());
            }
            KeeperMessage::EndNow => {
                self.reader.is_gone = true;
                return Ok(true);
            }
            KeeperMessage::Wake => {}
        }
        Ok(false)
    }
}

/// The estimated work of a visit for the keeper, in units of one link of average length.
fn processing_cost(visit: &Visit) -> usize {
    let listed = match visit.for_keeper.site_file() {
        Some(SiteFile::Sitemap(sitemap, _)) => sitemap.entries.len() + sitemap.children.len(),
        _ => 0,
    };
    let found = visit.for_keeper.found();
    1 + listed + found.len().max(found.bytes() / LINK_BYTES)
}
