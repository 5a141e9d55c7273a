//! The golden corpora: every array of every good container with its known hash, every damaged one
//! refused where it is damaged and nowhere else. The judgement of the project's `check_golden.py`.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::harness::golden;
use crate::harness::mounted::Mounted;
use crate::harness::process::{Ran, arrayfs};
use crate::harness::reads::{read_direct, sha256, walk};

#[derive(Deserialize)]
struct Manifest {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    source: PathBuf,
    #[serde(default)]
    group: String,
    #[serde(default)]
    expect: Expect,
    #[serde(default)]
    arrays: Vec<Array>,
    #[serde(default)]
    text: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_kind: String,
    /// A reader that accepts the file is right too.
    #[serde(default)]
    may_also: String,
    #[serde(default)]
    error_arrays: Vec<String>,
    bad_chunks: Option<Vec<u64>>,
    #[serde(default)]
    chunk_sha256: Vec<String>,
    header: Option<Header>,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Expect {
    #[default]
    Ok,
    Error,
}

#[derive(Deserialize)]
struct Array {
    name: String,
    bytes: u64,
    sha256: String,
}

#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    chunk_size: i64,
}

#[test]
fn bpcells_containers_of_the_clone_decode_or_are_refused_as_known() {
    check(&golden("bpcells"));
}

#[test]
fn bloscpack_files_of_the_clone_decode_or_are_refused_as_known() {
    check(&golden("bloscpack"));
}

#[test]
fn bpcells_containers_of_the_whole_corpus_decode_or_are_refused_as_known() {
    check_if_there("bpcells");
}

#[test]
fn bloscpack_files_of_the_whole_corpus_decode_or_are_refused_as_known() {
    check_if_there("bloscpack");
}

/// The whole corpus lies beside the clone where the project is developed, and nowhere else.
fn check_if_there(format: &str) {
    let whole = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/golden")
        .join(format);
    if whole.join("manifest.json").exists() {
        check(&whole);
    } else {
        eprintln!("not tested: {} is not here", whole.display());
    }
}

fn check(corpus: &Path) {
    let manifest = std::fs::read(corpus.join("manifest.json")).unwrap();
    let mut manifest: Manifest = serde_json::from_slice(&manifest).unwrap();
    // BPCells in HDF5 files waits for the HDF5 reader.
    manifest
        .cases
        .retain(|case| case.source.extension().is_none_or(|e| e != "h5"));
    assert!(
        manifest.cases.len() > 50,
        "a corpus of {} cases",
        manifest.cases.len()
    );
    let mounted = Mounted::new(corpus.join("sources"), &["ro"]);
    let mut failures = Vec::new();
    for case in &manifest.cases {
        let shown = mounted
            .join(case.source.strip_prefix("sources").unwrap())
            .join(&case.group);
        let verified = arrayfs([Path::new("verify"), &corpus.join(&case.source)]);
        let mut judge = Judge {
            case,
            shown,
            verified,
            complaints: Vec::new(),
        };
        match case.expect {
            Expect::Ok => judge.must_decode(),
            Expect::Error => judge.must_be_refused(),
        }
        failures.extend(
            judge
                .complaints
                .iter()
                .map(|said| format!("{}: {said}", case.id)),
        );
    }
    mounted.assert_alive();
    assert!(
        failures.is_empty(),
        "{} faults:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// One case, as it is shown and verified.
struct Judge<'a> {
    case: &'a Case,
    shown: PathBuf,
    verified: Ran,
    complaints: Vec<String>,
}

impl Judge<'_> {
    fn complain(&mut self, said: impl Into<String>) {
        self.complaints.push(said.into());
    }

    fn must_decode(&mut self) {
        self.compare(&[]);
        for (name, hash) in &self.case.text {
            match std::fs::read(self.shown.join(name)) {
                Ok(text) if sha256(&text) == *hash => {}
                Ok(_) => self.complain(format!("{name}: the text differs")),
                Err(e) => self.complain(format!("{name}: {e}")),
            }
        }
        if self.verified.code() != Some(0) {
            self.complain(format!("verify: {:?}", self.verified));
        }
    }

    /// Every array but those that are harmed.
    fn compare(&mut self, harmed: &[String]) {
        for array in self
            .case
            .arrays
            .iter()
            .filter(|array| !harmed.contains(&array.name))
        {
            if let Err(e) = self.compare_array(array) {
                self.complain(format!("{}: {e}", array.name));
            }
        }
    }

    fn compare_array(&mut self, array: &Array) -> io::Result<()> {
        let path = self.shown.join(&array.name);
        let size = std::fs::metadata(&path)?.len();
        if size != array.bytes {
            self.complain(format!(
                "{}: size {size}, expected {}",
                array.name, array.bytes
            ));
        }
        if sha256(&std::fs::read(&path)?) != array.sha256 {
            self.complain(format!("{}: the content differs", array.name));
        }
        Ok(())
    }

    fn must_be_refused(&mut self) {
        let case = self.case;
        let tolerated = case.may_also == "ok";
        match self.verified.code() {
            Some(1) if self.verified.stderr.trim().is_empty() => {
                self.complain("verify fails without a message");
            }
            Some(1) => {}
            Some(0) if tolerated => {}
            _ => self.complain(format!("not found: {}: {:?}", case.error, self.verified)),
        }
        // What only a full check can see is not shown by the mount.
        if !tolerated && case.error_kind != "content" && !self.shows_a_fault() {
            self.complain(format!("the mount shows no fault: {}", case.error));
        }
        // Of a file that a reader may accept or refuse, refusing all of it is right too.
        if !(tolerated && self.verified.code() == Some(1)) {
            self.compare_unharmed();
        }
    }

    fn compare_unharmed(&mut self) {
        match (&self.case.bad_chunks, self.case.arrays.first()) {
            (Some(bad), Some(array)) => self.compare_good_chunks(bad, array),
            _ => self.compare(&self.case.error_arrays),
        }
    }

    /// Chunks that are not harmed, to the byte, past the page cache.
    fn compare_good_chunks(&mut self, bad: &[u64], array: &Array) {
        let size = self
            .case
            .header
            .as_ref()
            .map_or(0, |header| header.chunk_size);
        let Some(size) = u64::try_from(size).ok().filter(|&size| size > 0) else {
            return;
        };
        for (chunk, hash) in (0..).zip(&self.case.chunk_sha256) {
            if bad.contains(&chunk) {
                continue;
            }
            let at = chunk * size;
            let len = size.min(array.bytes.saturating_sub(at)) as usize;
            match read_direct(&self.shown.join(&array.name), at, len) {
                Ok(bytes) if sha256(&bytes) == *hash => {}
                Ok(_) => self.complain(format!("chunk {chunk}, not harmed, differs")),
                Err(e) => self.complain(format!("chunk {chunk}, not harmed: {e}")),
            }
        }
    }

    /// An `error.txt`, or an I/O error on listing or reading something of the container.
    fn shows_a_fault(&self) -> bool {
        let error_txt = std::fs::read_to_string(self.shown.join("error.txt"));
        if error_txt.is_ok_and(|text| text.ends_with('\n') && text.len() > 1) {
            return true;
        }
        let (files, failures) = walk(&self.shown);
        let reads = files.iter().filter_map(|file| std::fs::read(file).err());
        failures
            .into_iter()
            .chain(reads)
            .any(|e| e.raw_os_error() == Some(libc::EIO))
    }
}
