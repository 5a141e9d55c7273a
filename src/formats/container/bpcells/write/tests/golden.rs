//! What the real library wrote, written again from its decoded arrays, is the same byte for byte;
//! and what is changed opens as what it was changed to.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::container::Preferences;
use crate::container::bpcells::BpCells;
use crate::container::bpcells::tests::opened_to_write;
use crate::container::creation::{Creation, GivenContent, GivenDescription};
use crate::container::writable::CommitWay;

/// The corpus in the tree, and the whole one if it lies beside the tree.
fn corpora() -> Vec<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside =
        ["../../../shared/golden", "../../../../shared/golden"].map(|path| package.join(path));
    let all = [package.join("../../mount-tests/golden")]
        .into_iter()
        .chain(beside);
    let sources = all.map(|path| path.join("bpcells/sources"));
    sources.filter(|path| path.is_dir()).collect()
}

/// Directories that are whole containers.
fn whole() -> Vec<PathBuf> {
    let mut whole = Vec::new();
    for corpus in corpora() {
        let entries = fs::read_dir(corpus).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        whole.extend(paths.filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            path.is_dir() && !name.starts_with("bad-") && !name.starts_with('_')
        }));
    }
    assert!(whole.len() > 30, "{whole:?}");
    whole
}

fn files_of(path: &Path) -> Files {
    let known = MEMBERS.iter().filter(|name| path.join(name).is_file());
    let read = |name: &&str| ((*name).to_owned(), fs::read(path.join(name)).unwrap());
    known.map(read).collect()
}

fn model_of(container: &Container) -> Model {
    let shown = |array: &Arc<dyn Array>| (array.name().to_owned(), read_all(&**array).unwrap());
    container.written().map(shown).collect()
}

fn made(arrays: &[Arc<dyn Array>], description: Option<&GivenDescription>) -> Result<Files> {
    let nothing = Files::new();
    let mut recipe = RecipeInMemory::over(&nothing);
    let content = GivenContent::of_arrays(arrays.to_vec(), description.cloned());
    let preferences = Preferences::default();
    Creation::recipe(&BpCells, &content, preferences, &budget(), &mut recipe)?;
    Ok(recipe.files())
}

#[test]
fn what_the_real_library_writes_is_written() {
    for path in whole() {
        let files = files_of(&path);
        let container = opened_to_write(&path);
        assert!(
            container.faults.is_empty(),
            "{}: {:?}",
            path.display(),
            container.faults
        );
        let arrays: Vec<_> = container.written().map(Arc::clone).collect();
        let written = made(&arrays, None).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(
            written.keys().collect::<Vec<_>>(),
            files.keys().collect::<Vec<_>>(),
            "{}",
            path.display()
        );
        for (name, bytes) in &files {
            assert!(written[name] == *bytes, "{}: {name}", path.display());
        }
    }
}

#[test]
fn what_is_changed_opens_as_what_it_was_changed_to() {
    for path in whole() {
        let files = files_of(&path);
        let container = opened_to_write(&path);
        let old = model_of(&container);
        let mut new = old.clone();
        new.remove("end_max");
        for name in ["val", "end", "col_names", "chr_names"] {
            let Some(bytes) = new.get_mut(name).filter(|bytes| !bytes.is_empty()) else {
                continue;
            };
            // Lines stay as many.
            let middle = bytes.len() / 2;
            let at = (middle..bytes.len())
                .find(|at| bytes[*at] != b'\n')
                .unwrap_or(0);
            bytes[at] = match bytes[at] {
                b'\n' => b'\n',
                b'x' => b'y',
                _ => b'x',
            };
        }
        let writable = container.writable.clone().expect("it can be written");
        let changed = changes(&old, &new);
        let judged = writable.consistency(&changed, &budget()).unwrap();
        assert_eq!(judged, Consistency::Now, "{}", path.display());
        let mut recipe = RecipeInMemory::over(&files);
        writable
            .recipe(&changed, CommitWay::Replaced, &budget(), &mut recipe)
            .unwrap();
        let to = tempfile::tempdir().unwrap();
        for (name, bytes) in files.iter().chain(&recipe.files()) {
            fs::write(to.path().join(name), bytes).unwrap();
        }
        let reopened = opened_to_write(to.path());
        for check in &reopened.checks {
            let mut found = Vec::new();
            check
                .check(&budget(), &mut |fault| found.push(fault))
                .unwrap();
            assert!(found.is_empty(), "{}: {found:?}", path.display());
        }
        let mut shown = model_of(&reopened);
        shown.remove("end_max");
        assert!(shown == new, "{}", path.display());
    }
}

#[test]
fn nothing_makes_an_empty_matrix_that_opens() {
    for version in [
        None,
        Some("unpacked-double-matrix-v1"),
        Some("packed-float-matrix-v9999"),
        Some("packed-fragments-v2"),
    ] {
        let given: Vec<_> = version
            .iter()
            .map(|version| raw(VERSION, format!("{version}\n").as_bytes()))
            .collect();
        let files = made(&given, None).unwrap();
        let to = tempfile::tempdir().unwrap();
        for (name, bytes) in &files {
            fs::write(to.path().join(name), bytes).unwrap();
        }
        let container = opened_to_write(to.path());
        assert!(container.faults.is_empty(), "{:?}", container.faults);
        assert_eq!(
            container.version,
            version.unwrap_or("packed-uint-matrix-v2")
        );
        let model = model_of(&container);
        if version.is_none() {
            assert_eq!(
                (&model["idxptr"], &model["shape"]),
                (&vec![0; 16], &vec![0; 8])
            );
            assert_eq!(
                (&files["val_idx"][8..], &files["val_idx_offsets"][8..]),
                (&[0; 4][..], &le64(&[0, 1])[..])
            );
        }
    }
}

fn described(text: &str) -> GivenDescription {
    GivenDescription::parse(text.as_bytes()).unwrap()
}

#[test]
fn a_description_says_what_nobody_else_does() {
    let m = matrix("unpacked-float-matrix-v2");
    let mut arrays: Vec<_> = m.iter().map(|(name, bytes)| raw(name, bytes)).collect();
    arrays.retain(|array| array.name() != VERSION && array.name() != ORDER);
    let said = described(
        r#"{"format": "bpcells", "version": "unpacked-float-matrix-v2", "arrays": [], "attributes": {"storage_order": "row"}}"#,
    );
    let refused = made(&arrays, Some(&said));
    assert!(matches!(refused, Err(Error::Invalid(why)) if why.contains("idxptr has 4 entries")));
    let said = described(r#"{"version": "unpacked-float-matrix-v2", "arrays": []}"#);
    assert_eq!(
        made(&arrays, Some(&said)).unwrap(),
        created(&m, WRAP).unwrap()
    );
    arrays.retain(|array| array.name() != "index");
    let refused = made(&arrays, Some(&said));
    assert!(matches!(refused, Err(Error::Invalid(why)) if why == "index is missing"));
    arrays.push(raw("cell", b""));
    let refused = made(&arrays, Some(&said));
    assert!(matches!(refused, Err(Error::Invalid(why)) if why.starts_with("cell is no array of")));
}

#[test]
fn descriptions_of_what_cannot_be_are_refused() {
    let accepts = |text: &str| BpCells.accepts(&described(text));
    for fine in [
        r#"{"arrays": []}"#,
        r#"{"format": "bpcells", "version": "packed-fragments-v1", "arrays": [
            {"name": "chr_ptr", "dtype": "uint32", "shape": [2]}, {"name": "end_max", "dtype": "uint32", "shape": [0]},
            {"name": "chr_names", "dtype": "str", "shape": [1]}]}"#,
        r#"{"version": "packed-double-matrix-v2", "arrays": [{"name": "val", "dtype": "float64", "shape": [2]}]}"#,
    ] {
        accepts(fine).unwrap();
    }
    for bad in [
        r#"{"format": "bloscpack", "arrays": []}"#,
        r#"{"version": "packed-fragments-v3", "arrays": []}"#,
        r#"{"arrays": [], "attributes": {"storage_order": "diagonal"}}"#,
        r#"{"arrays": [{"name": "data", "dtype": "uint32", "shape": [2]}]}"#,
        r#"{"version": "packed-double-matrix-v2", "arrays": [{"name": "val", "dtype": "uint32", "shape": [2]}]}"#,
        r#"{"version": "packed-double-matrix-v2", "arrays": [{"name": "cell", "dtype": "uint32", "shape": [2]}]}"#,
    ] {
        assert!(matches!(accepts(bad), Err(Error::Invalid(_))), "{bad}");
    }
    let has = |name: &str| BpCells.has_array(name);
    assert!(has("val") && has(VERSION) && has("chr_names") && !has("end_max") && !has("val_data"));
    assert!(BpCells.is_derived("end_max") && !BpCells.is_derived("end"));
}

proptest! {
    #[test]
    fn derived_arrays_are_dropped(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
        let f = fragments("packed-fragments-v2");
        let mut arrays: Vec<_> = f.iter().map(|(name, bytes)| raw(name, bytes)).collect();
        arrays.push(raw("end_max", &bytes));
        prop_assert_eq!(made(&arrays, None).unwrap(), created(&f, WRAP).unwrap());
    }
}
