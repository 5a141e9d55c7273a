//! The architecture of `docs/design.md`, kept by reading the sources: which module may use which,
//! and (in [`files`]) what a file looks like. Which crate may use which is written in their
//! `Cargo.toml`, and the compiler's business; that those stay in order is looked at here.

use std::path::{Path, PathBuf};

use crate::harness::reads::walk;

mod files;
mod folders;
mod types;

/// A source file, by its path below the package.
struct SourceFile {
    path: PathBuf,
    text: String,
}

fn sources(directory: &str) -> Vec<SourceFile> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (files, failures) = walk(&package.join(directory));
    assert!(failures.is_empty(), "{failures:?}");
    let is_rust = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let read = |path: PathBuf| SourceFile {
        text: std::fs::read_to_string(&path).unwrap(),
        path: path.strip_prefix(package).unwrap().to_owned(),
    };
    let sources: Vec<_> = files.into_iter().filter(is_rust).map(read).collect();
    assert!(sources.len() > 2, "{directory} has {} files", sources.len());
    sources
}

impl SourceFile {
    /// The text without comments.
    fn code(&self) -> String {
        let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned() + "\n";
        self.text.lines().map(code).collect()
    }

    /// Modules of this crate that are named, as `crate::name` or in `crate::{...}`.
    fn used_modules(&self) -> Vec<String> {
        let code = self.code();
        let mut used = Vec::new();
        for (at, found) in code.match_indices("crate::") {
            let rest = &code[at + found.len()..];
            match rest.strip_prefix('{') {
                Some(group) => used.extend(first_names(group)),
                None => used.push(identifier(rest)),
            }
        }
        used.sort();
        used.dedup();
        used
    }

    /// Modules, by their paths without an ending, that only tests have.
    fn test_modules(&self) -> Vec<PathBuf> {
        let own = self.path.with_extension("");
        let folder = match own.file_name().is_some_and(|name| name == "mod") {
            true => self.path.parent().unwrap_or(&own),
            false => &own,
        };
        let gates = [
            "#[cfg(test)]\n",
            "#[cfg(any(test, feature = \"fuzzing\"))]\n",
            "#[cfg(all(test, feature = \"schedules\"))]\n",
            // What tests and fuzzers of crates above call, too.
            "#[doc(hidden)]\n",
        ];
        let gated = gates.iter().flat_map(|gate| self.text.split(gate).skip(1));
        let module = |rest: &str| {
            let (visible, rest) = rest.lines().next()?.split_once("mod ")?;
            let is_module = visible.is_empty() || visible.starts_with("pub");
            is_module.then(|| folder.join(identifier(rest)))
        };
        gated.filter_map(module).collect()
    }

    /// Whether it is the module at this path, or lies in its folder.
    fn is_module_at(&self, path: &Path) -> bool {
        self.path.with_extension("") == path || self.path.starts_with(path)
    }
}

fn identifier(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// The names at the outer level of a group of imports, whose opening brace has been read.
fn first_names(group: &str) -> Vec<String> {
    let (mut names, mut depth, mut expected) = (Vec::new(), 0, true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => expected = true,
            c if expected && !c.is_whitespace() => {
                names.push(identifier(&group[at..]));
                expected = false;
            }
            _ => {}
        }
    }
    names
}

#[test]
fn imports_are_recognised_in_every_form() {
    let text = "use crate::tree;\nuse crate::{array::{self, Array}, cache};\n// crate::not\n\
                fn f() -> crate::error::Result<()> {}";
    let file = SourceFile {
        path: "x.rs".into(),
        text: text.into(),
    };
    assert_eq!(file.used_modules(), ["array", "cache", "error", "tree"]);
}

/// The crates below the program, from the lowest on: a folder of `src`, and what the modules are.
const CRATES: [(&str, &[&str]); 4] = [
    (
        "base",
        &[
            "error",
            "memory",
            "patience",
            "pipeline",
            "processors",
            "range_set",
            "sync",
            "workers",
        ],
    ),
    ("codec", &[]),
    ("formats", &["array", "cache", "container", "source"]),
    (
        "fs",
        &[
            "commit", "disk", "kernel", "live", "records", "scratch", "stage", "tree",
        ],
    ),
];

/// Where a module of the crates, or of the program, lies.
fn folder_of(module: &str) -> PathBuf {
    let holds = |(_, modules): &&(&str, &[&str])| modules.contains(&module);
    let of_crate = CRATES.iter().find(holds).map_or("", |(name, _)| *name);
    Path::new("src").join(of_crate).join(module)
}

/// A crate uses only those below it, by the names of their modules: `crate::error` is one thing
/// everywhere, and the rules here see it.
#[test]
fn crates_know_those_below_them_alone() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (at, (name, modules)) in CRATES.iter().enumerate() {
        let folder = package.join("src").join(name);
        for module in *modules {
            let lies = [folder.join(module), folder.join(format!("{module}.rs"))];
            assert!(lies.iter().any(|path| path.exists()), "{name}: {module}");
        }
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for (above, _) in &CRATES[at..] {
            let asked = format!("arrayfs-{above}.workspace");
            assert!(!manifest.contains(&asked), "{name} asks for {above}");
        }
        assert!(!manifest.contains("path = \"..\""), "{name}");
    }
    let names: Vec<String> = CRATES.map(|(name, _)| format!("arrayfs_{name}")).to_vec();
    for file in sources("src") {
        let code = file.code();
        let found = names.iter().find(|name| has_word(&code, name));
        let is_root = file.path.ends_with("lib.rs");
        assert!(is_root || found.is_none(), "{}", file.path.display());
    }
}

/// Asserts that the files of a module, but for those of tests, use nothing of the crate but these
/// modules, and locks.
fn assert_uses_only(directory: &str, allowed: &[&str]) {
    let files = sources(folder_of(directory).to_str().unwrap());
    let only_for_tests: Vec<PathBuf> = files.iter().flat_map(SourceFile::test_modules).collect();
    let is_test = |file: &SourceFile| only_for_tests.iter().any(|path| file.is_module_at(path));
    for file in files.iter().filter(|file| !is_test(file)) {
        for module in file.used_modules() {
            let own = [directory, "sync", "processors"];
            let fine = own.contains(&&module[..]) || allowed.contains(&&module[..]);
            assert!(fine, "{} uses crate::{module}", file.path.display());
        }
    }
}

#[test]
fn codecs_know_errors_and_memory_alone() {
    // A crate of its own, whose modules these are.
    let own = ["blosc", "bp128", "checksum", "contexts", "filters"];
    let below = ["error", "memory", "pipeline"];
    assert_uses_only("codec", &[&own[..], &below].concat());
}

#[test]
fn memory_knows_errors_alone() {
    assert_uses_only("memory", &["error"]);
}

#[test]
fn sources_know_errors_and_ranges_alone() {
    // What is fetched of sources far away is charged.
    assert_uses_only("source", &["error", "memory", "range_set"]);
}

#[test]
fn the_disk_knows_sources_and_errors_alone() {
    assert_uses_only("disk", &["error", "source"]);
}

#[test]
fn the_stage_knows_arrays_and_where_its_log_lies() {
    let below = [
        "array",
        "disk",
        "error",
        "memory",
        "range_set",
        "records",
        "source",
    ];
    assert_uses_only("stage", &below);
}

#[test]
fn the_cache_knows_errors_and_memory_alone() {
    assert_uses_only("cache", &["error", "memory"]);
}

#[test]
fn arrays_know_what_lies_below_alone() {
    assert_uses_only(
        "array",
        &["source", "cache", "error", "memory", "patience", "workers"],
    );
}

#[test]
fn containers_know_nothing_above_them_and_no_cache() {
    assert_uses_only(
        "container",
        &[
            "array",
            "codec",
            "error",
            "memory",
            "pipeline",
            "range_set",
            "source",
        ],
    );
}

#[test]
fn looking_at_values_knows_arrays_and_types_alone() {
    assert_uses_only("look", &["array", "container", "error", "memory"]);
}

#[test]
fn the_tree_does_not_know_who_asks() {
    assert_uses_only(
        "tree",
        &[
            "array",
            "cache",
            "commit",
            "container",
            "disk",
            "error",
            "live",
            "memory",
            "source",
            "stage",
        ],
    );
}

#[test]
fn scratch_is_a_source_and_a_disk() {
    assert_uses_only(
        "scratch",
        &[
            "cache",
            "codec",
            "container",
            "disk",
            "error",
            "memory",
            "pipeline",
            "records",
            "source",
            "workers",
        ],
    );
}

/// Names, inodes and listings are the tree's: containers live without them.
#[test]
fn the_life_of_containers_knows_no_tree() {
    assert_uses_only(
        "live",
        &[
            "array",
            "cache",
            "commit",
            "container",
            "disk",
            "error",
            "memory",
            "patience",
            "source",
            "stage",
            "workers",
        ],
    );
}

#[test]
fn a_commit_knows_formats_the_stage_and_the_disk() {
    let below = [
        "array",
        "container",
        "disk",
        "error",
        "memory",
        "patience",
        "range_set",
        "source",
        "stage",
    ];
    assert_uses_only("commit", &below);
}

#[test]
fn the_kernel_s_requests_go_to_the_tree() {
    let used = [
        "array", "disk", "error", "memory", "patience", "source", "tree",
    ];
    assert_uses_only("kernel", &used);
}

#[test]
fn the_daemon_knows_no_file_system() {
    assert_uses_only("daemon", &["error"]);
}

#[test]
fn nobody_but_the_program_uses_the_command_line() {
    for file in sources("src") {
        let program = ["src/main.rs", "src/fuzzing/mod.rs"].map(Path::new);
        let own = file.path.starts_with("src/cli") || program.contains(&&*file.path);
        let uses =
            file.used_modules().contains(&"cli".to_owned()) || file.text.contains("arrayfs::cli");
        assert!(own || !uses, "{}", file.path.display());
    }
}

#[test]
fn what_decodes_knows_no_local_files() {
    let decodes = ["codec", "cache", "array", "container", "look"];
    let may_not = |path: &Path| decodes.iter().any(|of| path.starts_with(folder_of(of)));
    assert_names_none(
        &["FileId", "FileIdentity", "PosixFile", "PosixStore"],
        may_not,
    );
}

#[test]
fn one_module_asks_where_a_path_leads_that_was_given() {
    assert_names_none(&["canonicalize"], |path| {
        !path.ends_with("cli/given_path.rs")
    });
}

#[test]
fn only_the_kernel_module_knows_fuser() {
    let mut knows = 0;
    for file in sources("src") {
        let code = file.code();
        let mentions = code.contains("fuser::") || code.contains("use fuser");
        assert!(
            !mentions || file.path.starts_with("src/fs/kernel"),
            "{}",
            file.path.display()
        );
        knows += usize::from(mentions);
    }
    assert!(knows > 1, "the words are still those that are looked for");
}

/// Asserts that files of `src` which `may_not` picks have none of these words in their code, that
/// some were picked, and that somebody else has one.
fn assert_names_none(words: &[&str], may_not: impl Fn(&Path) -> bool) {
    let (mut picked, mut named) = (0, 0);
    for file in sources("src") {
        let code = file.code();
        let found = words.iter().find(|word| has_word(&code, word));
        if may_not(&file.path) {
            picked += 1;
            assert_eq!(found, None, "{}", file.path.display());
        } else {
            named += usize::from(found.is_some());
        }
    }
    assert!(picked > 1, "{picked} files may not name {words:?}");
    assert!(named > 0, "nobody names {words:?}");
}

/// Whether a name occurs, not as a part of a longer one.
fn has_word(code: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        ![before, after].into_iter().flatten().any(part_of_name)
    })
}

#[test]
fn words_are_found_whole() {
    assert!(has_word("use hdf5_sys::h5;", "hdf5_sys"));
    assert!(!has_word("use hdf5_system; my_hdf5_sys()", "hdf5_sys"));
}

/// The module of this crate that is named like the crate is always named after `::` or `mod`.
#[test]
fn only_the_worker_s_side_names_the_hdf5_library() {
    let library = Path::new("src/formats/container/hdf5/library");
    assert_names_none(&["hdf5_sys", "hdf5_metno"], |path| {
        !path.starts_with(library)
    });
    for file in sources("src") {
        let code = file.code();
        for (at, _) in code.match_indices("hdf5::") {
            let before = code[..at].trim_end();
            let is_ours = before.ends_with("::") || file.path.starts_with(library);
            let is_child = file.path.parent() == Some(Path::new("src/formats/container"));
            assert!(is_ours || is_child, "{} names hdf5::", file.path.display());
        }
        let imports = code.contains("use hdf5;") || code.contains("extern crate hdf5");
        assert!(!imports, "{}", file.path.display());
    }
}

#[test]
fn binsparse_does_not_know_where_its_arrays_lie() {
    assert_names_none(&["hdf5", "netcdf"], |path| {
        path.starts_with("src/formats/container/binsparse")
    });
}

#[test]
fn bpcells_above_its_seam_does_not_know_where_its_arrays_lie() {
    let folder = Path::new("src/formats/container/bpcells");
    assert_names_none(&["hdf5", "Hdf5"], |path| path.starts_with(folder));
    // Below the seam, and the door of the module, which recognises directories.
    let below = ["directory.rs", "header.rs", "mod.rs"].map(|name| folder.join(name));
    assert_names_none(&["Store", "Directory"], |path| {
        let is_test = path.starts_with(folder.join("tests"));
        path.starts_with(folder) && !is_test && !below.iter().any(|below| below == path)
    });
}
