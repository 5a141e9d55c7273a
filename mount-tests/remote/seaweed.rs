//! A real store: SeaweedFS, which checks signatures and keeps versions.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::harness::mounted::Mounted;
use crate::harness::process::{ARRAYFS, Ran, run};
use crate::harness::{golden, python, scratch_directory, wait_until};

const KEYS: [(&str, &str); 2] = [
    ("AWS_ACCESS_KEY_ID", "test"),
    ("AWS_SECRET_ACCESS_KEY", "testsecret"),
];
const CONFIG: &str = r#"{"identities": [{"name": "t",
    "credentials": [{"accessKey": "test", "secretKey": "testsecret"}],
    "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}"#;

struct Seaweed {
    program: PathBuf,
    process: Child,
    ports: [u16; 4],
    _directory: TempDir,
}

/// Ports of servers whose further ports are 10,000 higher.
fn free_port() -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let low = port % 20_000 + 10_000;
        let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if free(low) && free(low + 10_000) {
            return low;
        }
    }
}

impl Seaweed {
    /// None where it is not installed.
    fn start() -> Option<Seaweed> {
        let program = python::interpreter().parent()?.join("weed");
        if !program.exists() {
            eprintln!("not tested: there is no {}", program.display());
            return None;
        }
        let directory = scratch_directory();
        let config = directory.path().join("s3.json");
        std::fs::write(&config, CONFIG).unwrap();
        let ports = [(); 4].map(|()| free_port());
        let mut server = Command::new(&program);
        server.args(["server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3"]);
        server.args([
            "-master.volumeSizeLimitMB=64",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
        ]);
        server.arg(format!("-dir={}", directory.path().display()));
        server.arg(format!("-s3.config={}", config.display()));
        let names = ["s3.port", "master.port", "volume.port", "filer.port"];
        for (name, port) in names.iter().zip(ports) {
            server.arg(format!("-{name}={port}"));
        }
        let quiet = server.stdout(Stdio::null()).stderr(Stdio::null());
        let process = quiet.current_dir(directory.path()).spawn().unwrap();
        let started = Seaweed {
            program,
            process,
            ports,
            _directory: directory,
        };
        wait_until("the store listens", || {
            let mut ports = started.ports.iter();
            ports.all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok())
        });
        wait_until("the store makes a bucket", || {
            started.shell("s3.bucket.create -name bucket");
            started
                .command(&["ls", "--timeout=2", "s3://bucket"], &KEYS)
                .code()
                == Some(0)
        });
        Some(started)
    }

    fn endpoint(&self) -> String {
        format!("endpoint=http://127.0.0.1:{}", self.ports[0])
    }

    fn shell(&self, line: &str) {
        // It waits for ever for a master that is not ready.
        let script = format!(
            "echo '{line}' | timeout 5 \"$0\" shell -master=127.0.0.1:{}",
            self.ports[1]
        );
        run(Command::new("sh").args(["-c", &script]).arg(&self.program));
    }

    fn copy(&self, directory: &Path) {
        let to = format!("http://127.0.0.1:{}/buckets/bucket/", self.ports[3]);
        let mut copy = Command::new(&self.program);
        run(copy.arg("filer.copy").arg(directory).arg(to)).success();
    }

    fn command(&self, words: &[&str], environment: &[(&str, &str)]) -> Ran {
        let mut command = Command::new(ARRAYFS);
        command.args(words).arg(format!("--{}", self.endpoint()));
        command.env("AWS_EC2_METADATA_DISABLED", "true");
        run(command.envs(environment.iter().copied()))
    }
}

impl Drop for Seaweed {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_real_store_gives_what_lies_in_it_to_who_may_read_it() {
    let Some(store) = Seaweed::start() else {
        return;
    };
    let sources = golden("bloscpack/sources");
    store.copy(&sources);
    let endpoint = store.endpoint();
    let url = Path::new("s3://bucket/sources");
    let mounted = Mounted::with_environment(url, &[&endpoint], &KEYS);
    let mut compared = 0;
    for case in crate::harness::judge::cases(&golden("bloscpack")) {
        let name = case.source.strip_prefix("sources").unwrap();
        let local = super::arrayfs([Path::new("cat"), &sources.join(name)]);
        let array = mounted.join(name).join("data");
        if local.code() == Some(0) {
            assert!(std::fs::read(array).unwrap() == local.stdout, "{}", case.id);
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared}");
    drop(mounted);
    let wrong = [KEYS[0], ("AWS_SECRET_ACCESS_KEY", "wrong")];
    let refused = store.command(&["ls", "s3://bucket/sources"], &wrong);
    refused.failed_saying(1, &["s3://bucket/sources", "403", "SignatureDoesNotMatch"]);
    let none = store.command(&["ls", "s3://none/"], &KEYS);
    assert_eq!(none.code(), Some(1), "{none:?}");
}

/// Takes minutes, and is for a night: `ARRAYFS_TEST_WHOLE`.
#[test]
fn the_whole_corpora_in_a_real_store_decode_or_are_refused_as_known() {
    if std::env::var_os("ARRAYFS_TEST_WHOLE").is_none() {
        return;
    }
    let Some(store) = Seaweed::start() else {
        return;
    };
    for corpus in super::golden::whole_corpora() {
        store.shell("fs.rm -rf /buckets/bucket/sources");
        store.copy(&corpus.join("sources"));
        let endpoint = store.endpoint();
        let mounted =
            Mounted::with_environment(Path::new("s3://bucket/sources"), &[&endpoint], &KEYS);
        super::golden::judge(&corpus, &mounted, &|below| {
            let url = format!("s3://bucket/sources/{}", below.display());
            store.command(&["verify", &url], &KEYS)
        });
    }
}
