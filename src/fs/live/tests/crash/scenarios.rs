//! What is done to containers before the power goes.

use std::path::Path;
use std::sync::Arc;

use super::session::{Session, sample};
use super::simulated::Random;
use super::subject::{FILE, Subject};
use crate::commit::Preference;
use crate::disk::recording::Change;
use crate::source::Timestamp;

pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) subject: &'static Subject,
    /// Golden containers that it is done to.
    pub(super) samples: &'static [&'static str],
    pub(super) ways: &'static [Preference],
    pub(super) act: fn(&Arc<Session>),
    /// How many errors are reported to it.
    pub(super) errors: usize,
    /// Whether another process interferes: what is staged remains staged.
    pub(super) foreign: bool,
    /// Whether it is done on disks that share bytes, or fail to, as well.
    pub(super) shares: bool,
}

/// The time of modification that a program sets.
pub(super) const AGO: Timestamp = Timestamp {
    secs: 1_000_000_000,
    nanos: 5,
};

const BOTH: &[Preference] = &[Preference::Replace, Preference::InPlace];

/// Chunks of 127 bytes; the same without digests; of an array with a shape; without offsets; and
/// without spare offsets.
const PLAIN: &[&str] = &["chunk-127.blp"];
const KINDS: &[&str] = &[
    "chunk-127.blp",
    "append-nosum.blp",
    "np-le-i8.blp",
    "np-1d-nooff.blp",
];
/// What another process puts in its place.
pub(super) const FOREIGN: &str = "chunk-129.blp";
const FULL: &[&str] = &["append-exhaust.blp"];

/// Bytes that no codec makes shorter.
pub(super) fn noise(len: usize) -> Vec<u8> {
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    (0..len).map(|_| (random.next() >> 32) as u8).collect()
}

fn is_new_file(change: &Change) -> bool {
    matches!(change, Change::Create(path, ..) if path.to_str().unwrap().ends_with("-new"))
}

fn opens_container(change: &Change) -> bool {
    matches!(change, Change::Open(path, _) if path == Path::new(FILE.container))
}

const fn scenario(name: &'static str, act: fn(&Arc<Session>)) -> Scenario {
    Scenario {
        name,
        subject: &FILE,
        samples: PLAIN,
        ways: BOTH,
        act,
        errors: 0,
        foreign: false,
        shares: false,
    }
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        samples: KINDS,
        ..scenario("one chunk", |session| {
            let file = session.open();
            session.write(file, 304, &[7; 40]);
            session.close(file);
        })
    },
    scenario("several chunks", |session| {
        let file = session.open();
        session.write(file, 8, &[7; 16]);
        session.write(file, 250, &[8; 24]);
        session.write(file, 700, &[9; 100]);
        session.close(file);
    }),
    Scenario {
        samples: KINDS,
        ..scenario("a chunk outgrows its place", |session| {
            let file = session.open();
            session.write(file, 120, &noise(240));
            session.close(file);
        })
    },
    Scenario {
        samples: KINDS,
        ..scenario("truncated", |session| {
            let file = session.open();
            session.set_len(file, 400);
            session.write(file, 80, &[5; 8]);
            session.close(file);
        })
    },
    scenario("truncated by name", |session| session.truncate(600)),
    Scenario {
        samples: FULL,
        ..scenario("extended beyond the spare offsets", |session| {
            let file = session.open();
            let len = session.first[0].len() as u64;
            session.write(file, len + 800, &noise(400));
            session.close(file);
        })
    },
    Scenario {
        samples: KINDS,
        ..scenario("synced, not closed", |session| {
            let file = session.open();
            session.write(file, 16, &[3; 64]);
            session.sync(file);
            session.set_len(file, 640);
            session.sync(file);
            session.write(file, 1000, &[4; 8]);
            session.sync(file);
        })
    },
    scenario("synced, closed, with the time it had", |session| {
        let file = session.open();
        session.write(file, 304, &[7; 40]);
        session.sync(file);
        session.keep_time(file);
        session.close(file);
    }),
    scenario("with another time, synced, closed", |session| {
        let file = session.open();
        session.set_time(file, AGO);
        session.write(file, 304, &[7; 40]);
        session.sync(file);
        session.close(file);
    }),
    scenario("synced, written, closed", |session| {
        let file = session.open();
        session.write(file, 16, &noise(600));
        session.sync(file);
        session.write(file, 300, &[6; 60]);
        session.write(file, 8, &[2; 16]);
        session.close(file);
    }),
    Scenario {
        samples: &["chunk-127.blp", "np-le-i8.blp"],
        ..scenario("two commits", |session| {
            for round in 1..=2 {
                let file = session.open();
                session.write(file, 200 * round, &noise(70 * round as usize));
                session.close(file);
            }
        })
    },
    Scenario {
        ways: &[Preference::Replace],
        ..scenario("written and synced during a commit", |session| {
            let file = session.open();
            session.write(file, 16, &[3; 64]);
            session.when(is_new_file, move |session| {
                session.write(file, 40, &[4; 100]);
                session.sync(file);
                session.write(file, 600, &[5; 8]);
            });
            session.close(file);
        })
    },
    Scenario {
        ways: &[Preference::InPlace],
        ..scenario("written during a commit", |session| {
            let file = session.open();
            session.write(file, 16, &noise(64));
            session.when(opens_container, move |session| {
                session.write(file, 40, &[4; 100]);
            });
            session.close(file);
        })
    },
    Scenario {
        samples: KINDS,
        ways: &[Preference::InPlace],
        ..scenario("its time cannot be set", |session| {
            session.failure.refuse_times();
            let file = session.open();
            session.write(file, 120, &noise(240));
            session.sync(file);
            session.close(file);
            session.truncate(600);
        })
    },
    Scenario {
        errors: 1,
        ..scenario("a commit fails, the next does not", |session| {
            let file = session.open();
            session.write(file, 16, &[3; 64]);
            session.sync(file);
            session.failure.arm(3);
            session.close(file);
            let file = session.open();
            session.write(file, 8, &[9; 16]);
            session.close(file);
        })
    },
    Scenario {
        ways: &[Preference::Replace],
        ..scenario("replaced where there is no exchange", |session| {
            session.failure.refuse_exchanges();
            let file = session.open();
            session.write(file, 304, &[7; 40]);
            session.close(file);
        })
    },
    Scenario {
        errors: 2,
        foreign: true,
        ..scenario("somebody else replaces the container", |session| {
            let file = session.open();
            session.write(file, 16, &[3; 64]);
            session.sync(file);
            session.replace(&sample(FOREIGN));
            session.write(file, 8, &[9; 16]);
            session.sync(file);
            session.close(file);
        })
    },
    Scenario {
        errors: 1,
        foreign: true,
        ..scenario(
            "somebody else replaces the container during a commit",
            |session| {
                let file = session.open();
                session.write(file, 16, &[3; 64]);
                session.sync(file);
                let is_now = |change: &Change| {
                    matches!(change, Change::SetAttributes(..)) || opens_container(change)
                };
                session.when(is_now, |session| session.replace(&sample(FOREIGN)));
                session.close(file);
            },
        )
    },
];
