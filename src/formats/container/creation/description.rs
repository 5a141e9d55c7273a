//! What a program says of a container that it makes: an `arrays.json`, as far as it is looked at,
//! and the types that attributes give to arrays.
//!
//! Members that no field is for are kept as they are: what they mean is the format's to know. The
//! text may be long, so its reader charges what it takes ([`GivenDescription::room`]). Used by
//! `live` and by every [`super::Creation`].

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::known_keys;
use crate::array::dtype::{Dtype, descr_of_name, name_of};
use crate::array::{Info, Order};
use crate::container::binsparse;
use crate::container::describe::value_room;
use crate::container::inside::join;
use crate::error::{Error, Result};
use crate::memory::set_aside;

/// Longest `arrays.json` that is read.
pub const LONGEST_DESCRIPTION: u64 = 64 << 20;

/// The type and shape that attributes give an array.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenType {
    /// As NumPy names or spells it.
    pub dtype: Option<String>,
    pub shape: Option<Vec<u64>>,
}

impl GivenType {
    pub fn is_empty(&self) -> bool {
        *self == GivenType::default()
    }

    /// Whether this is what an array is. How many lines a text has shows when it is read.
    pub fn agrees_with(&self, info: &Info) -> bool {
        let (dtype, shape) = (self.dtype.as_deref(), self.shape.as_ref());
        dtype.is_none_or(|dtype| dtype == info.dtype.name())
            && (info.dtype == Dtype::Text || shape.is_none_or(|shape| *shape == info.shape))
    }
}

/// The description that a program gives of a container which it makes.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct GivenDescription {
    pub format: Option<String>,
    /// Of the format, as the container spells it.
    pub version: Option<String>,
    pub arrays: Vec<GivenArray>,
    #[serde(default)]
    pub attributes: Map<String, Value>,
    /// Containers in groups: path and format.
    #[serde(default)]
    pub containers: BTreeMap<String, String>,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct GivenArray {
    /// Its path, from the directory of the container.
    pub name: String,
    pub dtype: String,
    pub shape: Vec<u64>,
    #[serde(default)]
    pub order: GivenOrder,
    pub codec: Option<String>,
    /// How long it is, where dtype and shape do not tell.
    pub bytes: Option<u64>,
    #[serde(default)]
    pub attributes: Map<String, Value>,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum GivenOrder {
    #[default]
    C,
    F,
}

impl From<GivenOrder> for Order {
    fn from(given: GivenOrder) -> Order {
        match given {
            GivenOrder::C => Order::C,
            GivenOrder::F => Order::Fortran,
        }
    }
}

impl GivenArray {
    /// Plain bytes of one dimension.
    pub fn of_bytes(name: &str, bytes: u64) -> GivenArray {
        GivenArray {
            name: name.to_owned(),
            dtype: "uint8".into(),
            shape: vec![bytes],
            order: GivenOrder::C,
            codec: None,
            bytes: None,
            attributes: Map::new(),
            more: Map::new(),
        }
    }

    /// Lines of text that are values of this shape.
    pub fn of_text(name: &str, shape: Vec<u64>, bytes: u64) -> GivenArray {
        GivenArray {
            dtype: "str".into(),
            shape,
            bytes: Some(bytes),
            ..GivenArray::of_bytes(name, bytes)
        }
    }

    /// Whether it is what `arrays.json` tells of an array that is stored, and not written by hand:
    /// where it can't be the same again, it is made as it can be.
    pub fn is_told(&self) -> bool {
        self.more.contains_key("stored_bytes")
    }

    /// How many bytes it has; none if that is not said.
    pub fn byte_len(&self) -> Option<u64> {
        if self.more.get("space").and_then(Value::as_str) == Some("null") {
            return Some(0);
        }
        self.bytes
            .or_else(|| bytes_of(&self.shape, simple_size(&self.dtype)?))
    }
}

impl GivenDescription {
    /// Of one array of plain bytes.
    pub fn of_bytes(name: &str, bytes: u64) -> GivenDescription {
        GivenDescription {
            arrays: vec![GivenArray::of_bytes(name, bytes)],
            ..GivenDescription::default()
        }
    }

    pub fn parse(text: &[u8]) -> Result<GivenDescription> {
        if text.len() as u64 > LONGEST_DESCRIPTION {
            return Err(Error::Invalid("arrays.json is too long".into()));
        }
        let parsed = set_aside(value_room(text), "cannot read arrays.json", || {
            serde_json::from_slice(text)
        })?;
        let mut parsed: GivenDescription =
            parsed.map_err(|e| Error::Invalid(format!("arrays.json is not understood: {e}")))?;
        known_keys::check(&parsed)?;
        parsed.check_names()?;
        for array in &mut parsed.arrays {
            array.dtype = name_of(&array.dtype).into_owned();
        }
        Ok(parsed)
    }

    /// Each name is one array's.
    fn check_names(&self) -> Result<()> {
        let mut names: Vec<&str> = self.arrays.iter().map(|array| &*array.name).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(twice) => Err(Error::Invalid(format!(
                "arrays.json names {} twice",
                twice[0]
            ))),
            None => Ok(()),
        }
    }

    /// Most memory that the description takes which a text is parsed to, with the text.
    pub fn room(text: &[u8]) -> u64 {
        value_room(text).saturating_add(text.len() as u64)
    }

    /// This description with another type for one of its arrays, which has so many bytes; one that
    /// it does not name is a new one.
    pub fn with_type(mut self, name: &str, to: &GivenType, bytes: u64) -> Result<GivenDescription> {
        let at = self.arrays.iter().position(|array| array.name == name);
        let at = at.unwrap_or_else(|| {
            self.arrays.push(GivenArray::of_bytes(name, bytes));
            self.arrays.len() - 1
        });
        self.arrays[at].set_type(to, bytes)?;
        Ok(self)
    }
}

impl GivenDescription {
    /// Notes what is said of an array whose type its container fixes: it is found out later whether
    /// that is this one.
    pub fn note_type(&mut self, name: &str, to: &GivenType, bytes: u64) {
        let is_known = self.arrays.iter().any(|array| array.name == name);
        if let (Some(dtype), false) = (&to.dtype, is_known) {
            self.arrays.push(GivenArray {
                dtype: spelled(dtype),
                bytes: Some(bytes),
                ..GivenArray::of_bytes(name, bytes)
            });
        }
    }
}

/// What of an array says nothing of the file around it.
const OF_ARRAY_ALONE: [&str; 5] = ["maxshape", "chunks", "filters", "layout", "stored_bytes"];

impl GivenDescription {
    /// Whether a group is described as a Binsparse container, or the whole, by an empty path.
    pub fn has_sparse(&self, path: &str) -> bool {
        let format = match path {
            "" => self.format.as_ref(),
            path => self.containers.get(path),
        };
        format.is_some_and(|format| format == binsparse::NAME)
    }

    /// Takes what groups, by their paths, say of their arrays by themselves, as far as nothing is
    /// said of these yet. Names of arrays are from the group; all other names, of dimensions and
    /// types, were the other file's.
    pub fn take_groups(&mut self, groups: Vec<(String, GivenDescription)>) {
        let mut all = Vec::new();
        for (path, group) in groups {
            if let Some(format) = group.format {
                self.containers.entry(path.clone()).or_insert(format);
            }
            all.extend(group.arrays.into_iter().map(|mut array| {
                array.name = join(&path, &array.name);
                array.more.retain(|key, value| match &**key {
                    "type" => value.as_str().is_some_and(|name| name.starts_with("H5T_")),
                    key => OF_ARRAY_ALONE.contains(&key),
                });
                array
            }));
        }
        self.add(all);
    }

    /// Takes what any other group says of what lies in it, as far as nothing is said of that yet.
    /// Names are from the group; dimensions elsewhere have paths that begin with `/`.
    pub fn take_group(&mut self, path: &str, group: GivenDescription) {
        let from_root = |dim: &str| match dim.strip_prefix('/') {
            Some(dim) => dim.to_owned(),
            None => join(path, dim),
        };
        let dimensions = group.more.get("dimensions").and_then(Value::as_object);
        let is_known = |dim: &str| {
            dim.starts_with('/') || dimensions.is_some_and(|known| known.contains_key(dim))
        };
        let named = |dim: &mut Value| {
            // Any other name is but a label.
            if let Some(name) = dim.as_str().filter(|name| is_known(name)) {
                *dim = Value::from(from_root(name));
            }
        };
        let arrays = group.arrays.into_iter().map(|mut array| {
            array.name = join(path, &array.name);
            let dims = array.more.get_mut("dims").and_then(Value::as_array_mut);
            dims.into_iter().flatten().for_each(named);
            let scales = array.more.get_mut("scales").and_then(Value::as_array_mut);
            let scales = scales.into_iter().flatten().filter_map(Value::as_array_mut);
            for scale in scales.flatten() {
                if let Some(name) = scale.as_str() {
                    *scale = Value::from(from_root(name));
                }
            }
            array
        });
        self.add(arrays.collect());
        for (name, dimension) in dimensions.into_iter().flatten() {
            self.say("dimensions", &from_root(name), dimension.clone());
        }
        self.say("groups", path, Value::Object(group.attributes));
        if let Some(types) = group.more.get("attribute_types") {
            let details = json!({ "attribute_types": types });
            self.say("group_details", path, details);
        }
    }

    /// Says something in one of its objects, if nothing is said of that yet.
    fn say(&mut self, key: &str, name: &str, value: Value) {
        let of = self.more.entry(key).or_insert_with(|| json!({}));
        if let Some(of) = of.as_object_mut()
            && !of.contains_key(name)
        {
            of.insert(name.to_owned(), value);
        }
    }

    /// Adds arrays of which nothing is said yet.
    pub fn add(&mut self, arrays: Vec<GivenArray>) {
        let known: HashSet<&str> = self.arrays.iter().map(|array| &*array.name).collect();
        let is_new = |array: &GivenArray| !known.contains(&*array.name);
        let new: Vec<GivenArray> = arrays.into_iter().filter(is_new).collect();
        self.arrays.extend(new);
    }
}

impl GivenArray {
    /// So many bytes of a type, in one dimension; none if they are no whole number of elements.
    pub fn of_type(name: &str, dtype: &str, bytes: u64) -> Option<GivenArray> {
        let mut array = GivenArray::of_bytes(name, bytes);
        let to = GivenType {
            dtype: Some(dtype.to_owned()),
            shape: None,
        };
        array.set_type(&to, bytes).ok().map(|()| array)
    }

    fn set_type(&mut self, to: &GivenType, bytes: u64) -> Result<()> {
        let refuse = |why: String| Err(Error::Invalid(format!("{}: {why}", self.name)));
        let dtype = to.dtype.as_deref().unwrap_or(&self.dtype);
        let Some(size) = simple_size(dtype) else {
            // A copy with its attributes: they say again what the description says.
            let is_its_shape = to.shape.as_ref().is_none_or(|shape| *shape == self.shape);
            if dtype == self.dtype && is_its_shape {
                return Ok(());
            }
            return refuse(format!("{dtype} is no dtype that can be given to an array"));
        };
        let shape = match &to.shape {
            Some(shape) => shape.clone(),
            None if bytes_of(&self.shape, size) == Some(bytes) => self.shape.clone(),
            None => vec![bytes / size],
        };
        if bytes_of(&shape, size) != Some(bytes) {
            return refuse(format!(
                "{dtype} of shape {shape:?} does not make the {bytes} bytes that there are"
            ));
        }
        // How elements of another type were stored says nothing of these.
        if descr_of_name(dtype) != descr_of_name(&self.dtype) {
            self.more.remove("type");
        }
        (self.dtype, self.shape, self.bytes) = (spelled(dtype), shape, Some(bytes));
        Ok(())
    }
}

/// As the mount itself names it: `int16` for `<i2`.
fn spelled(dtype: &str) -> String {
    Dtype::numpy(descr_of_name(dtype), 0).name().into_owned()
}

/// Bytes of an element of a type that NumPy has a name for, or that is text of fixed length; none
/// for others.
fn simple_size(dtype: &str) -> Option<u64> {
    let descr = descr_of_name(dtype);
    let mut chars = descr.chars();
    let order = chars.next().filter(|order| "<|".contains(*order))?;
    let (kind, digits) = (chars.next()?, chars.as_str());
    let size: u64 = digits.parse().ok().filter(|size| *size > 0)?;
    let sizes: &[u64] = match kind {
        'S' | 'V' if order == '|' => return Some(size),
        'b' => &[1],
        'i' | 'u' => &[1, 2, 4, 8],
        'f' => &[2, 4, 8],
        'c' => &[8, 16],
        _ => return None,
    };
    let is_known = sizes.contains(&size) && (order == '<' || size == 1);
    is_known.then_some(size)
}

/// None if no number holds it.
fn bytes_of(shape: &[u64], size: u64) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .try_fold(size, |product, &dim| product.checked_mul(dim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_one_array() {
        let array = r#"{"name": "a", "dtype": "int8", "shape": [1]}"#;
        let of = |arrays: &str| format!(r#"{{"arrays": [{arrays}]}}"#);
        assert!(GivenDescription::parse(of(array).as_bytes()).is_ok());
        let twice = GivenDescription::parse(of(&format!("{array}, {array}")).as_bytes());
        assert!(matches!(twice, Err(Error::Invalid(why)) if why.contains("a twice")));
    }

    #[test]
    fn a_description_is_read_as_far_as_it_is_needed() {
        let text = br#"{"arrays": [{"name": "data", "dtype": "<i2", "shape": [2, 3], "order": "F", "blocks": 7}],
            "faults": ["?"]}"#;
        let given = GivenDescription::parse(text).unwrap();
        let array = &given.arrays[0];
        assert_eq!(
            (&array.shape[..], array.order, array.byte_len()),
            (&[2, 3][..], GivenOrder::F, Some(12))
        );
        assert_eq!((given.format, array.codec.as_ref()), (None, None));
        assert_eq!(array.more["blocks"], 7);
        for bad in [
            "",
            "{}",
            "[]",
            r#"{"arrays": [{"name": "data"}]}"#,
            r#"{"arrays": [{"name": "data", "dtype": "<i2", "shape": [-1]}]}"#,
        ] {
            let refused = GivenDescription::parse(bad.as_bytes());
            assert!(matches!(refused, Err(Error::Invalid(_))), "{bad}");
        }
    }

    #[test]
    fn what_is_said_of_a_length_counts_before_what_follows() {
        let array = |more: &str| {
            let text =
                format!(r#"{{"arrays": [{{"name": "a", "dtype": "str", "shape": [2]{more}}}]}}"#);
            GivenDescription::parse(text.as_bytes()).unwrap().arrays[0].byte_len()
        };
        assert_eq!(array(""), None);
        assert_eq!(array(r#", "bytes": 9"#), Some(9));
        assert_eq!(array(r#", "bytes": 9, "space": "null""#), Some(0));
        let sizes = ["uint8", "bool", "<i2", "float64", "complex64", "|S9"].map(simple_size);
        assert_eq!(sizes, [1, 1, 2, 8, 8, 9].map(Some));
        for no in [
            "",
            "str",
            ">f8",
            "<f16",
            "|i4",
            "<M8[ns]",
            "[('a', '<f4')]",
            "é1",
            "|S0",
        ] {
            assert_eq!(simple_size(no), None, "{no}");
        }
    }

    #[test]
    fn a_type_that_is_set_counts_before_what_the_description_says() {
        let to = |dtype: Option<&str>, shape: Option<&[u64]>| GivenType {
            dtype: dtype.map(str::to_owned),
            shape: shape.map(<[u64]>::to_vec),
        };
        let typed = |given: &GivenDescription, to: &GivenType, bytes| {
            let typed = given.clone().with_type("g/a", to, bytes)?;
            let array = typed.arrays.last().unwrap();
            Ok::<_, Error>((array.dtype.clone(), array.shape.clone(), array.byte_len()))
        };
        let nothing = GivenDescription::default();
        let float = to(Some("<f8"), None);
        assert_eq!(
            typed(&nothing, &float, 48).unwrap(),
            ("float64".into(), vec![6], Some(48))
        );
        let shaped = to(None, Some(&[2, 3]));
        assert_eq!(
            typed(&nothing, &shaped, 6).unwrap(),
            ("uint8".into(), vec![2, 3], Some(6))
        );
        let named = nothing.with_type("g/a", &to(Some("int32"), Some(&[3, 2])), 24);
        assert_eq!(
            typed(&named.unwrap(), &to(Some("float32"), None), 24).unwrap(),
            ("float32".into(), vec![3, 2], Some(24))
        );
        for (bad, bytes) in [(&float, 47), (&shaped, 7), (&to(Some("str"), None), 8)] {
            let refused = typed(&GivenDescription::default(), bad, bytes);
            assert!(matches!(refused, Err(Error::Invalid(_))), "{bad:?}");
        }
    }
}
