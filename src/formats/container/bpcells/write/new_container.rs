//! New BPCells directories: of raw arrays, and of what a `version` or an `arrays.json` says of
//! them.
//!
//! A new container is told as a changed one is: it begins as one without any file, of which
//! everything has changed. By default it is a packed matrix of integers, as the real program writes
//! it. Used by [`crate::container::creation`].

use std::ffi::OsStr;
use std::sync::Arc;

use serde_json::Value;

use super::forms::{ArrayForm, arrays_of, form_of, is_array};
use super::merged::{MergedContainer, line_of};
use super::objection::Objection;
use super::stored::StoredMembers;
use super::{END_MAX, MemberFiles, ORDER, VERSION, consistency, recipe};
use crate::array::Array;
use crate::array::dtype::Dtype;
use crate::container::Layout;
use crate::container::Preferences;
use crate::container::bpcells::directory::MemberSources;
use crate::container::bpcells::header;
use crate::container::bpcells::matrix::StorageOrder;
use crate::container::bpcells::packed::idx_offsets::WRAP;
use crate::container::bpcells::version::Variant;
use crate::container::bpcells::{BpCells, LAYOUT, MEMBERS, NAME};
use crate::container::creation::{
    Creation, FileForm, GivenArray, GivenContent, GivenDescription, RawArray,
};
use crate::container::inside::ContainerNumber;
use crate::container::writable::{ChangedArray, Recipe};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::source::BytesSource;

/// The version that is written by default.
const USUAL: &str = "packed-uint-matrix-v2";

/// How its arrays may be encoded; which it is follows from the version.
const CODECS: &[&str] = &["none", "bp128", "bp128 m1", "bp128 d1", "bp128 d1z"];

/// Arrays of which a stored file has a header, if there is one of their name.
const NUMBERS: [&str; 9] = [
    "val", "index", "idxptr", "shape", "cell", "start", "end", END_MAX, "chr_ptr",
];

impl Creation for BpCells {
    fn fixes_types(&self) -> bool {
        true
    }

    fn layout(&self) -> Layout {
        LAYOUT
    }

    fn has_array(&self, path: &str) -> bool {
        is_array(path) && !self.is_derived(path)
    }

    fn is_derived(&self, path: &str) -> bool {
        path == END_MAX
    }

    fn form_of(&self, name: &OsStr, head: &[u8]) -> Option<FileForm> {
        let name = name.to_str()?;
        if !is_array(name) {
            return MEMBERS.contains(&name).then_some(FileForm::Stored);
        }
        let is_number = NUMBERS.contains(&name);
        let is_stored = header::number(head.get(..header::LEN).unwrap_or(head)).is_some();
        is_number.then_some(match is_stored {
            true => FileForm::Stored,
            false => FileForm::Shown,
        })
    }

    fn accepts(&self, description: &GivenDescription) -> Result<()> {
        let variant = described_version(description)?.map(|(_, variant)| variant);
        described_order(description)?;
        let mut arrays = description.arrays.iter();
        arrays.try_for_each(|array| accept(array, variant))?;
        description.check_keys("a BPCells directory", &[], Some(CODECS))
    }

    fn recipe(
        &self,
        content: &GivenContent,
        _preferences: Preferences,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<Vec<String>> {
        let description = content.description.as_ref();
        let new = NewDirectory::given(&content.arrays, description, WRAP)?;
        new.tell(budget, write).map(|()| Vec::new())
    }
}

/// A container that is not there yet.
pub(super) struct NewDirectory {
    pub(super) files: MemberFiles,
    pub(super) changed: Vec<ChangedArray>,
}

impl NewDirectory {
    /// Of these arrays; `wrap`: words after which an index begins again.
    pub(super) fn given(
        arrays: &[Arc<dyn Array>],
        description: Option<&GivenDescription>,
        wrap: u64,
    ) -> Result<NewDirectory> {
        let (version, variant) = version_of(arrays, description)?;
        let order = order_of(arrays, description)?;
        let given = |array: &&Arc<dyn Array>| array.name() != END_MAX;
        let given: Vec<_> = arrays.iter().filter(given).collect();
        if let Some(other) = given
            .iter()
            .find(|array| form_of(variant, array.name()).is_none())
        {
            let name = other.name();
            return Err(Error::Invalid(format!("{name} is no array of {version}")));
        }
        let of_entries = |array: &&Arc<dyn Array>| {
            form_of(variant, array.name())
                .and_then(ArrayForm::width)
                .is_some()
        };
        let is_empty = !given.iter().any(of_entries);
        let mut changed = Vec::new();
        for name in arrays_of(variant).iter().filter(|name| **name != END_MAX) {
            let found = given.iter().find(|array| array.name() == *name);
            let form = form_of(variant, name);
            let array = match (found, form) {
                (Some(found), _) => Arc::clone(found),
                (None, Some(ArrayForm::Word)) | (None, None) => continue,
                (None, Some(ArrayForm::Lines)) => raw(name, Vec::new()),
                (None, Some(form)) if is_empty => raw(name, of_nothing(name, form)),
                (None, Some(_)) => return Err(Error::Invalid(format!("{name} is missing"))),
            };
            changed.push(all_of(array)?);
        }
        let files = MemberFiles {
            variant,
            version,
            order,
            arrays: Vec::new(),
            members: StoredMembers(MemberSources::new()),
            wrap,
        };
        Ok(NewDirectory { files, changed })
    }

    pub(super) fn tell(&self, budget: &Arc<Budget>, write: &mut dyn Recipe) -> Result<()> {
        let merged = MergedContainer::new(&self.files, &self.changed);
        let merged = merged.map_err(Objection::error)?;
        consistency::judge(&merged, budget).map_err(Objection::error)?;
        recipe::tell(&merged, budget, write)
    }
}

/// A matrix without columns has two pointers, as the real program writes it, where they are not
/// packed.
fn of_nothing(name: &str, form: ArrayForm) -> Vec<u8> {
    match (name, form) {
        ("shape", _) => vec![0; 8],
        ("idxptr", ArrayForm::Plain(number)) => vec![0; 2 * number.width() as usize],
        ("idxptr", _) => vec![0; 4],
        _ => Vec::new(),
    }
}

fn raw(name: &str, bytes: Vec<u8>) -> Arc<dyn Array> {
    Arc::new(RawArray::new(name, Arc::new(BytesSource::new(bytes))))
}

fn all_of(array: Arc<dyn Array>) -> Result<ChangedArray> {
    Ok(ChangedArray {
        container: ContainerNumber::OUTERMOST,
        len: array.info()?.bytes,
        shown: array,
        ranges: Vec::new(),
        visible: 0,
        done_before: None,
    })
}

/// The one line of an array, if it is given.
fn given_line(arrays: &[Arc<dyn Array>], name: &str) -> Result<Option<Vec<u8>>> {
    let Some(array) = arrays.iter().find(|array| array.name() == name) else {
        return Ok(None);
    };
    let line = line_of(name, &**array, array.info()?.bytes);
    line.map(Some).map_err(Objection::error)
}

fn version_of(
    arrays: &[Arc<dyn Array>],
    description: Option<&GivenDescription>,
) -> Result<(String, Variant)> {
    if let Some(line) = given_line(arrays, VERSION)? {
        return known(&String::from_utf8_lossy(&line));
    }
    let described = description.map(described_version).transpose()?.flatten();
    described.map_or_else(|| known(USUAL), Ok)
}

fn order_of(
    arrays: &[Arc<dyn Array>],
    description: Option<&GivenDescription>,
) -> Result<StorageOrder> {
    if let Some(line) = given_line(arrays, ORDER)? {
        return ordered(&String::from_utf8_lossy(&line));
    }
    let described = description.map(described_order).transpose()?.flatten();
    Ok(described.unwrap_or(StorageOrder::Col))
}

fn described_version(description: &GivenDescription) -> Result<Option<(String, Variant)>> {
    if description.format.as_ref().is_some_and(|name| name != NAME) {
        let why = "arrays.json: it describes a container of another format";
        return Err(Error::Invalid(why.into()));
    }
    let version = description.version.as_deref();
    version.map(known).transpose()
}

fn described_order(description: &GivenDescription) -> Result<Option<StorageOrder>> {
    let order = description.attributes.get(ORDER).and_then(Value::as_str);
    order.map(ordered).transpose()
}

fn known(version: &str) -> Result<(String, Variant)> {
    let variant = Variant::parse(version);
    let unknown = || Error::Invalid(format!("no version of BPCells: {}", version.escape_debug()));
    Ok((version.to_owned(), variant.ok_or_else(unknown)?))
}

fn ordered(order: &str) -> Result<StorageOrder> {
    let named = StorageOrder::named(order.as_bytes());
    let unknown = || format!("{ORDER} is col or row, not {}", order.escape_debug());
    named.ok_or_else(|| Error::Invalid(unknown()))
}

/// Whether an array that is described can be one of the variant, if that is known.
pub(super) fn accept(array: &GivenArray, variant: Option<Variant>) -> Result<()> {
    let name = &array.name;
    let refuse = |why: &str| Err(Error::Invalid(format!("arrays.json: {name} {why}")));
    let Some(variant) = variant else {
        return match is_array(name) {
            true => Ok(()),
            false => refuse("is no array of BPCells"),
        };
    };
    let Some(form) = form_of(variant, name) else {
        return refuse("is no array of this version");
    };
    let dtype = form.number().map_or(Dtype::Text, |number| number.dtype());
    match dtype.name() == array.dtype {
        true => Ok(()),
        false => refuse(&format!("is of {}, not {}", dtype.name(), array.dtype)),
    }
}
