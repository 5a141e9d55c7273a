//! The command line's shape.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueHint};

use super::options::{FlagWords, RemoteFlags};

pub(super) const EXIT_STATUS: &str =
    "Exit status: 0 done, 1 failed (standard error says what, where and what to do), 2 wrong usage";

const VERIFIED: &str = "Faults go to standard error, a line each; what is whole but cannot be shown, and the count, to \
     standard output.\n\n\
     Exit status: 0 sound, 1 faults found or something could not be read, 2 wrong usage";

const KEYS: &str = "Keys: q, Esc or ^C quits; s and S, or the arrows right and left, choose the column that is sorted \
     by, r reverses; the arrows up and down, Home and End select the mount that details are shown of";

/// Mounts compressed array containers and shows each as a directory of raw, decoded arrays.
#[derive(Parser)]
#[command(name = "arrayfs", version, about, max_term_width = 100, after_help = EXIT_STATUS)]
pub(super) struct Main {
    /// How to read DAPHNE files: auto, spec or daphne
    #[arg(long, global = true, value_name = "DIALECT", value_parser = ["auto", "spec", "daphne"],
        hide_possible_values = true)]
    pub(super) dialect: Option<String>,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Mount SOURCE at MOUNTPOINT; returns when the mount is usable
    Mount(Box<MountArgs>),
    /// Unmount; returns when the daemon has ended. Exit status 1 if something stays staged
    Umount {
        /// Where it is mounted
        #[arg(value_hint = ValueHint::DirPath)]
        mountpoint: PathBuf,
        /// Leave for later what takes long: large commits, merges of more than 256 MiB
        #[arg(long)]
        quick: bool,
    },
    /// List the containers and arrays under PATH, without a mount
    Ls(LsArgs),
    /// Describe a container, or an array or group of it
    Info {
        /// The text of arrays.json
        #[arg(long)]
        json: bool,
        /// Decode everything and tell figures: extremes, mean, zeros, NaN, how values are
        /// distributed, entries per row of sparse matrices
        #[arg(long)]
        stats: bool,
        /// A container file or directory, or in it CONTAINER/ARRAY, CONTAINER/GROUP; or a URL of it
        container: PathBuf,
        #[command(flatten)]
        remote: RemoteFlags,
    },
    /// Write the decoded bytes of an array to standard output
    Cat {
        /// A container file or directory, or CONTAINER/ARRAY, as 'arrayfs ls' shows it
        container: PathBuf,
        /// The array's name, if the path is the container's
        array: Option<String>,
        /// First byte
        #[arg(long, default_value_t = 0)]
        offset: u64,
        /// Number of bytes; up to the end if left out
        #[arg(long)]
        length: Option<u64>,
        #[command(flatten)]
        remote: RemoteFlags,
    },
    /// Show values of an array as a table, or with --plot as a picture
    Show(Box<super::show::ShowArgs>),
    /// Check every rule, checksum and block: exit status 0 sound, 1 faults found
    #[command(after_help = VERIFIED)]
    Verify {
        /// One JSON document on standard output
        #[arg(long)]
        json: bool,
        /// Directories, in which all containers are checked, containers, and arrays:
        /// CONTAINER/ARRAY
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        remote: RemoteFlags,
    },
    /// Show mounts, their processes, cache use and hit rate
    Status {
        /// One JSON document
        #[arg(long)]
        json: bool,
        /// The counters in the text format of Prometheus
        #[arg(long, conflicts_with = "json")]
        prometheus: bool,
        /// Where it is mounted, or what lies in it or in its source; all mounts if left out
        mountpoint: Option<PathBuf>,
    },
    /// Show mounts live: what they read, decode and write, their caches, their slowest requests
    #[command(after_help = KEYS)]
    Top {
        /// Print one frame as text, of one interval, and end
        #[arg(long)]
        once: bool,
        /// Time between looks (default: 1)
        #[arg(long, value_name = "SECONDS")]
        interval: Option<f64>,
        /// Where it is mounted; all mounts if left out
        #[arg(value_hint = ValueHint::DirPath)]
        mountpoint: Option<PathBuf>,
    },
    /// Look again into what was written through a mount: it may be a container by now
    Refresh {
        /// A file or directory in a mount, or in the source of one that writes
        path: PathBuf,
    },
    /// Changes of arrays that have not been committed
    #[command(subcommand)]
    Stage(StageCommand),
    /// Pack a file into a Bloscpack file, as 'blpk c' does; or all files of a directory in place,
    /// for 'mount -o scratch'
    Pack(Box<PackArgs>),
    /// Write the bytes of a Bloscpack file to a file, as 'blpk d' does; or unpack all files of a
    /// directory in place
    Unpack {
        /// Replace OUT if it is there
        #[arg(short, long)]
        force: bool,
        /// A Bloscpack file, or a directory
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Where to (default: FILE without .blp); not for a directory
        #[arg(value_name = "OUT")]
        out: Option<PathBuf>,
    },
    /// Append the bytes of a file to the array of a Bloscpack file, as 'blpk a' does
    Append {
        /// A Bloscpack file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// A file, whose bytes are appended
        #[arg(value_name = "MORE")]
        more: PathBuf,
    },
}

#[derive(Args)]
pub(super) struct LsArgs {
    /// Also type, shape, sizes and codec
    #[arg(short)]
    pub(super) long: bool,
    /// One JSON document
    #[arg(long)]
    pub(super) json: bool,
    /// In this order: size (the largest first) or name; else as the containers have them
    #[arg(long, value_name = "KEY", value_parser = ["size", "name"])]
    pub(super) sort: Option<String>,
    /// A directory, which is searched, a container, or CONTAINER/ARRAY
    #[arg(default_value = ".")]
    pub(super) path: PathBuf,
    #[command(flatten)]
    pub(super) remote: RemoteFlags,
}

#[derive(Subcommand)]
pub(super) enum StageCommand {
    /// List them
    Ls {
        /// One JSON document
        #[arg(long)]
        json: bool,
        /// A directory, which is searched, or a container
        #[arg(default_value = ".")]
        path: PathBuf,
    },
    /// Commit them, however much is to be written
    Commit {
        /// A directory, which is searched, or a container
        path: PathBuf,
    },
    /// Throw them away
    Discard {
        /// A directory, which is searched, or a container
        path: PathBuf,
    },
}

#[derive(Args)]
pub(super) struct PackArgs {
    /// What compresses (default: blosclz; in a directory found out for each file)
    #[arg(short, long, value_name = "CODEC",
        value_parser = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"])]
    pub(super) codec: Option<String>,
    /// How thoroughly: 0 (not at all) to 9 (default: 7; in a directory 5, of Zstandard 2)
    #[arg(short, long, alias = "clevel", value_name = "LEVEL",
        value_parser = clap::value_parser!(u8).range(0..=9))]
    pub(super) level: Option<u8>,
    /// Bytes of a chunk, or 'max' (default: 1M; in a directory 128K)
    #[arg(short = 'z', long, alias = "chunk-size", value_name = "SIZE")]
    pub(super) chunk: Option<String>,
    /// Bytes of an element (default: 8; in a directory found out for each file)
    #[arg(short, long, value_name = "BYTES", conflicts_with = "dtype",
        value_parser = clap::value_parser!(u8).range(1..))]
    pub(super) typesize: Option<u8>,
    /// The digest of every chunk (default: adler32)
    #[arg(short = 'k', long, value_name = "DIGEST", ignore_case = true,
        value_parser = ["none", "adler32", "crc32", "md5", "sha1", "sha224", "sha256", "sha384", "sha512"])]
    pub(super) checksum: Option<String>,
    /// What is done to the bytes of elements before (default: shuffle)
    #[arg(long, value_name = "FILTER", value_parser = ["none", "shuffle", "bitshuffle"])]
    pub(super) filter: Option<String>,
    /// The same as --filter none
    #[arg(short = 's', long, conflicts_with = "filter")]
    pub(super) no_shuffle: bool,
    /// The bytes are a NumPy array of this type: '<f8', float64
    #[arg(long, value_name = "TYPE")]
    pub(super) dtype: Option<String>,
    /// Its shape: 100,20 (default: one dimension)
    #[arg(long, value_name = "SHAPE", requires = "dtype")]
    pub(super) shape: Option<String>,
    /// Replace OUT if it is there
    #[arg(short, long)]
    pub(super) force: bool,
    /// The file, which is kept; or a directory, whose files are packed in place
    pub(super) file: PathBuf,
    /// Where to (default: FILE.blp); not for a directory
    pub(super) out: Option<PathBuf>,
}

#[derive(Args, Default)]
pub(super) struct MountArgs {
    /// Directory or container file, or its URL: s3://, gs://, az://, https://
    pub(super) source: PathBuf,
    /// An existing directory; or /dev/fd/N, a descriptor of /dev/fuse that somebody has mounted
    #[arg(value_hint = ValueHint::DirPath)]
    pub(super) mountpoint: PathBuf,
    /// Stay in the foreground; log to standard error unless told otherwise
    #[arg(short)]
    pub(super) foreground: bool,
    /// Mount options, separated by commas: the flags below, and mount(8)'s
    #[arg(short, value_name = "OPTIONS")]
    pub(super) options: Vec<String>,
    #[command(flatten)]
    flags: FlagWords,
    /// Memory for decoded blocks: 512M, 1.5G, or 10% of all (default: an eighth, at most 1G)
    #[arg(long, value_name = "SIZE")]
    cache: Option<String>,
    /// How far the kernel reads ahead of who reads in sequence; root only (default: 512K)
    #[arg(long, value_name = "SIZE")]
    readahead: Option<String>,
    /// Threads that serve requests (default: one per core, 4 to 16)
    #[arg(long, value_name = "N")]
    threads: Option<String>,
    /// How changes of arrays are committed: auto, replace or inplace (default: auto)
    #[arg(long, value_name = "HOW", value_parser = ["auto", "replace", "inplace"],
        hide_possible_values = true)]
    commit: Option<String>,
    /// Show every file as owned by this user, a number or a name
    #[arg(long, value_name = "USER")]
    uid: Option<String>,
    /// Show every file as owned by this group, a number or a name
    #[arg(long, value_name = "GROUP")]
    gid: Option<String>,
    /// Permission bits to hide, octal
    #[arg(long, value_name = "OCTAL")]
    umask: Option<String>,
    /// Log to this file, or to syslog (default in the background: syslog)
    #[arg(long, value_name = "FILE|syslog", value_hint = ValueHint::FilePath)]
    log: Option<String>,
    /// How much is logged: off, error, warn, info, debug or trace (default: info)
    #[arg(long, alias = "log_level", value_name = "LEVEL", ignore_case = true,
        value_parser = ["off", "error", "warn", "info", "debug", "trace"],
        hide_possible_values = true)]
    log_level: Option<String>,
    // The last, for what follows would stand under its heading.
    #[command(flatten)]
    scratch: ScratchFlags,
    #[command(flatten)]
    remote: RemoteFlags,
}

/// How files are stored compressed.
#[derive(Args, Default)]
#[command(next_help_heading = "Scratch storage")]
struct ScratchFlags {
    /// What compresses: blosclz, lz4, lz4hc, zlib or zstd (default: found out for each file)
    #[arg(long, value_name = "CODEC", requires = "scratch")]
    codec: Option<String>,
    /// How thoroughly, 0 to 9
    #[arg(long, value_name = "LEVEL", requires = "scratch")]
    level: Option<String>,
    /// Bytes of a chunk, 4K to 64M (default: 128K)
    #[arg(long, value_name = "SIZE", requires = "scratch")]
    chunk: Option<String>,
    /// The digest of every chunk: none, adler32, crc32, md5 or sha1 to sha512 (default: adler32)
    #[arg(long, value_name = "DIGEST", requires = "scratch")]
    checksum: Option<String>,
    /// Bytes of an element (default: found out for each file)
    #[arg(long, value_name = "BYTES", requires = "scratch")]
    typesize: Option<String>,
}

impl MountArgs {
    /// With options that stand behind `-o`.
    pub(super) fn at(source: &Path, mountpoint: &Path, options: Vec<String>) -> MountArgs {
        MountArgs {
            options,
            source: source.to_owned(),
            mountpoint: mountpoint.to_owned(),
            ..MountArgs::default()
        }
    }

    /// Every option as if it had been given with `-o`, long flags last.
    pub(super) fn all_options(&self) -> Vec<String> {
        let mut all: Vec<String> = self.options.iter().flat_map(|o| split(o)).collect();
        all.extend(self.flags.0.iter().map(|&word| word.to_owned()));
        let values = [
            ("cache", &self.cache),
            ("readahead", &self.readahead),
            ("threads", &self.threads),
            ("uid", &self.uid),
            ("gid", &self.gid),
            ("umask", &self.umask),
            ("commit", &self.commit),
            ("log", &self.log),
            ("log_level", &self.log_level),
            ("codec", &self.scratch.codec),
            ("level", &self.scratch.level),
            ("chunk", &self.scratch.chunk),
            ("checksum", &self.scratch.checksum),
            ("typesize", &self.scratch.typesize),
        ];
        let given = values
            .iter()
            .filter_map(|(name, value)| value.as_ref().map(|v| (name, v)));
        all.extend(given.map(|(name, value)| format!("{name}={value}")));
        all.extend(self.remote.options());
        all
    }
}

pub(super) fn split(options: &str) -> Vec<String> {
    options
        .split(',')
        .filter(|o| !o.is_empty())
        .map(str::to_owned)
        .collect()
}
