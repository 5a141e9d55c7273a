//! A commit in place of an HDF5 file behind a user block is cut short, and then another program
//! changes the file: its superblock says so, which lies where none of the samples need be that are
//! spread over the file.

use std::ffi::OsStr;
use std::sync::Arc;

use super::datasets::FILE;
use super::forged::changed;
use super::image::{Image, scratch};
use super::session::{Session, tree_at};
use super::simulated::{Random, SimulatedDisk};
use crate::commit::Preference;
use crate::tree::InUse;

/// Longer than what the samples are of, together.
const BLOCK: usize = 1 << 20;

/// Bytes of a row of the first dataset, and of the first two.
const ROW: u64 = 24;
const ROWS: u64 = 4 * ROW;

fn behind_a_block(sample: &str) -> Image {
    let directory = scratch();
    FILE.make(sample, directory.path());
    changed(&Image::load(directory.path()), FILE.container, |file| {
        file.bytes.splice(0..0, vec![b'u'; BLOCK]);
        file.len += BLOCK as u64;
    })
}

/// Bytes that compress to nothing shorter.
fn noise(len: u64) -> Vec<u8> {
    (0..len).map(|n| ((n * n * 151) >> 3) as u8).collect()
}

const ACTS: [fn(&Session); 3] = [
    |session| {
        let file = session.open_array(0);
        session.write(file, ROWS, &noise(60 * ROW));
        session.close(file);
    },
    |session| {
        let file = session.open_array(0);
        session.write(file, 0, &noise(ROWS));
        session.close(file);
    },
    |session| {
        let file = session.open_array(1);
        session.write(file, 16, &[5; 11]);
        session.close(file);
    },
];

/// What may be left when the daemon is killed after each change of the disk.
fn killed(image: &Image, act: fn(&Session)) -> Vec<Image> {
    let session = Session::of_image(image, &FILE, Preference::InPlace);
    act(&session);
    let errors = &session.done.lock().errors;
    assert!(errors.is_empty(), "{errors:?}");
    let (mut disk, mut random) = (SimulatedDisk::new(&session.before), Random(1));
    let changes = session.disk.changes();
    let left = changes.iter().map(|change| {
        disk.apply(change);
        // The first one has everything.
        disk.image(&disk.choices(&mut random)[0])
    });
    left.collect()
}

/// The file after another program has made it longer.
fn lengthened(image: &Image) -> Image {
    changed(image, FILE.container, |file| {
        let end = match file.bytes[BLOCK + 8] {
            0 => BLOCK + 40,
            _ => BLOCK + 28,
        };
        file.bytes.resize(file.len as usize + 100, 9);
        file.len = file.bytes.len() as u64;
        let len = (file.len - BLOCK as u64).to_le_bytes();
        file.bytes[end..end + 8].copy_from_slice(&len);
        file.mtime = (file.mtime.0 + 1000, 7);
    })
}

/// A mount finds it, shows it, and ends.
fn looked_at(image: &Image) -> Image {
    let directory = scratch();
    image.store(directory.path());
    let tree = tree_at(directory.path(), Preference::Auto, Some);
    let _ = FILE.arrays(&tree);
    tree.containers().commit_all(InUse::Ignored);
    drop(tree);
    Image::load(directory.path())
}

#[test]
fn what_another_program_makes_of_a_file_behind_a_user_block_is_never_touched() {
    for sample in ["earliest.h5", "latest.h5"] {
        let first = behind_a_block(sample);
        for act in ACTS {
            let states = killed(&first, act);
            assert!(states.len() > 3);
            for (at, state) in states.iter().enumerate() {
                let with_old = |image: &Image| {
                    let mut image = image.clone();
                    let old = Arc::clone(&first.files[OsStr::new(FILE.container)]);
                    image.files.insert(FILE.container.into(), old);
                    image
                };
                // libhdf5 cuts what lies behind the end of a file; or fills it.
                for theirs in [lengthened(&with_old(state)), lengthened(state)] {
                    let left = looked_at(&theirs);
                    let of = |image: &Image| image.files.get(OsStr::new(FILE.container)).cloned();
                    assert!(of(&left) == of(&theirs), "{sample}, after {at} changes");
                }
            }
        }
    }
}
