//! Arrays that several entries of a container lead to: further names of one array.
//!
//! All names lead to one file: the entry of the array's first name stands for it wherever a file is
//! meant (inodes, pages, editions), and the entry of each name where a name is (what is listed,
//! found and removed). Used by `entry_table` and `open_container`.

use std::collections::{BTreeMap, HashMap};

use super::entry_table::{ArrayNumber, EntryIndex};
use crate::container::inside::Located;

#[derive(Default)]
pub(crate) struct ArrayNames {
    /// The number that an array has by its first name.
    first: HashMap<ArrayNumber, ArrayNumber>,
    /// The entries of each array that has several, that of its first name first.
    entries: HashMap<ArrayNumber, Vec<EntryIndex>>,
    /// The entry of the first name, by those of all others.
    files: HashMap<EntryIndex, EntryIndex>,
}

impl ArrayNames {
    /// `further`: of the outermost container, as `Container::further_names` has them.
    pub(crate) fn new(further: &BTreeMap<String, String>, arrays: &[Located]) -> ArrayNames {
        let mut names = ArrayNames::default();
        if further.is_empty() {
            return names;
        }
        let numbered = arrays.iter().enumerate();
        let numbered = numbered.map(|(number, located)| (located.path(), ArrayNumber(number)));
        let by_path: HashMap<String, ArrayNumber> = numbered.collect();
        for (path, first) in further {
            if let (Some(&further), Some(&first)) = (by_path.get(path), by_path.get(first)) {
                names.first.insert(further, first);
                names.entries.entry(first).or_default();
            }
        }
        names
    }

    /// The number by which an array is known.
    pub(crate) fn number(&self, of: ArrayNumber) -> ArrayNumber {
        self.first.get(&of).copied().unwrap_or(of)
    }

    /// Notes the entry of an array by the number that it has under that name.
    pub(crate) fn note(&mut self, number: ArrayNumber, entry: EntryIndex) {
        let is_first = !self.first.contains_key(&number);
        if let Some(entries) = self.entries.get_mut(&self.number(number)) {
            let at = if is_first { 0 } else { entries.len() };
            entries.insert(at, entry);
        }
    }

    /// All entries have been noted.
    pub(crate) fn complete(&mut self) {
        for entries in self.entries.values() {
            if let Some((first, others)) = entries.split_first() {
                self.files
                    .extend(others.iter().map(|other| (*other, *first)));
            }
        }
    }

    /// The entry that stands for the file to which one leads.
    pub(crate) fn file(&self, entry: EntryIndex) -> EntryIndex {
        self.files.get(&entry).copied().unwrap_or(entry)
    }

    /// The entries of an array, if it has several.
    pub(crate) fn entries(&self, number: ArrayNumber) -> &[EntryIndex] {
        let entries = self.entries.get(&self.number(number));
        entries.map_or(&[], |entries| entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::direct::DirectArray;
    use crate::array::dtype::Dtype;
    use crate::array::{Array, Info, Order};
    use std::sync::Arc;

    fn located(path: &str) -> Located {
        let info = Info {
            dtype: Dtype::U8,
            shape: vec![0],
            order: Order::C,
            bytes: 0,
            stored_bytes: 0,
            blocks: 0,
            codec: "none".into(),
        };
        let array: Arc<dyn Array> = Arc::new(DirectArray::new(
            path.to_owned(),
            info,
            |_, _: &mut [u8]| Ok(()),
        ));
        Located {
            container: Default::default(),
            group: "".into(),
            format: "x",
            is_far: false,
            array,
        }
    }

    #[test]
    fn the_entry_of_the_first_name_stands_for_the_file() {
        let arrays = ["c", "b", "a"].map(located);
        let further = BTreeMap::from([("c".into(), "a".into())]);
        let mut names = ArrayNames::new(&further, &arrays);
        let entries = [5, 6, 7].map(EntryIndex);
        for (number, entry) in entries.into_iter().enumerate() {
            names.note(ArrayNumber(number), entry);
        }
        names.complete();
        assert_eq!([0, 1, 2].map(|n| names.number(ArrayNumber(n)).0), [2, 1, 2]);
        assert_eq!(entries.map(|entry| names.file(entry).0), [7, 6, 7]);
        assert_eq!(
            names.entries(ArrayNumber(0)),
            [EntryIndex(7), EntryIndex(5)]
        );
        assert!(names.entries(ArrayNumber(1)).is_empty());
    }
}
