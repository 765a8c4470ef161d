//! A receiver of records that fails as it is told, and keeps one record for each id.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::Value;

/// How a request is answered.
#[derive(Clone, Copy, Debug)]
pub enum Reply {
    /// Keeps the records and answers 200.
    Accept,
    /// Keeps no records and answers with this status.
    Status(u16),
    /// Keeps no records and answers 200 with this body.
    Answer(&'static str),
    /// Keeps the records and closes the connection without an answer.
    CutAfterStoring,
    /// Reads the request and sends nothing, until the sender closes the connection. Keeps no records.
    Stall,
    /// As [`Self::Stall`]: for a sender that is going to be killed.
    Hold,
}

/// A request that was received.
#[derive(Clone, Debug)]
pub struct Request {
    pub line: String,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn lines(&self) -> Vec<Value> {
        self.body.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

#[derive(Default)]
struct State {
    replies: std::collections::VecDeque<Reply>,
    requests: Vec<Request>,
    stored: BTreeMap<String, Value>,
    taken: usize,
}

pub struct Receiver {
    address: String,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Receiver {
    /// Answers the first requests in this way, and accepts all others.
    pub fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("an address").to_string();
        let state = State { replies: replies.into_iter().collect(), ..State::default() };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { address, state }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The records, one for each id.
    pub fn stored(&self) -> Vec<Value> {
        self.state.0.lock().expect("not poisoned").stored.values().cloned().collect()
    }

    /// How many records were taken, each as often as it was sent.
    pub fn taken(&self) -> usize {
        self.state.0.lock().expect("not poisoned").taken
    }

    pub fn requests(&self) -> Vec<Request> {
        self.state.0.lock().expect("not poisoned").requests.clone()
    }

    /// Waits until this many requests have arrived as a whole.
    pub fn wait_for_requests(&self, count: usize) {
        let (state, changed) = &*self.state;
        let state = state.lock().expect("not poisoned");
        drop(changed.wait_while(state, |state| state.requests.len() < count).expect("not poisoned"));
    }
}

/// Answers the requests of a connection.
fn serve(stream: TcpStream, shared: &(Mutex<State>, Condvar)) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader) {
        let reply = {
            let mut state = shared.0.lock().expect("not poisoned");
            let reply = state.replies.pop_front().unwrap_or(Reply::Accept);
            if matches!(reply, Reply::Accept | Reply::CutAfterStoring) {
                for record in request.lines() {
                    let id = record["id"].as_str().expect("an id").to_owned();
                    state.taken += 1;
                    state.stored.insert(id, record);
                }
            }
            state.requests.push(request);
            reply
        };
        shared.1.notify_all();
        let answer = match reply {
            Reply::Accept => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(),
            Reply::Status(status) => {
                format!("HTTP/1.1 {status} No\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")
            }
            Reply::Answer(text) => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()),
            Reply::CutAfterStoring => return,
            Reply::Stall | Reply::Hold => {
                // Ends when the sender has closed the connection.
                let _ = reader.read(&mut [0]);
                return;
            }
        };
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|length| *length > 0)?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { line: line.trim_end().to_owned(), headers, body: String::from_utf8(body).ok()? })
}
