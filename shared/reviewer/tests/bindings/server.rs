//! A model's server on the loopback interface that answers from a script, request by request, and remembers what it got.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What it does with one request.
#[derive(Debug, Clone)]
pub(crate) enum Says {
    /// Answers with this status and body.
    Body(u16, String),
    /// Answers with these bytes and closes the connection.
    Bytes(Vec<u8>),
    /// Answers, and never comes to the end of it.
    Trickle,
    /// Says nothing at all.
    Silence,
    /// Answers with a success of this many bytes.
    Huge(usize),
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: serde_json::Value,
}

pub(crate) struct Server {
    pub(crate) address: String,
    got: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// A server that goes through `script`, and repeats its last line.
    pub(crate) fn new(script: &[Says]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let got = Arc::new(Mutex::new(Vec::new()));
        let (mut script, seen) = (script.iter().cloned().collect::<VecDeque<_>>(), Arc::clone(&got));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let says = if script.len() > 1 { script.pop_front() } else { script.front().cloned() };
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || serve(stream.unwrap(), &says.unwrap(), &seen));
            }
        });
        Self { address, got }
    }

    /// What came so far.
    pub(crate) fn got(&self) -> Vec<Request> {
        self.got.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, says: &Says, seen: &Mutex<Vec<Request>>) {
    let mut bytes = Vec::new();
    let mut piece = [0; 65536];
    let (head, body) = loop {
        let read = stream.read(&mut piece).unwrap_or(0);
        if read == 0 {
            return;
        }
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break (head.to_owned(), body.to_owned());
        }
    };
    seen.lock().unwrap().push(Request { head, body: serde_json::from_str(&body).unwrap() });
    let success = |length: usize| format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").into_bytes();
    let answer = match says {
        Says::Body(status, body) => {
            let extra = if (300..400).contains(status) { "location: http://127.0.0.1:1/\r\n" } else { "" };
            let head =
                format!("HTTP/1.1 {status} X\r\n{extra}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
            [head.into_bytes(), body.clone().into_bytes()].concat()
        }
        Says::Bytes(bytes) => bytes.clone(),
        Says::Huge(length) => [success(*length), vec![b' '; *length]].concat(),
        Says::Trickle => {
            let _ = stream.write_all(&success(1_000_000));
            while stream.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
            return;
        }
        Says::Silence => {
            // Until the other side has gone.
            let _ = stream.read(&mut piece);
            return;
        }
    };
    let _ = stream.write_all(&answer);
}
