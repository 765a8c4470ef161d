//! `--delay` counts from the time a request is sent, not from the start of its connection.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const DELAY: Duration = Duration::from_millis(500);
/// Duration of the first handshake. If the delay counted from the start of the connection, the first request would be sent
/// together with a later one.
const SLOW_HANDSHAKE: Duration = Duration::from_millis(1_500);
/// Tolerance for a busy machine. The exact delay is measured in bench/; this test only distinguishes a kept delay from an
/// ignored one.
const TOLERANCE: Duration = Duration::from_millis(250);
const PAGES: usize = 6;

/// A SOCKS 5 proxy that answers all requests itself and records when they arrive. Its first handshake is slow.
struct SlowProxy {
    port: u16,
    arrivals: Arc<Mutex<Vec<Instant>>>,
}

impl SlowProxy {
    fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let arrivals: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let log = Arc::clone(&arrivals);
        // The thread ends with the test process; connections end with the crawl.
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let (Ok(stream), log) = (stream, Arc::clone(&log)) else { return };
                thread::spawn(move || serve(stream, number == 0, &log));
            }
        });
        Ok(Self { port, arrivals })
    }
}

fn serve(mut stream: TcpStream, is_slow: bool, arrivals: &Mutex<Vec<Instant>>) -> io::Result<()> {
    // Version 5, and a list with one login method.
    let mut methods = [0; 3];
    stream.read_exact(&mut methods)?;
    if is_slow {
        thread::sleep(SLOW_HANDSHAKE);
    }
    // No login is needed.
    stream.write_all(&[5, 0])?;
    // The request to connect to an IPv4 address and a port, and the response that it succeeded.
    stream.read_exact(&mut [0; 10])?;
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    let mut head = Vec::new();
    let mut byte = [0];
    while stream.read(&mut byte)? > 0 {
        if head.is_empty() {
            arrivals.lock().expect("no panic under this lock").push(Instant::now());
        }
        head.extend(byte);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok")?;
        }
    }
    Ok(())
}

/// The shortest time between two requests of a crawl with this engine.
fn min_gap(engine: &str) -> Duration {
    let proxy = SlowProxy::start().expect("a port");
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.args(["crawl", "-q", "--robots", "ignore", "--pace", "full", "--per-host", "6", "--delay", "500ms"]);
    command.args(["--engine", engine, "--proxy", &format!("socks5://127.0.0.1:{}", proxy.port)]);
    // A public address: private ones need a flag. The proxy does not connect to it.
    command.args((0..PAGES).map(|page| format!("http://93.184.216.34/{page}")));
    let output = command.current_dir(folder.path()).stdin(Stdio::null()).output().expect("the binary runs");
    assert!(output.status.success(), "{output:?}");
    let mut arrivals = proxy.arrivals.lock().expect("no panic under this lock").clone();
    arrivals.sort_unstable();
    assert_eq!(arrivals.len(), PAGES);
    arrivals.windows(2).map(|pair| pair[1] - pair[0]).min().expect("several requests")
}

#[test]
fn requests_are_at_least_the_delay_apart() {
    let engines = ["tokio", "coroutines", "callbacks", "threads"];
    let runs = engines.map(|engine| (engine, thread::spawn(move || min_gap(engine))));
    for (engine, run) in runs {
        let gap = run.join().expect("the crawl ends");
        assert!(gap + TOLERANCE >= DELAY, "{engine}: two requests {gap:?} apart");
    }
}

/// In a module, so that `./test` can skip it on a system without io_uring.
mod uring {
    #[test]
    fn requests_are_at_least_the_delay_apart() {
        let gap = super::min_gap("uring");
        assert!(gap + super::TOLERANCE >= super::DELAY, "two requests {gap:?} apart");
    }
}
