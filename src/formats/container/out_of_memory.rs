//! What happens where the system has no memory left: an error of what was asked, or the right
//! bytes, never the end of the process.
//!
//! Every container of the corpora beside the mounted tests is opened, described, decoded and
//! checked in a process of its own, again and again, with another large allocation refused each
//! time ([`crate::memory::refusing`]). A container that ends the process is named.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::walked::{self, Outcomes};
use crate::error::Error;
use crate::memory::refusing::refusing;
use crate::source::local::LocalStore;
use crate::sync::Mutex;

/// Names the container that a process of its own walks.
const VARIABLE: &str = "ARRAYFS_TEST_CONTAINER";

/// So many allocations are refused one after the other, and those behind them in growing steps:
/// they are made by the same few, again and again.
const EACH: u64 = 32;

fn is_no_memory(error: &Error) -> bool {
    match error {
        Error::Io { cause, .. } => cause.raw_os_error() == Some(libc::ENOMEM),
        _ => false,
    }
}

fn walk(path: &Path) -> Outcomes {
    let (directory, name) = (path.parent().unwrap(), path.file_name().unwrap());
    let opened = LocalStore::open(directory, directory);
    match opened.map_err(|e| Error::io("cannot open", e)) {
        Ok(store) => walked::walk(&(Arc::new(store) as _), Path::new(name), walked::LONGEST),
        Err(e) => Outcomes::from([("opening".into(), Err(e))]),
    }
}

/// Prints where the allocation that could not be refused was made, when the process ends.
fn tell_the_end() {
    extern "C" fn tell(_: libc::c_int) {
        let trace = std::backtrace::Backtrace::force_capture().to_string();
        let own = trace.lines().filter(|line| line.contains("arrayfs::"));
        let own = own
            .filter(|line| !line.contains("out_of_memory") && !line.contains("memory::allocator"));
        own.take(6)
            .for_each(|line| println!("ended by {}", line.trim()));
        std::process::exit(1);
    }
    let tell = tell as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: what it calls allocates, but the process was not within the allocator when it gave
    // up.
    unsafe { libc::signal(libc::SIGABRT, tell) };
}

/// Run by the next test in a process of its own; by itself it has nothing to walk.
#[test]
#[ignore = "a process of the next test"]
fn walks_one() {
    let Some(path) = std::env::var_os(VARIABLE).map(PathBuf::from) else {
        return;
    };
    tell_the_end();
    let expected = walk(&path);
    let mut next = Some(0);
    while let Some(granted) = next {
        let (found, refused) = refusing(granted, || walk(&path));
        if !refused {
            return;
        }
        next = granted.checked_add(1 + granted / EACH);
        for (what, outcome) in found {
            let sound = match (&outcome, expected.get(&what)) {
                (Err(error), _) if is_no_memory(error) => true,
                (Ok(found), Some(Ok(expected))) => found == expected,
                (Err(found), Some(Err(expected))) => found.to_string() == expected.to_string(),
                _ => false,
            };
            assert!(
                sound,
                "{what}, {granted}: {outcome:?} instead of {:?}",
                expected.get(&what)
            );
        }
    }
}

fn containers() -> Vec<PathBuf> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../mount-tests/golden");
    let mut found = Vec::new();
    for corpus in walked::corpora_in(&golden) {
        let sources = corpus.join("sources");
        let entries = std::fs::read_dir(sources).unwrap();
        found.extend(entries.map(|entry| entry.unwrap().path()));
    }
    found
}

/// What went wrong in the walk of a container, if anything did.
fn failure(path: &Path) -> Option<String> {
    let test = module_path!().split_once("::").unwrap().1;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture"]);
    command.arg(format!("{test}::walks_one"));
    let output = command.env(VARIABLE, path).output().unwrap();
    if output.status.success() {
        return None;
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let telling = ["memory allocation", "ended by", "instead of"];
    let said = said
        .lines()
        .filter(|line| telling.iter().any(|words| line.contains(words)));
    let said: Vec<&str> = said.collect();
    Some(format!("{}: {}", path.display(), said.join("; ")))
}

#[test]
fn a_refused_allocation_is_an_error_or_nothing_at_all() {
    let queue = Mutex::new(containers().into_iter());
    let failures = Mutex::new(Vec::new());
    let next = || queue.lock().next();
    let walk = || {
        while let Some(path) = next() {
            let failed = failure(&path);
            failures.lock().extend(failed);
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(walk))));
    let failures = failures.into_inner();
    assert!(failures.is_empty(), "{}: {failures:#?}", failures.len());
}
