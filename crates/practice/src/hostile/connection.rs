//! Connections that end, stall, drip or lie before, within and after an answer.

use super::{Case, Expect, demand};
use crate::answer::{Answer, Ending};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("CON03", "accept then close", Expect::error("empty_reply"), |stage| {
            stage.check("asked again in silence only after a connection that was used before", |report| {
                let used: Vec<u64> = report.seen.iter().filter(|s| s.path != "/").map(|s| s.connection).collect();
                let (again, fresh): (Vec<_>, Vec<_>) =
                    report.seen.iter().filter(|s| s.path == "/").partition(|s| used.contains(&s.connection));
                demand(again.len() <= 1 && fresh.len() <= 2, format!("{} and {} times", again.len(), fresh.len()))
            });
            stage.page(Answer::close())
        }),
        Case::new("CON04", "accept then reset", Expect::error("reset"), |stage| {
            let address = stage.raw(|talk| talk.reset())?;
            stage.set("robots", "ignore");
            stage.root(format!("http://{address}/"));
            Ok(())
        }),
        Case::new("CON05", "accept and silence", Expect::error("timeout_first_byte"), |stage| {
            stage.page(Answer::hang())
        }),
        Case::new("CON06", "a status line that drips", Expect::error("timeout_first_byte"), |stage| {
            stage.page(Answer::html("late").drip_all(1, SECOND))
        }),
        Case::new("CON17", "half-close before the request is read", Expect::error("empty_reply"), |stage| {
            let address = stage.raw(|talk| {
                talk.shut()?;
                talk.wait_for_the_end()
            })?;
            stage.set("robots", "ignore");
            stage.root(format!("http://{address}/"));
            Ok(())
        }),
        Case::new("CON09", "a body that stalls", Expect::truncated("time", "timeout_idle"), |stage| {
            stage.page(Answer::filled("<title>half</title>", 10_000).truncate_at(5_000).ending(Ending::Hang))
        }),
    ]
}
