//! `argiope fleet status` and `argiope fleet remove`.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use argiope_store::cluster::{CrawlRound, FleetClient, FleetSettings, FleetState, Members};
use argiope_store::segments::SegmentStore;
use clap::Args;

use super::{FleetPlace, Refusal, connect, finish};

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  argiope fleet status redis://db.example:6379 --name news --json")]
pub struct FleetStatusArgs {
    #[command(flatten)]
    place: FleetPlace,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  argiope fleet remove redis://db.example:6379 --name news --yes")]
pub struct FleetRemoval {
    #[command(flatten)]
    place: FleetPlace,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Remove the crawl even if it is not finished: queued URLs are lost
    #[arg(long)]
    unfinished: bool,
}

fn open(place: &FleetPlace) -> Result<(FleetClient, FleetSettings), Refusal> {
    let mut client = connect(&place.address, &place.name, "status", place.ca_cert.as_deref())?;
    let round = CrawlRound::read(&mut client)?;
    let mut client = client.with_name(CrawlRound::store_name(&place.name, round));
    match FleetSettings::read(&mut client)? {
        Some(settings) => Ok((client, settings)),
        None => Err(Refusal::Failed(format!("{}: there is no such crawl", place.name))),
    }
}

pub fn status(args: &FleetStatusArgs) -> Result<ExitCode, Refusal> {
    let place = &args.place;
    let (mut client, settings) = open(place)?;
    let state = match FleetState::read(&mut client)? {
        FleetState::Created => "being started",
        FleetState::Running => "running",
        FleetState::Finished => "finished",
        FleetState::MaxPages => "finished: the limit of pages is reached",
    };
    let states = client.survey(settings.buckets)?;
    let sum = |of: fn(&argiope_store::cluster::BucketState) -> u64| states.iter().map(of).sum::<u64>();
    let owned = states.iter().filter(|state| !state.owner.is_empty()).count();
    let members = Members::all(&mut client)?;
    let leased_by = |id: &str| states.iter().filter(|state| state.owner == id).map(|state| state.leased).sum::<u64>();
    if args.json {
        let processes: Vec<_> = members
            .iter()
            .map(|member| {
                let (id, version, buckets) = (&member.id, &member.version, member.buckets);
                let leased = leased_by(id);
                serde_json::json!({ "id": id, "version": version, "buckets": buckets, "leased": leased, "seen_ms": member.at })
            })
            .collect();
        let json = serde_json::json!({
            "name": place.name,
            "round": settings.round,
            "state": state,
            "known": sum(|state| state.known),
            "queued": sum(|state| state.queued),
            "leased": sum(|state| state.leased),
            "settled": sum(|state| state.settled),
            "pages": sum(|state| state.pages),
            "buckets": settings.buckets,
            "owned": owned,
            "single_copy": client.nodes.single_copy,
            "out": settings.out,
            "processes": processes,
        });
        let _ = writeln!(std::io::stdout(), "{json}");
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{}: {state}\n", place.name);
    text += &format!(
        "URLs: {} known, {} queued, {} leased, {} settled, {} of them pages\n",
        sum(|state| state.known),
        sum(|state| state.queued),
        sum(|state| state.leased),
        sum(|state| state.settled),
        sum(|state| state.pages)
    );
    text += &format!("buckets: {owned} of {} have an owner\nresults: {}\n", settings.buckets, settings.out);
    for member in &members {
        let (id, version, buckets) = (&member.id, &member.version, member.buckets);
        let leased = leased_by(id);
        text += &format!("process {id}: {buckets} buckets, {leased} URLs leased, version {version}\n");
    }
    // Ignored: if standard output is closed, the text has no reader.
    let _ = writeln!(std::io::stdout(), "{}", argiope_core::output::escape::visible_lines(text.trim_end()));
    Ok(ExitCode::SUCCESS)
}

pub fn remove(removal: &FleetRemoval) -> Result<ExitCode, Refusal> {
    let name = &removal.place.name;
    let (mut client, settings) = open(&removal.place)?;
    let is_over = matches!(FleetState::read(&mut client)?, FleetState::Finished | FleetState::MaxPages);
    if !is_over && !removal.unfinished {
        return Err(Refusal::Failed(format!(
            "{name} is not over; --unfinished removes it, and what is queued is lost"
        )));
    }
    // Readers need the positions once the store has forgotten them.
    let segments = SegmentStore::open(Path::new(&settings.out)).of_round(settings.round);
    finish(&mut client, &settings, &segments)?;
    if !removal.yes {
        let _ = write!(std::io::stderr(), "remove {name} from the store? Its results in {} stay. [y/N] ", settings.out);
        let mut answer = String::new();
        let _ = std::io::stdin().read_line(&mut answer);
        if !answer.trim().eq_ignore_ascii_case("y") {
            return Err(Refusal::Failed("nothing was removed".into()));
        }
    }
    for round in (1..=settings.round).rev() {
        client = client.with_name(CrawlRound::store_name(name, round));
        client.remove(settings.buckets)?;
    }
    Ok(ExitCode::SUCCESS)
}
