//! Examples of each command, for its help and its manual page.
//!
//! Used by [`super::definition`] and [`super::manual`].

/// A command line, and what it does.
pub(super) struct Example {
    pub(super) typed: &'static str,
    pub(super) does: &'static str,
}

const fn example(typed: &'static str, does: &'static str) -> Example {
    Example { typed, does }
}

/// The examples of a command, which is named without `arrayfs`: `stage ls`. The empty name is
/// `arrayfs` itself.
pub(super) fn of(command: &str) -> &'static [Example] {
    let found = EXAMPLES.iter().find(|(name, _)| *name == command);
    found.map_or(&[], |(_, examples)| examples)
}

const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "",
        &[
            example(
                "arrayfs mount /data /mnt/data",
                "show the arrays of all containers below /data",
            ),
            example("arrayfs umount /mnt/data", "end that"),
            example("arrayfs ls -l /data", "list them without a mount"),
        ],
    ),
    (
        "mount",
        &[
            example("arrayfs mount /data /mnt/data", "writable, if it can be"),
            example(
                "arrayfs mount -o ro,allow_other,cache=4G /data /mnt/data",
                "for all users, with 4 GiB for decoded blocks",
            ),
            example("arrayfs mount counts.h5 here", "one file"),
            example(
                "arrayfs mount -o scratch,codec=zstd /data/store /scratch",
                "a disk whose files are stored compressed",
            ),
        ],
    ),
    (
        "umount",
        &[
            example(
                "arrayfs umount /mnt/data",
                "commit what is staged, unmount, wait for the daemon",
            ),
            example(
                "arrayfs umount --quick /scratch",
                "without large commits and merges",
            ),
        ],
    ),
    (
        "ls",
        &[
            example(
                "arrayfs ls /data",
                "every array below /data, as CONTAINER/ARRAY",
            ),
            example(
                "arrayfs ls -l counts.h5",
                "with types, shapes, sizes and codecs",
            ),
            example("arrayfs ls -l --sort=size /data", "the largest first"),
            example(
                "arrayfs ls --json /data | jq -r .[].path",
                "the containers alone",
            ),
        ],
    ),
    (
        "info",
        &[
            example(
                "arrayfs info counts.h5",
                "its arrays, groups and attributes",
            ),
            example("arrayfs info counts.h5/X", "of one group or array"),
            example(
                "arrayfs info --stats counts.h5/X/data",
                "extremes, mean, zeros, a histogram",
            ),
            example(
                "arrayfs info --json counts.h5",
                "the same as its arrays.json in a mount",
            ),
        ],
    ),
    (
        "cat",
        &[
            example("arrayfs cat x.blp data > x.raw", "all bytes of the array"),
            example(
                "arrayfs cat counts.h5/X/data --offset 800 --length 80",
                "some of them",
            ),
        ],
    ),
    (
        "verify",
        &[
            example("arrayfs verify /data", "all containers below /data"),
            example(
                "arrayfs verify --json counts.h5 x.blp",
                "two files, as JSON",
            ),
        ],
    ),
    (
        "status",
        &[
            example("arrayfs status", "all mounts"),
            example("arrayfs status --json /mnt/data", "one of them, as JSON"),
            example(
                "arrayfs status /mnt/data/x.h5",
                "the mount in which a file lies",
            ),
            example("arrayfs status --prometheus", "counters for Prometheus"),
        ],
    ),
    (
        "show",
        &[
            example("arrayfs show counts.h5/X/data", "numbers as a table"),
            example(
                "arrayfs show tas.nc/tas --slice 0,10:20,-5: --physical",
                "some of them, in the units of the file",
            ),
            example(
                "arrayfs show tas.nc/tas --slice 6 --plot",
                "a map in the terminal",
            ),
            example(
                "arrayfs show tas.nc/tas --slice 6 -o july.png",
                "the same as a picture",
            ),
        ],
    ),
    (
        "top",
        &[
            example("arrayfs top", "mounts, live"),
            example("arrayfs top --once /mnt/data", "one of them, as text"),
        ],
    ),
    (
        "refresh",
        &[example(
            "arrayfs refresh /mnt/data/new.h5",
            "show a finished file as a container",
        )],
    ),
    (
        "stage",
        &[
            example("arrayfs stage ls /data", "list what is staged, and why"),
            example(
                "arrayfs stage commit /data/x.blp",
                "commit the changes of one container",
            ),
        ],
    ),
    (
        "stage ls",
        &[
            example(
                "arrayfs stage ls /data",
                "changes below /data that are not committed, and why",
            ),
            example(
                "arrayfs stage ls --json",
                "those below the working directory, as JSON",
            ),
        ],
    ),
    (
        "stage commit",
        &[example(
            "arrayfs stage commit /data",
            "commit what is staged below /data",
        )],
    ),
    (
        "stage discard",
        &[example(
            "arrayfs stage discard /data/x.blp",
            "throw changes of one container away",
        )],
    ),
    (
        "pack",
        &[
            example("arrayfs pack numbers.raw", "make numbers.raw.blp"),
            example(
                "arrayfs pack --codec zstd --dtype float64 --shape 3000,100 wave.raw wave.blp",
                "a NumPy array",
            ),
            example(
                "arrayfs pack /data/store",
                "all files of a directory, in place",
            ),
        ],
    ),
    (
        "unpack",
        &[
            example("arrayfs unpack wave.blp", "make wave"),
            example(
                "arrayfs unpack --force wave.blp wave.raw",
                "replace wave.raw",
            ),
            example(
                "arrayfs unpack /data/store",
                "all files of a directory, in place",
            ),
        ],
    ),
    (
        "append",
        &[example(
            "arrayfs append wave.blp more.raw",
            "make the array longer",
        )],
    ),
    (
        "mount.fuse.arrayfs",
        &[
            example(
                "mount -t fuse.arrayfs /data /mnt/data -o ro,allow_other",
                "as root",
            ),
            example(
                "/data  /mnt/data  fuse.arrayfs  ro,allow_other,nofail  0  0",
                "a line of /etc/fstab",
            ),
        ],
    ),
    (
        "umount.fuse.arrayfs",
        &[example(
            "umount /mnt/data && umount /data",
            "the source is free when the first one returns",
        )],
    ),
];
