//! SQLite in both of its journal modes: locks, shared mappings, files that come and go.

use std::path::Path;

use crate::harness::place::{Place, scenarios};
use crate::harness::python::script;

scenarios![
    everywhere
    sqlite_with_a_rollback_journal,
    sqlite_with_a_write_ahead_log,
];

fn sqlite(place: &Place, journal: &str) {
    let directory = place.path();
    let arguments = [Path::new(journal), directory];
    script(
        "use_sqlite.py",
        [Path::new("write")].into_iter().chain(arguments),
    )
    .success();
    script(
        "use_sqlite.py",
        [Path::new("check"), Path::new(journal), directory],
    )
    .success();
    // Everything is in the source when the last connection is closed.
    script(
        "use_sqlite.py",
        [Path::new("check"), Path::new(journal), place.source()],
    )
    .success();
}

fn sqlite_with_a_rollback_journal(place: &Place) {
    for journal in ["delete", "truncate", "persist"] {
        sqlite(place, journal);
    }
}

fn sqlite_with_a_write_ahead_log(place: &Place) {
    sqlite(place, "wal");
}
