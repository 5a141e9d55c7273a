//! Test suites of others in a writable mount: pjdfstest, which knows what POSIX asks of a file
//! system, and fsx, which reads and writes one file in every way and compares.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::harness::depth::rounds;
use crate::harness::mounted::Mounted;
use crate::harness::place::Place;
use crate::harness::process::{ARRAYFS, Ran, install, run};
use crate::harness::seeded::run_seed;
use crate::harness::tools::tool;
use crate::harness::users::OTHER;
use crate::harness::{is_root, scratch_directory};

/// Of fsx: in a sample, and in the whole.
const SEEDS: (u64, u64) = (5, 50);
const OPERATIONS: u64 = 2000;
const AT_ONCE: usize = 3;

fn configuration(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("mount-tests/posix")
        .join(name)
}

/// How each case of pjdfstest ended: `ok`, `skipped`, `FAILED`.
type Cases = BTreeMap<String, String>;

fn cases(ran: &Ran) -> Cases {
    let text = ran.text();
    let case = |line: &str| {
        let (name, ended) = line.split_once(' ')?;
        let is_case = name.contains("::");
        is_case.then(|| (name.to_owned(), ended.trim().to_owned()))
    };
    let cases: Cases = text.lines().filter_map(case).collect();
    assert!(cases.len() > 300, "{text}{}", ran.stderr);
    cases
}

/// A directory of another file system than this one, if there is one to write to.
fn elsewhere(than: &Path) -> Option<&'static Path> {
    let device = |path: &Path| path.metadata().map(|metadata| metadata.dev()).ok();
    let other = Path::new("/dev/shm");
    (device(other).is_some() && device(other) != device(than)).then_some(other)
}

fn pjdfstest(program: &Path, directory: &Path, elsewhere: Option<&Path>) -> Cases {
    let mut command = Command::new(program);
    command.arg("-c").arg(configuration("pjdfstest.toml"));
    command.arg("-p").arg(directory);
    if let Some(elsewhere) = elsewhere {
        command.arg("-s").arg(elsewhere);
    }
    cases(&run(&mut command))
}

/// The C library knows how many names a file may have by the kind of file system, and of FUSE it
/// knows nothing: skipped in every FUSE mount. `a_file_gets_as_many_names_as_in_the_source` is in
/// its place.
const SKIPPED: [&str; 1] = ["link::link_count_max"];

/// Every case that passes in the source passes in the mount, and none fails there.
#[track_caller]
fn assert_as_good(mounted: &Cases, plain: &Cases) {
    let differs = |(name, ended): (&String, &String)| {
        let expected = plain.get(name);
        let skipped = ended == "skipped" && SKIPPED.contains(&&name[..]);
        let good = skipped || expected.is_some_and(|expected| expected == ended);
        // Where the source's own file system fails, nothing is asked.
        let asked = expected.is_some_and(|expected| expected != "FAILED");
        (asked && !good).then(|| format!("{name}: {ended}, in the source {expected:?}"))
    };
    let complaints: Vec<String> = mounted.iter().filter_map(differs).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(mounted.keys().eq(plain.keys()), "other cases");
    let passed = |cases: &Cases| cases.values().filter(|ended| *ended == "ok").count();
    eprintln!(
        "{} passed, {} in the source",
        passed(mounted),
        passed(plain)
    );
}

#[test]
fn pjdfstest_passes_in_a_mount_what_it_passes_in_the_source() {
    let Some(program) = tool("pjdfstest") else {
        return;
    };
    let (source, plain) = (scratch_directory(), scratch_directory());
    let expected = pjdfstest(&program, plain.path(), elsewhere(plain.path()));
    for more in [&[][..], &["scratch"]] {
        let option = match rustix::process::geteuid().is_root() {
            true => "rw,allow_other,default_permissions,dev,suid",
            false => "rw",
        };
        let mounted = Mounted::new(source.path(), &[&[option], more].concat());
        let found = pjdfstest(&program, mounted.path(), elsewhere(plain.path()));
        assert_as_good(&found, &expected);
        mounted.assert_alive();
        let left = std::fs::read_dir(mounted.path()).unwrap().count();
        assert_eq!(left, 0, "entries are left in the source");
    }
}

/// In a mount name space of its own, where `/dev/fuse` is open to everybody as on a desktop.
#[test]
fn pjdfstest_passes_in_a_user_s_mount_what_it_passes_in_his_directory() {
    let Some(program) = tool("pjdfstest") else {
        return;
    };
    if !is_root("mounting as another user") {
        return;
    }
    let directory = scratch_directory();
    for name in ["programs", "plain", "source", "mnt"] {
        let path = directory.path().join(name);
        std::fs::create_dir(&path).unwrap();
        chown(&path, Some(OTHER), Some(OTHER)).unwrap();
    }
    // What lies below root's home cannot be used by others.
    let own =
        |from: &Path, name: &str| install(from, &directory.path().join("programs").join(name));
    own(Path::new(ARRAYFS), "arrayfs");
    own(&program, "pjdfstest");
    own(&configuration("pjdfstest.toml"), "pjdfstest.toml");
    let within = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &format!("{AS_USER}{script}")]);
        run(command.current_dir(directory.path()))
    };
    let expected = cases(&within("cases plain"));
    let ran = within(
        "other programs/arrayfs mount -o rw source mnt
        trap 'other programs/arrayfs umount mnt' EXIT
        cases mnt",
    );
    assert_as_good(&cases(&ran), &expected);
    // The suite complains there of what fails in a plain directory, too.
    assert!(!ran.stderr.contains("arrayfs"), "{}", ran.stderr);
}

/// Mounts of other tests are not kept alive by a copy here.
const AS_USER: &str = "set -e
    awk '$9 == \"fuse.arrayfs\" || $8 == \"fuse.arrayfs\" || $10 == \"fuse.arrayfs\" { print $5 }' \
        /proc/self/mountinfo | xargs -r umount -l 2>/dev/null || true
    mknod -m 666 programs/fuse c 10 229
    mount --bind programs/fuse /dev/fuse
    rm programs/fuse
    other() { setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"; }
    cases() { other programs/pjdfstest -c programs/pjdfstest.toml -p $1 || true; }
    ";

/// Until the file system says that it is enough; no more than these are tried.
fn names_of_one_file(directory: &Path, most: usize) -> (usize, Option<i32>) {
    let first = directory.join("first");
    std::fs::write(&first, "").unwrap();
    for number in 1..most {
        let name = directory.join(format!("name-{number}"));
        if let Err(e) = std::fs::hard_link(&first, name) {
            let links = first.metadata().unwrap().nlink();
            assert_eq!(links, number as u64);
            return (number, e.raw_os_error());
        }
    }
    (most, None)
}

#[test]
fn a_file_gets_as_many_names_as_in_the_source() {
    // The whole is more than ext4 takes.
    let most = rounds((5_000, 70_000)) as usize;
    let plain = scratch_directory();
    let expected = names_of_one_file(plain.path(), most);
    let place = Place::mounted(&[]);
    assert_eq!(names_of_one_file(place.path(), most), expected);
    let stored = place.stored("first").metadata().unwrap().nlink();
    assert_eq!(stored, expected.0 as u64);
    std::fs::remove_file(place.join("name-1")).unwrap();
    std::fs::hard_link(place.join("name-2"), place.join("name-1")).unwrap();
}

/// Runs fsx with so many seeds, those of the run, each on a file of its own; says which failed, and
/// how.
pub fn fsx(
    program: &Path,
    seeds: u64,
    operations: u64,
    file: impl Fn(u64) -> PathBuf + Sync,
) -> Vec<String> {
    let first = run_seed() + 1;
    let last = first + seeds - 1;
    let (next, artifacts) = (AtomicU64::new(first), scratch_directory());
    let one = |seed: u64| {
        let mut command = Command::new(program);
        command.arg("-f").arg(configuration("fsx.toml"));
        command.args(["-S", &seed.to_string(), "-N", &operations.to_string(), "-P"]);
        let ran = run(command.arg(artifacts.path()).arg(file(seed)));
        let failed = ran.code() != Some(0);
        failed.then(|| format!("seed {seed}: {}{}", ran.text(), ran.stderr))
    };
    let worker = || {
        let seeds = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let mine = seeds.take_while(|&seed| seed <= last);
        mine.filter_map(one).collect::<Vec<String>>()
    };
    std::thread::scope(|scope| {
        let workers = [(); AT_ONCE].map(|()| scope.spawn(worker));
        let failed = workers.map(|worker| worker.join().unwrap());
        failed.concat()
    })
}

#[track_caller]
fn assert_fsx_passes(place: &Place, seeds: u64) {
    let Some(program) = tool("fsx") else {
        return;
    };
    let failed = fsx(&program, seeds, OPERATIONS, |seed| {
        place.join(format!("fsx-{seed}"))
    });
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn fsx_passes_in_a_plain_directory() {
    assert_fsx_passes(&Place::plain(), 3);
}

#[test]
fn fsx_passes_in_a_mount() {
    assert_fsx_passes(&Place::mounted(&[]), rounds(SEEDS));
}

#[test]
fn fsx_passes_in_a_scratch_mount() {
    assert_fsx_passes(&Place::scratch(), rounds(SEEDS));
}
