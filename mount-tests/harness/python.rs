//! The Python that has the formats' own libraries, and the scripts beside the tests.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;

use super::process::{Ran, run};
use super::scratch_directory;

const NAMED: &str = "ARRAYFS_PYTHON";
const IMPORTS: &str =
    "import numpy, scipy, blosc, bpcells, h5py, hdf5plugin, netCDF4, anndata, binsparse, xarray";

/// Looked for once: to import all that takes seconds.
static PYTHON: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = std::env::var_os(NAMED).map(PathBuf::from);
    let installed = package.join("target/venv/bin/python");
    let able =
        |python: &PathBuf| run(Command::new(python).args(["-B", "-c", IMPORTS])).code() == Some(0);
    named
        .into_iter()
        .chain([installed])
        .filter(|python| python.exists())
        .find(able)
});

/// Runs a script of `mount-tests` in a Python that has everything.
pub fn script<S: AsRef<OsStr>>(name: &str, arguments: impl IntoIterator<Item = S>) -> Ran {
    let python = PYTHON.as_ref().unwrap_or_else(|| {
        panic!(
            "no Python can do '{IMPORTS}': scripts/test.sh installs one in target/venv; or name one \
             in {NAMED}"
        )
    });
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("mount-tests");
    run(Command::new(python)
        .arg("-B")
        .arg(scripts.join(name))
        .args(arguments))
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
