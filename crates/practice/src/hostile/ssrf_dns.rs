//! Names and addresses that lead into private networks, or nowhere.

use super::{Case, Expect, trap};

pub(super) fn cases() -> Vec<Case> {
    vec![Case::new("NET23", "wildcard DNS", Expect::Ok, |stage| {
        stage.set("scope", "domain");
        stage.set("allow-private", true);
        stage.set("trap-budget", 64 * 8);
        let address = trap::wild(stage, 10)?;
        stage.root(format!("http://trap.test:{}/", address.port()));
        trap::hosts_at_most(stage, 1 + 8);
        Ok(())
    })]
}
