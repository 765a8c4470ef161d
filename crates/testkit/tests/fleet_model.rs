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

fn check_guarantees(setup: ModelSetup) {
    let total = search(setup, schedules()).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(total.kills > 100 && total.failovers > 100, "the schedules contain too few faults: {total:?}");
}

#[test]
fn no_page_is_lost_and_every_record_exists_once() {
    check_guarantees(ModelSetup::SMALL);
}

#[test]
fn many_processes_on_few_buckets_keep_the_guarantees() {
    check_guarantees(ModelSetup { processes: 6, buckets: 2, pages: 8, ..ModelSetup::SMALL });
}

#[test]
fn the_limit_on_pages_is_exact() {
    for max_pages in [1, 5, 9] {
        check_guarantees(ModelSetup { max_pages: Some(max_pages), ..ModelSetup::SMALL });
    }
}

#[test]
fn every_rule_is_necessary() {
    let full = FleetProtocol::FULL;
    let unnecessary: Vec<&str> = [
        ("fencing tokens", FleetProtocol { fence: false, ..full }),
        ("links before the page", FleetProtocol { links_first: false, ..full }),
        ("records before the settle", FleetProtocol { record_first: false, ..full }),
        ("waiting for a replica", FleetProtocol { wait: false, ..full }),
        ("stored replies to puts", FleetProtocol { remember_puts: false, ..full }),
        ("the time of the last request", FleetProtocol { keep_asked: false, ..full }),
        ("durations in place of times", FleetProtocol { send_durations: false, ..full }),
        ("the note before the first page", FleetProtocol { note_first: false, ..full }),
    ]
    .into_iter()
    .filter(|(_, protocol)| search(ModelSetup { protocol: *protocol, ..ModelSetup::SMALL }, 3_000).is_ok())
    .map(|(rule, _)| rule)
    .collect();
    assert!(unnecessary.is_empty(), "no guarantee is broken without {unnecessary:?}");
}

#[test]
fn times_of_another_node_are_not_compared_with_the_clock() {
    // Messages are fast here, so that they do not hide the difference between two clocks.
    let fast = ModelSetup { events: 20_000, events_per_tick: 60, ..ModelSetup::SMALL };
    search(fast, schedules() / 2).unwrap_or_else(|broken| panic!("{broken}"));
    let protocol = FleetProtocol { count_again_after_failover: false, ..FleetProtocol::FULL };
    let broken = search(ModelSetup { protocol, ..fast }, 3_000).expect_err("a host is asked too early");
    assert!(broken.contains("demanded to wait") || broken.contains("its delay is"), "{broken}");
}
