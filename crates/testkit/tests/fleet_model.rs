//! Checks the fleet protocol with random schedules: see [`argiope_testkit::fleet_model`].

use argiope_testkit::fleet_model::{FleetProtocol, ModelSetup, ScheduleReport, run};

/// Number of schedules per check; two hundred times as many with `ARGIOPE_LONG`.
fn schedules() -> u64 {
    if std::env::var_os("ARGIOPE_LONG").is_some() { 40_000 } else { 200 }
}

/// Runs many schedules; returns the first broken guarantee with its seed.
fn search(setup: ModelSetup, seeds: u64) -> Result<ScheduleReport, String> {
    let mut total = ScheduleReport::default();
    for seed in 0..seeds {
        let ScheduleReport { events, kills, failovers, fetches } =
            run(setup, seed).map_err(|broken| format!("seed {seed}: {broken}"))?;
        total.events += events;
        total.kills += kills;
        total.failovers += failovers;
        total.fetches += fetches;
    }
    Ok(total)
}

fn holds(setup: ModelSetup) {
    let total = search(setup, schedules()).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(total.kills > 100 && total.failovers > 100, "the schedules contain too few faults: {total:?}");
}

#[test]
fn nothing_is_lost_and_every_record_is_there_once() {
    holds(ModelSetup::SMALL);
}

#[test]
fn many_processes_on_few_buckets_keep_the_guarantees() {
    holds(ModelSetup { processes: 6, buckets: 2, pages: 8, ..ModelSetup::SMALL });
}

#[test]
fn the_limit_on_pages_is_exact() {
    for most in [1, 5, 9] {
        holds(ModelSetup { max_pages: Some(most), ..ModelSetup::SMALL });
    }
}

#[test]
fn every_rule_is_necessary() {
    let full = FleetProtocol::FULL;
    let missing: Vec<&str> = [
        ("fencing tokens", FleetProtocol { fence: false, ..full }),
        ("links before the page", FleetProtocol { links_first: false, ..full }),
        ("records before the settle", FleetProtocol { record_first: false, ..full }),
        ("waiting for a replica", FleetProtocol { wait: false, ..full }),
        ("remembered answers to puts", FleetProtocol { remember_puts: false, ..full }),
    ]
    .into_iter()
    .filter(|(_, protocol)| search(ModelSetup { protocol: *protocol, ..ModelSetup::SMALL }, 3_000).is_ok())
    .map(|(what, _)| what)
    .collect();
    assert!(missing.is_empty(), "no guarantee is broken without {missing:?}");
}
