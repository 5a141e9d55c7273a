//! The judgement of one case of a golden corpus, as it is shown by a mount and by `arrayfs verify`:
//! the rules of the project's `check_golden.py`, to the letter.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::process::{Ran, arrayfs};
use super::reads::{read_direct, sha256, walk};

#[derive(Deserialize)]
struct Manifest {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
pub struct Case {
    pub id: String,
    pub source: PathBuf,
    /// Where in the file the container lies.
    #[serde(default)]
    group: String,
    #[serde(default)]
    expect: Expect,
    #[serde(default)]
    arrays: Vec<Array>,
    /// Arrays beside the container, by their paths in the file.
    #[serde(default)]
    datasets: Vec<Array>,
    #[serde(default)]
    text: BTreeMap<String, String>,
    /// Whole, and shown by nobody here.
    #[serde(default)]
    not_shown: Vec<String>,
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_kind: String,
    /// A reader that accepts the file is right too.
    #[serde(default)]
    may_also: String,
    /// So is it here.
    #[serde(default)]
    either: bool,
    /// And here, where nothing is asked of what is shown.
    #[serde(default)]
    no_crash_only: bool,
    #[serde(default)]
    error_arrays: Vec<String>,
    #[serde(default)]
    bad_arrays: Vec<String>,
    bad_chunks: Option<Vec<u64>>,
    #[serde(default)]
    chunk_sha256: Vec<String>,
    header: Option<Header>,
    /// Of damaged arrays, what is not harmed.
    #[serde(default)]
    good_ranges: BTreeMap<String, Vec<Range>>,
    /// A container that nobody has to read.
    #[serde(default)]
    optional: bool,
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
    #[serde(alias = "path")]
    name: String,
    bytes: u64,
    sha256: Option<String>,
    /// Of an array that is too large to read whole.
    #[serde(default)]
    probes: Vec<Range>,
}

/// Offset, length, hash.
type Range = (u64, usize, String);

#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    chunk_size: i64,
}

/// More of one file is not read in search of a fault.
const FAR: u64 = 1 << 28;

/// The cases of a corpus that must hold.
pub fn cases(corpus: &Path) -> Vec<Case> {
    let manifest = std::fs::read(corpus.join("manifest.json")).unwrap();
    let mut manifest: Manifest = serde_json::from_slice(&manifest).unwrap();
    manifest.cases.retain(|case| !case.optional);
    manifest.cases
}

/// One case, as it is shown and verified.
pub struct Judge<'a> {
    case: &'a Case,
    /// The file or directory of the corpus in the mount.
    top: PathBuf,
    /// The container, which may lie in a group of it.
    shown: PathBuf,
    verified: Ran,
    complaints: Vec<String>,
}

impl<'a> Judge<'a> {
    pub fn new(case: &'a Case, source: &Path, top: PathBuf) -> Self {
        Judge::by(case, arrayfs([Path::new("verify"), source]), top)
    }

    /// `verified`: what `arrayfs verify` says of the source, wherever that is.
    pub fn by(case: &'a Case, verified: Ran, top: PathBuf) -> Self {
        Judge {
            case,
            shown: top.join(case.group.trim_matches('/')),
            top,
            verified,
            complaints: Vec::new(),
        }
    }

    /// Everything that is not as it should be.
    pub fn judge(mut self) -> Vec<String> {
        match self.case.expect {
            Expect::Ok => self.must_decode(),
            Expect::Error => self.must_be_refused(),
        }
        self.complaints
    }

    fn complain(&mut self, said: impl Into<String>) {
        self.complaints.push(said.into());
    }

    fn must_decode(&mut self) {
        let case = self.case;
        self.compare(&case.arrays, &self.shown.clone());
        self.compare(&case.datasets, &self.top.clone());
        for (name, hash) in &case.text {
            match std::fs::read(self.shown.join(name)) {
                Ok(text) if sha256(&text) == *hash => {}
                Ok(_) => self.complain(format!("{name}: the text differs")),
                Err(e) => self.complain(format!("{name}: {e}")),
            }
        }
        for name in &case.not_shown {
            match std::fs::read(self.shown.join(name)) {
                Err(e) if e.raw_os_error() == Some(libc::EIO) => {}
                other => self.complain(format!("{name}: {:?}, expected EIO", other.map(drop))),
            }
        }
        if self.verified.code() != Some(0) {
            self.complain(format!("verify: {:?}", self.verified));
        }
    }

    fn compare<'b>(&mut self, arrays: impl IntoIterator<Item = &'b Array>, directory: &Path) {
        for array in arrays {
            let path = directory.join(array.name.trim_start_matches('/'));
            if let Err(e) = self.compare_array(array, &path) {
                self.complain(format!("{}: {e}", array.name));
            }
        }
    }

    fn compare_array(&mut self, array: &Array, path: &Path) -> io::Result<()> {
        let (name, size) = (&array.name, std::fs::metadata(path)?.len());
        if size != array.bytes {
            self.complain(format!("{name}: size {size}, expected {}", array.bytes));
        }
        self.compare_ranges(name, path, &array.probes);
        let Some(hash) = &array.sha256 else {
            return Ok(());
        };
        if sha256(&std::fs::read(path)?) != *hash {
            self.complain(format!("{name}: the content differs"));
        }
        Ok(())
    }

    /// To the byte, past the page cache: a bad block must not harm its neighbours.
    fn compare_ranges(&mut self, name: &str, path: &Path, ranges: &[Range]) {
        for (offset, len, hash) in ranges {
            match read_direct(path, *offset, *len) {
                Ok(bytes) if sha256(&bytes) == *hash => {}
                Ok(_) => self.complain(format!("{name}: {len} bytes from {offset} differ")),
                Err(e) => self.complain(format!("{name}: {len} bytes from {offset}: {e}")),
            }
        }
    }

    fn must_be_refused(&mut self) {
        let case = self.case;
        let tolerated = case.either || case.no_crash_only || case.may_also == "ok";
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
        for (name, ranges) in &case.good_ranges {
            self.compare_ranges(name, &self.shown.join(name), ranges);
        }
    }

    fn compare_unharmed(&mut self) {
        let case = self.case;
        match (&case.bad_chunks, case.arrays.first()) {
            (Some(bad), Some(array)) => self.compare_good_chunks(bad, array),
            _ if case.no_crash_only => {}
            _ => {
                let unharmed = |array: &&Array| {
                    let (bad, name) = ([&case.bad_arrays, &case.error_arrays], &array.name);
                    array.sha256.is_some() && !bad.iter().any(|bad| bad.contains(name))
                };
                self.compare(case.arrays.iter().filter(unharmed), &self.shown.clone());
            }
        }
    }

    fn compare_good_chunks(&mut self, bad: &[u64], array: &Array) {
        let header = self.case.header.as_ref();
        let size = header.map_or(0, |header| header.chunk_size);
        let Some(size) = u64::try_from(size).ok().filter(|&size| size > 0) else {
            return;
        };
        let range = |(chunk, hash): (u64, &String)| {
            let at = chunk * size;
            let len = size.min(array.bytes.saturating_sub(at)) as usize;
            (at, len, hash.clone())
        };
        let chunks = (0..).zip(&self.case.chunk_sha256);
        let good: Vec<Range> = chunks
            .filter(|(chunk, _)| !bad.contains(chunk))
            .map(range)
            .collect();
        self.compare_ranges(&array.name, &self.shown.join(&array.name), &good);
    }

    /// An `error.txt`, or an I/O error on listing or reading something of the file.
    fn shows_a_fault(&self) -> bool {
        let error_txt = |directory: &Path| std::fs::read_to_string(directory.join("error.txt"));
        let says = |text: String| text.ends_with('\n') && text.len() > 1;
        if [&self.shown, &self.top]
            .into_iter()
            .any(|at| error_txt(at).is_ok_and(says))
        {
            return true;
        }
        let (files, failures) = walk(&self.top);
        let mut reads = files.iter().filter_map(|file| read_far(file).err());
        let is_eio = |e: &io::Error| e.raw_os_error() == Some(libc::EIO);
        failures.iter().any(is_eio) || reads.any(|e| is_eio(&e))
    }
}

fn read_far(path: &Path) -> io::Result<()> {
    let mut file = File::open(path)?.take(FAR);
    io::copy(&mut file, &mut io::sink()).map(drop)
}
