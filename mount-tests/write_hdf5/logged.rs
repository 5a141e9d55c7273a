//! What the daemon logs of what programs meet: many of them tell no more than a number, or not even
//! that.

use std::path::Path;

use super::with_file;
use crate::harness::process::run;
use crate::harness::scratch_directory;

#[test]
fn a_refused_copy_is_told_once_with_its_container_and_array_and_what_is_left() {
    let logs = scratch_directory();
    let log = logs.path().join("log");
    let place = with_file(&[&format!("log={}", log.display())]);
    let (array, long) = (place.join("x.h5/color"), logs.path().join("long"));
    std::fs::write(&long, [0; 100]).unwrap();
    let mut copy = std::process::Command::new("cp");
    copy.args([&long, &array]);
    for _ in 0..20 {
        run(&mut copy).failed_saying(1, &["Invalid argument"]);
    }
    assert_eq!(std::fs::read(&array).unwrap(), b"");
    let warnings = || warnings(&log);
    let container = place.stored("x.h5").display().to_string();
    let told = warnings();
    assert_eq!(told.len(), 1, "{told:?}");
    for part in [
        &*format!("{container}: color"),
        " has at most 6 bytes",
        "it was emptied before and has 0 bytes now",
    ] {
        assert!(told[0].contains(part), "{told:?}");
    }
    let (mounted, _source) = place.into_parts();
    let status = mounted.status();
    assert_eq!(status["log"]["to"], log.display().to_string());
    let shown = &status["log"]["warnings"][0];
    assert_eq!(
        (&shown["times"], &shown["text"]),
        (&20.into(), &told[0].clone().into())
    );
    // How often it came is told at the end.
    drop(mounted);
    let counted = format!("{} (19 times more)", told[0]);
    assert!(warnings().contains(&counted), "{:?}", warnings());
}

/// Without the time.
fn warnings(log: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap();
    let warned = text.lines().filter_map(|line| line.split_once(" WARN "));
    warned.map(|(_, text)| text.trim().to_owned()).collect()
}
