//! Any sound container made of any other by a recipe is what it would be if it were new.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::container::bpcells::packed::{PackedArray, PackedStream};
use crate::container::writable::CommitWay;

/// What an index wraps at: real, and so small that it does within a chunk or a few.
fn wraps() -> impl Strategy<Value = u64> {
    prop_oneof![Just(WRAP), Just(64), Just(1000), 1u64..3000]
}

/// Numbers of bytes from a seed, of a few bits each or of many.
fn noise(seed: u64, count: usize, bits: u32) -> Vec<u32> {
    let mut state = seed | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as u32
    };
    (0..count).map(|_| next() >> (31 - bits.min(31))).collect()
}

fn pointers(width: u64, entries: &[u64]) -> Vec<u8> {
    match width {
        4 => entries
            .iter()
            .flat_map(|&e| (e as u32).to_le_bytes())
            .collect(),
        _ => le64(entries),
    }
}

/// Everything that decides a model.
#[derive(Debug, Clone)]
struct Recipes {
    seed: u64,
    count: usize,
    bits: u32,
    cuts: Vec<usize>,
    named: bool,
}

fn recipes() -> impl Strategy<Value = Recipes> {
    let count = prop_oneof![
        0usize..700,
        select(vec![0, 1, 127, 128, 129, 256, 512, 640])
    ];
    let cuts = proptest::collection::vec(0usize..700, 0..4);
    (any::<u64>(), count, 0u32..=31, cuts, any::<bool>()).prop_map(
        |(seed, count, bits, cuts, named)| Recipes {
            seed,
            count,
            bits,
            cuts,
            named,
        },
    )
}

fn names(count: usize, named: bool) -> Vec<u8> {
    let count = if named { count } else { 0 };
    (0..count)
        .flat_map(|n| format!("name {n}\n").into_bytes())
        .collect()
}

fn any_matrix(version: &str, by: &Recipes) -> Model {
    let variant = Variant::parse(version).unwrap();
    let width = |name| form_of(variant, name).unwrap().width().unwrap();
    let mut ends: Vec<u64> = by
        .cuts
        .iter()
        .map(|&cut| cut.min(by.count) as u64)
        .collect();
    ends.extend([0, by.count as u64]);
    ends.sort_unstable();
    let (major, minor) = (ends.len() - 1, 50);
    let order = if by.seed.is_multiple_of(3) {
        "row"
    } else {
        "col"
    };
    let (rows, cols) = if order == "row" {
        (major, minor)
    } else {
        (minor, major)
    };
    let words = by.count * width("val") as usize / 4;
    let index: Vec<u32> = noise(by.seed, by.count, 20)
        .iter()
        .map(|i| i % 50)
        .collect();
    [
        (VERSION, format!("{version}\n").into_bytes()),
        (ORDER, format!("{order}\n").into_bytes()),
        ("shape", le32(&[rows as u32, cols as u32])),
        ("row_names", names(rows, by.named)),
        ("col_names", names(cols, by.seed.is_multiple_of(2))),
        ("idxptr", pointers(width("idxptr"), &ends)),
        ("val", le32(&noise(by.seed, words, by.bits))),
        ("index", le32(&index)),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into()
}

fn any_fragments(version: &str, by: &Recipes) -> Model {
    let variant = Variant::parse(version).unwrap();
    let width = form_of(variant, "chr_ptr").unwrap().width().unwrap();
    let mut cuts: Vec<u64> = by
        .cuts
        .iter()
        .map(|&cut| cut.min(by.count) as u64)
        .collect();
    cuts.extend([0, by.count as u64]);
    cuts.sort_unstable();
    let mut start = noise(by.seed, by.count, by.bits);
    let mut pairs: Vec<_> = cuts.windows(2).map(|w| (w[0], w[1])).collect();
    for (begin, end) in &pairs {
        start[*begin as usize..*end as usize].sort_unstable();
    }
    if by.seed.is_multiple_of(2) {
        pairs.reverse();
    }
    let entries: Vec<u64> = pairs
        .iter()
        .flat_map(|&(begin, end)| [begin, end])
        .collect();
    let end: Vec<u32> = start
        .iter()
        .zip(noise(!by.seed, by.count, 9))
        .map(|(s, l)| s.wrapping_add(l))
        .collect();
    let cell: Vec<u32> = noise(by.seed, by.count, 20)
        .iter()
        .map(|cell| cell % 7)
        .collect();
    [
        (VERSION, format!("{version}\n").into_bytes()),
        ("chr_ptr", pointers(width, &entries)),
        ("chr_names", names(pairs.len(), by.named)),
        ("cell_names", names(7, true)),
        ("cell", le32(&cell)),
        ("start", le32(&start)),
        ("end", le32(&end)),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into()
}

fn any_model(version: &str, by: &Recipes) -> Model {
    match version.contains("matrix") {
        true => any_matrix(version, by),
        false => any_fragments(version, by),
    }
}

/// Every version of a kind.
fn versions(matrix: bool) -> Vec<String> {
    let mut versions = Vec::new();
    for packing in ["packed", "unpacked"] {
        for number in ["1", "2", "9999"] {
            for content in ["uint-matrix", "float-matrix", "double-matrix", "fragments"] {
                versions.push(format!("{packing}-{content}-v{number}"));
            }
        }
    }
    versions.retain(|version| Variant::parse(version).is_some());
    versions.retain(|version| version.contains("matrix") == matrix);
    versions
}

/// Two versions of one kind, the same ones often.
fn two_versions() -> impl Strategy<Value = (String, String)> {
    any::<bool>().prop_flat_map(|matrix| {
        let one = || select(versions(matrix));
        prop_oneof![3 => one().prop_map(|version| (version.clone(), version)), 1 => (one(), one())]
    })
}

/// Every stream of a container, as the reader opens it.
fn streams(model: &Model, files: &Files, wrap: u64) -> Vec<(&'static str, PackedStream)> {
    let container = stored(model, files, wrap);
    let stream = |name: &&'static str| match form_of(container.variant, name) {
        Some(ArrayForm::Packed(form) | ArrayForm::Lengths(form)) => {
            let len = model[*name].len() as u64 / 4;
            Some((
                *name,
                container.members.stream(name, form, len, wrap).unwrap(),
            ))
        }
        _ => None,
    };
    arrays_of(container.variant)
        .iter()
        .filter_map(stream)
        .collect()
}

/// Changes one container to another; what comes out is as if it were new.
fn becomes(old: &Model, new: &Model, visible: usize, way: CommitWay, wrap: u64) {
    let v1_is_too_small = |model: &Model| wrap != WRAP && model[VERSION].ends_with(b"-v1\n");
    if v1_is_too_small(old) || v1_is_too_small(new) {
        return becomes(old, new, visible, way, WRAP);
    }
    let mut files = created(old, wrap).unwrap();
    let expected = created(new, wrap).unwrap();
    let container = stored(old, &files, wrap);
    let differ = |(name, bytes): &(&String, &Vec<u8>)| old[*name] != **bytes;
    let changed: Vec<_> = new
        .iter()
        .filter(differ)
        .map(|(name, bytes)| change(name, &old[name], bytes, visible))
        .collect();
    let judged = container.consistency(&changed, &budget()).unwrap();
    assert_eq!(judged, Consistency::Now);
    container.amount(&changed).unwrap();
    let mut recipe = RecipeInMemory::over(&files);
    container
        .recipe(&changed, way, &budget(), &mut recipe)
        .unwrap();
    let recipe = recipe.files();
    let names: BTreeSet<_> = expected.keys().collect();
    assert!(recipe.keys().all(|name| names.contains(name)));
    files.extend(recipe);
    for (name, bytes) in &expected {
        assert_eq!(files.get(name), Some(bytes), "{name}");
    }
    match wrap {
        WRAP => decodes(new, &files),
        wrap => has_words_of(new, &files, wrap),
    }
}

/// Every stream decodes to what is in the model; that of `end` to lengths.
fn decodes(new: &Model, files: &Files) {
    for (name, stream) in streams(new, files, WRAP) {
        let array = PackedArray::new(name, Arc::new(stream));
        let mut bytes = read_all(&array).unwrap();
        if name == "end" {
            crate::codec::bp128::add_in_place(&mut bytes, &new["start"]);
        }
        assert_eq!(bytes, new[name], "{name}");
    }
}

/// An index that wraps early says the same as one that does not.
fn has_words_of(new: &Model, files: &Files, wrap: u64) {
    let plain = created(new, WRAP).unwrap();
    for (name, stream) in streams(new, files, wrap) {
        let numbers = |files: &Files| {
            files[&format!("{name}_idx")][8..]
                .as_chunks::<4>()
                .0
                .to_vec()
        };
        let pairs = numbers(files).into_iter().zip(numbers(&plain));
        for (entry, (low, word)) in pairs.enumerate() {
            let found = stream.word(entry as u64, u32::from_le_bytes(low)).unwrap();
            assert_eq!(found, u64::from(u32::from_le_bytes(word)), "{name} {entry}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn anything_becomes_anything(
        (before, after) in two_versions(), one in recipes(), other in recipes(),
        visible in 0usize..4000, in_place in any::<bool>(), wrap in wraps(),
    ) {
        let way = if in_place { CommitWay::InPlace } else { CommitWay::Replaced };
        becomes(&any_model(&before, &one), &any_model(&after, &other), visible, way, wrap);
    }

    #[test]
    fn some_values_become_others(
        (version, _) in two_versions(), one in recipes(), seed in any::<u64>(),
        places in proptest::collection::vec(0usize..700, 1..5), wrap in wraps(), visible in 0usize..4000,
    ) {
        let old = any_model(&version, &one);
        let mut new = old.clone();
        let names: Vec<String> = if version.contains("matrix") { vec!["val".into()] } else { vec!["end".into(), "cell".into()] };
        for name in names {
            let bytes = new.get_mut(&name).unwrap();
            for (place, value) in places.iter().zip(noise(seed, places.len(), 3)) {
                let count = bytes.len() / 4;
                if count > 0 {
                    let at = 4 * (place % count);
                    bytes[at..at + 4].copy_from_slice(&(value % 7).to_le_bytes());
                }
            }
        }
        becomes(&old, &new, visible.max(1500), CommitWay::Replaced, wrap);
    }
}

#[test]
fn what_is_written_as_it_was_is_not_told() {
    for version in MATRICES.into_iter().chain(FRAGMENTS) {
        let model = if version.contains("matrix") {
            matrix(version)
        } else {
            fragments(version)
        };
        let files = created(&model, WRAP).unwrap();
        let container = stored(&model, &files, WRAP);
        let all: Vec<_> = model
            .iter()
            .map(|(name, bytes)| change(name, &[], bytes, 0))
            .collect();
        assert_eq!(
            container.consistency(&all, &budget()).unwrap(),
            Consistency::Now,
            "{version}"
        );
        let mut recipe = RecipeInMemory::over(&files);
        container
            .recipe(&all, CommitWay::Replaced, &budget(), &mut recipe)
            .unwrap();
        assert_eq!(recipe.files(), Files::new(), "{version}");
        let mut recipe = RecipeInMemory::over(&files);
        container
            .recipe(&[], CommitWay::Replaced, &budget(), &mut recipe)
            .unwrap();
        assert_eq!(recipe.files(), Files::new(), "{version}");
    }
}

#[test]
fn only_what_is_concerned_is_told() {
    let recipe = |model: &Model, edits: &[(&str, Vec<u8>)]| {
        let files = created(model, WRAP).unwrap();
        let container = stored(model, &files, WRAP);
        let changed = changes(model, &with(model, edits));
        let mut recipe = RecipeInMemory::over(&files);
        container
            .recipe(&changed, CommitWay::Replaced, &budget(), &mut recipe)
            .unwrap();
        recipe.files().into_keys().collect::<Vec<_>>()
    };
    let m = matrix("packed-uint-matrix-v2");
    let mut val = m["val"].clone();
    val[4] ^= 1;
    assert_eq!(
        recipe(&m, &[("val", val.clone())]),
        ["val_data"],
        "of the same width"
    );
    val[7] = 200;
    assert_eq!(recipe(&m, &[("val", val)]), ["val_data", "val_idx"]);
    assert_eq!(
        recipe(&m, &[("col_names", b"a\nB\nc\n".to_vec())]),
        ["col_names"]
    );
    let f = fragments("packed-fragments-v2");
    let mut end = f["end"].clone();
    end[4] += 1;
    assert_eq!(
        recipe(&f, &[("end", end.clone())]),
        ["end_data"],
        "a larger end is behind it"
    );
    end[4 * 139 + 3] = 1;
    assert_eq!(
        recipe(&f, &[("end", end)]),
        ["end_data", "end_idx", "end_max"]
    );
}

#[test]
fn a_stray_tail_is_dropped_by_who_writes_the_file() {
    let m = matrix("unpacked-uint-matrix-v2");
    let mut files = created(&m, WRAP).unwrap();
    files.get_mut("val").unwrap().extend_from_slice(b"abc");
    let container = stored(&m, &files, WRAP);
    let mut val = m["val"].clone();
    val[0] = 9;
    let new = with(&m, &[("val", val)]);
    let mut recipe = RecipeInMemory::over(&files);
    container
        .recipe(
            &changes(&m, &new),
            CommitWay::Replaced,
            &budget(),
            &mut recipe,
        )
        .unwrap();
    assert_eq!(recipe.files()["val"], created(&new, WRAP).unwrap()["val"]);
}
