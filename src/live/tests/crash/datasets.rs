//! What is done to HDF5 files before the power goes.

use std::sync::Arc;

use super::scenarios::Scenario;
use super::session::Session;
use super::subject::Subject;
use crate::commit::Preference;
use crate::source::FileKind;

const BOTH: &[Preference] = &[Preference::Replace, Preference::InPlace];

/// Two datasets: of 4 by 6 integers in chunks of 2 by 3, with filters, and one in one piece.
const FILE: Subject = Subject {
    container: "x.h5",
    kind: FileKind::File,
    arrays: &["x.h5/packed", "x.h5/plain"],
    first_file: "x.h5",
    makes: &[],
    golden: "hdf5-written",
};

const PACKED: usize = 0;
const PLAIN: usize = 1;

/// Bytes of a row of the first one.
const ROW: u64 = 24;

/// After this one a part of a row is there.
const STAYS: &str = "a part of a row";

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
    scenario(STAYS, |session| {
        let file = session.open_array(PACKED);
        session.write(file, 4 * ROW, &[6; 10]);
        session.sync(file);
        session.close(file);
    }),
];

/// Those that a failing disk is tried with: they end without an error.
pub(super) fn ends(scenario: &Scenario) -> bool {
    scenario.name != STAYS
}
