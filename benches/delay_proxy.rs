//! A line between a client and a server, for measurements: so long, and so wide.
//!
//!     delay-proxy LISTEN CONNECT ROUND_TRIP_MS MB_PER_S
//!
//! Each byte arrives half a round trip after it was sent, and all connections together carry no
//! more than the line does, which is as wide in either direction: no question waits behind answers.
//! Connections begin with a round trip, as those of TCP do.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const PART: usize = 64 << 10;
/// Bytes on the way of a connection: the window of its receiver.
const WINDOW: usize = 4 << 20;

/// One direction of it.
struct Line {
    delay: Duration,
    per_byte: Duration,
    /// When it has carried what it was given.
    free_at: Mutex<Instant>,
}

#[derive(Default)]
struct OnTheWay {
    parts: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    ended: bool,
}

impl Line {
    /// When a part arrives that is sent now.
    fn carry(&self, bytes: usize) -> Instant {
        let mut free_at = self.free_at.lock().unwrap();
        let begins = Instant::now().max(*free_at);
        *free_at = begins + self.per_byte * bytes as u32;
        *free_at + self.delay
    }
}

fn sleep_until(at: Instant) {
    std::thread::sleep(at.saturating_duration_since(Instant::now()));
}

/// Carries what one side sends to the other.
fn pump(line: Arc<Line>, mut from: TcpStream, mut to: TcpStream) {
    let way = Arc::new((Mutex::new(OnTheWay::default()), Condvar::new()));
    let sent = Arc::clone(&way);
    std::thread::spawn(move || {
        loop {
            let mut part = vec![0; PART];
            let n = from.read(&mut part).unwrap_or(0);
            part.truncate(n);
            let at = line.carry(n);
            let mut state = sent.0.lock().unwrap();
            while state.bytes > WINDOW && !state.ended {
                state = sent.1.wait(state).unwrap();
            }
            state.ended |= n == 0;
            state.bytes += n;
            state.parts.push_back((at, part));
            sent.1.notify_all();
            if state.ended {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        loop {
            let mut state = way.0.lock().unwrap();
            while state.parts.is_empty() {
                state = way.1.wait(state).unwrap();
            }
            let (at, part) = state.parts.pop_front().unwrap();
            state.bytes -= part.len();
            way.1.notify_all();
            drop(state);
            sleep_until(at);
            if part.is_empty() || to.write_all(&part).is_err() {
                way.0.lock().unwrap().ended = true;
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
        }
    });
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, listen, connect, round_trip, width] = &words[..] else {
        panic!("delay-proxy LISTEN CONNECT ROUND_TRIP_MS MB_PER_S");
    };
    let (round_trip, width): (f64, f64) = (round_trip.parse().unwrap(), width.parse().unwrap());
    let direction = || {
        Arc::new(Line {
            delay: Duration::from_secs_f64(round_trip / 2e3),
            per_byte: Duration::from_secs_f64(1.0 / (width * 1e6)),
            free_at: Mutex::new(Instant::now()),
        })
    };
    let (questions, answers) = (direction(), direction());
    for client in TcpListener::bind(listen).unwrap().incoming() {
        let (questions, answers) = (Arc::clone(&questions), Arc::clone(&answers));
        let connect = connect.clone();
        std::thread::spawn(move || {
            let client = client.unwrap();
            // The handshake.
            std::thread::sleep(questions.delay * 2);
            let server = TcpStream::connect(connect).unwrap();
            for side in [&client, &server] {
                side.set_nodelay(true).unwrap();
            }
            pump(
                questions,
                client.try_clone().unwrap(),
                server.try_clone().unwrap(),
            );
            pump(answers, server, client);
        });
    }
}
