//! What is done to containers of several files before the power goes.

use std::sync::Arc;

use super::scenarios::{AGO, Scenario};
use super::session::Session;
use super::subject::{MATRIX, TYPED_MATRIX};
use crate::commit::Preference;
use crate::disk::recording::Change;

/// Packed, of two chunks, with names; unpacked; and packed with values that are not.
const KINDS: &[&str] = &[
    "m-names-rows-only",
    "m-unpacked-uint",
    "m-packed-double-col",
];
const PACKED: &[&str] = &["m-names-rows-only"];

/// Arrays by their numbers.
const VAL: usize = 0;
const INDEX: usize = 1;
const IDXPTR: usize = 2;
const SHAPE: usize = 3;
const ROW_NAMES: usize = 4;

/// Bytes of a value.
fn width(session: &Session) -> usize {
    let values = session.first[INDEX].len() / 4;
    session.first[VAL].len() / values
}

/// Writes one value more, its row, and where the last column ends now; closes all, in this order.
fn lengthen(session: &Session, order: [usize; 3], sync: bool) {
    let (width, first) = (width(session), &session.first);
    let values = (first[INDEX].len() / 4) as u64;
    let files = order.map(|array| session.open_array(array));
    for file in files {
        let (at, bytes) = match file.2 {
            VAL => (first[VAL].len(), vec![1; width]),
            INDEX => (first[INDEX].len(), 3u32.to_le_bytes().to_vec()),
            _ => (first[IDXPTR].len() - 8, (values + 1).to_le_bytes().to_vec()),
        };
        session.write(file, at as u64, &bytes);
        if sync {
            session.sync(file);
        }
    }
    files.into_iter().for_each(|file| session.close(file));
}

/// Says that a packed matrix is none: files are made that were not there.
fn unpack(session: &Arc<Session>) {
    let (version, val) = (session.open_array(0), session.open_array(1));
    session.write(version, 0, b"unpacked-uint-matrix-v2\n");
    session.write(val, 8, &[5; 8]);
    session.close(version);
    session.close(val);
}

/// One commit of several files.
pub(super) const SEVERAL: &str = "values and rows";

/// After this one arrays do not agree.
pub(super) const STAYS: &str = "longer and synced, and nothing else";

fn is_second_new_file(change: &Change) -> bool {
    matches!(change, Change::Create(path, ..) if path.to_str().unwrap().ends_with("_idx.arrayfs-new"))
}

const fn scenario(name: &'static str, act: fn(&Arc<Session>)) -> Scenario {
    Scenario {
        name,
        subject: &MATRIX,
        samples: KINDS,
        ways: &[Preference::Auto],
        act,
        errors: 0,
        foreign: false,
        shares: false,
    }
}

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("a value", |session| {
        let file = session.open_array(VAL);
        session.write(file, 40 * width(session) as u64, &vec![7; width(session)]);
        session.close(file);
    }),
    scenario(SEVERAL, |session| {
        let (val, index) = (session.open_array(VAL), session.open_array(INDEX));
        session.write(val, 0, &[9; 64]);
        session.write(index, 4, &2u32.to_le_bytes());
        session.close(val);
        session.close(index);
    }),
    Scenario {
        shares: true,
        ..scenario("one value more", |session| {
            lengthen(session, [VAL, INDEX, IDXPTR], false);
        })
    },
    scenario("one value more, synced, the last first", |session| {
        lengthen(session, [IDXPTR, INDEX, VAL], true);
    }),
    scenario(STAYS, |session| {
        let file = session.open_array(VAL);
        session.write(
            file,
            session.first[VAL].len() as u64,
            &vec![1; width(session)],
        );
        session.sync(file);
        session.write(file, 0, &vec![4; width(session)]);
        session.close(file);
    }),
    scenario("synced, closed, with the time it had", |session| {
        let file = session.open_array(INDEX);
        session.write(file, 8, &1u32.to_le_bytes());
        session.sync(file);
        session.keep_time(file);
        session.close(file);
    }),
    scenario(
        "synced, closed, with another time, and once more",
        |session| {
            for (round, array) in [(1, INDEX), (2, VAL)] {
                let file = session.open_array(array);
                session.write(file, 8 * round, &1u32.to_le_bytes());
                session.sync(file);
                session.set_time(file, AGO);
                session.close(file);
            }
        },
    ),
    Scenario {
        samples: PACKED,
        ..scenario("a row more, with a name", |session| {
            let (shape, names) = (session.open_array(SHAPE), session.open_array(ROW_NAMES));
            session.write(names, session.first[ROW_NAMES].len() as u64, b"one more\n");
            session.sync(names);
            let rows = u32::from_le_bytes(session.first[SHAPE][..4].try_into().unwrap());
            session.write(shape, 0, &(rows + 1).to_le_bytes());
            session.close(names);
            session.close(shape);
        })
    },
    scenario("two commits", |session| {
        for round in 1..=2u8 {
            let file = session.open_array(VAL);
            session.write(file, 16 * u64::from(round), &[round; 24]);
            session.sync(file);
            session.close(file);
        }
    }),
    Scenario {
        samples: PACKED,
        ..scenario("written and synced during a commit", |session| {
            write_during(session, is_second_new_file);
        })
    },
    Scenario {
        errors: 1,
        ..scenario("a commit fails, the next does not", |session| {
            let file = session.open_array(VAL);
            session.write(file, 16, &[3; 64]);
            session.sync(file);
            session.failure.arm(4);
            session.close(file);
            let file = session.open_array(INDEX);
            session.write(file, 8, &1u32.to_le_bytes());
            session.close(file);
        })
    },
    scenario("replaced where there is no exchange", |session| {
        session.failure.refuse_exchanges();
        lengthen(session, [VAL, INDEX, IDXPTR], false);
    }),
    Scenario {
        subject: &TYPED_MATRIX,
        samples: PACKED,
        ..scenario("stored in another way", unpack)
    },
];

/// Writes, and writes more when the commit of that has come to this change of the disk.
fn write_during(session: &Arc<Session>, change: fn(&Change) -> bool) {
    let file = session.open_array(VAL);
    session.write(file, 16, &[3; 64]);
    session.when(change, move |session| {
        session.write(file, 40, &[4; 100]);
        session.sync(file);
        session.write(file, 200, &[5; 8]);
    });
    session.close(file);
}

const IN_PLACE: &[Preference] = &[Preference::InPlace];

fn opens_second_file(change: &Change) -> bool {
    matches!(change, Change::Open(path, _) if path.to_str().unwrap() == "val_idx")
}

/// Several files are changed under one seal.
pub(super) const SCENARIOS_IN_PLACE: &[Scenario] = &[
    Scenario {
        ways: IN_PLACE,
        ..scenario("in place: values and rows", |session| {
            let (val, index) = (session.open_array(VAL), session.open_array(INDEX));
            session.write(val, 0, &[9; 64]);
            session.write(index, 4, &2u32.to_le_bytes());
            session.close(val);
            session.close(index);
        })
    },
    Scenario {
        ways: IN_PLACE,
        samples: PACKED,
        ..scenario("in place: one value more, synced", |session| {
            lengthen(session, [VAL, INDEX, IDXPTR], true);
        })
    },
    Scenario {
        ways: IN_PLACE,
        samples: PACKED,
        ..scenario("in place: fewer values, then more", |session| {
            let (width, values) = (width(session), session.first[INDEX].len() / 4);
            let files = [VAL, INDEX, IDXPTR].map(|array| session.open_array(array));
            let [val, index, idxptr] = files;
            let last = session.first[IDXPTR].len() as u64 - 8;
            session.set_len(val, (values as u64 - 1) * width as u64);
            session.set_len(index, (values as u64 - 1) * 4);
            session.write(idxptr, last, &(values as u64 - 1).to_le_bytes());
            files.into_iter().for_each(|file| session.close(file));
            lengthen(session, [VAL, INDEX, IDXPTR], false);
        })
    },
    Scenario {
        ways: IN_PLACE,
        samples: PACKED,
        ..scenario("in place: written and synced during a commit", |session| {
            write_during(session, opens_second_file);
        })
    },
    Scenario {
        ways: IN_PLACE,
        samples: PACKED,
        ..scenario("in place: times cannot be set", |session| {
            session.failure.refuse_times();
            lengthen(session, [VAL, INDEX, IDXPTR], false);
            let file = session.open_array(VAL);
            session.write(file, 16, &[3; 24]);
            session.sync(file);
            session.close(file);
        })
    },
    Scenario {
        subject: &TYPED_MATRIX,
        ways: IN_PLACE,
        samples: PACKED,
        ..scenario("in place: stored in another way", unpack)
    },
    Scenario {
        samples: PACKED,
        ..scenario(
            "in place: new files cannot have the rights of the old",
            |session| {
                session.failure.refuse_rights();
                lengthen(session, [VAL, INDEX, IDXPTR], false);
            },
        )
    },
    Scenario {
        samples: PACKED,
        ..scenario(
            "in place: one new file alone cannot have the rights of the old",
            |session| {
                session.failure.refuse_rights_from(2);
                lengthen(session, [VAL, INDEX, IDXPTR], false);
            },
        )
    },
];
