//! Arrays that are written through a mount: what is shown meanwhile, and what the container holds
//! afterwards.

mod added;
mod attributes;
mod derived;
mod edited;
mod emptied;
mod failing;
mod foreign;
mod fsx;
mod killed;
mod left_staged;
mod made;
mod mappings;
mod model;
mod moved;
mod moved_above;
mod paced;
mod programs;
mod renamed_over;
mod retyped;
mod round_trip;
mod shapes;
mod sharing;
mod visible;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::harness::place::Place;
use crate::harness::process::{Ran, arrayfs, run};
use crate::harness::writers::{Bloscpack, Packing};
use crate::harness::{scratch_directory, wait_until};

/// Makes two tests of each scenario, one for each way of committing: `replaced::NAME` and
/// `in_place::NAME`. For what goes on across a commit, what a commit keeps, and how it stores:
/// there the way can matter.
macro_rules! both_ways {
    ($($name:ident),+ $(,)?) => {
        mod replaced {
            $(#[test]
            fn $name() {
                super::$name(&crate::harness::place::Place::mounted(&["commit=replace"]));
            })+
        }

        mod in_place {
            $(#[test]
            fn $name() {
                super::$name(&crate::harness::place::Place::mounted(&["commit=inplace"]));
            })+
        }
    };
}
use both_ways;

/// Makes one test of each scenario, `either_way::NAME`: of what is staged, of what is refused
/// before anything is committed, and of what programs do that know nothing of commits.
macro_rules! either_way {
    ($($name:ident),+ $(,)?) => {
        mod either_way {
            $(#[test]
            fn $name() {
                super::$name(&crate::harness::place::Place::mounted(&[]));
            })+
        }
    };
}
use either_way;

/// A container of some chunks, beside others in the source.
fn container(place: &Place, name: &str, plain: &[u8]) {
    let some_chunks = Bloscpack {
        typesize: 8,
        chunk_size: 64 << 10,
        packing: Packing::Lz4 {
            block: 16 << 10,
            shuffle: true,
        },
        ..Bloscpack::default()
    };
    some_chunks.write(&place.stored(name), plain);
}

/// What the container holds, as soon as it is committed: at the close that a test makes, unless
/// another test has started a program meanwhile. For such a program closes its copy of the handle
/// first, and then it is the release that commits.
#[track_caller]
fn assert_stored(container: &Path, expected: &[u8]) {
    let what = format!("{} holds what was written", container.display());
    // As long as a log is there it is what the log says.
    let is_sound = || arrayfs(["verify".as_ref(), container.as_os_str()]).code() == Some(0);
    wait_until(&what, || {
        hidden(container) == 0
            && stored(container).is_some_and(|found| found == expected)
            && is_sound()
    });
}

/// How many hidden files lie beside the container.
fn hidden(container: &Path) -> usize {
    let names = std::fs::read_dir(container.parent().unwrap()).unwrap();
    let own = [
        b".",
        container.file_name().unwrap().as_encoded_bytes(),
        b".",
    ]
    .concat();
    let is_hidden = |name: OsString| name.as_encoded_bytes().starts_with(&own);
    names
        .filter(|entry| is_hidden(entry.as_ref().unwrap().file_name()))
        .count()
}

/// None while it is being changed.
fn stored(container: &Path) -> Option<Vec<u8>> {
    let told = arrayfs(["cat".as_ref(), container.as_os_str(), "data".as_ref()]);
    (told.code() == Some(0)).then_some(told.stdout)
}

/// Writes in a process of its own, whose close returns errors.
pub fn written_by_dd(path: &Path, offset: u64, bytes: &[u8]) -> Ran {
    let directory = scratch_directory();
    let input = directory.path().join("input");
    std::fs::write(&input, bytes).unwrap();
    let argument = |name: &str, path: &Path| format!("{name}={}", path.display());
    let mut command = Command::new("dd");
    command.args([argument("if", &input), argument("of", path)]);
    command.args([
        "bs=1M",
        "oflag=seek_bytes",
        "conv=notrunc",
        &format!("seek={offset}"),
    ]);
    run(&mut command)
}
