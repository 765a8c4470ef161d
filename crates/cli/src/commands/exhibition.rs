//! `argiope exhibition`: compares the engines on slow servers. Before the comparison, a model shows why concurrent waiting
//! saves time: a chess master who plays against many opponents at once.

use std::cell::Cell;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use argiope_core::crawl::rules::{EngineName, Span};
use argiope_exhibition::child::{self, CrawlTask};
use argiope_exhibition::memory::CrowdProgress;
use argiope_exhibition::web::SlowWeb;
use argiope_exhibition::{ChessExhibition, EngineComparison, EngineResult, chart, chess, memory, trace};
use argiope_runtime::atomic_file::AtomicFile;
use argiope_runtime::engine_kind;
use clap::Args;

use super::{FAILED, print_error, standard_output};
use crate::flags::config_file::UsageError;

/// Engines in historical order.
const ENGINES: [EngineName; 5] =
    [EngineName::Threads, EngineName::Callbacks, EngineName::Coroutines, EngineName::Tokio, EngineName::Uring];

/// Upper limit of every flag that counts something.
const MAX_COUNT: usize = 1_000_000;
/// Maximum of `--latency`. Slower servers would keep the comparison running for hours.
const MAX_LATENCY: Duration = Duration::from_secs(60 * 60);
/// Response time of the slower host of `--trace`. The other host takes a third of it.
const TRACE_LATENCY: Duration = Duration::from_millis(60);
/// How often a long measurement prints its progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);
/// The engine `threads` needs much memory, so it is measured with at most this many fetches per process.
const MAX_THREADS_MEASURED: usize = 2_000;
/// Fetches in flight with which `--memory` measures the other engines.
const MEMORY_FETCHES: usize = 10_000;
/// Fetches in flight with which the comparison measures memory.
const COMPARISON_FETCHES: usize = 2_000;

#[derive(Args, Debug, PartialEq)]
#[command(
    after_help = "Examples:\n  argiope exhibition\n      first explains waiting by an analogy (a chess champion who plays many games at once), then compares all engines\n  \
                  argiope exhibition --trace\n      two requests, event by event\n  \
                  argiope exhibition --hosts 10000 --concurrency 10000 --latency 1s-3s --svg race.svg\n      \
                  a large comparison, as an SVG chart\n  \
                  argiope exhibition --memory\n      the memory of one fetch in flight\n  \
                  argiope exhibition --crowd 100000 --engine uring\n      \
                  100,000 fetches in one process, all waiting, then all answered",
    allow_negative_numbers = true
)]
pub struct ExhibitionArgs {
    /// Number of slow hosts
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = parse_count)]
    pub hosts: usize,
    /// Pages per host
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = parse_count)]
    pub pages: usize,
    /// Response time of the hosts: one value, or a range
    #[arg(long, value_name = "TIME[-TIME]", default_value = "200ms-600ms", value_parser = parse_latency)]
    pub latency: Latency,
    /// Fetches in flight
    #[arg(short, long, value_name = "N", default_value_t = 1_000, value_parser = parse_count)]
    pub concurrency: usize,
    /// Connections per host
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_count)]
    pub per_host: usize,
    /// Compare only these engines (repeatable)
    #[arg(long, value_name = "NAME")]
    pub engine: Vec<EngineName>,
    /// Use HTTPS
    #[arg(long)]
    pub tls: bool,
    /// Write the comparison as an SVG chart
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
    /// Trace two requests on the coroutines engine, event by event
    #[arg(long, conflicts_with_all = ["json", "svg", "memory", "crowd"])]
    pub trace: bool,
    /// Measure the memory of one fetch in flight, with 10,000 of them (2,000 with threads)
    #[arg(long, conflicts_with_all = ["svg", "crowd"])]
    pub memory: bool,
    /// Number of measurements for --memory; the median is reported
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = parse_count)]
    pub runs: usize,
    /// Open N fetches before the practice server answers any of them; measure time, CPU and memory per fetch. Engines
    /// that need an open file per connection use several processes
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub crowd: Option<usize>,
}

/// The shortest and the longest response time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency(pub Span, pub Span);

/// Runs the practice server or the crawler, if `argiope exhibition` started this process as a child for that purpose.
/// Otherwise returns `None`.
pub fn run_as_child(arguments: &[OsString]) -> Option<ExitCode> {
    let arguments: Vec<String> =
        arguments.iter().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let (command, rest) = arguments.split_first()?;
    match command.as_str() {
        child::SERVER => {
            let code = argiope_practice::serve_main(rest.iter().cloned());
            Some(ExitCode::from(u8::try_from(code).unwrap_or(FAILED)))
        }
        child::CRAWLER => Some(exit_code(crawl(rest))),
        _ => None,
    }
}

/// Runs the crawl that the first argument describes, and prints its cost as JSON.
fn crawl(arguments: &[String]) -> Result<(), Stopped> {
    let task = arguments.first().map_or("", String::as_str);
    let task: CrawlTask =
        serde_json::from_str(task).map_err(|error| format!("invalid task for a child process: {error}"))?;
    let cost = child::crawl(&task).map_err(|error| error.to_string())?;
    print_line(&serde_json::to_string(&cost).map_err(|error| error.to_string())?)
}

/// Runs the command.
pub fn run(args: &ExhibitionArgs) -> Result<ExitCode, UsageError> {
    if args.latency.0 > args.latency.1 {
        return Err(UsageError("--latency: the first time must not be longer than the second, as in 1s-3s".to_owned()));
    }
    Ok(exit_code(show(args)))
}

/// Why the command ended early.
enum Stopped {
    /// Standard output cannot be written, or its reader has closed the pipe.
    Output(io::Error),
    /// The message for the user.
    Failed(String),
}

impl From<String> for Stopped {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

fn exit_code(result: Result<(), Stopped>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stopped::Output(error)) => standard_output::exit_code(Err(error)),
        Err(Stopped::Failed(why)) => {
            print_error(&argiope_core::base::escape::visible(&why));
            ExitCode::from(FAILED)
        }
    }
}

fn show(args: &ExhibitionArgs) -> Result<(), Stopped> {
    let program = std::env::current_exe().map_err(|error| format!("the path of the program is unknown: {error}"))?;
    let engines = engines(&args.engine)?;
    if args.trace {
        show_trace()
    } else if args.memory {
        show_memory(&program, &engines, args)
    } else if let Some(count) = args.crowd {
        show_crowd(&program, &engines, count, args)
    } else {
        show_comparison(&program, &engines, args)
    }
}

/// The engines to compare: the requested ones, or all that this system can run.
fn engines(requested: &[EngineName]) -> Result<Vec<EngineName>, String> {
    let check = |engine: &EngineName| engine_kind(*engine).check().map_err(|error| error.to_string());
    if requested.is_empty() {
        return Ok(ENGINES.into_iter().filter(|engine| check(engine).is_ok()).collect());
    }
    let engines: Vec<_> = ENGINES.into_iter().filter(|engine| requested.contains(engine)).collect();
    engines.iter().try_for_each(check)?;
    Ok(engines)
}

fn show_trace() -> Result<(), Stopped> {
    let lines = trace::trace(TRACE_LATENCY).map_err(|error| error.to_string())?;
    let slow = TRACE_LATENCY.as_millis();
    let mut text = format!(
        "Two requests on one thread. The first host takes {slow} ms to answer, the second {} ms.\n\n      ms\n",
        slow / 3
    );
    for line in lines {
        let indent = if line.is_inside_task { "    " } else { "" };
        text += &format!("{:8.2}  {indent}{}\n", line.at.as_secs_f64() * 1e3, line.text);
    }
    write(&text)
}

fn show_memory(program: &Path, engines: &[EngineName], args: &ExhibitionArgs) -> Result<(), Stopped> {
    let mut rows = Vec::new();
    let tls_settings: &[bool] = if args.tls { &[true] } else { &[false, true] };
    if !args.json {
        write(
            "Memory for one more fetch in flight, on 100 hosts that never answer: the peak of resident memory with n\n\
             fetches, minus that with n/2, divided by n/2. Median of several runs. It includes the URL, its queue\n\
             entry, the connection, and the state of the engine.\n\n\
             engine        over          n     peak, n/2       peak, n   bytes each   least to most\n",
        )?;
    }
    for &tls in tls_settings {
        for &engine in engines {
            let limit = if engine == EngineName::Threads { MAX_THREADS_MEASURED } else { MEMORY_FETCHES };
            let count = limit.min(argiope_runtime::engine_kind(engine).max_fetches());
            let measured = memory::measure(program, engine, count, tls, args.runs)
                .map_err(|error| format!("{engine}: {error}"))?;
            // The growth of memory with the number of fetches. `few` and `many` are pairs of a number of fetches and the peak
            // of memory with them, in bytes.
            let slope = measured.median;
            let over = if tls { "https" } else { "http" };
            if !args.json {
                let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
                print_line(&format!(
                    "{:<12}  {over:<6} {:>8}  {:>12}  {:>12}  {:>11}   {} to {}",
                    engine.as_str(),
                    slope.many.0,
                    megabytes(slope.few.1),
                    megabytes(slope.many.1),
                    slope.bytes(),
                    measured.least,
                    measured.most
                ))?;
            }
            rows.push(serde_json::json!({
                "engine": engine, "over": over, "few": slope.few, "many": slope.many,
                "threads": slope.threads, "bytes": slope.bytes(), "least": measured.least, "most": measured.most,
            }));
        }
    }
    if args.json { print_json(&rows.into()) } else { Ok(()) }
}

/// `--crowd`: opens `count` fetches with each engine before any of them is answered.
fn show_crowd(program: &Path, engines: &[EngineName], count: usize, args: &ExhibitionArgs) -> Result<(), Stopped> {
    let (mut crowds, mut faults) = (Vec::new(), Vec::new());
    let last_progress = Cell::new(Instant::now());
    let progress = |progress: CrowdProgress| {
        if last_progress.get().elapsed() >= PROGRESS_INTERVAL {
            last_progress.set(Instant::now());
            print_note(&match progress {
                CrowdProgress::Waiting(fetches) => format!("{fetches} of {count} fetches wait"),
                CrowdProgress::Answered(responses) => format!("{responses} responses were sent"),
            });
        }
    };
    if !args.json {
        write(&format!(
            "{count} fetches at the same time: every request is sent before the first response. Then all are answered.\n\n\
             engine       processes    memory   bytes each   kernel each      opened    answered   CPU each       pages\n"
        ))?;
    }
    for &engine in engines {
        let max_fetches = argiope_runtime::engine_kind(engine).max_fetches();
        let max_per_process =
            if engine == EngineName::Threads { max_fetches.min(MAX_THREADS_MEASURED) } else { max_fetches };
        let crowd = match memory::measure_processes(program, engine, count, max_per_process, &progress) {
            Ok(crowd) => crowd,
            // The system may not allow that many threads: continue with the other engines.
            Err(error) => {
                faults.push(format!("{engine}: this system cannot run {count} fetches with this engine: {error}"));
                continue;
            }
        };
        if crowd.missing > 0 {
            faults.push(format!("{engine}: {} pages were not answered", crowd.missing));
        }
        if !args.json {
            print_line(&crowd_row(engine, &crowd))?;
        }
        crowds.push((engine, crowd));
    }
    if let Some(file) = &args.svg {
        write_svg(file, chart::crowd_svg(&crowds))?;
    }
    if args.json {
        let row = |(engine, crowd): &(EngineName, memory::CrowdResult)| {
            let mut row = serde_json::to_value(crowd).map_err(|error| error.to_string())?;
            row["engine"] = serde_json::json!(engine);
            Ok::<_, String>(row)
        };
        print_json(&crowds.iter().map(row).collect::<Result<_, _>>()?)?;
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ").into()) }
}

fn write_svg(file: &Path, chart: String) -> Result<(), Stopped> {
    let written = AtomicFile::write_output(file, chart);
    Ok(written.map_err(|error| format!("{} cannot be written: {error}", file.display()))?)
}

fn crowd_row(engine: EngineName, crowd: &memory::CrowdResult) -> String {
    let each = |bytes: u64| bytes / crowd.in_flight.max(1) as u64;
    format!(
        "{:<12} {:>9}   {:>5.0} MB   {:>10}   {:>11}   {:>7.1} s   {:>7.1} s   {:>5.0} µs   {:>9}",
        engine.as_str(),
        crowd.processes,
        crowd.bytes as f64 / 1e6,
        each(crowd.bytes),
        each(crowd.kernel_bytes),
        crowd.opened,
        crowd.answered,
        crowd.cpu * 1e6 / crowd.in_flight.max(1) as f64,
        crowd.pages,
    )
}

fn show_comparison(program: &Path, engines: &[EngineName], args: &ExhibitionArgs) -> Result<(), Stopped> {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let web = SlowWeb {
        hosts: number(args.hosts),
        pages: number(args.pages),
        latency: (args.latency.0.0, args.latency.1.0),
        tls: args.tls,
    };
    let comparison = EngineComparison {
        web,
        concurrency: args.concurrency,
        per_host: args.per_host,
        memory_fetches: Some(COMPARISON_FETCHES),
    };
    if !args.json {
        show_chess()?;
        print_introduction(&comparison)?;
    }
    let mut results = Vec::new();
    for &engine in engines {
        let max_fetches = comparison.max_fetches(engine);
        if max_fetches < comparison.concurrency {
            print_note(&format!(
                "{engine}: the system allows {max_fetches} fetches in flight, not {}",
                comparison.concurrency
            ));
        }
        let result = comparison.run(program, engine).map_err(|error| format!("{engine}: {error}"))?;
        for notice in &result.cost.notices {
            print_note(&format!("{engine}: {notice}"));
        }
        if !args.json {
            print_line(&result_row(&result))?;
        }
        results.push(result);
    }
    if let Some(file) = &args.svg {
        write_svg(file, chart::svg(&comparison, &results))?;
    }
    if args.json {
        return print_json(&serde_json::json!({ "race": comparison, "racers": results }));
    }
    write(EXPLANATION)
}

fn show_chess() -> Result<(), Stopped> {
    let polgar = ChessExhibition::POLGAR;
    // `at_once` is the number of games that are played at the same time.
    let play = |at_once, champions| chess::play(polgar, at_once, champions).map_err(|error| error.to_string());
    let boards = polgar.boards as usize;
    let (game_by_game, table_to_table, all_at_once) = (play(1, 1)?, play(boards, 1)?, play(boards, boards)?);
    write(&format!(
        "The chess exhibition: {} boards, {} moves each, {} s for her move, {} s for theirs\n\n  \
         one game after the other   {:>9}\n  \
         from table to table        {:>9}   plus {} s for the last reply: her own moves are now the limit\n  \
         a champion at every board  {:>9}   as long as one game: the lower bound\n\n",
        polgar.boards,
        polgar.moves,
        polgar.champion.as_secs(),
        polgar.opponent.as_secs(),
        format_span(game_by_game.end),
        format_span(table_to_table.last_move),
        (table_to_table.end - table_to_table.last_move).as_secs(),
        format_span(all_at_once.end),
    ))
}

/// Prints the settings of the comparison, its lower bound, and the head of the table.
fn print_introduction(comparison: &EngineComparison) -> Result<(), Stopped> {
    let web = &comparison.web;
    let seconds = |span: Duration| format!("{:.2} s", span.as_secs_f64());
    write(&format!(
        "The comparison: {} hosts with {} pages each, {} to {} for an answer{}\n\n  \
         one request after the other  {}\n  \
         the ideal, {} at once     {}\n  \
         with unknown delays          {}\n\n\
         engine         time    of ideal   CPU a page   memory a fetch   threads   switches a page\n",
        web.hosts,
        web.pages,
        seconds(web.latency.0),
        seconds(web.latency.1),
        if web.tls { ", over HTTPS" } else { "" },
        format_span(web.one_by_one()),
        comparison.concurrency,
        seconds(web.ideal(comparison.concurrency, comparison.per_host)),
        seconds(web.greedy(comparison.concurrency, comparison.per_host)),
    ))
}

const EXPLANATION: &str = "
time           from the first request to the last response; the ideal is the lower bound given by the servers' delays.
               With unknown delays: the time of a crawler without any cost, which learns a delay only with the response
CPU a page     user and system time of the whole crawler, divided by its pages
memory a fetch memory of one more fetch in flight, measured with up to 2,000 fetches that wait for silent hosts
switches       context switches: a thread started to wait, or the kernel ran another thread in its place
";

fn result_row(result: &EngineResult) -> String {
    let memory = result.memory.map_or_else(|| "-".to_owned(), |slope| format!("{} B", slope.bytes()));
    let mut line = format!(
        "{:<12} {:>6.2} s   {:>8.2}   {:>7.0} µs   {memory:>14}   {:>7}   {:>15.2}",
        result.engine.as_str(),
        result.cost.wall,
        result.ratio(),
        result.cpu_per_page() * 1e6,
        result.threads,
        result.switches_per_page(),
    );
    if result.cost.failed > 0 {
        line += &format!("   {} pages failed", result.cost.failed);
    }
    line
}

/// The two largest units of a time: hours and minutes, or minutes and seconds, or seconds with one decimal.
fn format_span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", span.as_secs_f64()),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

fn parse_count(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(number) if (1..=MAX_COUNT).contains(&number) => Ok(number),
        _ => Err(format!("write a number from 1 to {MAX_COUNT}")),
    }
}

fn parse_latency(text: &str) -> Result<Latency, String> {
    let span = |text: &str| text.parse::<Span>().map_err(|error| error.to_string());
    let latency = match text.split_once('-') {
        Some((least, greatest)) => Latency(span(least)?, span(greatest)?),
        None => Latency(span(text)?, span(text)?),
    };
    if latency.1.0 > MAX_LATENCY {
        return Err("write at most 1h".to_owned());
    }
    Ok(latency)
}

fn print_json(value: &serde_json::Value) -> Result<(), Stopped> {
    print_line(&serde_json::to_string_pretty(value).map_err(|error| error.to_string())?)
}

fn print_line(line: &str) -> Result<(), Stopped> {
    write(&format!("{line}\n"))
}

/// Prints to standard output. Without a reader, the command ends.
fn write(text: &str) -> Result<(), Stopped> {
    standard_output::write_text(text).map_err(Stopped::Output)
}

fn print_note(message: &str) {
    // Ignored: if standard error is closed, the message has no reader.
    let _ = writeln!(io::stderr(), "note: {}", argiope_core::base::escape::visible(message));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_one_time_or_a_range() {
        assert_eq!(parse_latency("1s-3s"), Ok(Latency(Span::from_secs(1), Span::from_secs(3))));
        assert_eq!(parse_latency("20ms"), Ok(Latency(Span::from_millis(20), Span::from_millis(20))));
        for wrong in ["", "-", "1s-", "soon", "-1s", "2h"] {
            assert!(parse_latency(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_count_outside_of_the_bounds_is_refused() {
        assert_eq!(parse_count("10000"), Ok(10_000));
        for wrong in ["0", "-1", "many", "99999999999999999999", "1000001"] {
            assert!(parse_count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_is_written_with_its_largest_units() {
        assert_eq!(format_span(Duration::from_secs(12 * 3600)), "12 h 00 min");
        assert_eq!(format_span(Duration::from_secs(90)), "1 min 30 s");
        assert_eq!(format_span(Duration::from_millis(1500)), "1.5 s");
    }
}
