//! Workers that do what no worker should, and the real one.

mod sessions;

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;

use super::limits::Limits;
use serde::de::DeserializeOwned;

use super::pool::WorkerPool;
use super::process::{EncodedAnswer, Program, SERVING_TEST};
use super::wire::WorkerTask;
use super::*;
use crate::container::hdf5::chunk_table::PackedChunks;
use crate::container::hdf5::index::details::{
    AttributeStorage, DatasetDetails, FillSpelling, ValueFidelity,
};
use crate::container::hdf5::index::heap::{OnHeap, allocated};
use crate::container::hdf5::index::{
    AttributeEntry, AttributeValue, DatasetEntry, GroupEntry, LinkEntry, LinkTarget, Problem,
    StorageLayout, TypeEntry,
};
use crate::container::hdf5::library::tests::sample;
use crate::container::hdf5::sample::empty_index;
use crate::container::stored::StoredType;
use crate::error::Error;
use crate::source::local::LocalStore;
use crate::source::{BytesSource, Store};

const LIMITS: Limits = Limits {
    seconds: Some(60),
    mebibytes: 64,
    wait: None,
};

/// A pool of one worker that runs a shell script, with the socket as its standard input.
fn scripted(script: &str, limits: Limits) -> WorkerPool {
    let run = Program {
        program: "sh".into(),
        arguments: vec!["-c".into(), script.into()],
    };
    WorkerPool::new(run, limits, 1)
}

/// A file without bytes and without a descriptor.
fn nothing() -> BytesSource {
    BytesSource::new(Vec::new())
}

/// Asks for a value; an answer that is none is an error.
fn ask<T: DeserializeOwned>(pool: &WorkerPool, wanted: WorkerTask, file: &dyn Source) -> Result<T> {
    let read = |encoded: EncodedAnswer| Ok(wire::decode(&encoded.bytes));
    pool.ask(wanted, file, &Budget::new(1 << 30), read)
}

/// What a request to such a worker comes to.
fn message(script: &str, limits: Limits) -> String {
    let null = nothing();
    let answer = ask::<FileIndex>(&scripted(script, limits), WorkerTask::Index, &null);
    answer.unwrap_err().to_string()
}

#[test]
fn a_worker_that_ends_is_told_with_how_it_ended() {
    let crash = message("kill -SEGV $$", LIMITS);
    assert_eq!(crash, "the HDF5 library ended by signal 11 on this file");
    let exit = message("exit 3", LIMITS);
    assert_eq!(exit, "the HDF5 worker ended with status 3 on this file");
    let abort = message("kill -ABRT $$", LIMITS);
    assert!(
        abort.contains("signal 6") && abort.contains("64 MiB"),
        "{abort}"
    );
}

#[test]
fn a_worker_that_hangs_is_stopped() {
    let limits = Limits {
        seconds: Some(1),
        wait: Some(1),
        ..LIMITS
    };
    let silent = message("exec sleep 1000", limits);
    assert_eq!(
        silent,
        "the HDF5 worker gave no answer about this file in 1 s"
    );
}

#[test]
fn only_processor_time_counts() {
    let limits = Limits {
        seconds: Some(1),
        wait: Some(600),
        ..LIMITS
    };
    let late = message("while :; do :; done", limits);
    let what = "the HDF5 library took longer than 1 s of processor time on this file";
    assert_eq!(late, what);
}

#[test]
fn the_limit_of_memory_holds_for_any_program() {
    let script = "head -c 32 > /dev/null; [ $(ulimit -v) = 65536 ] && exit 7; exit 8";
    let told = message(script, LIMITS);
    assert_eq!(told, "the HDF5 worker ended with status 7 on this file");
}

#[test]
fn answers_that_are_none_are_faults() {
    let garbage = message(r"printf '\003\0\0\0\0\0\0\0abc' >&0; read wait", LIMITS);
    assert_eq!(garbage, "the answer of the HDF5 worker cannot be read");
    let long = message(r"printf '\0\0\0\0\001\0\0\0' >&0; read wait", LIMITS);
    assert_eq!(long, "the HDF5 worker announces 4294967296 bytes");
    let cut = message(r"printf '\0\0\0\010\0\0\0\0abc' >&0; exit 4", LIMITS);
    assert_eq!(cut, "the HDF5 worker ended with status 4 on this file");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let run = Program {
        program: "/nonexistent/worker".into(),
        arguments: Vec::new(),
    };
    let pool = WorkerPool::new(run, LIMITS, 1);
    let null = nothing();
    let refused = ask::<FileIndex>(&pool, WorkerTask::Index, &null).unwrap_err();
    assert!(refused.to_string().contains("/nonexistent/worker"));
    // The seat is free again.
    assert!(ask::<FileIndex>(&pool, WorkerTask::Index, &null).is_err());
}

/// Answers every request with its process number: no refusal, a string of eight digits.
const TELLS_ITS_NUMBER: &str = r#"
    while [ $(head -c 32 | wc -c) = 32 ]; do printf '\012\0\0\0\0\0\0\0\0\010%08d' $$ >&0; done
"#;

#[test]
fn a_worker_is_used_again_and_replaced_when_it_has_died() {
    let pool = scripted(TELLS_ITS_NUMBER, LIMITS);
    let null = nothing();
    let ask = || ask::<String>(&pool, WorkerTask::Chunks(1), &null).unwrap();
    let first = ask();
    assert_eq!(ask(), first);
    let pid = rustix::process::Pid::from_raw(first.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_ne!(ask(), first);
}

#[test]
fn more_threads_than_workers_wait_for_their_turn() {
    let pool = scripted(TELLS_ITS_NUMBER, LIMITS);
    let null = nothing();
    let told: Vec<String> = std::thread::scope(|scope| {
        let ask = || ask(&pool, WorkerTask::Index, &null).unwrap();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(told.iter().all(|number| *number == told[0]));
}

/// A pool that runs the worker in this test program.
fn real() -> WorkerPool {
    let run = Program {
        program: std::env::current_exe().unwrap().into(),
        arguments: SERVING_TEST.map(OsString::from).to_vec(),
    };
    WorkerPool::new(run, Limits::default(), 1)
}

#[test]
fn the_worker_describes_files_one_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.h5");
    sample(&path);
    let store = LocalStore::open(dir.path(), dir.path()).unwrap();
    let (pool, file) = (real(), store.open(Path::new("f.h5")).unwrap());
    for _ in 0..3 {
        let index: FileIndex = ask(&pool, WorkerTask::Index, &*file).unwrap();
        assert_eq!((index.groups.len(), index.datasets.len()), (2, 1));
        let dataset = &index.datasets[0];
        assert!(matches!(
            dataset.layout,
            StorageLayout::Chunked { table: None, .. }
        ));
        assert_eq!(dataset.stored_bytes, 6000);
        let wanted = WorkerTask::Chunks(dataset.token);
        let read = |encoded: EncodedAnswer| {
            let answer = wire::decode::<RawBytes<'_>>(&encoded.bytes);
            Ok(answer
                .map(|answer| answer.map(|RawBytes(table)| PackedChunks(table).iter().count())))
        };
        let budget = Budget::new(1 << 30);
        let chunks = pool.ask(wanted, &*file, &budget, read).unwrap();
        assert_eq!((chunks, budget.used()), (300, 0));
        let null = nothing();
        let refused = ask::<FileIndex>(&pool, WorkerTask::Index, &null);
        assert!(refused.unwrap_err().to_string().contains("signature"));
    }
}

#[test]
fn a_file_that_is_cut_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.h5");
    sample(&path);
    let len = path.metadata().unwrap().len();
    let store = LocalStore::open(dir.path(), dir.path()).unwrap();
    for kept in [len - 1, 1000, 40] {
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(kept)
            .unwrap();
        let source = store.open(Path::new("f.h5")).unwrap();
        let refused = superblock::check(&*source).unwrap_err().to_string();
        let most = if kept == 40 {
            "at least 44".into()
        } else {
            len.to_string()
        };
        let expected = format!("the file ends early: expected {most} bytes, found {kept}");
        assert_eq!(refused, expected);
    }
}

#[test]
fn types_nested_without_end_are_no_answer() {
    let nested = |levels: usize| {
        let (open, close) = (r#"{"class":"H5T_VLEN","base":"#, "}");
        let text = [
            &open.repeat(levels),
            r#""H5T_STD_I8LE""#,
            &close.repeat(levels),
        ]
        .concat();
        let mut encoded = postcard::to_stdvec(&(7u64, text)).unwrap();
        // No attributes.
        encoded.push(0);
        postcard::from_bytes::<TypeEntry>(&encoded)
    };
    assert!(nested(30).is_ok());
    assert!(nested(40).is_err());
    assert!(nested(1_000_000).is_err());
}

/// An index of 5000 datasets, with something of everything that may be long.
fn long_index() -> FileIndex {
    let attribute = |number: u32| AttributeEntry {
        name: format!("a{number}").into(),
        value: match number % 3 {
            0 => AttributeValue::Text(vec![b'x'; 20]),
            1 => AttributeValue::Json("[1, 2]".into()),
            _ => AttributeValue::Omitted("too long".into()),
        },
        stored: number.is_multiple_of(2).then(|| AttributeStorage {
            element: StoredType::Committed {
                name: "x".repeat(20),
            },
            committed: Some(7),
            dims: Some(vec![1, 2]),
            told: ValueFidelity::Not(vec![1; 9]),
        }),
    };
    let members = (0..3).map(|number| (format!("m{number}"), number, StoredType::opaque(1)));
    let members: Vec<(String, u64, StoredType)> = members.collect();
    let dataset = |number: u32| DatasetEntry {
        token: u64::from(number) << 10,
        element: match number % 8 {
            0 => StoredType::Compound {
                size: 3,
                members: members.clone(),
            },
            _ => StoredType::called("H5T_STD_I32LE"),
        },
        dims: Some(vec![7, u64::from(number)]),
        layout: match number % 3 {
            0 => StorageLayout::Compact(vec![1; 50]),
            1 => StorageLayout::Contiguous { address: None },
            _ => StorageLayout::Unknown("odd".into()),
        },
        filters: vec![],
        fill: Some(vec![0; 3]),
        attributes: (0..number % 4).map(attribute).collect(),
        stored_bytes: 50,
        text: None,
        details: DatasetDetails {
            committed: None,
            most: vec![7, 9],
            filters: vec![("deflate".into(), true)],
            fill: FillSpelling::Value {
                shown: "f".repeat(100),
                stored: Some(vec![1; 30]),
            },
            scales: vec![vec![1, 2], vec![]],
            ..DatasetDetails::default()
        },
    };
    let link = |number: u32| LinkEntry {
        name: format!("{number:05}").into(),
        target: LinkTarget::Dataset(number),
        soft: number.is_multiple_of(3).then(|| vec![b's'; 40]),
        age: Some(number),
    };
    let problem = |what: &str| Problem {
        path: vec![b"p".to_vec()],
        what: what.into(),
    };
    FileIndex {
        base: 512,
        groups: vec![GroupEntry {
            token: 0,
            parent: 0,
            name: vec![b'g'; 70_000],
            attributes: vec![attribute(0)],
            links: (0..5000).map(link).collect(),
        }],
        datasets: (0..5000).map(dataset).collect(),
        problems: vec![problem("damaged")],
        left_out: vec![problem("too much")],
        ..empty_index()
    }
}

#[test]
fn an_index_is_charged_as_it_is_built() {
    let index = long_index();
    let answer: wire::WorkerAnswer<&FileIndex> = Ok(&index);
    let encoded = postcard::to_stdvec(&answer).unwrap();
    let budget = Budget::new(1 << 30);
    let (read, hold) = charged::read(&encoded, &budget).unwrap().unwrap().unwrap();
    assert_eq!(read, index);
    let group = &read.groups[0];
    let links = group.links.on_heap() + group.attributes.on_heap() + group.name.on_heap();
    let lists = allocated(size_of::<GroupEntry>());
    let told = read.problems.on_heap() + read.left_out.on_heap();
    let all = links + lists + read.datasets.on_heap() + told;
    assert_eq!((hold.bytes(), budget.kept()), (all, all));
    drop(hold);
    let refusal: wire::WorkerAnswer<FileIndex> = Err("no file".into());
    let refusal = postcard::to_stdvec(&refusal).unwrap();
    let read = charged::read(&refusal, &budget).unwrap().unwrap();
    assert_eq!(
        read.err().map(|refusal| refusal.why),
        Some("no file".into())
    );
    for cut in [0, 1, 10, encoded.len() / 2, encoded.len() - 1] {
        assert!(charged::read(&encoded[..cut], &budget).unwrap().is_none());
    }
    let longer = [&encoded[..], &[0]].concat();
    assert!(charged::read(&longer, &budget).unwrap().is_none());
    assert_eq!(budget.used(), 0);
}

/// The first number is what the whole needs, as far as can be said when there is no room.
#[test]
fn an_index_without_room_says_how_much_it_needs() {
    let answer: wire::WorkerAnswer<FileIndex> = Ok(long_index());
    let encoded = postcard::to_stdvec(&answer).unwrap();
    let (_, hold) = charged::read(&encoded, &Budget::new(1 << 30))
        .unwrap()
        .unwrap()
        .unwrap();
    let needed = (hold.bytes() * (1 + MADE)) >> 20;
    let budget = Budget::new(2 << 20);
    let refused = charged::read(&encoded, &budget).err().unwrap();
    assert!(refused.is_no_memory() && budget.used() == 0);
    let text = refused.to_string();
    let said = text.split(" MiB are needed").next().unwrap();
    let said: u64 = said.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(
        (needed / 2..2 * needed + 2).contains(&said),
        "{text}: {needed}"
    );
}

#[test]
fn a_list_that_cannot_be_as_long_as_it_says_is_none() {
    let empty: wire::WorkerAnswer<FileIndex> = Ok(empty_index());
    let mut encoded = postcard::to_stdvec(&empty).unwrap();
    // Groups, datasets, types, problems, what is left out: each an empty list.
    let at = encoded.len() - 4;
    encoded[at] = 100;
    let budget = Budget::new(1 << 20);
    assert!(charged::read(&encoded, &budget).unwrap().is_none());
}

#[test]
fn what_we_have_no_room_for_is_not_told_as_a_fault() {
    let whole = wire::WorkerRefusal::of_what_is_whole("too many".into());
    assert!(matches!(Error::from(whole), Error::NotShown(_)));
    assert!(matches!(
        Error::from(wire::WorkerRefusal::from("bad")),
        Error::Fault(_)
    ));
}

#[test]
fn an_answer_that_the_budget_has_no_room_for_is_no_memory() {
    let null = nothing();
    let pool = scripted(TELLS_ITS_NUMBER, LIMITS);
    let budget = Budget::new(19);
    let read =
        |_: EncodedAnswer| -> Result<Option<wire::WorkerAnswer<()>>> { panic!("it was read") };
    let refused = pool.ask(WorkerTask::Index, &null, &budget, read);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("cache="), "{refused}");
    assert_eq!(budget.used(), 0);
}
