//! What a daemon counts, as `status` tells it, for people, as JSON, and for Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::mounted::Mounted;
use crate::harness::process::{ARRAYFS, Ran, arrayfs, install_script, send};
use crate::harness::python::Written;
use crate::harness::reads::assert_content;
use crate::harness::seeded::Seeded;
use crate::harness::writers::Bloscpack;
use crate::harness::{golden, scratch_directory, wait_until};

fn source(plain: &[u8]) -> TempDir {
    let source = scratch_directory();
    Bloscpack::default().write(&source.path().join("x.blp"), plain);
    source
}

/// A number in a status. A request is counted a moment after it was answered.
fn number(mounted: &Mounted, at: &str) -> u64 {
    let status = mounted.status();
    status.pointer(at).and_then(Value::as_u64).unwrap_or(0)
}

#[test]
fn what_is_read_and_written_is_counted() {
    let plain = Seeded::new(1).rising(300_000);
    let source = source(&plain);
    let mounted = Mounted::new(source.path(), &["rw"]);
    assert_content(&mounted.join("x.blp/data"), &plain);
    wait_until("reads are counted", || {
        number(&mounted, "/requests/read_bytes") == 300_000
            && number(&mounted, "/requests/kinds/read/count") > 0
    });
    assert_eq!(number(&mounted, "/cache/decoded_bytes"), 300_000);
    let file = OpenOptions::new()
        .write(true)
        .open(mounted.join("x.blp/data"));
    file.unwrap().write_all_at(b"1234567", 9).unwrap();
    wait_until("the write and its commit are counted", || {
        number(&mounted, "/requests/written_bytes") == 7
            && number(&mounted, "/counted/commits") == 1
    });
    let status = mounted.status();
    assert_eq!(status["counted"]["failed_commits"], 0);
    assert!(
        status["counted"]["commit_seconds"].as_f64() > Some(0.0),
        "{status}"
    );
    assert!(
        status["counted"]["commit_bytes"].as_u64() > Some(0),
        "{status}"
    );
    for (kind, counted) in status["requests"]["kinds"].as_object().unwrap() {
        let by_time = counted["by_time"].as_array().unwrap().iter();
        let sum: u64 = by_time.map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(counted["count"], sum, "{kind}");
    }
    let text = arrayfs([Path::new("status"), mounted.path()])
        .success()
        .text();
    for part in [
        "293.0 KiB read",
        "7 B written",
        "I/O errors: 0",
        "commits done: 1",
    ] {
        assert!(text.contains(part), "'{part}' is missing in {text}");
    }
}

#[test]
fn to_ask_is_no_request_that_counts() {
    let source = source(b"x");
    let mounted = Mounted::new(source.path(), &[]);
    let requests = |status: &Value| {
        let kinds = status["requests"]["kinds"].as_object().unwrap().clone();
        let others = kinds.into_iter().filter(|(kind, _)| kind != "status");
        others
            .map(|(_, counted)| counted["count"].as_u64().unwrap())
            .sum::<u64>()
    };
    // From now on this thread is known to watch.
    mounted.status();
    let mut before = mounted.status();
    // What was asked before may be counted later than it is answered, and the kernel asks for the
    // root's attributes when they have expired: one round may see such a request, all rounds
    // cannot.
    wait_until("twenty questions in a row are not counted", || {
        before = mounted.status();
        (0..20).for_each(|_| drop(mounted.status()));
        requests(&before) == requests(&mounted.status())
    });
    let counted = |status: &Value| status["requests"]["kinds"]["status"]["count"].as_u64();
    wait_until("all that was asked is counted", || {
        counted(&mounted.status()) >= counted(&before).map(|count| count + 20)
    });
}

#[test]
fn bad_blocks_and_dead_workers_are_counted() {
    let mounted = Mounted::new(golden("bloscpack/sources"), &["ro"]);
    let bad = mounted.join("bad-sum-two.blp/data");
    assert_eq!(
        std::fs::read(bad).unwrap_err().raw_os_error(),
        Some(libc::EIO)
    );
    wait_until("the error is counted", || {
        number(&mounted, "/requests/io_errors") > 0
    });
    drop(mounted);

    let written = Written::new("two");
    let worker = written.directory.path().join("worker");
    install_script("#!/bin/sh\nexit 3\n", &worker);
    let environment = [("ARRAYFS_HDF5_WORKER", worker.to_str().unwrap())];
    let mounted = Mounted::with_environment(&written.source(), &[], &environment);
    let files = std::fs::read_dir(mounted.path()).unwrap();
    files.for_each(|file| assert!(file.unwrap().path().join("error.txt").exists()));
    assert!(number(&mounted, "/counted/worker_deaths") >= 2);
    let text = arrayfs([Path::new("status"), mounted.path()])
        .success()
        .text();
    assert!(text.contains("workers that died"), "{text}");
}

/// A worker that takes its time makes the look into its container a slow request.
#[test]
fn slow_requests_are_told_with_their_paths() {
    let written = Written::new("two");
    let worker = written.directory.path().join("worker");
    let script = format!("#!/bin/sh\nsleep 0.2\nexec '{ARRAYFS}' \"$@\"\n");
    install_script(&script, &worker);
    let environment = [("ARRAYFS_HDF5_WORKER", worker.to_str().unwrap())];
    let mounted = Mounted::with_environment(&written.source(), &[], &environment);
    let files = std::fs::read_dir(mounted.path()).unwrap();
    files.for_each(|file| assert!(file.unwrap().path().join("numbers").exists()));
    let slowest = || mounted.status()["requests"]["slowest"].clone();
    wait_until("a slow request is told", || {
        slowest()[0]["path"].is_string()
    });
    let slow = &slowest()[0];
    assert!(slow["path"].as_str().unwrap().contains(".h5"), "{slow}");
    assert!(slow["seconds"].as_f64() >= Some(0.1), "{slow}");
}

/// A value of the text format.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    let starts = letters
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    starts && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Takes a line apart as the format says, strictly.
fn sample(line: &str) -> Sample {
    let bad = |what: &str| -> ! { panic!("{what}: {line}") };
    let (name, rest) = line.split_once('{').unwrap_or_else(|| bad("no labels"));
    let (mut labels, mut rest) = (BTreeMap::new(), rest);
    let value = loop {
        let (label, quoted) = rest.split_once("=\"").unwrap_or_else(|| bad("no label"));
        let (mut text, mut letters) = (String::new(), quoted.char_indices());
        let end = loop {
            match letters.next() {
                Some((at, '"')) => break at + 1,
                Some((_, '\\')) => text.push(match letters.next() {
                    Some((_, 'n')) => '\n',
                    Some((_, c @ ('\\' | '"'))) => c,
                    _ => bad("a bad escape"),
                }),
                Some((_, c)) => text.push(c),
                None => bad("a quote is open"),
            }
        };
        assert!(is_name(label), "{line}");
        assert_eq!(labels.insert(label.to_owned(), text), None, "{line}");
        match quoted[end..].strip_prefix("} ") {
            Some(value) => break value,
            None => {
                rest = quoted[end..]
                    .strip_prefix(',')
                    .unwrap_or_else(|| bad("no comma"))
            }
        }
    };
    assert!(is_name(name), "{line}");
    Sample {
        name: name.to_owned(),
        labels,
        value: value.parse().unwrap_or_else(|_| bad("no number")),
    }
}

/// All values of a text, each metric of which is whole, in one piece, described and typed.
fn samples(text: &str) -> Vec<Sample> {
    assert!(text.ends_with('\n'));
    let (mut samples, mut known) = (Vec::new(), BTreeSet::new());
    let (mut series, mut current) = (BTreeSet::new(), (String::new(), String::new()));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect("words");
            assert!(!words.is_empty() && known.insert(name.to_owned()), "{line}");
            current = (name.to_owned(), String::new());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a type");
            assert!(["gauge", "counter", "histogram"].contains(&kind), "{line}");
            assert_eq!((name, &current.1[..]), (&current.0[..], ""), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            current.1 = kind.to_owned();
        } else {
            let found = sample(line);
            let of = match &current.1[..] {
                "histogram" => ["_bucket", "_sum", "_count"]
                    .map(|end| current.0.clone() + end)
                    .to_vec(),
                _ => vec![current.0.clone()],
            };
            assert!(of.contains(&found.name), "{line}");
            assert!(
                series.insert((found.name.clone(), found.labels.clone())),
                "twice: {line}"
            );
            samples.push(found);
        }
    }
    samples
}

fn prometheus(arguments: &[&Path]) -> Ran {
    let command = [Path::new("status"), Path::new("--prometheus")];
    arrayfs(command.iter().chain(arguments))
}

#[test]
fn prometheus_gets_what_the_status_says() {
    let plain = Seeded::new(1).rising(300_000);
    let source = source(&plain);
    let above = scratch_directory();
    let mountpoint = above.path().join("a \"b\" \\c");
    std::fs::create_dir(&mountpoint).unwrap();
    let mounted = Mounted::at(source.path(), &mountpoint, &["cache=4M"]);
    assert_content(&mounted.join("x.blp/data"), &plain);
    wait_until("reads are counted", || {
        number(&mounted, "/requests/kinds/read/count") > 0
    });
    let samples = samples(&prometheus(&[&mountpoint]).success().text());
    let is_ours = |sample: &&Sample| sample.labels["mountpoint"] == mountpoint.to_str().unwrap();
    assert_eq!(samples.iter().filter(is_ours).count(), samples.len());
    let value = |name: &str| {
        let found: Vec<&Sample> = samples
            .iter()
            .filter(|sample| sample.name == name)
            .collect();
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        found[0].value
    };
    assert!(value("arrayfs_resident_bytes") > 1e6);
    for (name, expected) in [
        ("arrayfs_up", 1.0),
        ("arrayfs_unlogged_bytes", 0.0),
        ("arrayfs_info", 1.0),
        ("arrayfs_read_bytes_total", 300_000.0),
        ("arrayfs_decoded_bytes_total", 300_000.0),
        ("arrayfs_cache_limit_bytes", f64::from(4 << 20)),
        ("arrayfs_io_errors_total", 0.0),
        ("arrayfs_commits_total", 0.0),
        ("arrayfs_staged_containers", 0.0),
        ("arrayfs_staged_containers_over_a_minute", 0.0),
    ] {
        assert_eq!(value(name), expected, "{name}");
    }
    // Buckets rise to the count.
    let of = |name: &str| {
        let read = samples.iter().filter(move |sample| {
            sample.name == format!("arrayfs_request_duration_seconds_{name}")
                && sample.labels["operation"] == "read"
        });
        read.map(|sample| sample.value).collect::<Vec<f64>>()
    };
    let (buckets, count) = (of("bucket"), of("count"));
    assert!(buckets.is_sorted() && buckets.len() == 11, "{buckets:?}");
    assert_eq!(buckets.last(), count.first());
    assert!(of("sum")[0] > 0.0);
}

#[test]
fn a_dead_mount_is_down() {
    let source = source(b"x");
    let mounted = Mounted::new(source.path(), &[]);
    send(mounted.daemon(), Signal::KILL);
    let is_dead = || {
        let looked = std::fs::metadata(mounted.path());
        looked.is_err_and(|e| e.raw_os_error() == Some(libc::ENOTCONN))
    };
    wait_until("the mount is dead", is_dead);
    let ran = prometheus(&[mounted.path()]);
    let samples = samples(&ran.text());
    assert_eq!(
        (&samples[0].name[..], samples[0].value, samples.len()),
        ("arrayfs_up", 0.0, 1)
    );
    ran.failed_saying(1, &["the daemon has ended"]);
    arrayfs(["status", "--json", "--prometheus"]).failed_saying(2, &["--prometheus"]);
    arrayfs([Path::new("umount"), mounted.path()]).success();
    mounted.assert_ends();
}
