//! What is done to containers whose arrays lie in one file as they are shown, before the power
//! goes.

use std::sync::Arc;

use super::scenarios::Scenario;
use super::session::Session;
use super::subject::{CLASSIC, DENSE, FRAME, ROWS, Subject};
use crate::commit::Preference;

const BOTH: &[Preference] = &[Preference::Replace, Preference::InPlace];

/// Arrays of a matrix of rows, by their numbers.
const VALUES: usize = 0;
const COLUMNS: usize = 1;
const OFFSETS: usize = 2;

/// Variables of a NetCDF file: one without records, and one with.
const FIXED: usize = 0;
const RECORDS: usize = 1;

/// Bytes of a record.
const RECORD: usize = 12;

/// A NetCDF file of two records: `f(x)` and `o(t, x)` of int; and `p(t)` of short, in a file with
/// several variables that have records. What a torn log holds of one of those alone makes the
/// other longer in the file, and not in the mount.
pub(super) fn classic(sample: &str) -> Vec<u8> {
    let has_several = sample == SEVERAL;
    let mut out = b"CDF\x02".to_vec();
    let mut words = |words: &[u32]| {
        let bytes = words.iter().flat_map(|word| word.to_be_bytes());
        out.extend(bytes);
    };
    let text = |text: &[u8; 4]| u32::from_be_bytes(*text);
    let width = if sample == LONG { 24 } else { 3 };
    let size = 4 * width;
    words(&[2, 10, 2, 1, text(b"t\0\0\0"), 0, 1, text(b"x\0\0\0"), width]);
    words(&[0, 0, 11, 2 + u32::from(has_several)]);
    let begin = 56 + 40 + 44 + 40 * u32::from(has_several);
    words(&[1, text(b"f\0\0\0"), 1, 1, 0, 0, 4, size, 0, begin]);
    let second = [1, text(b"o\0\0\0"), 2, 0, 1, 0, 0, 4, size, 0, begin + size];
    words(&second);
    if has_several {
        words(&[1, text(b"p\0\0\0"), 1, 0, 0, 0, 3, 4, 0, begin + 24]);
    }
    words(&(1..=width).collect::<Vec<_>>());
    for record in [7, 11] {
        words(&(4..width + 3).chain([record]).collect::<Vec<_>>());
        if has_several {
            words(&[record << 16]);
        }
    }
    out
}

const SEVERAL: &str = "several";
/// With longer rows.
const LONG: &str = "long";

/// Writes one entry more in the last row; closes all, in this order.
fn lengthen(session: &Session, order: [usize; 3], sync: bool) {
    let first = &session.first;
    let entries = first[COLUMNS].len() / 8;
    let width = first[VALUES].len() / entries;
    let files = order.map(|array| session.open_array(array));
    for file in files {
        let (at, bytes) = match file.2 {
            VALUES => (first[VALUES].len(), vec![1; width]),
            COLUMNS => (first[COLUMNS].len(), vec![0; 8]),
            _ => {
                let last = (entries as u64 + 1).to_le_bytes().to_vec();
                (first[OFFSETS].len() - 8, last)
            }
        };
        session.write(file, at as u64, &bytes);
        if sync {
            session.sync(file);
        }
    }
    files.into_iter().for_each(|file| session.close(file));
}

/// Writes as many rows more as there are.
fn double(session: &Session, sync: bool) {
    let (file, first) = (session.open(), &session.first[0]);
    session.write(file, first.len() as u64, first);
    if sync {
        session.sync(file);
    }
    session.write(file, 8, &[3; 40]);
    session.close(file);
}

/// Writes so many records more.
fn append(session: &Session, records: usize) {
    let file = session.open_array(RECORDS);
    let at = session.first[RECORDS].len() as u64;
    session.write(file, at, &vec![7; RECORD * records]);
    session.close(file);
}

/// After this one arrays do not agree.
const STAYS: &str = "an entry's value and nothing else";

pub(super) const fn scenario(
    name: &'static str,
    (subject, samples): (&'static Subject, &'static [&'static str]),
    act: fn(&Arc<Session>),
) -> Scenario {
    Scenario {
        name,
        subject,
        samples,
        ways: BOTH,
        act,
        errors: 0,
        foreign: false,
        shares: false,
    }
}

type Of = (&'static Subject, &'static [&'static str]);

const OF_DENSE: Of = (&DENSE, &["daphne-dense-int32.dbdf"]);
/// In the specification's form: blocks of cells, and of entries.
const OF_BLOCKS: Of = (
    &DENSE,
    &["dense-sparse-unsorted.dbdf", "dense-int32-one.dbdf"],
);
const OF_FRAME: Of = (&FRAME, &["frame-row-blocks.dbdf"]);
const OF_ENTRIES: Of = (&ROWS, &["csr-mixed.dbdf"]);
const OF_ROWS: Of = (&ROWS, &["daphne-csr-int8.dbdf", "daphne-csr-float64.dbdf"]);
const OF_CLASSIC: Of = (&CLASSIC, &[SEVERAL, "one"]);
const OF_RECORDS: Of = (&CLASSIC, &["one"]);

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("cells", OF_DENSE, |session| {
        let file = session.open();
        session.write(file, 4, &[7; 16]);
        session.write(file, 200, &[8; 100]);
        session.close(file);
    }),
    scenario("rows", OF_DENSE, |session| double(session, false)),
    scenario("rows, synced", OF_DENSE, |session| double(session, true)),
    scenario("rows that come and go", OF_DENSE, |session| {
        double(session, false);
        session.truncate(session.first[0].len() as u64);
    }),
    scenario("cells, synced again and again", OF_DENSE, |session| {
        let file = session.open();
        for round in 1..=4u8 {
            session.write(file, 30 * u64::from(round), &[round; 50]);
            session.sync(file);
        }
        session.write(file, 4, &[9; 30]);
        session.close(file);
    }),
    scenario("rows, in two commits", OF_DENSE, |session| {
        double(session, true);
        let file = session.open();
        session.write(file, 0, &[1; 90]);
        session.sync(file);
        session.close(file);
    }),
    scenario("cells of blocks", OF_BLOCKS, |session| {
        let file = session.open();
        let middle = session.first[0].len() / 16 * 8;
        session.write(file, 0, &[1; 8]);
        session.write(file, middle as u64, &[2; 8]);
        session.close(file);
    }),
    scenario("rows behind blocks", OF_BLOCKS, |session| {
        double(session, true)
    }),
    scenario("columns", OF_FRAME, |session| {
        let files = [0, 1].map(|array| session.open_array(array));
        session.write(files[1], 8, &[7; 32]);
        session.sync(files[1]);
        session.write(files[0], 4, &[9; 8]);
        files.into_iter().for_each(|file| session.close(file));
    }),
    scenario("an entry of a block", OF_ENTRIES, |session| {
        let file = session.open_array(VALUES);
        session.write(file, 0, &[7; 8]);
        session.close(file);
    }),
    scenario("an entry", OF_ROWS, |session| {
        let file = session.open_array(VALUES);
        session.write(file, 0, &[7; 8]);
        session.close(file);
    }),
    scenario("an entry more", OF_ROWS, |session| {
        lengthen(session, [VALUES, COLUMNS, OFFSETS], false);
    }),
    scenario(
        "an entry more, synced, the last first",
        OF_ROWS,
        |session| {
            lengthen(session, [OFFSETS, COLUMNS, VALUES], true);
        },
    ),
    scenario(STAYS, OF_ROWS, |session| {
        let file = session.open_array(VALUES);
        session.write(file, session.first[VALUES].len() as u64, &[1; 8]);
        session.sync(file);
        session.close(file);
    }),
    scenario("variables", OF_CLASSIC, |session| {
        let (fixed, one) = (session.open_array(FIXED), session.open_array(RECORDS));
        session.write(fixed, 4, &[1; 4]);
        session.write(one, 8, &[2; 8]);
        session.close(fixed);
        session.close(one);
    }),
    scenario("records", OF_RECORDS, |session| append(session, 1)),
    scenario("many records", OF_RECORDS, |session| append(session, 200)),
    scenario("variables, synced in turns", OF_CLASSIC, |session| {
        let files = [session.open_array(FIXED), session.open_array(RECORDS)];
        for round in 0..4u8 {
            let file = files[usize::from(round % 2)];
            session.write(file, u64::from(round), &[round + 1; 7]);
            session.sync(file);
        }
        session.write(files[1], 10, &[8; 9]);
        files.into_iter().for_each(|file| session.close(file));
    }),
    scenario("records, in three commits", OF_RECORDS, |session| {
        append(session, 2);
        append(session, 3);
        let file = session.open_array(FIXED);
        session.write(file, 2, &[9; 9]);
        session.close(file);
    }),
    scenario("records, twice", OF_RECORDS, |session| {
        append(session, 2);
        let file = session.open_array(FIXED);
        session.write(file, 0, &[9; 3]);
        session.sync(file);
        session.close(file);
    }),
];

/// Those that a failing disk is tried with: they end without an error.
pub(super) fn ends(scenario: &Scenario) -> bool {
    scenario.name != STAYS
}
