//! What is done to frames before the power goes: their labels are written, after which their
//! columns have other names. Columns are found by their positions, whichever names a crash has
//! left.

use std::sync::Arc;

use super::scenarios::Scenario;
use super::session::Session;
use super::subject::FRAME;
use crate::commit::Preference;
use crate::disk::recording::Change;

const BOTH: &[Preference] = &[Preference::Replace, Preference::InPlace];

/// Arrays, by their numbers: the text, the first column, and the second one.
const LABELS: usize = 0;
const FIRST: usize = 1;
const SECOND: usize = 2;

/// Of the columns `a`, `b` and `c`. What is found by a name is another column afterwards.
const SWAPPED: &[u8] = b"b\na\nc\n";
const LONGER: &[u8] = b"c\na much longer label/~~0\na\n";

/// After this one there are more labels than columns.
const STAYS: &str = "a label too many";

fn is_new_file(change: &Change) -> bool {
    matches!(change, Change::Create(path, ..) if path.to_str().unwrap().ends_with("-new"))
}

fn opens_container(change: &Change) -> bool {
    matches!(change, Change::Open(path, _) if path == std::path::Path::new("x.dbdf"))
}

fn write_labels(session: &Session, text: &[u8], sync: bool) {
    let labels = session.open_array(LABELS);
    session.write(labels, 0, text);
    if sync {
        session.sync(labels);
    }
    session.close(labels);
}

const fn scenario(name: &'static str, act: fn(&Arc<Session>)) -> Scenario {
    Scenario {
        name,
        subject: &FRAME,
        samples: &["frame-row-blocks.dbdf"],
        ways: BOTH,
        act,
        errors: 0,
        foreign: false,
        shares: false,
    }
}

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("labels that change places", |session| {
        write_labels(session, SWAPPED, false);
    }),
    scenario("longer labels, synced", |session| {
        write_labels(session, LONGER, true);
    }),
    scenario("labels and values", |session| {
        let files = [SECOND, LABELS, FIRST].map(|array| session.open_array(array));
        session.write(files[0], 8, &[7; 32]);
        session.sync(files[0]);
        session.write(files[1], 0, LONGER);
        session.write(files[2], 4, &[9; 8]);
        session.sync(files[2]);
        files.into_iter().for_each(|file| session.close(file));
    }),
    scenario("values between labels, in three commits", |session| {
        write_labels(session, SWAPPED, false);
        let column = session.open_array(FIRST);
        session.write(column, 0, &[5; 12]);
        session.sync(column);
        write_labels(session, LONGER, true);
        session.write(column, 20, &[6; 12]);
        session.sync(column);
        session.close(column);
    }),
    Scenario {
        ways: &[Preference::Replace],
        ..scenario("a column is written and synced meanwhile", |session| {
            let column = session.open_array(FIRST);
            session.when(is_new_file, move |session| {
                session.write(column, 40, &[4; 100]);
                session.sync(column);
                session.write(column, 8, &[5; 8]);
            });
            write_labels(session, SWAPPED, true);
            session.close(column);
        })
    },
    Scenario {
        ways: &[Preference::InPlace],
        ..scenario("a column is written meanwhile", |session| {
            let column = session.open_array(SECOND);
            session.when(opens_container, move |session| {
                session.write(column, 40, &[4; 100]);
            });
            write_labels(session, LONGER, false);
            session.sync(column);
            session.close(column);
        })
    },
    scenario("other labels on the way", |session| {
        let labels = session.open_array(LABELS);
        session.set_len(labels, 0);
        session.sync(labels);
        session.write(labels, 0, LONGER);
        session.sync(labels);
        session.close(labels);
    }),
    scenario(STAYS, |session| {
        let (labels, column) = (session.open_array(LABELS), session.open_array(FIRST));
        session.write(column, 0, &[1; 4]);
        session.write(labels, 6, b"d\n");
        session.sync(labels);
        session.close(labels);
        session.close(column);
    }),
];

/// Those that a failing disk is tried with: they end without an error.
pub(super) fn ends(scenario: &Scenario) -> bool {
    scenario.name != STAYS
}
