//! What is done to HDF5 files before the power goes.

use std::sync::Arc;

use super::scenarios::Scenario;
use super::session::Session;
use super::subject::Subject;
use crate::commit::Preference;
use crate::source::FileKind;

const BOTH: &[Preference] = &[Preference::Replace, Preference::InPlace];

/// Two datasets: of 4 by 6 integers in chunks of 2 by 3, with filters, and one in one piece.
pub(super) const FILE: Subject = Subject {
    container: "x.h5",
    kind: FileKind::File,
    arrays: &["x.h5/packed", "x.h5/plain"],
    first_file: "x.h5",
    makes: &[],
    golden: "hdf5-written",
};

/// A Binsparse matrix of 4 rows and 7 entries, whose descriptor is a string of variable length, and
/// of a fixed one that is made anew.
const SPARSE: Subject = Subject {
    arrays: &["x.h5/values", "x.h5/indices_1", "x.h5/pointers_to_1"],
    ..FILE
};

const VALUES: usize = 0;
const INDICES: usize = 1;
const POINTERS: usize = 2;

const PACKED: usize = 0;
const PLAIN: usize = 1;

/// Bytes of a row of the first one.
const ROW: u64 = 24;

/// After these a part of a row is there, or of an entry.
const STAYS: &[&str] = &["a part of a row", "an entry's value and nothing else"];

const fn scenario(name: &'static str, act: fn(&Arc<Session>)) -> Scenario {
    Scenario {
        name,
        subject: &FILE,
        samples: &["earliest.h5", "latest.h5"],
        ways: BOTH,
        act,
        errors: 0,
        foreign: false,
        shares: false,
    }
}

const fn of_sparse(name: &'static str, act: fn(&Arc<Session>)) -> Scenario {
    Scenario {
        subject: &SPARSE,
        samples: &["rows-earliest.h5", "rows-latest.h5"],
        ..scenario(name, act)
    }
}

/// Writes three entries in two rows more, array by array, in this order: one commit, with what the
/// descriptor says of them.
fn lengthen(session: &Session, order: [usize; 3], sync: bool) {
    for array in order {
        let file = session.open_array(array);
        let bytes = match array {
            VALUES => [8f32, 9., 10.].map(f32::to_le_bytes).concat(),
            INDICES => [1u64, 0, 3].map(u64::to_le_bytes).concat(),
            _ => [8u32, 10].map(u32::to_le_bytes).concat(),
        };
        session.write(file, session.first[array].len() as u64, &bytes);
        if sync {
            session.sync(file);
        }
        session.close(file);
    }
}

/// Writes to a dataset and closes it.
fn write(session: &Session, array: usize, at: u64, bytes: &[u8]) {
    let file = session.open_array(array);
    session.write(file, at, bytes);
    session.close(file);
}

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("a value of a chunk", |session| {
        write(session, PACKED, 8, &[7; 4])
    }),
    scenario("noise in all chunks", |session| {
        let noise: Vec<u8> = (0..96u32).map(|n| ((n * n * 151) >> 3) as u8).collect();
        write(session, PACKED, 0, &noise);
    }),
    scenario("values in one piece", |session| {
        write(session, PLAIN, 16, &[5; 11])
    }),
    scenario("both in one commit, synced", |session| {
        let (packed, plain) = (session.open_array(PACKED), session.open_array(PLAIN));
        session.write(packed, 3 * ROW, &[1; 24]);
        session.write(plain, 0, &[2; 64]);
        session.sync(packed);
        session.close(packed);
        session.close(plain);
    }),
    scenario("rows that come", |session| {
        write(session, PACKED, 4 * ROW, &[9; 5 * ROW as usize])
    }),
    scenario("rows that come, and come again", |session| {
        write(session, PACKED, 4 * ROW, &[9; ROW as usize]);
        write(session, PACKED, 5 * ROW, &[8; 2 * ROW as usize]);
    }),
    scenario("rows that come, and go by name", |session| {
        write(session, PACKED, 4 * ROW, &[9; 3 * ROW as usize]);
        session.truncate(2 * ROW);
    }),
    scenario("both, in a commit each, again and again", |session| {
        for round in 1..=3 {
            write(session, PACKED, 20 * round, &[round as u8; 30]);
            write(session, PLAIN, 7 * round, &[9 - round as u8; 40]);
        }
    }),
    scenario("both, synced in turns", |session| {
        let files = [session.open_array(PACKED), session.open_array(PLAIN)];
        for round in 0..4u8 {
            let (file, other) = (
                files[usize::from(round % 2)],
                files[usize::from(round % 2 == 0)],
            );
            session.write(file, 5 + u64::from(round), &[round + 1; 30]);
            session.write(other, 40, &[round + 11; 20]);
            session.sync(file);
        }
        files.into_iter().for_each(|file| session.close(file));
    }),
    scenario("chunks that outgrow their places, and rows", |session| {
        let noise: Vec<u8> = (0..7 * ROW).map(|n| ((n * n * 151) >> 3) as u8).collect();
        let file = session.open_array(PACKED);
        session.write(file, 0, &noise[..96]);
        session.sync(file);
        session.write(file, 4 * ROW, &noise[96..]);
        session.close(file);
        write(session, PACKED, 10, &noise[..30]);
    }),
    scenario(STAYS[0], |session| {
        let file = session.open_array(PACKED);
        session.write(file, 4 * ROW, &[6; 10]);
        session.sync(file);
        session.close(file);
    }),
    of_sparse("entries in more rows", |session| {
        lengthen(session, [VALUES, INDICES, POINTERS], false)
    }),
    of_sparse("entries in more rows, synced", |session| {
        lengthen(session, [POINTERS, VALUES, INDICES], true)
    }),
    of_sparse("entries in more rows, and values of them", |session| {
        lengthen(session, [VALUES, POINTERS, INDICES], true);
        write(session, VALUES, 4, &[7; 24]);
    }),
    of_sparse(STAYS[1], |session| {
        let file = session.open_array(VALUES);
        session.write(file, 28, &[6; 4]);
        session.sync(file);
        session.close(file);
    }),
];

/// Those that a failing disk is tried with: they end without an error.
pub(super) fn ends(scenario: &Scenario) -> bool {
    !STAYS.contains(&scenario.name)
}
