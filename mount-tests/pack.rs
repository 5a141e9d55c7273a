//! `arrayfs pack`, `unpack` and `append` beside the real program: each reads what the other has
//! made, and appends to it.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::harness::mounted::Mounted;
use crate::harness::process::{ARRAYFS, Ran, arrayfs, run};
use crate::harness::python::{interpreter, script};
use crate::harness::reads::{assert_content, names};
use crate::harness::scratch_directory;
use crate::harness::seeded::Seeded;

/// Files of a test, in a directory of their own.
struct Ground(TempDir);

impl Ground {
    fn new() -> Ground {
        Ground(scratch_directory())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.at(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Runs `arrayfs` in the directory.
    fn ours(&self, words: &[&str]) -> Ran {
        run(Command::new(ARRAYFS).args(words).current_dir(self.path()))
    }

    /// Runs `blpk` in the directory.
    fn theirs(&self, words: &[&str]) -> Ran {
        let blpk = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/blpk.py");
        let mut command = Command::new(interpreter());
        command.arg("-B").arg(blpk).args(words);
        run(command.current_dir(self.path()))
    }

    /// What both programs unpack a file to, which is the same.
    fn unpacked(&self, name: &str) -> Vec<u8> {
        self.ours(&["unpack", "-f", name, "ours"]).success();
        self.theirs(&["-f", "d", "-e", name, "theirs"]).success();
        let ours = std::fs::read(self.at("ours")).unwrap();
        assert_content(&self.at("theirs"), &ours);
        ours
    }

    /// The file is sound by every rule.
    fn verify(&self, name: &str) {
        self.ours(&["verify", name]).success();
    }
}

/// Some of every kind of length: none, less than a chunk, a chunk, more, odd.
const LENGTHS: [usize; 7] = [0, 1, 1000, 1 << 20, (1 << 20) + 1, 2_500_003, 4 << 20];

fn oracle<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Ran {
    script("oracle_bloscpack.py", words)
}

#[test]
fn what_we_pack_is_read_by_the_real_program() {
    let ground = Ground::new();
    let settings: [&[&str]; 7] = [
        &[],
        &["--codec", "lz4", "--level", "5", "--checksum", "crc32"],
        &[
            "-c",
            "lz4hc",
            "-l",
            "9",
            "--filter",
            "bitshuffle",
            "-t",
            "4",
        ],
        &[
            "--codec=zlib",
            "--typesize=3",
            "--chunk",
            "100000",
            "-k",
            "md5",
        ],
        &[
            "--codec=zstd",
            "--level=2",
            "--no-shuffle",
            "--checksum=sha512",
        ],
        &["--level=0", "--chunk=1001", "--checksum=None"],
        &["--chunk=max", "--typesize=255"],
    ];
    for (number, (len, more)) in LENGTHS.into_iter().zip(settings).enumerate() {
        let plain = Seeded::new(number as u64).rising(len);
        ground.put("plain", &plain);
        ground
            .ours(&[&["pack", "-f"], more, &["plain"]].concat())
            .success();
        ground.verify("plain.blp");
        assert!(
            ground.unpacked("plain.blp") == plain,
            "{len} bytes, {more:?}"
        );
        // The usual ones with every length.
        ground
            .ours(&["pack", "plain", "usual.blp", "--force"])
            .success();
        assert!(ground.unpacked("usual.blp") == plain, "{len} bytes");
        assert_content(&ground.at("plain"), &plain);
    }
}

#[test]
fn without_options_it_is_what_the_real_program_writes() {
    let ground = Ground::new();
    ground.put("plain", &Seeded::new(1).rising(3_000_000));
    ground.ours(&["pack", "plain", "ours.blp"]).success();
    ground.theirs(&["c", "plain", "theirs.blp"]).success();
    let head = |name| std::fs::read(ground.at(name)).unwrap()[..40].to_vec();
    // The file's header and the place of the first chunk; the chunks' sizes are the encoder's own.
    assert_eq!(head("ours.blp"), head("theirs.blp"));
    let len = |name| ground.at(name).metadata().unwrap().len() as f64;
    assert!((len("ours.blp") / len("theirs.blp") - 1.0).abs() < 0.02);
}

#[test]
fn what_the_real_program_packs_is_unpacked() {
    let ground = Ground::new();
    let settings: [&[&str]; 7] = [
        &[],
        &["-c", "lz4", "-l", "5", "-k", "crc32"],
        &["-c", "lz4hc", "-t", "4", "-o"],
        &["-c", "zlib", "-t", "3", "-z", "100000", "-k", "md5"],
        &["-c", "zstd", "-s", "-k", "sha512", "-z", "64K"],
        &["-l", "0", "-z", "1001", "-k", "None"],
        &["-z", "max", "-m", "said.json"],
    ];
    ground.put("said.json", br#"{"unit": "m"}"#);
    for (number, (len, more)) in LENGTHS.into_iter().zip(settings).enumerate() {
        let plain = Seeded::new(number as u64).rising(len);
        ground.put("plain", &plain);
        ground
            .theirs(&[&["-f", "c"], more, &["plain"]].concat())
            .success();
        std::fs::remove_file(ground.at("plain")).unwrap();
        ground.ours(&["unpack", "plain.blp"]).success();
        assert_content(&ground.at("plain"), &plain);
    }
}

#[test]
fn both_append_to_what_either_has_packed() {
    for (number, len) in LENGTHS.into_iter().step_by(2).enumerate() {
        for we_begin in [true, false] {
            let (ground, mut seeded) = (Ground::new(), Seeded::new(number as u64));
            let mut expected = seeded.rising(len);
            ground.put("plain", &expected);
            match we_begin {
                true => ground.ours(&["pack", "plain", "x.blp", "-c", "lz4", "-k", "sha1"]),
                false => ground.theirs(&["c", "-c", "lz4", "-k", "sha1", "plain", "x.blp"]),
            }
            .success();
            // To what the real program made of nothing it cannot append itself.
            for turn in 0..4 {
                let more = seeded.rising([1, 700_001, 0, (3 << 20) + 5][turn]);
                ground.put("more", &more);
                if turn % 2 == 1 && !more.is_empty() {
                    ground.theirs(&["a", "x.blp", "more"]).success();
                } else {
                    ground.ours(&["append", "x.blp", "more"]).success();
                }
                expected.extend(more);
                assert!(
                    ground.unpacked("x.blp") == expected,
                    "{len} bytes, turn {turn}"
                );
            }
            ground.put("more", b"at the end");
            ground.ours(&["append", "x.blp", "more"]).success();
            expected.extend(b"at the end");
            assert!(ground.unpacked("x.blp") == expected, "{len} bytes");
            ground.verify("x.blp");
            assert_eq!(
                names(ground.path()),
                ["more", "ours", "plain", "theirs", "x.blp"]
            );
        }
    }
}

#[test]
fn more_than_there_are_spare_places_for_is_appended() {
    let ground = Ground::new();
    let mut expected = Seeded::new(5).rising(10_000);
    ground.put("plain", &expected);
    ground
        .theirs(&["c", "-z", "1000", "plain", "x.blp"])
        .success();
    let more = Seeded::new(6).rising(150_000);
    ground.put("more", &more);
    let refused = ground.theirs(&["a", "x.blp", "more"]);
    assert_eq!(refused.code(), Some(1), "it has no room");
    ground.ours(&["append", "x.blp", "more"]).success();
    expected.extend(more);
    assert!(ground.unpacked("x.blp") == expected);
    ground.verify("x.blp");
    // Without any there is no place to begin with.
    ground
        .theirs(&["-f", "c", "-o", "plain", "x.blp"])
        .success();
    ground.ours(&["append", "x.blp", "plain"]).success();
    assert_eq!(ground.unpacked("x.blp").len(), 20_000);
}

#[test]
fn numpy_gets_the_type_and_shape_that_were_said() {
    let ground = Ground::new();
    let plain = Seeded::new(3).rising(8 * 3000 * 100);
    ground.put("plain", &plain);
    let shaped = [
        "pack",
        "plain",
        "x.blp",
        "--dtype",
        "<f8",
        "--shape",
        "3000, 100",
    ];
    ground.ours(&shaped).success();
    let (blp, raw) = (ground.at("x.blp"), ground.at("plain"));
    let of_numpy = || oracle([OsStr::new("array"), blp.as_os_str(), raw.as_os_str()]).success();
    assert_eq!(of_numpy().text().trim(), r#"["float64", [3000, 100], "C"]"#);
    // It grows by rows of 800 bytes.
    let more = ground.put("more", &[7; 1600]);
    arrayfs([OsStr::new("append"), blp.as_os_str(), more.as_os_str()]).success();
    ground.put("plain", &[&plain[..], &[7; 1600]].concat());
    assert_eq!(of_numpy().text().trim(), r#"["float64", [3002, 100], "C"]"#);
    let before = std::fs::read(&blp).unwrap();
    ground.put("more", &[7; 801]);
    let refused = ground.ours(&["append", "x.blp", "more"]);
    refused.failed_saying(1, &["x.blp", "whole rows of 800 bytes"]);
    assert_content(&blp, &before);
    // Elements that a chunk of 1 MiB would cut.
    let strings = ground.put("strings", &[b'a'; 3_000_000]);
    ground
        .ours(&["pack", "strings", "s.blp", "--dtype=S3"])
        .success();
    let s = ground.at("s.blp");
    let said = oracle([OsStr::new("array"), s.as_os_str(), strings.as_os_str()]).success();
    assert_eq!(said.text().trim(), r#"["|S3", [1000000], "C"]"#);
    let pack = |words: &[&str]| ground.ours(&[&["pack", "strings", "no.blp"], words].concat());
    pack(&["--dtype=<f8", "--shape=7"]).failed_saying(1, &["strings", "56 bytes", "3000000"]);
    pack(&["--dtype=float65"]).failed_saying(1, &["float65"]);
    pack(&["--shape=7"]).failed_saying(2, &["--dtype"]);
    pack(&["--dtype=<f8", "--shape=7x"]).failed_saying(2, &["--shape"]);
    assert!(!ground.at("no.blp").exists());
}

#[test]
fn damage_leaves_no_file() {
    let ground = Ground::new();
    ground.put("plain", &Seeded::new(4).noise(3_500_000));
    ground.put("more", b"more");
    ground.ours(&["pack", "plain", "good.blp"]).success();
    let good = std::fs::read(ground.at("good.blp")).unwrap();
    let end = good.len();
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let damaged = [
        (flipped(1_500_000), "adler32 mismatch"),
        (flipped(end - 100), "adler32 mismatch"),
        (flipped(end - 1), "adler32 mismatch"),
        (good[..end - 10].to_vec(), "ends within the chunk"),
        (good[..2_000_000].to_vec(), ""),
        (good[..100].to_vec(), "fit into the file"),
        (b"blpk".to_vec(), "header"),
    ];
    let there = names(ground.path());
    for (bytes, why) in damaged {
        let bad = ground.put("bad.blp", &bytes);
        ground
            .ours(&["unpack", "bad.blp"])
            .failed_saying(1, &["bad.blp", why]);
        // Damage of the last chunk is not given a digest that is right.
        if bytes.len() != end || bytes[..end - 600_000] == good[..end - 600_000] {
            ground
                .ours(&["append", "bad.blp", "more"])
                .failed_saying(1, &["bad.blp", why]);
            assert_content(&bad, &bytes);
        }
        std::fs::remove_file(bad).unwrap();
        assert_eq!(names(ground.path()), there);
    }
    // A file that is there stays as it was.
    ground.put("bad.blp", &flipped(1_500_000));
    let kept = ground.put("bad", b"kept");
    ground
        .ours(&["unpack", "--force", "bad.blp"])
        .failed_saying(1, &["mismatch"]);
    assert_content(&kept, b"kept");
}

#[test]
fn a_last_chunk_that_is_full_is_checked_too() {
    let ground = Ground::new();
    ground.put("plain", &Seeded::new(4).noise(2 << 20));
    ground.put("more", b"more");
    ground.ours(&["pack", "plain", "x.blp"]).success();
    let mut bytes = std::fs::read(ground.at("x.blp")).unwrap();
    let at = bytes.len() - 1000;
    bytes[at] ^= 1;
    let blp = ground.put("x.blp", &bytes);
    ground
        .ours(&["append", "x.blp", "more"])
        .failed_saying(1, &["adler32 mismatch"]);
    assert_content(&blp, &bytes);
}

#[test]
fn the_new_file_is_as_the_other_one_was() {
    let ground = Ground::new();
    let plain = ground.put("plain", b"some bytes");
    std::fs::set_permissions(&plain, PermissionsExt::from_mode(0o640)).unwrap();
    std::os::unix::fs::chown(&plain, Some(1234), Some(4321)).unwrap();
    run(Command::new("touch").args(["-d", "2001-02-03"]).arg(&plain)).success();
    ground.ours(&["pack", "plain"]).success();
    ground.ours(&["unpack", "plain.blp", "again"]).success();
    let known = |name| {
        let found = ground.at(name).metadata().unwrap();
        let owner = (found.uid(), found.gid());
        (found.mode(), owner, found.modified().unwrap())
    };
    assert_eq!(known("plain").1, (1234, 4321));
    assert_eq!(known("plain.blp"), known("plain"));
    assert_eq!(known("again"), known("plain"));
    // What is appended to keeps rights and owner, and is newer.
    ground.ours(&["append", "plain.blp", "again"]).success();
    assert_eq!(known("plain.blp").0, known("plain").0);
    assert_eq!(known("plain.blp").1, (1234, 4321));
    assert!(known("plain.blp").2 > known("plain").2);
}

#[test]
fn what_is_asked_wrongly_is_refused() {
    let ground = Ground::new();
    let plain = ground.put("plain", b"some bytes");
    std::fs::create_dir(ground.at("directory")).unwrap();
    ground.ours(&["pack", "plain"]).success();
    ground
        .ours(&["pack", "plain"])
        .failed_saying(1, &["plain.blp", "--force"]);
    ground
        .ours(&["pack", "plain", "plain", "-f"])
        .failed_saying(1, &["is the input"]);
    ground
        .ours(&["unpack", "plain.blp"])
        .failed_saying(1, &["plain is there already"]);
    assert_content(&plain, b"some bytes");
    for command in ["pack", "unpack"] {
        let refused = ground.ours(&[command, "directory", "out"]);
        refused.failed_saying(2, &["OUT", "directory is a directory"]);
        ground.ours(&[command, "none"]).failed_saying(1, &["none"]);
    }
    ground
        .ours(&["append", "directory", "plain"])
        .failed_saying(2, &["is a directory"]);
    ground
        .ours(&["append", "plain.blp", "directory"])
        .failed_saying(2, &["is a directory"]);
    ground
        .ours(&["append", "plain", "plain"])
        .failed_saying(1, &["plain"]);
    ground
        .ours(&["unpack", "plain", "out"])
        .failed_saying(1, &["plain"]);
    for wrong in [
        &["--level=10"][..],
        &["--codec=gzip"],
        &["--chunk=0"],
        &["--chunk=2G"],
        &["--typesize=0"],
        &["--typesize=256"],
        &["--checksum=sha3"],
        &["--typesize=8", "--dtype=<f8"],
    ] {
        let refused = ground.ours(&[&["pack", "plain", "out"], wrong].concat());
        refused.failed_saying(2, &[""]);
    }
    let renamed = ground.put("packed", &std::fs::read(ground.at("plain.blp")).unwrap());
    ground
        .ours(&["unpack", "packed"])
        .failed_saying(2, &[".blp", "OUT"]);
    ground.ours(&["unpack", "packed", "out"]).success();
    assert_content(&ground.at("out"), b"some bytes");
    std::fs::remove_file(renamed).unwrap();
    assert_eq!(
        names(ground.path()),
        ["directory", "out", "plain", "plain.blp"]
    );
}

#[test]
fn in_a_mount_the_file_is_what_is_shown() {
    let ground = Ground::new();
    let plain = Seeded::new(9).rising(2_000_000);
    ground.put("plain", &plain);
    ground.put("more", b"12345678");
    ground.ours(&["pack", "plain", "x.blp"]).success();
    ground
        .ours(&["pack", "plain", "np.blp", "--dtype=<i8"])
        .success();
    let (outside, mounted) = (scratch_directory(), Mounted::new(ground.path(), &["rw"]));
    let (shown, out) = (mounted.join("x.blp"), outside.path().join("out"));
    let done = |words: &[&Path]| arrayfs(words);
    done(&[Path::new("unpack"), &shown, &out]).success();
    assert_content(&out, &plain);
    // An array is a file like any other.
    let packed = outside.path().join("array.blp");
    done(&[Path::new("pack"), &shown.join("data"), &packed]).success();
    done(&[Path::new("unpack"), &packed]).success();
    assert_content(&outside.path().join("array"), &plain);
    // By every path that leads to it.
    let more = ground.at("more");
    let mut expected = plain;
    for path in [
        &shown,
        &shown.join("data"),
        &ground.at("x.blp"),
        &ground.at("np.blp"),
    ] {
        done(&[Path::new("append"), path, &more]).success();
    }
    expected.extend(b"12345678".repeat(3));
    assert_content(&shown.join("data"), &expected);
    ground.put("more", b"odd");
    let refused = done(&[Path::new("append"), &mounted.join("np.blp"), &more]);
    refused.failed_saying(1, &["np.blp", "whole rows"]);
    // Files are made in a mount, too.
    done(&[Path::new("pack"), &mounted.join("more")]).success();
    done(&[
        Path::new("unpack"),
        &mounted.join("more.blp"),
        &mounted.join("odd"),
    ])
    .success();
    assert_content(&mounted.join("odd"), b"odd");
    drop(mounted);
    assert!(ground.unpacked("x.blp") == expected);
    assert_eq!(ground.unpacked("np.blp").len(), 2_000_008);
    let mounted = Mounted::new(ground.path(), &["ro"]);
    let refused = done(&[Path::new("append"), &mounted.join("x.blp"), &more]);
    refused.failed_saying(1, &["read-only"]);
}

/// A row that is not complete stays staged, in a log beside the file.
#[test]
fn what_is_staged_is_unpacked_and_not_appended_to() {
    let ground = Ground::new();
    let plain = Seeded::new(2).rising(800);
    ground.put("plain", &plain);
    ground
        .ours(&["pack", "plain", "x.blp", "--dtype=<i8"])
        .success();
    let mounted = Mounted::new(ground.path(), &["rw"]);
    let array = File::options().write(true).open(mounted.join("x.blp/data"));
    array.unwrap().write_all_at(b"more", 800).unwrap();
    drop(mounted);
    ground.ours(&["unpack", "x.blp"]).success();
    assert_content(&ground.at("x"), &[&plain[..], b"more"].concat());
    let refused = ground.ours(&["append", "x.blp", "plain"]);
    refused.failed_saying(1, &["x.blp", "stage commit"]);
}
