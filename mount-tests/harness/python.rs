//! The Python that has the formats' own libraries, and the scripts beside the tests.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::process::Signal;
use tempfile::{NamedTempFile, TempDir};

use super::process::{Ran, run, send, start};
use super::{PATIENCE, scratch_directory};

const NAMED: &str = "ARRAYFS_PYTHON";
const IMPORTS: &str =
    "import numpy, scipy, blosc, bpcells, h5py, hdf5plugin, netCDF4, anndata, binsparse, xarray";

/// One that is named is believed: to import all that takes seconds.
static PYTHON: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = package.join("target/venv/bin/python");
    let able =
        |python: &PathBuf| run(Command::new(python).args(["-B", "-c", IMPORTS])).code() == Some(0);
    let named = std::env::var_os(NAMED).map(PathBuf::from);
    named.or_else(|| Some(installed).filter(|python| python.exists() && able(python)))
});

/// Runs a script of `mount-tests` in a Python that has everything.
pub fn script<S: AsRef<OsStr>>(name: &str, arguments: impl IntoIterator<Item = S>) -> Ran {
    static IDLE: Mutex<Vec<Runner>> = Mutex::new(Vec::new());
    let idle = || IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = idle().pop();
    let mut runner = kept.unwrap_or_else(Runner::start);
    let ran = runner.run(&scripts().join(name), arguments);
    idle().push(runner);
    ran
}

/// For a script that is no test's own, but started by the program under test.
pub fn interpreter() -> &'static Path {
    PYTHON.as_ref().unwrap_or_else(|| {
        panic!(
            "no Python can do '{IMPORTS}': scripts/test.sh installs one in target/venv; or name one \
             in {NAMED}"
        )
    })
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("mount-tests")
}

/// `run_scripts.py`: to import what scripts need takes longer than most of them do. Runs one at a
/// time.
struct Runner {
    python: Child,
    orders: ChildStdin,
    answers: Receiver<i32>,
}

impl Runner {
    fn start() -> Runner {
        let mut command = Command::new(interpreter());
        command.arg("-B").arg(scripts().join("run_scripts.py"));
        command.env("LC_ALL", "C");
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut python = start(piped).unwrap();
        let (orders, said) = (python.stdin.take().unwrap(), python.stdout.take().unwrap());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(said).lines().map_while(Result::ok);
            let mut answers = lines.map_while(|line| line.parse().ok());
            answers.all(|answer| sender.send(answer).is_ok());
        });
        Runner {
            python,
            orders,
            answers,
        }
    }

    fn run<S: AsRef<OsStr>>(
        &mut self,
        script: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Ran {
        let outputs = [(); 2].map(|()| NamedTempFile::new().unwrap());
        let [stdout, stderr] = outputs.each_ref().map(|file| file.path().as_os_str());
        let mut order = [script.as_os_str(), stdout, stderr].map(in_hex).join(" ");
        for argument in arguments {
            order = format!("{order} {}", in_hex(argument.as_ref()));
        }
        writeln!(self.orders, "{order}").unwrap();
        let child = self.answers.recv_timeout(PATIENCE).expect("a child");
        let status = self.answers.recv_timeout(PATIENCE).unwrap_or_else(|e| {
            send(child as u32, Signal::KILL);
            panic!("{} did not end in time: {e}", script.display());
        });
        let [stdout, stderr] = outputs.map(|file| std::fs::read(file.path()).unwrap());
        Ran {
            status: ExitStatus::from_raw(status),
            stdout,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.python.kill();
        let _ = self.python.wait();
    }
}

fn in_hex(word: &OsStr) -> String {
    let bytes = word.as_bytes().iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// What `write_hdf5.py` writes, in a directory of its own.
pub struct Written {
    pub directory: TempDir,
}

impl Written {
    pub fn new(kind: &str) -> Self {
        let directory = scratch_directory();
        let written = Written { directory };
        let to = written.source();
        script("write_hdf5.py", [OsStr::new(kind), to.as_os_str()]).success();
        written
    }

    pub fn source(&self) -> PathBuf {
        self.directory.path().join("source")
    }
}
