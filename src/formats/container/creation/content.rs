//! What has been put into a new container: arrays, groups, links and descriptors, by their paths.
//!
//! Paths are those in the container's directory, as names are shown ([`crate::container::names`]),
//! separated by `/`. Gathered by `live::creation`, and given to a [`super::Creation`], which makes
//! files of it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::description::{GivenArray, GivenDescription};
use super::packed_directory::{VERSION, packed_member};
use crate::array::dtype::Dtype;
use crate::array::{Array, Info, Order, Piece, direct_piece};
use crate::container::inside::join;
use crate::container::{binsparse, bpcells};
use crate::error::Result;
use crate::source::Source;

/// What a new container is to be made of; of an empty one nothing is given.
#[derive(Default)]
pub struct GivenContent {
    /// Raw bytes, in the order of their paths, which are their names.
    pub arrays: Vec<Arc<dyn Array>>,
    /// Each before those that lie in it; the container's own directory is none of them.
    pub groups: Vec<String>,
    /// Symbolic links: which group or array each leads to, by its path.
    pub links: BTreeMap<String, String>,
    /// Texts of `binsparse.json`, by the path of the directory that each lies in; that of the
    /// container is empty.
    pub descriptors: BTreeMap<String, Vec<u8>>,
    /// What directories of BPCells containers say of themselves, by their paths: each has an
    /// `arrays.json` of its own, whose names are from there.
    pub inner: BTreeMap<String, GivenDescription>,
    /// With the types that attributes give.
    pub description: Option<GivenDescription>,
}

impl GivenContent {
    /// Of these arrays alone.
    #[cfg(test)]
    pub fn of_arrays(
        arrays: Vec<Arc<dyn Array>>,
        description: Option<GivenDescription>,
    ) -> GivenContent {
        GivenContent {
            arrays,
            description,
            ..GivenContent::default()
        }
    }

    /// What groups of Binsparse containers say by themselves becomes a part of the description.
    pub fn take_groups(&mut self) {
        let is_sparse = |path: &String| self.descriptors.contains_key(path);
        let (groups, inner) = std::mem::take(&mut self.inner)
            .into_iter()
            .partition::<Vec<_>, _>(|(path, _)| is_sparse(path));
        self.inner = inner.into_iter().collect();
        if !groups.is_empty() {
            self.description.get_or_insert_default().take_groups(groups);
        }
    }

    /// Arrays of Binsparse containers of which nothing else is said have the types that the
    /// descriptors declare.
    pub fn describe_by_descriptors(&mut self) -> Result<()> {
        let mut declared = HashMap::new();
        for (group, text) in &self.descriptors {
            declared.insert(&**group, binsparse::declared_types(text)?);
        }
        let mut said = Vec::new();
        for array in &self.arrays {
            let (group, name) = array.name().rsplit_once('/').unwrap_or(("", array.name()));
            if let Some(dtype) = declared.get(group).and_then(|types| types.get(name)) {
                let bytes = array.info()?.bytes;
                said.extend(GivenArray::of_type(array.name(), dtype, bytes));
            }
        }
        if !said.is_empty() {
            self.description.get_or_insert_default().add(said);
        }
        Ok(())
    }

    /// Arrays of which nothing says the type, by their paths.
    pub fn untyped(&self) -> Result<Vec<String>> {
        let packed = self.packed_directories()?;
        let own = self.description.iter().flat_map(|own| &own.arrays);
        let typed: HashSet<&str> = own.map(|array| &*array.name).collect();
        let is_packed = |name: &str| {
            packed_member(name).is_some_and(|(directory, _)| packed.contains(directory))
        };
        let names = self.arrays.iter().map(|array| array.name());
        let untyped = names.filter(|name| !typed.contains(name) && !is_packed(name));
        Ok(untyped.map(str::to_owned).collect())
    }

    /// Why it is not all that its descriptions name; none if it is.
    pub fn lacks(&self) -> Result<Option<String>> {
        let given: HashMap<&str, &Arc<dyn Array>> = self
            .arrays
            .iter()
            .map(|array| (array.name(), array))
            .collect();
        let own = self.description.iter().map(|own| ("", own));
        let inner = self.inner.iter().map(|(path, inner)| (&**path, inner));
        for (path, description) in own.chain(inner) {
            if let Some(lacking) = lacks(&given, path, description)? {
                return Ok(Some(lacking));
            }
        }
        let Some(description) = &self.description else {
            return Ok(None);
        };
        let lacking = self.lacks_descriptor(description);
        Ok(lacking.or_else(|| self.lacks_version(&given, description)))
    }

    /// A group that is described as a Binsparse container is none without its descriptor.
    fn lacks_descriptor(&self, description: &GivenDescription) -> Option<String> {
        let is_there = |path: &str| self.descriptors.contains_key(path);
        let all = described_as(description, binsparse::NAME);
        let path = all.into_iter().find(|path| !is_there(path))?;
        let lacking = join(path, binsparse::TEXT);
        Some(format!(
            "{lacking} is not there yet: arrays.json names a Binsparse container"
        ))
    }

    /// One that is described as a BPCells container has a version, in a file or said.
    fn lacks_version(
        &self,
        given: &HashMap<&str, &Arc<dyn Array>>,
        description: &GivenDescription,
    ) -> Option<String> {
        let is_said = |path: &str| match path {
            "" => description.version.is_some(),
            path => self
                .inner
                .get(path)
                .is_some_and(|own| own.version.is_some()),
        };
        let is_there = |path: &str| given.contains_key(&*join(path, VERSION)) || is_said(path);
        let all = described_as(description, bpcells::NAME);
        let path = all.into_iter().find(|path| !is_there(path))?;
        let lacking = join(path, VERSION);
        Some(format!(
            "{lacking} is not there yet: arrays.json names a BPCells container"
        ))
    }
}

/// The directories that are described as containers of a format.
fn described_as<'a>(description: &'a GivenDescription, format: &str) -> Vec<&'a str> {
    let own = description.format.iter().map(|format| ("", &**format));
    let inner = description.containers.iter();
    let all = own.chain(inner.map(|(path, format)| (&**path, &**format)));
    let named = all.filter(|(_, named)| *named == format);
    named.map(|(path, _)| path).collect()
}

/// Why not all is given that the description of a directory names.
fn lacks(
    given: &HashMap<&str, &Arc<dyn Array>>,
    path: &str,
    description: &GivenDescription,
) -> Result<Option<String>> {
    for array in &description.arrays {
        let name = join(path, &array.name);
        let Some(found) = given.get(&*name) else {
            return Ok(Some(format!(
                "{name}, which arrays.json names, is not there yet"
            )));
        };
        let bytes = found.info()?.bytes;
        if let Some(said) = array.byte_len().filter(|said| *said != bytes) {
            return Ok(Some(format!(
                "{name} has {bytes} bytes, arrays.json says {said}"
            )));
        }
    }
    Ok(None)
}

/// The raw bytes of an array, in a file of their own.
pub struct RawArray {
    name: String,
    source: Arc<dyn Source>,
}

impl RawArray {
    pub fn new(name: &str, source: Arc<dyn Source>) -> RawArray {
        RawArray {
            name: name.to_owned(),
            source,
        }
    }
}

impl Array for RawArray {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        let bytes = self.source.len();
        Ok(Info {
            dtype: Dtype::U8,
            shape: vec![bytes],
            order: Order::C,
            bytes,
            stored_bytes: bytes,
            blocks: 0,
            codec: "none".into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        direct_piece(range.start..range.end.min(self.source.len()), out);
        Ok(())
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.source.fetch_one(at, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::BytesSource;

    fn given(description: &str, arrays: &[(&str, usize)]) -> GivenContent {
        let raw = |(name, len): &(&str, usize)| {
            let source = Arc::new(BytesSource::new(vec![0; *len]));
            Arc::new(RawArray::new(name, source)) as Arc<dyn Array>
        };
        let description = GivenDescription::parse(description.as_bytes()).unwrap();
        GivenContent::of_arrays(arrays.iter().map(raw).collect(), Some(description))
    }

    #[test]
    fn it_lacks_what_its_description_names_and_is_not_there() {
        let lacks = |description: &str, arrays: &[(&str, usize)]| {
            given(description, arrays)
                .lacks()
                .unwrap()
                .unwrap_or_default()
        };
        let one = r#"{"arrays": [{"name": "g/a", "dtype": "int16", "shape": [2]}]}"#;
        assert_eq!(lacks(one, &[("g/a", 4), ("b", 1)]), "");
        assert!(lacks(one, &[("b", 1)]).starts_with("g/a, which arrays.json names"));
        assert_eq!(
            lacks(one, &[("g/a", 3)]),
            "g/a has 3 bytes, arrays.json says 4"
        );
        let text = r#"{"arrays": [{"name": "a", "dtype": "str", "shape": [2]}]}"#;
        assert_eq!(lacks(text, &[("a", 7)]), "");
        let inner = r#"{"arrays": [], "containers": {"m": "binsparse", "b": "bpcells"}}"#;
        let mut given = given(inner, &[]);
        assert!(
            given
                .lacks()
                .unwrap()
                .is_some_and(|why| why.starts_with("m/binsparse.json is"))
        );
        given.descriptors.insert("m".into(), b"{}".to_vec());
        assert!(
            given
                .lacks()
                .unwrap()
                .is_some_and(|why| why.starts_with("b/version is"))
        );
        let own = br#"{"version": "packed-uint-matrix-v2", "arrays": [{"name": "val", "dtype": "uint32", "shape": [1]}]}"#;
        let own = GivenDescription::parse(own).unwrap();
        given.inner.insert("b".into(), own);
        assert!(
            given
                .lacks()
                .unwrap()
                .is_some_and(|why| why.starts_with("b/val, which"))
        );
        given.inner.get_mut("b").unwrap().arrays.clear();
        assert_eq!(given.lacks().unwrap(), None);
        assert_eq!(GivenContent::default().lacks().unwrap(), None);
    }
}
