//! Arrays of a Binsparse container: values by themselves, indices and pointers as its rules allow.

use std::path::PathBuf;

use super::{errno, state, write_at};
use crate::harness::place::{Place, open_directory};
use crate::harness::process::arrayfs;
use crate::harness::reads::assert_content;
use crate::harness::{golden, wait_until};

/// A CSR matrix of 150 values, as a container by itself.
fn matrix(options: &[&str]) -> Place {
    let source = open_directory();
    let sample = golden("binsparse/sources").join("attr-fixed-exact.h5");
    std::fs::copy(sample, source.path().join("x.h5")).unwrap();
    Place::over(source, options)
}

fn array(place: &Place, name: &str) -> PathBuf {
    place.join("x.h5").join(name)
}

#[test]
fn values_are_scaled() {
    for commit in ["commit=replace", "commit=inplace"] {
        let place = matrix(&[commit]);
        let values = array(&place, "values");
        let mut expected = std::fs::read(&values).unwrap();
        for value in expected.as_chunks_mut::<4>().0 {
            *value = (2.0 * f32::from_le_bytes(*value)).to_le_bytes();
        }
        write_at(&values, &expected, 0).unwrap();
        assert_content(&values, &expected);
        let (mounted, source) = place.into_parts();
        drop(mounted);
        let file = source.path().join("x.h5");
        arrayfs(["verify".as_ref(), file.as_os_str()]).success();
        let place = Place::over(source, &[]);
        assert_content(&array(&place, "values"), &expected);
    }
}

#[test]
fn indices_that_break_a_rule_stay_staged_until_they_do_not() {
    let place = matrix(&[]);
    let stored = std::fs::read(place.stored("x.h5")).unwrap();
    let indices = array(&place, "indices_1");
    let before = std::fs::read(&indices).unwrap();
    // There are 34 columns.
    write_at(&indices, &34u64.to_le_bytes(), 0).unwrap();
    assert!(state(&place).starts_with("staged: "), "{}", state(&place));
    assert!(std::fs::read(place.stored("x.h5")).unwrap() == stored);
    write_at(&indices, &before[..8], 0).unwrap();
    wait_until("it is committed", || state(&place) == "clean");
    assert_content(&indices, &before);
    arrayfs(["verify".as_ref(), place.stored("x.h5").as_os_str()]).success();
}

/// The descriptor says how many there are.
#[test]
fn their_number_stays() {
    let place = matrix(&[]);
    let values = array(&place, "values");
    let longer = write_at(&values, &[0; 4], 600);
    assert_eq!(errno(longer), Some(libc::EINVAL));
    let file = std::fs::OpenOptions::new().write(true).open(&values);
    let shorter = file.and_then(|file| file.set_len(596));
    assert_eq!(errno(shorter), Some(libc::EINVAL));
}
