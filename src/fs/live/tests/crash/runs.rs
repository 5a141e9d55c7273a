//! What is done to arrays that lie in one piece of their file, in sequence, before the power goes:
//! their bytes go to the next file at once.

use std::sync::Arc;

use super::datasets;
use super::plain;
use super::scenarios::Scenario;
use super::session::{Opened, Session};
use super::subject::{CLASSIC, DENSE, ROWS, Subject};
use crate::commit::Preference;

/// A variable without records, and one with.
const FIXED: usize = 0;
const RECORDS: usize = 1;

/// Arrays of a matrix of rows.
const VALUES: usize = 0;
const COLUMNS: usize = 1;

/// A dataset in chunks, and one in one piece.
const PACKED: usize = 0;
const PLAIN: usize = 1;

/// In so many steps an array is written that is synced after each.
const STEPS: usize = 5;

/// The call of a commit that fails when it has taken the next file.
const TAKEN_THEN: usize = 5;

const fn scenario(
    name: &'static str,
    of: (&'static Subject, &'static [&'static str]),
    act: fn(&Arc<Session>),
) -> Scenario {
    Scenario {
        ways: &[Preference::Replace, Preference::Auto],
        ..plain::scenario(name, of, act)
    }
}

type Of = (&'static Subject, &'static [&'static str]);

const OF_DENSE: Of = (&DENSE, &["daphne-dense-int32.dbdf", "dense-int32-one.dbdf"]);
const OF_ROWS: Of = (&ROWS, &["daphne-csr-int8.dbdf"]);
/// Stored the other way around.
const OF_CLASSIC: Of = (&CLASSIC, &["long"]);
const OF_DATASETS: Of = (&datasets::FILE, &["earliest.h5", "latest.h5"]);

/// What is written in a round.
fn content(session: &Session, array: usize, round: u8) -> Vec<u8> {
    let first = session.first[array].iter();
    first.map(|byte| byte.wrapping_add(round)).collect()
}

/// Writes all of an array, in two steps.
fn write_all(session: &Session, to: Opened, round: u8) {
    let bytes = content(session, to.2, round);
    let half = bytes.len().div_ceil(16) * 8;
    session.write(to, 0, &bytes[..half]);
    session.write(to, half as u64, &bytes[half..]);
}

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("whole", OF_DENSE, |session| {
        let file = session.open();
        write_all(session, file, 1);
        session.close(file);
    }),
    scenario("whole, step by step, synced", OF_DENSE, |session| {
        let file = session.open();
        let bytes = content(session, 0, 1);
        let step = bytes.len().div_ceil(STEPS);
        for (number, part) in bytes.chunks(step).enumerate() {
            session.write(file, (number * step) as u64, part);
            session.sync(file);
        }
        session.close(file);
    }),
    scenario(
        "written over before the sync, and after",
        OF_DENSE,
        |session| {
            let file = session.open();
            write_all(session, file, 1);
            session.write(file, 8, &[7; 16]);
            session.sync(file);
            session.write(file, 16, &[8; 16]);
            session.sync(file);
            session.write(file, 4, &[9; 8]);
            session.close(file);
        },
    ),
    scenario("whole, in three commits", OF_DENSE, |session| {
        for round in 1..=3 {
            let file = session.open();
            write_all(session, file, round);
            if round == 2 {
                session.sync(file);
            }
            session.close(file);
        }
    }),
    scenario("where names cannot be exchanged", OF_DENSE, |session| {
        session.failure.refuse_exchanges();
        for round in 1..=2 {
            let file = session.open();
            write_all(session, file, round);
            session.sync(file);
            session.close(file);
        }
    }),
    scenario("cut to nothing, and whole again", OF_CLASSIC, |session| {
        let file = session.open_array(FIXED);
        write_all(session, file, 1);
        session.sync(file);
        session.set_len(file, 0);
        write_all(session, file, 2);
        session.close(file);
    }),
    scenario("a variable", OF_CLASSIC, |session| {
        let file = session.open_array(FIXED);
        write_all(session, file, 1);
        session.sync(file);
        session.close(file);
    }),
    scenario(
        "a variable, with a part of an element",
        OF_CLASSIC,
        |session| {
            let file = session.open_array(FIXED);
            write_all(session, file, 1);
            session.sync(file);
            session.write(file, 6, &[7; 9]);
            session.sync(file);
            session.write(file, 33, &[8; 3]);
            session.close(file);
        },
    ),
    scenario("a variable, and records", OF_CLASSIC, |session| {
        let files = [FIXED, RECORDS].map(|array| session.open_array(array));
        write_all(session, files[0], 1);
        session.sync(files[0]);
        session.write(files[1], 8, &[2; 8]);
        session.close(files[1]);
        session.close(files[0]);
    }),
    scenario("two arrays", OF_ROWS, |session| {
        let files = [VALUES, COLUMNS].map(|array| session.open_array(array));
        write_all(session, files[0], 1);
        session.sync(files[0]);
        write_all(session, files[1], 0);
        session.close(files[1]);
        session.write(files[0], 0, &[9; 8]);
        session.sync(files[0]);
        session.close(files[0]);
    }),
    scenario("a dataset", OF_DATASETS, |session| {
        let file = session.open_array(PLAIN);
        write_all(session, file, 1);
        session.sync(file);
        session.close(file);
    }),
    scenario("a dataset, and one in chunks", OF_DATASETS, |session| {
        let files = [PLAIN, PACKED].map(|array| session.open_array(array));
        write_all(session, files[0], 1);
        session.write(files[1], 0, &[5; 30]);
        session.sync(files[1]);
        session.write(files[0], 0, &[6; 8]);
        files.into_iter().for_each(|file| session.close(file));
    }),
];

/// A commit that has taken the next file comes to nothing.
pub(super) const GIVEN_BACK: &[Scenario] = &[Scenario {
    errors: 1,
    ways: &[Preference::Replace],
    ..scenario(
        "a commit fails where names cannot be exchanged, the next does not",
        OF_DENSE,
        |session| {
            session.failure.refuse_exchanges();
            let file = session.open();
            write_all(session, file, 1);
            session.sync(file);
            session.failure.arm(TAKEN_THEN);
            session.close(file);
            let file = session.open();
            session.write(file, 8, &[9; 16]);
            session.close(file);
        },
    )
}];
